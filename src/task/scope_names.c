/*
 * task/scope_names.c: the line, and the list, that a close writes when children ignore their cancel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "task/scope.h"

enum { NAMED_MOST = 16 };

/* What the list says about a child: a copy, made while the child cannot end. */
struct named {
    uint64_t id;
    const char *site, *what;
    char name[WF_NAME_BYTES];
    bool parked;
};

static void copy_child(struct named *to, const struct wf_child *c)
{
    const weft_fiber *f = c->fiber;
    *to = (struct named){0};
    if (!f)
        return;
    to->id = wf_load(&f->id);
    to->site = wf_load(&f->site);
    to->parked = wf_load_acquire(&f->state) == WEFT_FIBER_PARKED; /* pairs with wf_worker_commit: what it waits for */
    to->what = wf_load(&f->what);
    memcpy(to->name, f->name, sizeof to->name);
}

static void print_child(const struct named *n)
{
    if (n->id == 0) {
        fputs("  a task that is not a fiber\n", stderr);
        return;
    }
    fprintf(stderr, "  fiber %" PRIu64 " \"%s\"", n->id, n->name);
    if (!n->parked)
        fputs(", which runs or is ready", stderr);
    else if (strcmp(n->what, "helper") == 0)
        fputs(", in a call on a helper thread, which cannot be interrupted", stderr);
    else
        fprintf(stderr, ", waits for %s", n->what);
    fprintf(stderr, ", started at %s\n", n->site ? n->site : "?");
}

void wf_scope_name_children(struct wf_scope *s, weft_span waited)
{
    struct named named[NAMED_MOST];
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    size_t count = 0;
    wf_lock(lock);
    size_t live = s->live;
    for (const struct wf_child *c = s->first; c && count < NAMED_MOST; c = c->next)
        copy_child(&named[count++], c);
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
