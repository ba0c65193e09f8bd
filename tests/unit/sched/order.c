/*
 * weft_fifo: what comes first starts first; weft/sched.h says exactly when that holds.
 *
 * Every start has a number, given in the order of arrival. The fiber writes its number down when it starts.
 */
#include <sched.h>

#include "unit/sched/ground.h"

enum { MOST = 2000 };

struct list {
    int started;
    int number[MOST]; /* of the fiber that started first, second... */
};

struct start {
    struct list *list;
    int number;
};

static struct start starts[MOST];

static void *starts_now(void *arg)
{
    const struct start *s = arg;
    __atomic_store_n(&s->list->number[more(&s->list->started) - 1], s->number, __ATOMIC_RELEASE);
    return NULL;
}

static struct start *numbered(struct list *list, int number)
{
    starts[number] = (struct start){list, number};
    return &starts[number];
}

/* Every number from 0 to count - 1, in this order. Tells the first that is out of place. */
static void check_order(const struct list *list, int count)
{
    CHECK_INT(list->started, ==, count);
    for (int i = 0; i < count; i++) {
        if (list->number[i] != i) {
            test_failed(__FILE__, __LINE__, "at place %d of %d started number %d", i, count, list->number[i]);
            return;
        }
    }
}

/* The ways by which work comes to worker 0 of a scheduler. */
enum door { GO, GO_BOUND, SUBMIT, SUBMIT_NAMED, DOORS };

static void bring(weft_sched *s, enum door door, struct start *arg)
{
    weft_fiber *f = NULL;
    switch (door) {
    case GO:
        CHECK_INT(weft_sched_go(s, NULL, NULL, starts_now, arg), ==, 0);
        return;
    case GO_BOUND:
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, starts_now, arg), ==, 0);
        return;
    default:
        CHECK_INT(weft_fiber_new(&f, NULL, starts_now, arg), ==, 0);
        CHECK_INT(weft_sched_submit(s, f, door == SUBMIT ? 0 : WEFT_WORKER(0)), ==, 0);
        CHECK_INT(weft_detach(f), ==, 0);
        return;
    }
}

static void begin_all_at_once(unsigned doors)
{
    enum { MANY = 1000 };
    struct list list = {0};
    weft_sched *s = new_sched(1, false);
    for (int i = 0; i < MANY; i++)
        bring(s, (unsigned)i % doors, numbered(&list, i));
    CHECK_INT(weft_sched_start(s), ==, 0);
    end_sched(s);
    check_order(&list, MANY);
}

TEST(one_worker_starts_in_order_what_came_before_its_start)
{
    for (unsigned doors = 1; doors <= DOORS; doors++)
        begin_all_at_once(doors);
}

struct busy {
    int begun, over;
};

static void *is_busy(void *arg)
{
    struct busy *b = arg;
    put(&b->begun, 1);
    return spins(&b->over);
}

TEST(one_worker_starts_in_order_what_came_while_it_was_busy)
{
    enum { MANY = 300 };
    for (unsigned doors = 1; doors <= DOORS; doors++) {
        struct list list = {0};
        struct busy busy = {0};
        weft_sched *s = running_sched(1);
        CHECK_INT(weft_sched_go(s, NULL, NULL, is_busy, &busy), ==, 0);
        AWAIT(seen(&busy.begun));
        for (int i = 0; i < MANY; i++)
            bring(s, (unsigned)i % doors, numbered(&list, i));
        put(&busy.over, 1);
        end_sched(s);
        check_order(&list, MANY);
    }
}

TEST(one_worker_starts_in_order_what_comes_while_it_starts_others)
{
    enum { MANY = MOST };
    struct list list = {0};
    weft_sched *s = running_sched(1);
    for (int i = 0; i < MANY; i++)
        bring(s, (unsigned)(i / 7) % DOORS, numbered(&list, i));
    end_sched(s);
    check_order(&list, MANY);
}

/* A fiber and a thread bring work by turns: each waits until the other has brought its own. */
struct turns {
    weft_sched *sched;
    struct list list;
    int count;
    int brought;
    bool only_bound; /* the thread names worker 0 */
    bool yields;
    int late; /* how often the fiber went on before what had been brought */
};

static bool is_the_threads(int number)
{
    return number % 3 != 0;
}

static void await_number(const struct turns *t, int number)
{
    while (seen(&t->brought) < number)
        sched_yield();
}

static void *thread_brings(void *arg)
{
    struct turns *t = arg;
    for (int i = 0; i < t->count; i++) {
        if (!is_the_threads(i))
            continue;
        await_number(t, i);
        bring(t->sched, t->only_bound ? GO_BOUND : (unsigned)i % DOORS, numbered(&t->list, i));
        put(&t->brought, i + 1);
    }
    return NULL;
}

static void *fiber_brings(void *arg)
{
    struct turns *t = arg;
    for (int i = 0; i < t->count; i++) {
        await_number(t, i); /* without a yield: what has come waits */
        if (is_the_threads(i))
            continue;
        if (t->yields && i % 100 == 99)
            weft_yield();
        if (i % 2)
            CHECK_INT(weft_go(starts_now, numbered(&t->list, i)), ==, 0);
        else
            bring(t->sched, (unsigned)i / 2 % DOORS, numbered(&t->list, i));
        put(&t->brought, i + 1);
    }
    await_number(t, t->count);
    return NULL;
}

static void bring_by_turns(struct turns *t)
{
    pthread_t thread = new_thread(thread_brings, t);
    CHECK_INT(weft_sched_go(t->sched, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, fiber_brings, t), ==, 0);
    pthread_join(thread, NULL);
}

TEST(one_worker_has_one_order_of_what_fibers_and_threads_bring)
{
    for (int yields = 0; yields < 2; yields++) {
        struct turns t = {.sched = running_sched(1), .count = 900, .yields = yields};
        bring_by_turns(&t);
        end_sched(t.sched);
        check_order(&t.list, t.count);
    }
}

/* What wakes may go before what starts; the starts keep their order among each other. */
struct bustle {
    struct list list;
    int next;
    weft_fiber *parked[8];
    int over;
};

static void *parks_again_and_again(void *arg)
{
    struct bustle *b = arg;
    while (!b->over)
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    return NULL;
}

static void *yields_often(void *arg)
{
    struct bustle *b = arg;
    while (!b->over)
        weft_yield();
    return NULL;
}

static struct bustle bustle;

static void *starts_and_spawns(void *arg)
{
    struct bustle *b = &bustle;
    starts_now(arg);
    int children = b->next < MOST ? 1 + b->next % 2 : 0;
    for (int i = 0; i < children && b->next < MOST; i++) {
        int number = b->next++;
        CHECK_INT(weft_go(starts_and_spawns, numbered(&b->list, number)), ==, 0);
        weft_unpark(b->parked[number % 8]);
        if (number % 5 == 0)
            weft_sleep(number % 3 ? 0 : 10 * WEFT_US);
    }
    return NULL;
}

static void *is_lively(void *arg)
{
    struct bustle *b = &bustle;
    weft_fiber *yields[4];
    for (int i = 0; i < 8; i++)
        b->parked[i] = go(parks_again_and_again, b);
    for (int i = 0; i < 4; i++)
        yields[i] = go(yields_often, b);
    weft_yield();
    b->next = 1;
    CHECK_INT(weft_go(starts_and_spawns, numbered(&b->list, 0)), ==, 0);
    AWAIT(seen(&b->list.started) == MOST);
    b->over = 1;
    for (int i = 0; i < 4; i++)
        ended(yields[i]);
    for (int i = 0; i < 8; i++) {
        weft_unpark(b->parked[i]);
        ended(b->parked[i]);
    }
    return arg;
}

TEST(wakes_yields_and_sleeps_do_not_disturb_the_order_of_starts)
{
    in_a_fiber(1, is_lively, NULL);
    check_order(&bustle.list, MOST);
}

/* A yield lets all go first that is ready, also what a thread has just brought. */
static void *yields_once(void *arg)
{
    struct turns *t = arg;
    for (int i = 0; i < t->count; i++) {
        put(&t->brought, i + 1);
        while (seen(&t->brought) != -i - 1)
            sched_yield();
        weft_yield();
        t->late += seen(&t->list.started) != i + 1;
    }
    return NULL;
}

TEST(a_yield_lets_go_first_what_a_thread_has_brought)
{
    struct turns t = {.sched = running_sched(1), .count = 200};
    weft_fiber *f = go_on(t.sched, yields_once, &t);
    for (int i = 0; i < t.count; i++) {
        while (seen(&t.brought) != i + 1)
            sched_yield();
        bring(t.sched, (unsigned)i % DOORS, numbered(&t.list, i));
        put(&t.brought, -i - 1);
    }
    ended(f);
    CHECK_INT(t.late, ==, 0);
    end_sched(t.sched);
    check_order(&t.list, t.count);
}

/* More workers: nobody steals from worker 0, as all others are busy. More come than the ring holds. */
TEST(a_worker_starts_what_has_come_to_it_in_that_order)
{
    for (unsigned workers = 2; workers <= 4; workers += 2) {
        struct busy busy[3] = {{0}};
        struct turns t = {.sched = running_sched(workers), .count = 1200, .only_bound = true};
        for (unsigned i = 1; i < workers; i++) {
            CHECK_INT(weft_sched_go(t.sched, NULL, &(weft_attr){.worker = WEFT_WORKER(i)}, is_busy, &busy[i - 1]), ==,
                      0);
            AWAIT(seen(&busy[i - 1].begun));
        }
        bring_by_turns(&t);
        AWAIT(seen(&t.list.started) == t.count);
        for (unsigned i = 1; i < workers; i++)
            put(&busy[i - 1].over, 1);
        end_sched(t.sched);
        check_order(&t.list, t.count);
    }
}

struct family {
    struct list list;
    int children;
};

static void *computes_until_they_have_started(void *arg)
{
    struct family *f = arg;
    for (int i = 0; i < f->children; i++)
        CHECK_INT(weft_go(starts_now, numbered(&f->list, i)), ==, 0);
    int64_t limit = real_now() + AWAIT_SECONDS * WEFT_SEC;
    while (seen(&f->list.started) < f->children && real_now() < limit)
        sched_yield();
    return NULL;
}

/* The only thief. */
TEST(a_thief_starts_what_it_takes_in_that_order)
{
    for (int round = 0; round < 50; round++) {
        struct family f = {.children = 200};
        in_a_fiber(2, computes_until_they_have_started, &f);
        check_order(&f.list, f.children);
    }
}

/* Workers that are never without work: what a thread brings is not overtaken by more than weft/sched.h says. */
enum { CROWD = 8, WORKERS = 4, LOOK_EVERY = 128 };

struct crowd {
    int turns[WORKERS]; /* each written by one worker */
    int over;
    int before[WORKERS]; /* turns when the guest had come */
    int passed;          /* turns of others on its worker before it started; -1: it has not started */
    int counted;         /* `before` is there */
};

static void *takes_turns(void *arg)
{
    struct crowd *c = arg;
    while (!seen(&c->over)) {
        more(&c->turns[weft_fiber_worker(weft_fiber_current())]);
        weft_yield();
    }
    return NULL;
}

static void *is_a_guest(void *arg)
{
    struct crowd *c = arg;
    int here = weft_fiber_worker(weft_fiber_current()), turns = seen(&c->turns[here]);
    while (!seen(&c->counted))
        sched_yield();
    put(&c->passed, turns - c->before[here]);
    return NULL;
}

static void come_as_a_guest(weft_sched *s, struct crowd *c, unsigned workers)
{
    put(&c->passed, INT32_MIN);
    put(&c->counted, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, is_a_guest, c), ==, 0);
    for (unsigned i = 0; i < workers; i++)
        c->before[i] = seen(&c->turns[i]);
    put(&c->counted, 1);
    AWAIT(seen(&c->passed) != INT32_MIN);
    CHECK_INT(seen(&c->passed), <=, LOOK_EVERY + CROWD);
}

TEST(a_busy_worker_looks_in_time_at_what_threads_have_brought)
{
    for (unsigned workers = 1; workers <= WORKERS; workers *= 2) {
        struct crowd c = {0};
        weft_sched *s = running_sched(workers);
        for (unsigned i = 0; i < workers * CROWD; i++)
            CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(i % workers)}, takes_turns, &c), ==, 0);
        for (unsigned i = 0; i < workers; i++)
            AWAIT(seen(&c.turns[i]) > CROWD);
        for (int round = 0; round < 200; round++)
            come_as_a_guest(s, &c, workers);
        put(&c.over, 1);
        end_sched(s);
    }
}

TESTS(sched_order, one_worker_starts_in_order_what_came_before_its_start,
      one_worker_starts_in_order_what_came_while_it_was_busy,
      one_worker_starts_in_order_what_comes_while_it_starts_others,
      one_worker_has_one_order_of_what_fibers_and_threads_bring,
      wakes_yields_and_sleeps_do_not_disturb_the_order_of_starts, a_yield_lets_go_first_what_a_thread_has_brought,
      a_worker_starts_what_has_come_to_it_in_that_order, a_thief_starts_what_it_takes_in_that_order,
      a_busy_worker_looks_in_time_at_what_threads_have_brought)
