/*
 * The timer wheel: never early to the ns, found by the first look at or after its time, in order, and no look in vain.
 * The last test takes random steps against a sorted list.
 */
#include <string.h>

#include "base/sanitizer.h"
#include "support/test.h"
#include "time/wheel.h"

#define SECOND INT64_C(1000000000)
#define YEAR (365 * 86400 * SECOND)
#define TICK (INT64_C(1) << WF_WHEEL_TICK_BITS)

static struct wf_wheel wheel;

/* How wide a slot of a level is, in ns. */
static int64_t width(int level)
{
    return TICK << level * WF_WHEEL_DIGIT_BITS;
}

/* Looks at `now` and finds exactly these, in this order; NULL ends them. */
static void check_look(int line, int64_t now, struct wf_timer *const *expected)
{
    struct wf_timer *t = wf_wheel_expire(&wheel, now);
    for (int i = 0; t || expected[i]; i++) {
        if (t != expected[i]) {
            test_failed(__FILE__, line, "entry %d of the batch is %p, not %p", i, (void *)t, (void *)expected[i]);
            return;
        }
        if (wf_timer_armed(t))
            test_failed(__FILE__, line, "entry %d of the batch is still armed", i);
        t = t->next;
    }
}

#define CHECK_LOOK(now, ...) check_look(__LINE__, now, (struct wf_timer *const[]){__VA_ARGS__, NULL})
#define CHECK_NOTHING(now) check_look(__LINE__, now, (struct wf_timer *const[]){NULL})

TEST(an_empty_wheel_has_nothing_to_give_and_nothing_to_wait_for)
{
    wf_wheel_init(&wheel, 5 * SECOND);
    CHECK_INT(wf_wheel_count(&wheel), ==, 0);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
    CHECK_NOTHING(0);
    CHECK_NOTHING(6 * SECOND);
    CHECK_NOTHING(INT64_MAX);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
}

TEST(only_an_armed_timer_can_be_deleted_and_once)
{
    struct wf_timer t = {0};
    wf_wheel_init(&wheel, 0);
    CHECK(!wf_timer_armed(&t));
    CHECK(!wf_wheel_del(&wheel, &t));
    wf_wheel_add(&wheel, &t, SECOND);
    CHECK(wf_timer_armed(&t));
    CHECK_INT(wf_wheel_count(&wheel), ==, 1);
    CHECK(wf_wheel_del(&wheel, &t));
    CHECK(!wf_timer_armed(&t));
    CHECK(!wf_wheel_del(&wheel, &t));
    CHECK_INT(wf_wheel_count(&wheel), ==, 0);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
    wf_wheel_add(&wheel, &t, SECOND);
    CHECK_LOOK(SECOND, &t);
    CHECK(!wf_wheel_del(&wheel, &t));
    CHECK_INT(wf_wheel_count(&wheel), ==, 0);
}

TEST(an_entry_is_due_at_its_time_to_the_ns)
{
    static const int64_t starts[] = {0, 1, TICK - 1, 5 * SECOND + 123, (INT64_C(1) << 34) - 1, INT64_C(1) << 40};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (int bits = 0; bits < 62; bits++) {
            for (int off = -1; off <= 1; off++) {
                struct wf_timer t = {0};
                int64_t when = starts[i] + (INT64_C(1) << bits) + off;
                wf_wheel_init(&wheel, starts[i]);
                wf_wheel_add(&wheel, &t, when);
                CHECK_INT(wf_wheel_next(&wheel), ==, when);
                CHECK_NOTHING(when - 1);
                CHECK_INT(wf_wheel_next(&wheel), ==, when);
                CHECK_LOOK(when, &t);
                CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
            }
        }
    }
}

TEST(the_boundary_of_every_level_parts_what_is_due_from_what_is_not)
{
    for (int level = 0; level < WF_WHEEL_LEVELS; level++) {
        for (int digit = 1; digit <= 3; digit++) {
            struct wf_timer before = {0}, at = {0}, after = {0};
            int64_t boundary = digit * width(level);
            for (int start = 0; start < 3; start++) {
                wf_wheel_init(&wheel, start == 0 ? 0 : start == 1 ? boundary - TICK : boundary - 1);
                wf_wheel_add(&wheel, &after, boundary + 1);
                wf_wheel_add(&wheel, &at, boundary);
                wf_wheel_add(&wheel, &before, boundary - 1);
                CHECK_NOTHING(boundary - 2);
                CHECK_INT(wf_wheel_next(&wheel), ==, boundary - 1);
                CHECK_LOOK(boundary - 1, &before);
                CHECK_INT(wf_wheel_next(&wheel), ==, boundary);
                CHECK_LOOK(boundary, &at);
                CHECK_INT(wf_wheel_next(&wheel), ==, boundary + 1);
                CHECK_LOOK(boundary + 1, &after);
            }
        }
    }
}

TEST(a_batch_is_in_the_order_of_ticks_whatever_the_levels)
{
    struct wf_timer t[WF_WHEEL_LEVELS] = {{0}}, late = {0};
    wf_wheel_init(&wheel, 0);
    for (int level = WF_WHEEL_LEVELS - 1; level >= 0; level--)
        wf_wheel_add(&wheel, &t[level], width(level) + 7);
    CHECK_NOTHING(6);
    wf_wheel_add(&wheel, &late, -1);
    CHECK_INT(wf_wheel_next(&wheel), ==, -1);
    CHECK_LOOK(width(5) + 7, &late, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5]);
    CHECK_LOOK(INT64_MAX, &t[6], &t[7]);
}

/* Each of these is added when the one before has already come down some levels. */
TEST(equal_times_come_in_the_order_of_adding)
{
    enum { N = 36 }; /* the last look is 2 ns before it */
    struct wf_timer t[2 * N] = {{0}}, *expected[2 * N + 1] = {NULL};
    int64_t when = 77 * SECOND + 77;
    wf_wheel_init(&wheel, SECOND);
    for (int i = 0; i < N; i++) {
        wf_wheel_add(&wheel, &t[2 * i], when);
        CHECK_NOTHING(when - (when - SECOND) / (INT64_C(1) << i));
        wf_wheel_add(&wheel, &t[2 * i + 1], when);
        expected[2 * i] = &t[2 * i];
        expected[2 * i + 1] = &t[2 * i + 1];
    }
    CHECK_NOTHING(when - 1);
    check_look(__LINE__, when, expected);
}

TEST(the_first_the_last_and_a_middle_one_are_deleted_at_every_level)
{
    for (int level = 0; level < WF_WHEEL_LEVELS; level++) {
        struct wf_timer t[5] = {{0}};
        int64_t when = 2 * width(level);
        wf_wheel_init(&wheel, 0);
        for (int i = 0; i < 5; i++)
            wf_wheel_add(&wheel, &t[i], when + i);
        CHECK(wf_wheel_del(&wheel, &t[0]));
        CHECK(wf_wheel_del(&wheel, &t[2]));
        CHECK(wf_wheel_del(&wheel, &t[4]));
        CHECK_INT(wf_wheel_count(&wheel), ==, 2);
        CHECK_INT(wf_wheel_next(&wheel), <=, when + 1);
        CHECK_NOTHING(when);
        CHECK_INT(wf_wheel_next(&wheel), ==, when + 1);
        CHECK_LOOK(when + 4, &t[1], &t[3]);
        for (int i = 0; i < 5; i++)
            wf_wheel_add(&wheel, &t[i], when + 3 * width(level));
        for (int i = 0; i < 5; i++)
            CHECK(wf_wheel_del(&wheel, &t[i]));
        CHECK_INT(wf_wheel_count(&wheel), ==, 0);
        CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
        CHECK_NOTHING(INT64_MAX);
    }
}

/* An idle owner: sleeps until wf_wheel_next() says, looks, and so on; the number of looks until one finds something. */
static int looks_until_found(int64_t *found_at)
{
    for (int looks = 1;; looks++) {
        *found_at = wf_wheel_next(&wheel);
        if (wf_wheel_expire(&wheel, *found_at) || looks > 100)
            return looks;
    }
}

TEST(an_idle_owner_looks_once_for_a_sleeper_of_any_length)
{
    for (int64_t span = 1; span < INT64_MAX / 8; span *= 7) {
        struct wf_timer t = {0};
        int64_t at, start = 3 * SECOND + 333;
        wf_wheel_init(&wheel, start);
        wf_wheel_add(&wheel, &t, start + span);
        CHECK_INT(looks_until_found(&at), ==, 1);
        CHECK_INT(at, ==, start + span);
    }
}

/* A sleeper in level 2, and earlier ones at the beginning of each slot that it will be in. */
static void add_with_neighbours(struct wf_timer *sleeper, int64_t when, struct wf_timer neighbours[3])
{
    wf_wheel_init(&wheel, 0);
    wf_wheel_add(&wheel, sleeper, when);
    for (int level = 0; level < 3; level++)
        wf_wheel_add(&wheel, &neighbours[level], when / width(level) * width(level));
}

TEST(neighbours_deleted_at_once_cost_one_look_in_vain)
{
    struct wf_timer sleeper = {0}, neighbours[3] = {{0}};
    int64_t at, when = 10 * SECOND + 12345;
    add_with_neighbours(&sleeper, when, neighbours);
    for (int level = 0; level < 3; level++)
        CHECK(wf_wheel_del(&wheel, &neighbours[level]));
    CHECK_INT(looks_until_found(&at), ==, 2);
    CHECK_INT(at, ==, when);
}

TEST(neighbours_deleted_one_by_one_cost_one_look_in_vain_a_level)
{
    struct wf_timer sleeper = {0}, neighbours[3] = {{0}};
    int64_t at, when = 10 * SECOND + 12345;
    add_with_neighbours(&sleeper, when, neighbours);
    for (int level = 2; level >= 0; level--) {
        CHECK(wf_wheel_del(&wheel, &neighbours[level]));
        CHECK_NOTHING(wf_wheel_next(&wheel));
    }
    CHECK_INT(looks_until_found(&at), ==, 1);
    CHECK_INT(at, ==, when);
}

TEST(the_farthest_times_are_kept_and_years_are_crossed_at_once)
{
    struct wf_timer never = {0}, last = {0}, years = {0}, now = {0};
    wf_wheel_init(&wheel, 5 * SECOND);
    wf_wheel_add(&wheel, &never, INT64_MAX);
    wf_wheel_add(&wheel, &last, INT64_MAX - 1);
    wf_wheel_add(&wheel, &years, 200 * YEAR);
    wf_wheel_add(&wheel, &now, INT64_MIN);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MIN);
    CHECK_LOOK(5 * SECOND, &now);
    CHECK_INT(wf_wheel_next(&wheel), ==, 200 * YEAR);
    CHECK_LOOK(201 * YEAR, &years);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX - 1);
    CHECK_NOTHING(INT64_MAX - 2);
    CHECK_LOOK(INT64_MAX - 1, &last);
    CHECK_INT(wf_wheel_next(&wheel), ==, INT64_MAX);
    CHECK_INT(wf_wheel_count(&wheel), ==, 1);
    CHECK_LOOK(INT64_MAX, &never);
}

TEST(a_clock_that_goes_back_is_no_progress)
{
    struct wf_timer a = {0}, b = {0}, c = {0};
    wf_wheel_init(&wheel, 0);
    wf_wheel_add(&wheel, &c, 20 * SECOND);
    CHECK_NOTHING(10 * SECOND);
    CHECK_NOTHING(5 * SECOND);
    wf_wheel_add(&wheel, &a, 6 * SECOND);
    wf_wheel_add(&wheel, &b, 12 * SECOND);
    CHECK_NOTHING(6 * SECOND - 1);
    CHECK_INT(wf_wheel_next(&wheel), ==, 6 * SECOND);
    CHECK_LOOK(6 * SECOND, &a);
    CHECK_NOTHING(INT64_MIN);
    CHECK_LOOK(12 * SECOND, &b);
    CHECK_NOTHING(0);
    CHECK_INT(wf_wheel_next(&wheel), ==, 20 * SECOND);
    CHECK_LOOK(20 * SECOND, &c);
}

TEST(an_entry_of_a_batch_can_be_added_again_at_once)
{
    struct wf_timer t[3] = {{0}}, *next;
    wf_wheel_init(&wheel, 0);
    for (int i = 0; i < 3; i++)
        wf_wheel_add(&wheel, &t[i], SECOND + i);
    for (struct wf_timer *p = wf_wheel_expire(&wheel, 2 * SECOND); p; p = next) {
        next = p->next;
        wf_wheel_add(&wheel, p, p->when + SECOND);
    }
    CHECK_INT(wf_wheel_count(&wheel), ==, 3);
    CHECK_LOOK(2 * SECOND + 1, &t[0], &t[1]);
    CHECK_LOOK(2 * SECOND + 2, &t[2]);
}

/* The model: what is in the wheel, by time and then by age. */
enum { STEPS = WF_VALGRIND ? 50000 : 1000000, ROUND = 10000, ENTRIES = 500 };

struct entry {
    struct wf_timer timer;
    int64_t tick; /* that of its time, or of the last look before it was added if that is later */
    long age;     /* the step at which it was added */
};

static struct entry entries[ENTRIES], *sorted[ENTRIES];
static int live;
static uint64_t random_state;
static int64_t clock_now; /* the latest look */
static bool exact;        /* nothing was deleted since the wheel was empty */

static unsigned pick(unsigned n)
{
    return (unsigned)(test_random(&random_state) >> 33) % n;
}

/* As often small as large. */
static int64_t random_span(unsigned most_bits)
{
    return (int64_t)(test_random(&random_state) >> 1 >> (63 - pick(most_bits + 1)));
}

static int64_t later(int64_t time, int64_t span)
{
    return span > INT64_MAX - time ? INT64_MAX : time + span;
}

static void shift(int to, int from, int count)
{
    memmove(&sorted[to], &sorted[from], (size_t)count * sizeof(struct entry *));
}

/* How many entries of the model are not after a time. */
static int due_by(int64_t time)
{
    int low = 0, high = live;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle]->timer.when <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t random_when(void)
{
    switch (pick(8)) {
    case 0:
        return clock_now - random_span(40);
    case 1:
        return live ? sorted[pick((unsigned)live)]->timer.when : clock_now;
    case 2:
        return later(clock_now, random_span(62));
    default:
        return later(clock_now, random_span(36));
    }
}

static void step_add(struct entry *e, long age)
{
    int64_t when = random_when();
    int at = due_by(when);
    shift(at + 1, at, live - at);
    sorted[at] = e;
    live++;
    e->age = age;
    e->tick = (when > clock_now ? when : clock_now) / TICK;
    wf_wheel_add(&wheel, &e->timer, when);
}

static void step_del(struct entry *e)
{
    int at = due_by(e->timer.when) - 1;
    while (sorted[at] != e)
        at--;
    live--;
    shift(at, at + 1, live - at);
    CHECK(wf_wheel_del(&wheel, &e->timer));
    exact = false;
}

static int64_t random_look(void)
{
    int64_t next = wf_wheel_next(&wheel), boundary;
    switch (pick(next == INT64_MAX ? 5 : 8)) {
    case 0:
        return clock_now - random_span(40);
    case 1:
        return later(clock_now, pick(TICK));
    case 2:
        boundary = width((int)pick(5));
        return later(clock_now, boundary - clock_now % boundary) - pick(2);
    case 3:
        return later(clock_now, random_span(pick(500) == 0 ? 62 : 30));
    case 4:
        return clock_now;
    default:
        return next > clock_now ? next - pick(2) : next;
    }
}

static void step_look(int64_t now)
{
    int due = due_by(now), got = 0;
    const struct entry *before = NULL;
    for (struct wf_timer *t = wf_wheel_expire(&wheel, now); t && got < live; t = t->next, got++) {
        const struct entry *e = (const struct entry *)t;
        CHECK(!wf_timer_armed(t));
        CHECK_INT(t->when, <=, now);
        if (before)
            CHECK(before->tick < e->tick || (before->tick == e->tick && before->age < e->age));
        before = e;
    }
    CHECK_INT(got, ==, due); /* all different, all due: exactly those that are */
    live -= due;
    shift(0, due, live);
    if (now > clock_now)
        clock_now = now;
    if (now != INT64_MAX)
        CHECK_INT(wf_wheel_next(&wheel), >, now);
}

static void begin_round(void)
{
    step_look(INT64_MAX);
    CHECK_INT(live, ==, 0);
    clock_now = random_span(45);
    wf_wheel_init(&wheel, clock_now);
}

TEST(random_steps_agree_with_a_sorted_list)
{
    bool deletes = false;
    unsigned one_look_in = 1;
    random_state = test_seed();
    wf_wheel_init(&wheel, 0);
    for (long i = 0; i < STEPS && !test_has_failed(); i++) {
        if (i % ROUND == 0 || clock_now > INT64_MAX / 2) {
            begin_round();
            deletes = pick(2);
            one_look_in = 2 + pick(30);
        }
        exact = exact || live == 0;
        struct entry *e = &entries[pick(ENTRIES)];
        if (pick(one_look_in) == 0)
            step_look(random_look());
        else if (!wf_timer_armed(&e->timer))
            step_add(e, i);
        else if (deletes)
            step_del(e);
        int64_t earliest = live ? sorted[0]->timer.when : INT64_MAX;
        CHECK_INT(wf_wheel_next(&wheel), <=, earliest);
        if (exact || live == 0)
            CHECK_INT(wf_wheel_next(&wheel), ==, earliest);
        CHECK_INT(wf_wheel_count(&wheel), ==, live);
    }
}

TESTS(time_wheel, an_empty_wheel_has_nothing_to_give_and_nothing_to_wait_for,
      only_an_armed_timer_can_be_deleted_and_once, an_entry_is_due_at_its_time_to_the_ns,
      the_boundary_of_every_level_parts_what_is_due_from_what_is_not,
      a_batch_is_in_the_order_of_ticks_whatever_the_levels, equal_times_come_in_the_order_of_adding,
      the_first_the_last_and_a_middle_one_are_deleted_at_every_level,
      an_idle_owner_looks_once_for_a_sleeper_of_any_length, neighbours_deleted_at_once_cost_one_look_in_vain,
      neighbours_deleted_one_by_one_cost_one_look_in_vain_a_level,
      the_farthest_times_are_kept_and_years_are_crossed_at_once, a_clock_that_goes_back_is_no_progress,
      an_entry_of_a_batch_can_be_added_again_at_once, random_steps_agree_with_a_sorted_list)
