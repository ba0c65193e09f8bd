/*
 * combine/help.c: helpers of the scenes: random choices, waiting, fibers. Any thread or fiber may call them.
 */
#include "stress/combine/combine.h"

#include <time.h>

uint64_t new_random(uint64_t *random)
{
    uint64_t mine = test_random(random) | 1;
    for (int i = 0; i < 4; i++) /* neighbours are alike at first */
        test_random(&mine);
    return mine;
}

unsigned pick(uint64_t *random, unsigned n)
{
    return (unsigned)(test_random(random) >> 33) % n;
}

void breathe(void)
{
    if (weft_fiber_current()) {
        bool was = weft_hook_deaf(true); /* also if it was cancelled: else it would keep others from running */
        weft_sleep(20 * WEFT_US);
        weft_hook_deaf(was);
    } else {
        struct timespec pause = {.tv_nsec = 20000};
        nanosleep(&pause, NULL);
    }
}

weft_time some_deadline(uint64_t *random)
{
    switch (pick(random, 6)) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_in(-(weft_span)pick(random, 1000) - 1);
    case 2:
    case 3:
        return weft_in((weft_span)pick(random, chance(random, 4) ? 8000 : 800) * WEFT_US);
    default:
        return WEFT_FOREVER;
    }
}

bool gave_up_rightly(const struct scene *s, ptrdiff_t rc, weft_time deadline)
{
    switch (rc) {
    case -EAGAIN:
        EXPECT(s, deadline.ns == WEFT_NOW.ns);
        return true;
    case -ETIMEDOUT:
        EXPECT(s, deadline.ns != WEFT_FOREVER.ns && deadline.ns != WEFT_NOW.ns && weft_now().ns >= deadline.ns);
        return true;
    case -ECANCELED:
        EXPECT(s, weft_cancelled());
        return true;
    default:
        return false;
    }
}

void nap(const struct scene *s, uint64_t *random, unsigned us)
{
    weft_span d = (weft_span)pick(random, us) * WEFT_US;
    weft_time until = weft_in(d);
    int rc = chance(random, 2) ? weft_sleep(d) : weft_sleep_until(until);
    if (rc == 0)
        EXPECT_INT(s, weft_now().ns, >=, until.ns);
    else
        EXPECT(s, rc == -ECANCELED && weft_cancelled());
}

struct home *some_home(struct scene *s, uint64_t *random)
{
    return chance(random, 2) ? s->home : &s->world->homes[pick(random, s->world->scheds)];
}

weft_attr some_attr(const struct home *h, uint64_t *random)
{
    weft_attr attr = {.size = sizeof attr, .name = "part", .priority = (int)pick(random, 8)};
    attr.cost = (weft_span)pick(random, 3) * WEFT_MS;
    if (chance(random, 3))
        attr.due = weft_in((weft_span)pick(random, 10) * WEFT_MS);
    unsigned worker = pick(random, h->workers);
    switch (pick(random, 5)) {
    case 0:
        attr.worker = WEFT_WORKER(worker);
        break;
    case 1:
        attr.flags = WEFT_MIGRATE;
        break;
    case 2:
        attr.shared = h->pools[worker];
        attr.worker = WEFT_WORKER(worker);
        break;
    case 3:
        attr.stack = (size_t)64 << 10;
        break;
    default:
        break;
    }
    if (chance(random, 8))
        attr.flags |= WEFT_FPENV;
    return attr;
}

void start(struct scene *s, weft_fiber **out, uint64_t *random, weft_fn *fn, void *arg)
{
    struct home *h = some_home(s, random);
    weft_attr attr = some_attr(h, random);
    int rc = weft_sched_go(h->sched, out, chance(random, 4) ? NULL : &attr, fn, arg);
    if (rc != 0) {
        WRONG(s, "weft_sched_go: %d", rc);
        abort();
    }
}

void *ended(struct scene *s, weft_fiber *f)
{
    void *value = NULL;
    EXPECT_INT(s, weft_join(f, &value, WEFT_FOREVER), ==, 0);
    did(s);
    return value;
}

pthread_t new_thread(struct scene *s, void *(*fn)(void *), void *arg)
{
    pthread_t t;
    int rc = pthread_create(&t, NULL, fn, arg);
    if (rc != 0) {
        WRONG(s, "pthread_create: %d", rc);
        abort();
    }
    return t;
}

void join_thread(pthread_t t, const int *over)
{
    AWAIT(seen(over));
    pthread_join(t, NULL);
}
