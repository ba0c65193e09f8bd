/*
 * sched/dump_scopes.c: see dump_scopes.h.
 */
#include "sched/dump_scopes.h"

#include <stdio.h>

#include "base/sys.h"
#include "sched/cancel.h"
#include "sched/family.h"

void wf_child_describe_fiber(struct wf_child_text *to, const weft_fiber *f)
{
    to->fiber = wf_load(&f->id);
    to->site = wf_load(&f->site);
    bool parked = wf_load_acquire(&f->state) == WEFT_FIBER_PARKED; /* pairs with wf_worker_commit: what it waits for */
    to->what = parked ? wf_load(&f->what) : NULL;
    wf_name_copy(to->name, f);
}

void wf_child_describe(struct wf_child_text *to, struct wf_child *c)
{
    *to = (struct wf_child_text){0};
    if (c->fiber)
        wf_child_describe_fiber(to, c->fiber);
    else
        c->ops->describe(c, to);
}

/* guarded by: the family's lock */
static void copy_children(struct wf_dump_scopes *to, struct wf_scope_line *line, const struct wf_scope *s)
{
    line->first = to->children;
    for (struct wf_child *c = s->first; c; c = c->next) {
        if (to->children < to->child_room) {
            wf_child_describe(&to->child[to->children], c);
            line->children++;
        }
        to->children++;
    }
}

static void copy_scope(struct wf_dump_scopes *to, const struct wf_scope *s)
{
    struct wf_scope_line line = {
        .owner = wf_load(&s->owner->id), .site = s->site, .due = s->due, .live = s->live, .stopping = s->stopping};
    struct wf_cause why = wf_scope_cause(s);
    snprintf(line.name, sizeof line.name, "%s", s->name);
    snprintf(line.cause, sizeof line.cause, "%s", wf_cause_text(&why));
    copy_children(to, &line, s);
    if (to->count < to->room)
        to->line[to->count] = line;
    to->count++;
}

void wf_dump_look_at_scopes(struct wf_dump_scopes *to, weft_fiber *f)
{
    if (!(wf_load_acquire(&f->sleeper.bits) & WF_OPENED)) /* pairs with weft_scope_open */
        return;
    struct wf_extra *x = wf_extra_of(f);
    wf_lock(&x->lock);
    for (const struct wf_scope *s = x->open; s; s = s->outer)
        copy_scope(to, s);
    wf_unlock(&x->lock);
}

bool wf_dump_make_room(struct wf_dump_scopes *to)
{
    to->room = to->count + to->count / 8 + 8;
    to->child_room = to->children + to->children / 8 + 8;
    to->count = to->children = 0;
    to->line = wf_sys_malloc(to->room * sizeof *to->line);
    to->child = wf_sys_malloc(to->child_room * sizeof *to->child);
    if (to->line && to->child)
        return true;
    wf_dump_drop_scopes(to);
    to->room = to->child_room = 0;
    return false;
}

void wf_dump_drop_scopes(struct wf_dump_scopes *of)
{
    wf_sys_free(of->line);
    wf_sys_free(of->child);
    of->line = NULL;
    of->child = NULL;
}
