/*
 * task/ring.c: tasks that would wait for each other for ever. Called by tasks that are about to wait, and have waited.
 *
 * A task that waits notes the awaited task, or the group of them. Before that it searches from the awaited task, or
 * tasks, along these notes. If it comes back to itself on a way of tasks none of which could end first, no task of that
 * ring could ever go on. One lock guards the notes of all tasks; only tasks that have to wait take it.
 *
 * Which tasks can end. A task that does not wait can. So can a task that waits for such a task. A group waits in vain
 * if none of its members can end (any, race), or a single one cannot (all). A member that has ended leads nowhere, and
 * may have decided the group. The search assumes that no group can end, and looks for groups that can in spite of that,
 * until a pass over all of them finds no more. Each pass visits a group once. A way through more than DEEPEST groups is
 * taken for one that ends, as the search runs on the stack of a task.
 */
#include <stdio.h>

#include "base/errno.h"
#include "task/group.h"
#include "task/task.h"

enum { DEEPEST = 32 };

static struct wf_lock rings; /* guards awaits and group of all tasks, and what is guarded by this file in groups */
static uint64_t passes;      /* of all searches. guarded by: rings */

struct search {
    const weft_task *me;
    uint64_t first, pass; /* the first pass of this search, and the present one */
    bool has_news;        /* this pass has found a group that can end */
    size_t used;          /* of text */
    char text[256];       /* names the ring */
};

static bool has_ended(const struct wf_member *m)
{
    return m->is_readable || wf_task_has_ended(m->task);
}

static bool decides(const struct wf_group *g, const struct wf_member *ended)
{
    return g->wanted == WF_WANTS_RACE || (ended->task->code != 0) == (g->wanted == WF_WANTS_ALL);
}

static bool group_can_end(struct search *s, struct wf_group *g, unsigned depth);

/* Whether a task that has not ended can end although `me` waits. */
static bool can_end(struct search *s, const weft_task *t, unsigned depth)
{
    while (t != s->me && t->awaits)
        t = t->awaits;
    return t != s->me && (!t->group || group_can_end(s, t->group, depth));
}

static bool members_let_it_end(struct search *s, const struct wf_group *g, unsigned depth)
{
    bool waits_in_vain = false;
    for (size_t i = 0; i < g->count; i++) {
        const struct wf_member *m = &g->members[i];
        if (has_ended(m)) {
            if (decides(g, m))
                return true;
        } else if (!can_end(s, m->task, depth + 1)) {
            waits_in_vain = true;
        } else if (g->wanted != WF_WANTS_ALL) {
            return true;
        }
    }
    return !waits_in_vain;
}

static bool group_can_end(struct search *s, struct wf_group *g, unsigned depth)
{
    if (g->can_end >= s->first || depth == DEEPEST)
        return true;
    if (g->visited == s->pass)
        return false;
    g->visited = s->pass;
    if (!members_let_it_end(s, g, depth))
        return false;
    g->can_end = s->pass;
    s->has_news = true;
    return true;
}

static bool waits_in_vain(struct search *s, const weft_task *t, struct wf_group *g)
{
    s->first = passes + 1;
    do {
        s->pass = ++passes;
        s->has_news = false;
        if (t ? can_end(s, t, 0) : group_can_end(s, g, 0))
            return false;
    } while (s->has_news);
    s->pass = ++passes; /* for a last visit, which names the ring */
    return true;
}

static const char *name_of(const weft_task *t)
{
    return t->name ? t->name : "a task";
}

static void append(struct search *s, const char *words, const weft_task *t)
{
    size_t room = sizeof s->text - s->used;
    int n = snprintf(s->text + s->used, room, "%s%s", words, name_of(t));
    s->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static bool name_way_of_group(struct search *s, struct wf_group *g, unsigned depth);

/* Appends the way from t to `me`. False: there is none among tasks that cannot end, and nothing is appended. */
static bool name_way(struct search *s, const weft_task *t, unsigned depth)
{
    size_t used = s->used;
    append(s, depth == 0 ? " awaits " : ", which awaits ", t);
    while (t != s->me && t->awaits) {
        t = t->awaits;
        append(s, ", which awaits ", t);
    }
    if (t == s->me || (t->group && name_way_of_group(s, t->group, depth + 1)))
        return true;
    s->used = used;
    return false;
}

static bool name_way_of_group(struct search *s, struct wf_group *g, unsigned depth)
{
    if (g->can_end >= s->first || g->visited == s->pass || depth > DEEPEST)
        return false;
    g->visited = s->pass;
    for (size_t i = 0; i < g->count; i++) {
        if (!has_ended(&g->members[i]) && name_way(s, g->members[i].task, depth))
            return true;
    }
    return false;
}

/* Whether `me` is in a ring, which the text names. */
WF_COLD static bool is_ring(struct search *s, const weft_task *t, struct wf_group *g)
{
    if (!waits_in_vain(s, t, g))
        return false;
    s->used = 0;
    append(s, "", s->me);
    return t ? name_way(s, t, 0) : name_way_of_group(s, g, 0);
}

/* Whether no ring can go through t: the awaits from there on end at a task that does not wait. */
static bool is_free(const weft_task *me, const weft_task *t)
{
    while (t != me && t->awaits)
        t = t->awaits;
    return t != me && !t->group;
}

int wf_ring_enter(weft_task *me, weft_task *t, struct wf_group *g)
{
    struct search s;
    s.me = me;
    wf_lock(&rings);
    bool waits = (t && is_free(me, t)) || !is_ring(&s, t, g);
    if (waits) {
        me->awaits = t;
        me->group = g;
    }
    wf_unlock(&rings);
    if (!waits)
        wf_task_note(me, -EDEADLK, "%s", s.text);
    return waits ? 0 : -EDEADLK;
}

void wf_ring_leave(weft_task *me)
{
    wf_lock(&rings);
    me->awaits = NULL;
    me->group = NULL;
    wf_unlock(&rings);
}

void wf_ring_in_child(void)
{
    rings = (struct wf_lock){0};
}
