/*
 * What one may ask of a fiber, what is its own (errno), and where it is in its life.
 */
#include <stdlib.h>

#include "unit/sched/ground.h"

static void *asks_for_itself(void *arg)
{
    weft_fiber *me = weft_fiber_current();
    (void)arg;
    CHECK(me != NULL);
    CHECK_INT(weft_fiber_state(me), ==, WEFT_FIBER_RUNNING);
    CHECK_INT(weft_fiber_worker(me), ==, 0);
    weft_yield();
    CHECK_PTR(weft_fiber_current(), ==, me);
    CHECK_INT(weft_sleep(10 * WEFT_US), ==, 0);
    CHECK_PTR(weft_fiber_current(), ==, me);
    return me;
}

static void *asks_who_they_are(void *arg)
{
    weft_fiber *f = go(asks_for_itself, NULL);
    CHECK_PTR(ended(f), ==, f);
    return arg;
}

TEST(current_is_the_calling_fiber)
{
    CHECK_PTR(weft_fiber_current(), ==, NULL);
    CHECK(!weft_cancelled());
    in_a_fiber(1, asks_who_they_are, NULL);
    CHECK_PTR(weft_fiber_current(), ==, NULL);
}

TEST(null_may_be_asked_as_well)
{
    weft_time until = {0};
    int priority = 4711;
    CHECK_INT(weft_fiber_id(weft_fiber_current()), ==, 0); /* on a plain thread */
    CHECK_STR(weft_fiber_name(NULL), "");
    CHECK_INT(weft_fiber_state(NULL), ==, WEFT_FIBER_NONE);
    CHECK_INT(WEFT_FIBER_NONE, ==, -1);
    CHECK_INT(weft_fiber_born(NULL).ns, ==, 0);
    CHECK_STR(weft_fiber_site(NULL), "");
    CHECK_STR(weft_fiber_waits_for(NULL, NULL), "");
    CHECK_STR(weft_fiber_waits_for(NULL, &until), "");
    CHECK_INT(until.ns, ==, WEFT_FOREVER.ns);
    CHECK_INT(weft_fiber_worker(NULL), ==, -1);
    CHECK_PTR(weft_policy_room(NULL), ==, NULL);
    weft_policy_attr(NULL, &priority, NULL, NULL);
    CHECK_INT(priority, ==, 4711);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void *knows_its_id(void *arg)
{
    *(uint64_t *)arg = weft_fiber_id(weft_fiber_current());
    return NULL;
}

TEST(no_two_fibers_have_the_same_id)
{
    enum { MANY = 3000 };
    static uint64_t ids[MANY];
    weft_sched *s[2] = {running_sched(2), running_sched(1)};
    for (int i = 0; i < MANY; i++)
        CHECK_INT(weft_sched_go(s[i % 2], NULL, NULL, knows_its_id, &ids[i]), ==, 0);
    end_sched(s[0]);
    end_sched(s[1]);
    qsort(ids, MANY, sizeof ids[0], by_number);
    CHECK(ids[0] != 0);
    for (int i = 1; i < MANY; i++)
        CHECK(ids[i] != ids[i - 1]);
}

static void *names_fibers(void *arg)
{
    char name[] = "0123456789012345678901234567890123456789";
    weft_fiber *f, *unnamed = go(returns_at_once, NULL);
    CHECK_INT(weft_go_with(&f, &(weft_attr){.name = name}, parks, NULL), ==, 0);
    name[0] = 'x'; /* it was copied */
    CHECK_STR(weft_fiber_name(f), "0123456789012345678901234567890");
    CHECK_STR(weft_fiber_name(unnamed), "");
    weft_unpark(f);
    reuse_records();
    ended(f);
    ended(unnamed);
    f = go(returns_at_once, NULL); /* on a record that had a name */
    CHECK_STR(weft_fiber_name(f), "");
    ended(f);
    return arg;
}

TEST(a_name_is_copied_31_bytes_of_it)
{
    in_a_fiber(1, names_fibers, NULL);
}

#define LINE_TEXT_(line) #line
#define LINE_TEXT(line) LINE_TEXT_(line)

static void *looks_at_sites(void *arg)
{
    weft_fiber *f[3];
    const char *const line = LINE_TEXT(__LINE__);
    CHECK_INT(weft_go_with(&f[0], NULL, returns_at_once, NULL), ==, 0); /* two lines below */
    CHECK_INT(weft_fiber_new(&f[1], NULL, returns_at_once, NULL), ==, 0);
    CHECK_INT(weft_sched_go(weft_sched_current(), &f[2], NULL, returns_at_once, NULL), ==, 0);
    for (int i = 0; i < 3; i++) {
        char expected[300];
        snprintf(expected, sizeof expected, "%s:%d", __FILE__, atoi(line) + 1 + i);
        CHECK_STR(weft_fiber_site(f[i]), expected);
    }
    ended(f[0]);
    CHECK_INT(weft_detach(f[1]), ==, 0);
    ended(f[2]);
    return arg;
}

TEST(the_site_is_file_and_line_of_the_call)
{
    in_a_fiber(1, looks_at_sites, NULL);
}

static void *is_born(void *arg)
{
    const int64_t coarse = 20 * WEFT_MS; /* "to some milliseconds" */
    int64_t before = real_now();
    weft_fiber *f = go(returns_at_once, NULL);
    int64_t born = weft_fiber_born(f).ns;
    CHECK_INT(born, >=, before - coarse);
    CHECK_INT(born, <=, real_now() + coarse);
    ended(f);
    return arg;
}

TEST(born_is_when_it_was_spawned)
{
    in_a_fiber(1, is_born, NULL);
    weft_sched *s = new_sched(1, false);
    weft_fiber *f = go_on(s, returns_at_once, NULL);
    CHECK_INT(weft_fiber_born(f).ns, >=, real_now() - 20 * WEFT_MS);
    CHECK_INT(weft_fiber_born(f).ns, <=, real_now());
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    ended(f);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void *goes_through_all_states(void *arg)
{
    weft_fiber *f;
    weft_time until = {1};
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_NEW);
    CHECK_INT(weft_fiber_worker(f), ==, -1);
    CHECK_STR(weft_fiber_waits_for(f, &until), "");
    CHECK_INT(until.ns, ==, WEFT_FOREVER.ns);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, 0);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_READY);
    weft_yield();
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_PARKED);
    CHECK_INT(weft_fiber_worker(f), ==, 0);
    CHECK_STR(weft_fiber_waits_for(f, NULL), "unpark");
    weft_unpark(f);
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_READY);
    CHECK_STR(weft_fiber_waits_for(f, &until), "");
    weft_yield();
    CHECK_INT(weft_fiber_state(f), ==, WEFT_FIBER_DONE);
    CHECK_STR(weft_fiber_waits_for(f, &until), "");
    ended(f);
    return arg;
}

TEST(each_phase_of_a_life_has_its_state)
{
    in_a_fiber(1, goes_through_all_states, NULL);
}

static void *parks_until(void *arg)
{
    return ptr(weft_park(*(weft_time *)arg));
}

static void *sleeps_until(void *arg)
{
    return ptr(weft_sleep_until(*(weft_time *)arg));
}

static void *joins_for_ever(void *arg)
{
    return ended(arg);
}

static void *looks_what_they_wait_for(void *arg)
{
    weft_time later = weft_in(AWAIT_SECONDS * WEFT_SEC), until = {1};
    weft_fiber *parked = go(parks_until, &later), *asleep = go(sleeps_until, &later),
               *joins = go(joins_for_ever, parked);
    AWAIT(is_parked(parked) && is_parked(asleep) && is_parked(joins));
    CHECK_STR(weft_fiber_waits_for(parked, &until), "unpark");
    CHECK_INT(until.ns, ==, later.ns);
    CHECK_STR(weft_fiber_waits_for(asleep, &until), "sleep");
    CHECK_INT(until.ns, ==, later.ns);
    CHECK_STR(weft_fiber_waits_for(joins, &until), "join");
    CHECK_INT(until.ns, ==, WEFT_FOREVER.ns);
    CHECK_INT(weft_cancel(asleep), ==, 0);
    weft_unpark(parked);
    CHECK_INT((intptr_t)ended(joins), ==, 0);
    CHECK_INT((intptr_t)ended(asleep), ==, -ECANCELED);
    return arg;
}

TEST(waits_for_says_what_and_until_when)
{
    in_a_fiber(1, looks_what_they_wait_for, NULL);
    in_a_fiber(2, looks_what_they_wait_for, NULL);
}

TEST(the_worker_is_where_it_is)
{
    weft_sched *s = new_sched(3, false);
    weft_fiber *anywhere, *bound;
    CHECK_INT(weft_sched_go(s, &anywhere, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_sched_go(s, &bound, &(weft_attr){.worker = WEFT_WORKER(2)}, parks, NULL), ==, 0);
    CHECK_INT(weft_fiber_worker(anywhere), ==, -1);
    CHECK_INT(weft_fiber_worker(bound), ==, 2);
    CHECK_INT(weft_sched_start(s), ==, 0);
    AWAIT(is_parked(anywhere) && is_parked(bound));
    CHECK_INT(weft_fiber_worker(anywhere), >=, 0);
    CHECK_INT(weft_fiber_worker(anywhere), <, 3);
    CHECK_INT(weft_fiber_worker(bound), ==, 2);
    weft_unpark(anywhere);
    weft_unpark(bound);
    ended(anywhere);
    ended(bound);
    end_sched(s);
}

/* The address of errno may be kept in a register by the compiler: a fiber stays on its thread, so that is no harm. */
static void *keeps_errno(void *arg)
{
    int mine = 1 + (int)(intptr_t)arg;
    CHECK_INT(errno, ==, 0);
    for (int i = 0; i < 200; i++) {
        errno = mine + i;
        switch (i % 4) {
        case 0:
            weft_yield();
            break;
        case 1:
            CHECK_INT(weft_sleep(WEFT_US), ==, 0);
            break;
        case 2:
            CHECK_INT(weft_park(weft_in(WEFT_US)), ==, -ETIMEDOUT);
            break;
        default:
            CHECK_PTR(ended(go(returns_at_once, NULL)), ==, NULL);
        }
        CHECK_INT(errno, ==, mine + i);
    }
    return NULL;
}

static void *many_keep_errno(void *arg)
{
    enum { MANY = 8 };
    weft_fiber *f[MANY];
    errno = 4711;
    for (int i = 0; i < MANY; i++)
        f[i] = go(keeps_errno, ptr(1000 * (i + 1)));
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    CHECK_INT(errno, ==, 4711);
    return arg;
}

TEST(each_fiber_has_its_own_errno)
{
    in_a_fiber(1, many_keep_errno, NULL);
    in_a_fiber(4, many_keep_errno, NULL);
}

static void *needs_much_stack(void *arg)
{
    char room[1 << 20];
    memset(room, 1, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
    return ptr(room[4711] + (intptr_t)arg);
}

static void *starts_it_on_a_large_stack(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.stack = 2 << 20}, needs_much_stack, ptr(1)), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(2));
    return arg;
}

TEST(a_stack_is_as_large_as_asked_for)
{
    in_a_fiber(1, starts_it_on_a_large_stack, NULL);
    CHECK_INT(weft_run(needs_much_stack, NULL, NULL, &(weft_sched_opts){.threads = 1, .stack = 2 << 20}), ==, 0);
}

TESTS(sched_fiber, current_is_the_calling_fiber, null_may_be_asked_as_well, no_two_fibers_have_the_same_id,
      a_name_is_copied_31_bytes_of_it, the_site_is_file_and_line_of_the_call, born_is_when_it_was_spawned,
      each_phase_of_a_life_has_its_state, waits_for_says_what_and_until_when, the_worker_is_where_it_is,
      each_fiber_has_its_own_errno, a_stack_is_as_large_as_asked_for)
