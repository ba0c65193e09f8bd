/*
 * sched/policy.c: the orders that come with the library, on the same interface that users have. FIFO is the scheduler's
 * own (pick.c); its table has no functions.
 *
 * Each set is a heap by one key, or a few queues; what a fiber needs for it is in its room.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "sched/sched.h"

#define LEVELS 8
#define AGE_EVERY ((weft_span)(100 * WEFT_MS))

const weft_policy weft_fifo = {.size = sizeof(weft_policy), .name = "fifo"};

/* A fiber in a set. */
struct entry {
    struct entry *next; /* queues */
    int64_t since;      /* when it became ready */
    int64_t key;        /* the least is first */
    uint64_t order;     /* of those with equal keys: when it came */
};
_Static_assert(sizeof(struct entry) <= sizeof(((weft_fiber *)0)->room), "the room is enough");

static struct entry *entry_of(weft_fiber *f)
{
    return weft_policy_room(f);
}

static weft_fiber *fiber_of(struct entry *e)
{
    return WF_FIBER_OF(e, room);
}

struct queue {
    struct entry *first, *last;
};

static void append(struct queue *q, struct entry *e)
{
    e->next = NULL;
    if (q->first)
        q->last->next = e;
    else
        q->first = e;
    q->last = e;
}

static struct entry *take_first(struct queue *q)
{
    struct entry *e = q->first;
    if (e)
        q->first = e->next;
    return e;
}

/* Strict priorities: a queue a level. The first of a queue has waited longest, so looking at it is enough to age. */
struct levels {
    weft_span age_every;
    struct queue level[LEVELS];
};

static void *levels_begin(const void *arg)
{
    struct levels *l = wf_sys_malloc(sizeof *l);
    if (l) {
        *l = (struct levels){.age_every = arg ? *(const weft_span *)arg : AGE_EVERY};
        if (l->age_every <= 0)
            l->age_every = INT64_MAX; /* no ageing */
    }
    return l;
}

static void levels_push(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    struct levels *l = set;
    struct entry *e = entry_of(f);
    int priority;
    (void)why;
    weft_policy_attr(f, &priority, NULL, NULL);
    e->since = now.ns;
    append(&l->level[priority], e);
}

/* Those at the head of their queue for long enough move up one level, and their wait begins anew there. */
static void age(struct levels *l, int64_t now)
{
    for (int i = LEVELS - 2; i >= 0; i--) {
        while (l->level[i].first && now - l->level[i].first->since >= l->age_every) {
            struct entry *e = take_first(&l->level[i]);
            e->since += l->age_every;
            int to = i + 1;
            while (to < LEVELS - 1 && now - e->since >= l->age_every) {
                e->since += l->age_every;
                to++;
            }
            append(&l->level[to], e);
        }
    }
}

static weft_fiber *levels_pop(void *set, weft_time now)
{
    struct levels *l = set;
    age(l, now.ns);
    for (int i = LEVELS - 1; i >= 0; i--) {
        struct entry *e = take_first(&l->level[i]);
        if (e)
            return fiber_of(e);
    }
    return NULL;
}

const weft_policy weft_priority = {.size = sizeof(weft_policy),
                                   .name = "priority",
                                   .begin = levels_begin,
                                   .end = wf_sys_free,
                                   .push = levels_push,
                                   .pop = levels_pop};

/* Round robin: one queue; the scheduler minds the slice. */
static void *one_queue_begin(const void *arg)
{
    (void)arg;
    struct queue *q = wf_sys_malloc(sizeof *q);
    if (q)
        *q = (struct queue){0};
    return q;
}

static void one_queue_push(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    (void)why, (void)now;
    append(set, entry_of(f));
}

static weft_fiber *one_queue_pop(void *set, weft_time now)
{
    (void)now;
    struct entry *e = take_first(set);
    return e ? fiber_of(e) : NULL;
}

const weft_policy weft_rr = {.size = sizeof(weft_policy),
                             .name = "round robin",
                             .slice = 5 * WEFT_MS,
                             .begin = one_queue_begin,
                             .end = wf_sys_free,
                             .push = one_queue_push,
                             .pop = one_queue_pop};

/* By a key: a pairing heap, which needs no memory of its own. `next` is the next sibling, `since` the first child. */
struct heap {
    struct entry *root;
    uint64_t came;
};

static struct entry **child_of(struct entry *e)
{
    return (struct entry **)(void *)&e->since;
}

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static struct entry *meld(struct entry *a, struct entry *b)
{
    if (!a || !b)
        return a ? a : b;
    struct entry *top = is_before(a, b) ? a : b, *low = top == a ? b : a;
    low->next = *child_of(top);
    *child_of(top) = low;
    return top;
}

/* The children of a removed root, in pairs from the first, then together from the last. */
static struct entry *meld_all(struct entry *list)
{
    struct entry *pairs = NULL;
    while (list) {
        struct entry *a = list, *b = a->next;
        list = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        struct entry *m = meld(a, b);
        m->next = pairs;
        pairs = m;
    }
    struct entry *all = NULL;
    while (pairs) {
        struct entry *next = pairs->next;
        pairs->next = NULL;
        all = meld(all, pairs);
        pairs = next;
    }
    return all;
}

static void *heap_begin(const void *arg)
{
    (void)arg;
    struct heap *h = wf_sys_malloc(sizeof *h);
    if (h)
        *h = (struct heap){0};
    return h;
}

static void heap_add(struct heap *h, weft_fiber *f, int64_t key)
{
    struct entry *e = entry_of(f);
    *e = (struct entry){.key = key, .order = h->came++};
    *child_of(e) = NULL;
    h->root = meld(h->root, e);
}

static weft_fiber *heap_pop(void *set, weft_time now)
{
    (void)now;
    struct heap *h = set;
    struct entry *e = h->root;
    if (!e)
        return NULL;
    h->root = meld_all(*child_of(e));
    return fiber_of(e);
}

static void by_cost(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    weft_span cost;
    (void)why, (void)now;
    weft_policy_attr(f, NULL, &cost, NULL);
    heap_add(set, f, cost);
}

const weft_policy weft_sjf = {.size = sizeof(weft_policy),
                              .name = "shortest job first",
                              .begin = heap_begin,
                              .end = wf_sys_free,
                              .push = by_cost,
                              .pop = heap_pop};

static void by_due(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    weft_time due;
    (void)why, (void)now;
    weft_policy_attr(f, NULL, NULL, &due);
    heap_add(set, f, due.ns == 0 ? INT64_MAX : due.ns);
}

const weft_policy weft_edf = {.size = sizeof(weft_policy),
                              .name = "earliest deadline first",
                              .begin = heap_begin,
                              .end = wf_sys_free,
                              .push = by_due,
                              .pop = heap_pop};

/* Highest response ratio: ratios change as time passes, each at its own pace, so every pop looks at all. */
static void hrrn_push(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    struct entry *e = entry_of(f);
    weft_span cost;
    (void)why;
    weft_policy_attr(f, NULL, &cost, NULL);
    e->since = now.ns;
    e->key = cost;
    append(set, e);
}

static weft_fiber *hrrn_pop(void *set, weft_time now)
{
    struct queue *q = set;
    struct entry *best = NULL, *before_best = NULL, *before = NULL;
    double best_ratio = 0;
    for (struct entry *e = q->first; e; before = e, e = e->next) {
        double ratio = (double)(now.ns - e->since + e->key) / (double)e->key;
        if (!best || ratio > best_ratio) {
            best = e;
            best_ratio = ratio;
            before_best = before;
        }
    }
    if (!best)
        return NULL;
    if (before_best)
        before_best->next = best->next;
    else
        q->first = best->next;
    if (q->last == best)
        q->last = before_best;
    return fiber_of(best);
}

const weft_policy weft_hrrn = {.size = sizeof(weft_policy),
                               .name = "highest response ratio next",
                               .begin = one_queue_begin,
                               .end = wf_sys_free,
                               .push = hrrn_push,
                               .pop = hrrn_pop};
