/*
 * sched/dump.c: every fiber, a line each. It looks at records while their fibers go on: a line is what was true a moment
 * ago, and a record that changed hands meanwhile may show some of both.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/sys.h"
#include "sched/dump_scopes.h"
#include "sched/object.h"
#include "sched/sched.h"

/* What a line needs, copied while the pool is locked: writing to a file takes long. */
struct line {
    uint64_t id;
    int64_t born, until;
    const char *site, *what;
    struct wf_awaited awaited; /* all zero: the caller did not ask for objects */
    int worker;
    uint8_t state;
    bool cancelled;
    bool is_child; /* it is shown below its scope */
    bool is_shown;
    char name[WF_NAME_BYTES];
    char sched[WF_NAME_BYTES]; /* the scheduler's name; "": it has none of its own */
};

struct lines {
    const weft_sched *of;
    bool objects; /* also the objects that they wait for: only if the fibers stay parked meanwhile */
    struct line *line;
    size_t count, room;
    struct wf_dump_scopes scopes;
};

static bool is_meant(const weft_fiber *f, const weft_sched *s)
{
    uint32_t state = wf_load(&f->state);
    return state != 0 && wf_load(&f->join) != WF_JOIN_LOST &&
           (!s || (wf_load(&f->sched) == s && state != WEFT_FIBER_NEW && state != WEFT_FIBER_DONE));
}

static void copy_identity(weft_fiber *f, void *arg)
{
    struct line *to = arg;
    if (wf_load(&f->state) == 0)
        return;
    to->id = wf_load(&f->id);
    wf_name_copy(to->name, f);
}

static void look(weft_fiber *f, void *arg)
{
    struct lines *l = arg;
    if (!is_meant(f, l->of))
        return;
    wf_dump_look_at_scopes(&l->scopes, f);
    if (l->count++ >= l->room)
        return;
    struct line *to = &l->line[l->count - 1];
    struct wf_worker *home = wf_load(&f->home);
    to->id = wf_load(&f->id);
    to->born = wf_load(&f->born);
    to->until = wf_load(&f->until);
    to->site = wf_load(&f->site);
    to->state = (uint8_t)wf_load_acquire(&f->state); /* pairs with wf_worker_commit: what it waits for */
    to->what = wf_load(&f->what);
    to->is_child = to->is_shown = false;
    to->cancelled = wf_load(&f->sleeper.bits) & WF_CANCEL;
    to->worker = home ? (int)home->index : -1;
    to->sched[0] = '\0';
    if (home && strcmp(home->sched->name, WF_SCHED_NAME) != 0)
        memcpy(to->sched, home->sched->name, sizeof to->sched);
    bool asked = l->objects && to->state == WEFT_FIBER_PARKED;
    to->awaited = asked ? wf_awaited_by(f) : (struct wf_awaited){0};
    wf_name_copy(to->name, f);
}

static const char *const states[] = {"free", "new", "ready", "running", "parked", "done"};

static void print_span(FILE *to, const char *before, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    fprintf(to, "%s%" PRId64 ".%03" PRId64 " s", before, ns / 1000000000, ns / 1000000 % 1000);
}

/* Prints the fiber of a record; false: the address is not a fiber's record. */
static bool print_fiber(FILE *to, uintptr_t record)
{
    struct line l = {0};
    wf_pool_look_at((weft_fiber *)record, copy_identity, &l);
    if (l.id != 0)
        fprintf(to, "fiber %" PRIu64 " \"%s\"", l.id, l.name);
    return l.id != 0;
}

static void print_object(FILE *to, const struct wf_object *o)
{
    if (o->holder == WF_HOLDER_JOINED) {
        fputs(" of ", to);
        print_fiber(to, o->by);
        return;
    }
    if (o->at)
        fprintf(to, " %p", o->at);
    if (o->holder == WF_HOLDER_READERS)
        fprintf(to, ", which %" PRIuPTR " hold to read", o->by);
    if (o->holder == WF_HOLDER_ONE) {
        fputs(", held by ", to);
        if (!print_fiber(to, o->by))
            fputs("a thread, or by a fiber that has ended", to);
    }
}

/* Where a dump is printed to. */
struct print {
    FILE *to;
    const struct wf_window *window;
    const struct lines *l;
    int64_t now;
    size_t shown;
};

static void print_line(const struct print *p, const struct line *l, int depth)
{
    FILE *to = p->to;
    int64_t now = p->now;
    fprintf(to, "%*sfiber %" PRIu64 " \"%s\" %s", 2 + 4 * depth, "", l->id, l->name,
            states[l->state <= WEFT_FIBER_DONE ? l->state : 0]);
    if (l->state == WEFT_FIBER_PARKED && l->what) {
        fprintf(to, ", waits for %s", l->what);
        struct wf_object o = wf_object_of(p->window, &l->awaited);
        print_object(to, &o);
        if (l->until != INT64_MAX)
            print_span(to, " for at most ", l->until - now);
    }
    if (l->cancelled)
        fputs(", cancelled", to);
    print_span(to, ", age ", now - l->born);
    if (l->worker >= 0)
        fprintf(to, ", worker %d", l->worker);
    if (l->sched[0] != '\0')
        fprintf(to, " of \"%s\"", l->sched);
    fprintf(to, ", spawned at %s\n", l->site ? l->site : "?");
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct line *)a)->id, y = ((const struct line *)b)->id;
    return x < y ? -1 : x > y;
}

static struct line *find(const struct lines *l, uint64_t id)
{
    size_t shown = l->count < l->room ? l->count : l->room;
    return bsearch(&(struct line){.id = id}, l->line, shown, sizeof *l->line, by_id);
}

static void print_scope(const struct print *p, const struct wf_scope_line *s, int depth)
{
    FILE *to = p->to;
    fprintf(to, "%*sscope \"%s\" opened at %s, %zu %s", 4 + 4 * depth, "", s->name, s->site ? s->site : "?", s->live,
            s->live == 1 ? "child" : "children");
    if (s->due != INT64_MAX)
        print_span(to, ", deadline in ", s->due - p->now);
    if (s->stopping)
        fputs(", stopping", to);
    if (s->cause[0] != '\0')
        fprintf(to, ", cancelled: %s", s->cause);
    fputc('\n', to);
}

/* A task that is no fiber, or not yet. */
static void print_task(const struct print *p, const struct wf_child_text *c, int depth)
{
    fprintf(p->to, "%*stask \"%s\" %s", 2 + 4 * depth, "", c->name, c->begun ? "begun" : "not begun");
    if (c->on[0] != '\0')
        fprintf(p->to, ", on executor \"%s\"", c->on);
    fputc('\n', p->to);
}

enum { DEEPEST = 64 }; /* fibers that are deeper are printed after all others, as if they were nobody's children */

/* A fiber, the scopes that it has open, outermost first, and their children. Recursive to DEEPEST at most. */
static void print_tree(struct print *p, struct line *l, int depth) // NOLINT(misc-no-recursion)
{
    const struct wf_dump_scopes *all = &p->l->scopes;
    size_t count = all->count < all->room ? all->count : all->room;
    print_line(p, l, depth);
    l->is_shown = true;
    p->shown++;
    for (size_t i = count; i-- > 0;) {
        const struct wf_scope_line *s = &all->line[i];
        if (s->owner != l->id)
            continue;
        print_scope(p, s, depth);
        for (size_t k = s->children; k-- > 0;) {
            const struct wf_child_text *c = &all->child[s->first + k];
            struct line *child = c->fiber != 0 ? find(p->l, c->fiber) : NULL;
            if (child && child->is_child && depth < DEEPEST)
                print_tree(p, child, depth + 1);
            else if (c->is_task && c->fiber == 0)
                print_task(p, c, depth + 1);
        }
    }
}

/* Children are printed with their scopes, not by themselves. */
static void mark_children(const struct lines *l)
{
    const struct wf_dump_scopes *all = &l->scopes;
    size_t count = all->count < all->room ? all->count : all->room;
    for (size_t i = 0; i < count; i++) {
        const struct wf_scope_line *s = &all->line[i];
        struct line *owner = find(l, s->owner);
        for (size_t k = 0; owner && k < s->children; k++) {
            uint64_t id = all->child[s->first + k].fiber;
            struct line *child = id != 0 ? find(l, id) : NULL;
            if (child && child != owner)
                child->is_child = true;
        }
    }
}

int wf_dump(FILE *to, const weft_sched *s, bool objects)
{
    struct lines l = {.of = s, .objects = objects};
    struct wf_window window = {-1};
    wf_fork_look();
    wf_pool_walk(look, &l); /* counts */
    l.room = l.count + l.count / 8 + 16;
    l.line = wf_sys_malloc(l.room * sizeof *l.line);
    if (!l.line) {
        fprintf(to, "  %zu fibers; there is no memory to list them\n", l.count);
        return (int)l.count;
    }
    l.count = 0;
    wf_dump_make_room(&l.scopes); /* without memory no scope is shown */
    wf_pool_walk(look, &l);
    size_t shown = l.count < l.room ? l.count : l.room;
    qsort(l.line, shown, sizeof *l.line, by_id);
    mark_children(&l);
    struct print p = {.to = to, .window = &window, .l = &l, .now = wf_clock_now()};
    if (objects)
        wf_window_open(&window);
    for (size_t i = 0; i < shown; i++) {
        if (!l.line[i].is_child)
            print_tree(&p, &l.line[i], 0);
    }
    for (size_t i = 0; i < shown; i++) {
        if (!l.line[i].is_shown)
            print_tree(&p, &l.line[i], 0);
    }
    wf_window_close(&window);
    wf_dump_drop_scopes(&l.scopes);
    wf_sys_free(l.line);
    return (int)p.shown;
}

int weft_dump(FILE *to)
{
    if (!to)
        return -EINVAL;
    int count = wf_dump(to, NULL, false);
    fprintf(to, "  %d fiber%s\n", count, count == 1 ? "" : "s");
    return count;
}
