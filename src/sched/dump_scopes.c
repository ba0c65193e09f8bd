/*
 * sched/dump_scopes.c: see dump_scopes.h.
 */
#include "sched/dump_scopes.h"

#include <stdio.h>

#include "base/sys.h"
#include "sched/cancel.h"
#include "sched/family.h"

/* guarded by: the family's lock */
static void copy_children(struct wf_dump_scopes *to, struct wf_scope_line *line, const struct wf_scope *s)
{
    line->first = to->children;
    for (const struct wf_child *c = s->first; c; c = c->next) {
        if (!c->fiber)
            continue;
        if (to->children < to->child_room) {
            to->child[to->children] = wf_load(&c->fiber->id);
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
