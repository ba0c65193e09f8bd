/*
 * fiber/extra.c: the memory of extras; see extra.h. Workers keep some memory for their next fibers, because every child
 * of a scope has an extra.
 */
#include "fiber/extra.h"

#include <string.h>

#include "base/fork.h"
#include "base/plain.h"
#include "base/sanitizer.h"
#include "base/sys.h"

/* Under ASan and valgrind nothing is kept, so that they see uses of an extra after its free. */
#define KEEPS (!WF_ASAN && !WF_VALGRIND)

enum {
    BATCH = 64,
    KEPT_MOST = 4 * BATCH,
    COMMON_MOST = 8192,
};

/* Sets each field that is read before it is written. The timer's entry and the stop event are set at first use. */
static inline void begin(struct wf_extra *x)
{
    x->lock = (struct wf_lock){0};
    x->stop_wanted = 0;
    x->users = 0;
    x->open = NULL;
    x->child.link = NULL;
    x->child.scope = NULL;
    x->child.fiber = NULL;
    x->context = NULL;
    x->defers = NULL;
    x->locals = NULL;
    x->cause.kind = 0;
    x->timer.in = NULL;
    x->timer.state = WF_SCOPE_TIMER_IDLE;
}

static struct wf_extra *new_extra(void)
{
    struct wf_extra *x = wf_sys_malloc(sizeof *x);
    if (x)
        begin(x);
    return x;
}

struct wf_extra *wf_extra(weft_fiber *f)
{
    struct wf_extra *there = wf_load_acquire(&f->extra); /* pairs with the compare-and-swap below */
    if (there)
        return there;
    struct wf_extra *made = new_extra();
    if (!made)
        return NULL;
    if (!wf_cas(&f->extra, &there, made)) { /* release: its zeroes */
        wf_sys_free(made);
        return there;
    }
    wf_or(&f->sleeper.bits, WF_EXTRA);
    return made;
}

/*
 * Memory that passes between workers. A child may end on another worker than the one that made its extra, so some
 * workers have too much memory and others too little. They pass on BATCH extras at a time, to take the lock seldom.
 */
static struct {
    struct wf_lock lock;
    struct wf_extra *first; /* guarded by: lock */
    uint32_t count;         /* guarded by: lock. atomic: others look */
} common;

static void lock_common(void);

static void unlock_common(void)
{
    wf_unlock(&common.lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {lock_common, unlock_common, unlock_common};
    wf_fork_join(WF_FORK_EXTRAS, &steps);
}

static void lock_common(void)
{
    static struct wf_plain_once once;
    wf_plain_once(&once, set_up);
    wf_lock(&common.lock);
}

/* Takes up to n from the front of a list: how many. *last is the last of them. */
static uint32_t cut(struct wf_extra *first, uint32_t n, struct wf_extra **last)
{
    uint32_t count = 0;
    for (struct wf_extra *x = first; x && count < n; x = x->next_kept, count++)
        *last = x;
    return count;
}

/* A worker that has no extras takes some of the common ones. False: there are none. */
WF_COLD static bool refill(struct wf_extras *kept)
{
    if (wf_load(&common.count) == 0)
        return false;
    struct wf_extra *last = NULL;
    lock_common();
    struct wf_extra *first = common.first;
    uint32_t n = cut(first, BATCH, &last);
    if (n > 0)
        common.first = last->next_kept;
    wf_store(&common.count, common.count - n);
    unlock_common();
    if (n == 0)
        return false;
    last->next_kept = NULL;
    kept->first = first;
    kept->count = n;
    return true;
}

static void free_list(struct wf_extra *x)
{
    for (struct wf_extra *next; x; x = next) {
        next = x->next_kept;
        wf_sys_free(x);
    }
}

/* A worker that has many extras gives some to the common list, or frees them if that list is full. */
WF_COLD static void hand_on(struct wf_extras *kept)
{
    struct wf_extra *first = kept->first, *last = NULL;
    uint32_t n = cut(first, BATCH, &last);
    kept->first = last->next_kept;
    kept->count -= n;
    last->next_kept = NULL;
    lock_common();
    bool enough = common.count >= COMMON_MOST;
    if (!enough) {
        last->next_kept = common.first;
        common.first = first;
        wf_store(&common.count, common.count + n);
    }
    unlock_common();
    if (enough)
        free_list(first);
}

/* Frees half of the common extras. */
static void trim_common(void)
{
    if (wf_load(&common.count) == 0 || !wf_lock_try(&common.lock))
        return;
    struct wf_extra *first = common.first, *last = NULL;
    uint32_t n = cut(first, (common.count + 1) / 2, &last);
    if (n > 0) {
        common.first = last->next_kept;
        last->next_kept = NULL;
        wf_store(&common.count, common.count - n);
    }
    unlock_common();
    if (n > 0)
        free_list(first);
}

bool wf_extra_begin(struct wf_extras *kept, weft_fiber *f)
{
    struct wf_extra *x = NULL;
    if (kept && (wf_likely(kept->first) || refill(kept))) {
        x = kept->first;
        kept->first = x->next_kept;
        if (--kept->count < kept->unneeded)
            kept->unneeded = kept->count;
        begin(x);
    } else {
        x = new_extra();
        if (!x)
            return false;
    }
    wf_store(&f->extra, x);
    wf_store(&f->sleeper.bits, WF_EXTRA);
    return true;
}

void wf_extra_drop(struct wf_extras *kept, weft_fiber *f)
{
    struct wf_extra *x = f->extra;
    wf_store(&f->extra, NULL);
    wf_context_let_go(x->context);
    if (!KEEPS || !kept || !x->child.fiber) { /* children come by the thousand, others do not */
        wf_sys_free(x);
        return;
    }
    x->next_kept = kept->first;
    kept->first = x;
    if (wf_unlikely(++kept->count > KEPT_MOST))
        hand_on(kept);
}

static void trim(struct wf_extras *x, uint32_t keep)
{
    while (x->count > keep) {
        struct wf_extra *gone = x->first;
        x->first = gone->next_kept;
        x->count--;
        wf_sys_free(gone);
    }
    x->unneeded = x->count;
}

void wf_extras_settle(struct wf_extras *x)
{
    trim(x, x->count - x->unneeded / 2);
    trim_common();
}

void wf_extras_drop(struct wf_extras *x)
{
    trim(x, 0);
    trim_common();
}

void wf_context_let_go(struct wf_context *c)
{
    if (c && wf_add(&c->holders, (uint32_t)-1) == 1) /* acquire: pairs with the release of all others before */
        wf_sys_free(c);
}
