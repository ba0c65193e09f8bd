/*
 * combine/places.c: executors for the scene of tasks; see places.h. A function that an executor has taken runs once,
 * unless somebody closes the executor without drain; then it runs once or never. A looper ends by its at_exit.
 */
#include "stress/combine/places.h"

static void at_exit(void *arg)
{
    struct place *at = arg;
    EXPECT_INT(at->scene, more(&at->exits), ==, 1);
}

void make_place(struct scene *s, struct place *at, bool frees_itself)
{
    int rc = 0;
    *at = (struct place){.scene = s, .where = (int)pick(&s->random, PLACES), .home = s->home};
    if (at->where == SCHED || at->where == WORKER)
        at->home = some_home(s, &s->random);
    at->worker = pick(&s->random, at->home->workers);
    at->frees_itself = frees_itself && at->where != NOWHERE;
    switch (at->where) {
    case NOOP:
        rc = weft_executor_noop(&at->x);
        break;
    case THREAD:
        rc = weft_executor_thread(&at->x);
        break;
    case ASYNC:
        rc = weft_executor_async(&at->x, 1 + pick(&s->random, 3));
        break;
    case LOOPER:
        rc = weft_executor_looper(&at->x, "combine", at_exit, at);
        break;
    case SCHED:
        rc = weft_executor_sched(&at->x, at->home->sched, 0);
        break;
    case WORKER:
        rc = weft_executor_sched(&at->x, at->home->sched, WEFT_WORKER(at->worker));
        break;
    default:
        break;
    }
    EXPECT_INT(s, rc, ==, 0);
}

weft_attr attr_of_place(const struct place *at, uint64_t *random)
{
    weft_attr attr = {.size = sizeof attr};
    if (at->where == SCHED || at->where == NOWHERE)
        return some_attr(at->home, random);
    if (chance(random, 2))
        attr.stack = (size_t)64 << 10;
    if (chance(random, 4))
        attr.flags = WEFT_FPENV;
    return attr;
}

void check_place(struct place *at)
{
    int here = thread_id(), known = 0;
    bool is_there = false;
    switch (at->where) {
    case LOOPER:
        if (!__atomic_compare_exchange_n(&at->thread, &known, here, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            EXPECT_INT(at->scene, here, ==, known);
        break;
    case WORKER:
        EXPECT_INT(at->scene, here, ==, at->home->threads[at->worker]);
        break;
    case SCHED:
    case NOWHERE:
        for (unsigned i = 0; i < at->home->workers; i++)
            is_there |= at->home->threads[i] == here;
        EXPECT(at->scene, is_there);
        break;
    default:
        break;
    }
}

void close_place(struct place *at, bool drain)
{
    if (!at->x)
        return;
    put(&at->closed, 1);
    if (!drain)
        put(&at->dropped, 1);
    int rc = weft_executor_close(at->x, drain);
    EXPECT(at->scene, rc == 0 || rc == -EALREADY);
    did(at->scene);
}

static void called(void *arg)
{
    more(&((struct place *)arg)->ran);
}

void call_place(struct place *at)
{
    if (!at->x)
        return;
    int rc = weft_executor_execute(at->x, called, at);
    EXPECT(at->scene, rc == 0 || (rc == -ESHUTDOWN && seen(&at->closed)));
    if (rc == 0)
        more(&at->accepted);
    did(at->scene);
}

static void frees(void *arg)
{
    struct place *at = arg;
    EXPECT_INT(at->scene, weft_executor_join(at->x, WEFT_FOREVER), ==, -EDEADLK);
    EXPECT_INT(at->scene, weft_executor_free(at->x), ==, 0);
    put(&at->freed, 1);
}

/* Whether the caller is the first to free it. */
static bool claim(struct place *at)
{
    return __atomic_exchange_n(&at->claimed, 1, __ATOMIC_ACQ_REL) == 0;
}

void free_place_in_task(struct place *at)
{
    if (claim(at))
        frees(at);
}

void free_place_in_call(struct place *at)
{
    if (claim(at))
        EXPECT_INT(at->scene, weft_executor_execute(at->x, frees, at), ==, 0);
}

void await_place(struct place *at)
{
    if (at->where == LOOPER)
        AWAIT(seen(&at->exits) == 1);
}

void end_place(struct place *at)
{
    struct scene *s = at->scene;
    if (!at->x)
        return;
    if (at->frees_itself) {
        free_place_in_call(at);
        AWAIT(seen(&at->freed));
        await_place(at);
        return;
    }
    int rc = -ECANCELED;
    if (chance(&s->random, 2)) {
        close_place(at, true);
        rc = weft_executor_join(at->x, WEFT_FOREVER);
        EXPECT(s, rc == 0 || (rc == -ECANCELED && weft_cancelled())); /* the caller may be in a cancelled scope */
    }
    if (rc != 0)
        put(&at->dropped, 1); /* by the free */
    EXPECT_INT(s, weft_executor_free(at->x), ==, 0);
    EXPECT_INT(s, seen(&at->ran), <=, seen(&at->accepted));
    if (!seen(&at->dropped))
        EXPECT_INT(s, seen(&at->ran), ==, seen(&at->accepted));
    EXPECT_INT(s, seen(&at->exits), ==, at->where == LOOPER);
    did(s);
}
