/*
 * sched/debug.c: see debug.h.
 */
#include "sched/debug.h"

#if WF_DEBUG

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/panic.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "fiber/pool.h"
#include "sched/wait.h"
#include "sched/worker.h"

#define LONG_NS ((int64_t)1000000000)

enum { WHO_BYTES = 224, SITE_BYTES = 224 };

/* ---- words ---- */

static const char *name_fiber(char *to, const weft_fiber *f)
{
    const char *site = wf_load(&f->site);
    snprintf(to, WHO_BYTES, "fiber %" PRIu64 " \"%.31s\", spawned at %.140s", wf_load(&f->id), f->name,
             site ? site : "?");
    return to;
}

/* The last `most` characters of a path: the end says more than the beginning. */
static const char *tail(const char *path, size_t most)
{
    size_t n = strlen(path);
    return n > most ? path + n - most : path;
}

/*
 * The call that returns to `site`: a function, if the dynamic linker knows one, and the place in its file for
 * addr2line.
 */
static const char *name_site(char *to, const void *site)
{
    Dl_info at;
    const char *call = (const char *)site - 1;
    if (!dladdr(call, &at) || !at.dli_fname) {
        snprintf(to, SITE_BYTES, "%p", (const void *)call);
        return to;
    }
    size_t offset = (size_t)(call - (const char *)at.dli_fbase);
    if (at.dli_sname)
        snprintf(to, SITE_BYTES, "%.80s+%#zx (%s+%#zx)", at.dli_sname, (size_t)(call - (const char *)at.dli_saddr),
                 tail(at.dli_fname, 80), offset);
    else
        snprintf(to, SITE_BYTES, "%s+%#zx", tail(at.dli_fname, 120), offset);
    return to;
}

/* ---- handles ---- */

void wf_debug_handle(const char *function, const weft_fiber *f)
{
    char who[WHO_BYTES];
    if (wf_likely(!f || wf_load(&f->join) != WF_JOIN_GONE))
        return;
    wf_panic(
        function,
        "%s, was joined before, or was detached and has ended: its handle is nobody's any more. Do not use a handle "
        "after weft_join or weft_detach; keep the fiber's id if you want to know later which one it was",
        name_fiber(who, f));
}

bool wf_debug_keeps(weft_fiber **f)
{
    *f = wf_pool_set_apart(*f);
    if (*f)
        memset(&(*f)->debug, 0, sizeof(*f)->debug);
    return !*f;
}

/* ---- locks ---- */

void wf_debug_locked(const void *object, const char *what, const void *site)
{
    weft_fiber *f = wf_thread_now()->fiber;
    if (!f)
        return;
    struct wf_debug *d = &f->debug;
    if (d->lock_count < WF_DEBUG_LOCKS)
        d->locks[d->lock_count++] = (struct wf_debug_lock){object, what, site};
}

void wf_debug_unlocked(const void *object)
{
    weft_fiber *f = wf_thread_now()->fiber;
    if (!f)
        return;
    struct wf_debug *d = &f->debug;
    for (uint32_t i = d->lock_count; i > 0; i--) {
        if (d->locks[i - 1].object == object) {
            memmove(&d->locks[i - 1], &d->locks[i], (d->lock_count - i) * sizeof d->locks[0]);
            d->lock_count--;
            return;
        }
    }
}

static WF_COLD void holds(const weft_fiber *f)
{
    const struct wf_debug_lock *lock = &f->debug.locks[f->debug.lock_count - 1];
    char who[WHO_BYTES], site[SITE_BYTES];
    wf_panic(
        "a fiber's end",
        "%s, has ended and still holds the %s %p, which it took at %s: nobody else can release it. Release it on every "
        "way out of the fiber's function, cancelled or not",
        name_fiber(who, f), lock->what, lock->object, name_site(site, lock->site));
}

/* ---- objects on stacks ---- */

/* All private stacks that fibers have run on lie between these. atomic: each only moves outwards */
static uintptr_t stacks_low = UINTPTR_MAX, stacks_high;
static uint32_t waits_elsewhere; /* atomic: fibers with an `object` */

static void note_stack(const weft_coro *c)
{
    uintptr_t low = (uintptr_t)wf_coro_low(c), high = (uintptr_t)wf_coro_high(c);
    for (uintptr_t was = wf_load(&stacks_low); low < was && !wf_cas(&stacks_low, &was, low);)
        ;
    for (uintptr_t was = wf_load(&stacks_high); high > was && !wf_cas(&stacks_high, &was, high);)
        ;
}

static bool is_on(const weft_coro *c, uintptr_t at)
{
    return at >= (uintptr_t)wf_coro_low(c) && at < (uintptr_t)wf_coro_high(c);
}

void wf_debug_wait_begin(weft_fiber *f, const void *in)
{
    uintptr_t at = (uintptr_t)in;
    if (!f || at < wf_load(&stacks_low) || at >= wf_load(&stacks_high) || is_on(f->coro, at))
        return;
    wf_add(&waits_elsewhere, 1);
    wf_store_release(&f->debug.object, in); /* pairs with find_waiter */
}

void wf_debug_wait_end(weft_fiber *f)
{
    if (!f || !f->debug.object)
        return;
    wf_store(&f->debug.object, NULL);
    wf_add(&waits_elsewhere, (uint32_t)-1);
}

struct search {
    const weft_fiber *ended, *found;
    const void *object;
    char who[WHO_BYTES];
    const char *what;
};

/* A fiber that was woken, and has not run since, still has its `object`, but does not wait any more. */
static void find_waiter(weft_fiber *f, void *arg)
{
    struct search *s = arg;
    const void *object = wf_load_acquire(&f->debug.object);
    if (s->found || f == s->ended || !object || !is_on(s->ended->coro, (uintptr_t)object) ||
        wf_load(&f->state) != WEFT_FIBER_PARKED || !wf_waits(wf_load(&f->sleeper.phase)))
        return;
    s->found = f;
    s->object = object;
    s->what = wf_load(&f->what);
    name_fiber(s->who, f);
}

static void look_for_waiters(const weft_fiber *f)
{
    char who[WHO_BYTES];
    struct search s = {.ended = f};
    wf_fork_look();
    wf_pool_walk(find_waiter, &s);
    if (s.found)
        wf_panic(
            "a fiber's end",
            "%s, has ended while %s, waits for the %s at %p, which lies on the ended one's stack: join or wake who "
            "waits first, or allocate the object",
            name_fiber(who, f), s.who, s.what ? s.what : "object", s.object);
}

void wf_debug_end(weft_fiber *f)
{
    if (wf_unlikely(f->debug.lock_count > 0))
        holds(f);
    if (wf_unlikely(wf_load(&waits_elsewhere) > 0) && !f->shared)
        look_for_waiters(f);
}

void wf_debug_not_linked(const struct wf_waiter *w)
{
    char who[WHO_BYTES] = "a thread";
    if (w->who && w->who->fiber)
        name_fiber(who, w->who->fiber);
    wf_panic("an object",
             "it was freed or overwritten while %s, waited for it: an object must stay until nobody waits for it", who);
}

void wf_debug_busy(const char *function, const void *object)
{
    char line[256];
    snprintf(
        line, sizeof line,
        "weft: %s: somebody waits for the channel %p, so it was not freed (-EBUSY): close it, join those that use it, "
        "then free it\n",
        function, object);
    wf_say(line);
}

/* ---- computing for long ---- */

void wf_debug_ready(weft_fiber *f)
{
    if (f)
        wf_store(&f->debug.ready_at, wf_clock_real());
}

void wf_debug_runs(struct wf_worker *w, const weft_fiber *f)
{
    w->began = wf_clock_real();
    if (!f->shared)
        note_stack(f->coro);
}

struct delay {
    const struct wf_worker *worker;
    const weft_fiber *ran;
    int64_t longest, now, clock;
    char who[WHO_BYTES];
};

/* Finds the fiber that has waited longest for a turn on this worker: it is ready, or its deadline has passed. */
static void find_delayed(weft_fiber *f, void *arg)
{
    struct delay *d = arg;
    uint32_t state = wf_load(&f->state);
    int64_t waited = 0;
    if (f == d->ran || wf_load(&f->home) != d->worker)
        return;
    if (state == WEFT_FIBER_READY || (state == WEFT_FIBER_PARKED && wf_load(&f->sleeper.phase) == WF_SETTLED))
        waited = d->now - wf_load(&f->debug.ready_at);
    else if (state == WEFT_FIBER_PARKED && wf_load(&f->until) < d->clock)
        waited = d->clock - wf_load(&f->until);
    if (waited <= LONG_NS || waited <= d->longest)
        return;
    d->longest = waited;
    name_fiber(d->who, f);
}

static WF_COLD void look_for_delayed(struct wf_worker *w, weft_fiber *f, int64_t now)
{
    char line[768], who[WHO_BYTES];
    struct delay d = {.worker = w, .ran = f, .now = now, .clock = wf_clock_now()};
    wf_fork_look();
    wf_pool_walk(find_delayed, &d);
    if (d.longest == 0)
        return;
    f->debug.told = true;
    snprintf(line, sizeof line,
             "weft: %s, has run for %" PRId64 ".%03" PRId64
             " s without giving way, and kept %s, waiting: call weft_yield in "
             "long computations, or make the call that blocks by weft_offload\n",
             name_fiber(who, f), (now - w->began) / 1000000000, (now - w->began) / 1000000 % 1000, d.who);
    wf_say(line);
}

void wf_debug_ran(struct wf_worker *w, weft_fiber *f)
{
    int64_t now = wf_clock_real();
    if (wf_unlikely(now - w->began > LONG_NS) && !f->debug.told)
        look_for_delayed(w, f, now);
    wf_store(&f->debug.ready_at, now);
}

#endif
