/*
 * stack/shared.c: making and freeing pools of shared stacks; see shared.h.
 */
#include "stack/shared.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/plain.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "base/thread.h"
#include "stack/guard.h"
#include "stack/slab.h"

#define PASSAGE_BYTES ((size_t)128 * 1024)

static struct wf_lock lock; /* of what pools know of fibers: one for all, for a fork to take */
static struct wf_plain_once once;

static void lock_fibers(void);

static void unlock_fibers(void)
{
    wf_unlock(&lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {lock_fibers, unlock_fibers, unlock_fibers};
    wf_fork_join(WF_FORK_SHARED, &steps);
}

static void lock_fibers(void)
{
    wf_plain_once(&once, set_up);
    wf_lock(&lock);
}

static void unmap(struct wf_shared *s, size_t bytes)
{
    wf_sys_free(s->image); /* no copy is left */
    wf_valgrind_forget(s->valgrind[0]);
    wf_valgrind_forget(s->valgrind[1]);
    wf_asan_unpoison(s->base, bytes);
    wf_sys_unmap(s->base, bytes);
    wf_slab_lock();
    wf_guard_unmapped((size_t)(s->guard[0] == WF_GUARD_MAPPING) + (size_t)(s->guard[1] == WF_GUARD_MAPPING));
    wf_slab_unlock();
}

static bool map(struct wf_shared *s, weft_stacks *pool, size_t usable)
{
    char *base = wf_sys_map(pool->bytes);
    if (!base)
        return false;
    *s = (struct wf_shared){.base = base, .low = base + wf_guard_bytes(), .pool = pool, .forks = wf_forks};
    s->high = s->low + usable;
    s->passage = base + pool->bytes;
    wf_slab_lock();
    s->guard[0] = wf_guard_any(base);
    s->guard[1] = wf_guard_any(s->high);
    wf_slab_unlock();
    s->valgrind[0] = wf_valgrind_stack(base, (size_t)(s->high - base));
    s->valgrind[1] = wf_valgrind_stack(s->high + wf_guard_bytes(), WF_ROUND_UP(PASSAGE_BYTES, wf_sys_page()));
    return true;
}

int weft_stacks_new(weft_stacks **out, size_t count, size_t size)
{
    size_t page = wf_sys_page();
    if (size == 0)
        size = WEFT_STACK_DEFAULT;
    if (!out || count == 0 || size < WEFT_STACK_MIN)
        return -EINVAL;
    if (size > INT32_MAX || count > (SIZE_MAX / 2) / sizeof(struct wf_shared))
        return -ENOMEM;
    size = WF_ROUND_UP(size, page);
    weft_stacks *pool = wf_sys_malloc(sizeof *pool + count * sizeof pool->stacks[0]);
    if (!pool)
        return -ENOMEM;
    *pool = (weft_stacks){.count = count, .bytes = 2 * wf_guard_bytes() + size + WF_ROUND_UP(PASSAGE_BYTES, page)};
    for (size_t i = 0; i < count; i++) {
        if (!map(&pool->stacks[i], pool, size)) {
            while (i-- > 0)
                unmap(&pool->stacks[i], pool->bytes);
            wf_sys_free(pool);
            return -ENOMEM;
        }
    }
    *out = pool;
    return 0;
}

int weft_stacks_free(weft_stacks *pool)
{
    if (!pool)
        return 0;
    if (__atomic_load_n(&pool->coroutines, __ATOMIC_ACQUIRE) != 0) /* pairs with wf_shared_release */
        return -EBUSY;
    for (size_t i = 0; i < pool->count; i++)
        unmap(&pool->stacks[i], pool->bytes);
    wf_sys_free(pool);
    return 0;
}

struct wf_shared *wf_shared_assign(weft_stacks *pool)
{
    __atomic_add_fetch(&pool->coroutines, 1, __ATOMIC_RELAXED);
    return &pool->stacks[__atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED) % pool->count];
}

void wf_shared_release(struct wf_shared *s)
{
    __atomic_sub_fetch(&s->pool->coroutines, 1, __ATOMIC_RELEASE); /* pairs with weft_stacks_free */
}

/* The child of a fork comes to it first: its fibers are not there, nor is a thread that ran on it. */
static void forget_others(struct wf_shared *s)
{
    if (s->forks == wf_forks)
        return;
    s->forks = wf_forks;
    s->fibers = 0;
    struct wf_thread *has = __atomic_load_n(&s->thread, __ATOMIC_RELAXED);
    if (has && has != wf_thread_now()) {
        s->running = 0;
        s->occupant = NULL; /* whoever it was never goes on */
        __atomic_store_n(&s->thread, NULL, __ATOMIC_RELAXED);
    }
}

void wf_shared_keep(struct wf_shared *s, const void *owner, const void *group)
{
    lock_fibers();
    forget_others(s);
    s->fibers = 1;
    s->owner = owner;
    s->group = group;
    unlock_fibers();
}

struct wf_shared *wf_shared_bind(weft_stacks *pool, const void *owner, const void *group, bool anywhere)
{
    struct wf_shared *found = NULL;
    size_t start = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
    lock_fibers();
    for (size_t i = 0; i < pool->count && !found; i++) {
        struct wf_shared *s = &pool->stacks[(start + i) % pool->count];
        forget_others(s);
        if (s->fibers == 0 || s->owner == owner || (anywhere && s->group == group))
            found = s;
    }
    if (found && found->fibers++ == 0) {
        found->owner = owner;
        found->group = group;
    }
    unlock_fibers();
    if (found)
        __atomic_add_fetch(&pool->coroutines, 1, __ATOMIC_RELAXED);
    return found;
}

void wf_shared_unbind(struct wf_shared *s)
{
    lock_fibers();
    s->fibers--;
    unlock_fibers();
    wf_shared_release(s);
}
