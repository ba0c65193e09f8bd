/*
 * task/scope_names.c: the line, and the list, that a wait or a close writes when children ignore their cancel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "sched/dump_scopes.h"
#include "task/scope.h"

enum { NAMED_MOST = 16 };

static void print_child(const struct wf_child_text *c)
{
    if (c->is_task)
        fprintf(stderr, "  task \"%s\"", c->name);
    else
        fprintf(stderr, "  fiber %" PRIu64 " \"%s\"", c->fiber, c->name);
    if (c->is_task && c->on[0] != '\0')
        fprintf(stderr, " on executor \"%s\"", c->on);
    if (c->is_task && c->fiber != 0)
        fprintf(stderr, ", which is fiber %" PRIu64, c->fiber);
    if (c->is_task && c->fiber == 0)
        fputs(c->begun ? ", which has begun" : ", which has not begun", stderr);
    else if (!c->what)
        fputs(", which runs or is ready", stderr);
    else if (strcmp(c->what, "helper") == 0)
        fputs(", in a call on a helper thread, which cannot be interrupted", stderr);
    else
        fprintf(stderr, ", waits for %s", c->what);
    if (c->is_task)
        fputc('\n', stderr);
    else
        fprintf(stderr, ", started at %s\n", c->site ? c->site : "?");
}

void wf_scope_name_children(struct wf_scope *s, weft_span waited)
{
    struct wf_child_text named[NAMED_MOST];
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    size_t count = 0;
    wf_lock(lock);
    size_t live = s->live;
    for (struct wf_child *c = s->first; c && count < NAMED_MOST; c = c->next)
        wf_child_describe(&named[count++], c);
    wf_unlock(lock);
    if (live == 0)
        return;
    fprintf(
        stderr,
        "weft: scope \"%s\" opened at %s waits for %zu %s that %s ignored the cancel for %.1f s (return from the child "
        "when a call returns -ECANCELED):\n",
        s->name, s->site, live, live == 1 ? "child" : "children", live == 1 ? "has" : "have", (double)waited / 1e9);
    for (size_t i = 0; i < count; i++)
        print_child(&named[i]);
    if (live > count)
        fprintf(stderr, "  and %zu more\n", live - count);
}
