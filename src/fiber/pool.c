/*
 * fiber/pool.c: see pool.h. One lock; the workers' own records keep it rare.
 */
#include "fiber/pool.h"

#include <stdint.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/plain.h"
#include "base/sys.h"

#define RECORD_BYTES WF_ROUND_UP(sizeof(weft_fiber), (size_t)64)
#define BLOCK_BYTES ((size_t)2 * 1024 * 1024) /* a huge page's: a million fibers are started on few page faults */
#define HEAD_BYTES ((size_t)128)
#define BLOCK_RECORDS ((BLOCK_BYTES - HEAD_BYTES) / RECORD_BYTES)

/* At the start of its memory, which is aligned to its size. guarded by: lock */
struct block {
    struct block *next, *prev;
    weft_fiber *free;  /* a list by `next` */
    size_t free_count; /* with those that were never used */
    size_t used;       /* so many were used, from the first on: the memory of the others is untouched */
    void *mapping;     /* const: what to unmap */
    bool listed;       /* among those with free records */
    struct block *next_free, *prev_free;
};

static struct wf_lock lock;
static size_t empty;            /* guarded by: lock; blocks of which all records are free. atomic: others look */
static size_t least_empty;      /* guarded by: lock; the least that it was since the last wf_pool_settle */
static struct block *blocks;    /* guarded by: lock */
static struct block *with_free; /* guarded by: lock; those with a free record */

static struct wf_plain_once once;

static void lock_pool(void);

static void unlock_pool(void)
{
    wf_unlock(&lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {lock_pool, unlock_pool, unlock_pool};
    wf_fork_join(WF_FORK_FIBERS, &steps);
}

static void lock_pool(void)
{
    wf_plain_once(&once, set_up);
    wf_lock(&lock);
}

static void count_empty(int change)
{
    wf_store(&empty, empty + (size_t)change);
    if (empty < least_empty)
        least_empty = empty;
}

static struct block *block_of(const weft_fiber *f)
{
    return (struct block *)((uintptr_t)f & ~(uintptr_t)(BLOCK_BYTES - 1));
}

static weft_fiber *record_at(struct block *b, size_t i)
{
    return (weft_fiber *)((char *)b + HEAD_BYTES + i * RECORD_BYTES);
}

static void list_free(struct block *b)
{
    b->listed = true;
    b->prev_free = NULL;
    b->next_free = with_free;
    if (with_free)
        with_free->prev_free = b;
    with_free = b;
}

static void unlist_free(struct block *b)
{
    b->listed = false;
    if (b->prev_free)
        b->prev_free->next_free = b->next_free;
    else
        with_free = b->next_free;
    if (b->next_free)
        b->next_free->prev_free = b->prev_free;
}

static bool more(void)
{
    char *mapping = wf_sys_map(2 * BLOCK_BYTES);
    if (!mapping)
        return false;
    struct block *b = (struct block *)WF_ROUND_UP((uintptr_t)mapping, (uintptr_t)BLOCK_BYTES);
    b->mapping = mapping;
    b->next = blocks;
    if (blocks)
        blocks->prev = b;
    blocks = b;
    if (b->next && b->next->next) /* not the first two blocks: up to 13,000 fibers take no more pages than they use */
        wf_sys_huge(b, BLOCK_BYTES);
    b->free_count = BLOCK_RECORDS;
    count_empty(1);
    list_free(b);
    return true;
}

static weft_fiber *use(struct block *b)
{
    weft_fiber *f = record_at(b, b->used++);
    f->sleeper.fiber = f;
    f->join = WF_JOIN_GONE;
    f->until = INT64_MAX;
    wf_record_clean(f);
    return f;
}

static weft_fiber *take(void)
{
    if (!with_free && !more())
        return NULL;
    struct block *b = with_free;
    weft_fiber *f = b->free;
    if (f)
        b->free = f->next;
    else
        f = use(b);
    if (b->free_count-- == BLOCK_RECORDS)
        count_empty(-1);
    if (b->free_count == 0)
        unlist_free(b);
    return f;
}

static void give(weft_fiber *f)
{
    struct block *b = block_of(f);
    f->next = b->free;
    b->free = f;
    b->free_count++;
    if (!b->listed)
        list_free(b);
    if (b->free_count == BLOCK_RECORDS)
        count_empty(1);
}

static void unmap(struct block *b)
{
    unlist_free(b);
    count_empty(-1);
    if (b->prev)
        b->prev->next = b->next;
    else
        blocks = b->next;
    if (b->next)
        b->next->prev = b->prev;
    wf_sys_unmap(b->mapping, 2 * BLOCK_BYTES);
}

void wf_pool_settle(void)
{
    lock_pool();
    size_t n = least_empty - least_empty / 2;
    for (struct block *b = with_free, *next; b && n > 0; b = next) {
        next = b->next_free;
        if (b->free_count == BLOCK_RECORDS) {
            unmap(b);
            n--;
        }
    }
    least_empty = empty;
    unlock_pool();
}

bool wf_pool_has_empty(void)
{
    return wf_load(&empty) > 1;
}

weft_fiber *wf_pool_take(void)
{
    lock_pool();
    weft_fiber *f = take();
    unlock_pool();
    return f;
}

bool wf_records_fill(struct wf_records *r)
{
    lock_pool();
    for (weft_fiber *f; r->count < WF_RECORDS_AT_ONCE && (f = take()) != NULL; r->count++) {
        f->next = r->first;
        r->first = f;
    }
    unlock_pool();
    r->unneeded = 0;
    return r->first != NULL;
}

void wf_pool_give(weft_fiber *f)
{
    lock_pool();
    give(f);
    unlock_pool();
}

#if WF_DEBUG
size_t wf_pool_apart = WF_APART_MOST;

weft_fiber *wf_pool_set_apart(weft_fiber *f)
{
    static weft_fiber *apart[WF_APART_MOST]; /* guarded by: lock; a ring */
    static size_t next;                      /* guarded by: lock */
    size_t size = wf_load(&wf_pool_apart);
    if (size == 0)
        return f;
    lock_pool();
    weft_fiber *oldest = apart[next % size];
    apart[next % size] = f;
    next++;
    unlock_pool();
    return oldest;
}
#endif

void wf_records_trim(struct wf_records *r, uint32_t keep)
{
    lock_pool();
    for (; r->count > keep; r->count--) {
        weft_fiber *f = r->first;
        r->first = f->next;
        give(f);
    }
    unlock_pool();
    if (r->unneeded > r->count)
        r->unneeded = r->count;
}

void wf_records_settle(struct wf_records *r)
{
    if (r->unneeded > WF_RECORDS_AT_ONCE)
        wf_records_trim(r, r->count - r->unneeded / 2);
    r->unneeded = r->count;
}

void wf_pool_walk(void (*look)(weft_fiber *f, void *arg), void *arg)
{
    lock_pool();
    for (struct block *b = blocks; b; b = b->next) {
        for (size_t i = 0; i < b->used; i++)
            look(record_at(b, i), arg);
    }
    unlock_pool();
}

void wf_pool_look_at(weft_fiber *f, void (*look)(weft_fiber *f, void *arg), void *arg)
{
    lock_pool();
    struct block *b = blocks;
    while (b && b != block_of(f))
        b = b->next;
    if (b && f < record_at(b, b->used)) /* else other memory, or a younger block, is where its block was */
        look(f, arg);
    unlock_pool();
}

void wf_pool_forget(weft_fiber *f)
{
    lock_pool();
    wf_and(&f->sleeper.bits, ~(uint32_t)(WF_KNOWN | WF_OPENED));
    unlock_pool();
}
