/*
 * Random new, resume, yield, transfer, reset and free steps against a model that knows what each must answer. Private
 * and shared stacks, with and without WEFT_FPENV, nested to a random depth. WEFT_STEPS sets the number of steps.
 *
 * The model lives in `struct entry`; the coroutines themselves take the steps, so that every step may happen at any depth.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

#if WF_TSAN || WF_VALGRIND
enum { STEPS = 100000, SLOTS = 64 };
#else
enum { STEPS = TEST_EMULATED ? 1000000 : 10000000, SLOTS = 200 };
#endif

enum { NOBODY = -1 };

struct entry {
    weft_coro *c; /* NULL: none in this slot */
    enum weft_coro_state state;
    bool fresh;       /* never resumed since made or reset */
    int resumer;      /* RUNNING: who gets control back */
    uint64_t started; /* times its function was entered */
};

static struct entry entries[SLOTS];
static weft_stacks *pool;
static uint64_t random_state;
static long steps_left;
static int current = NOBODY;
static uintptr_t next_value; /* every value that is passed is a new one */
static uintptr_t to_resumer, to_resumed;
static size_t live;

static unsigned pick(unsigned n)
{
    return (unsigned)(test_random(&random_state) >> 33) % n;
}

static void *body(void *arg);

static void step_new(int i)
{
    struct entry *e = &entries[i];
    static const size_t sizes[] = {0, 0, 0, 16384, 65536};
    weft_coro_opts o = {.size = sizeof o, .flags = pick(8) == 0 ? WEFT_FPENV : 0};
    if (pick(3) == 0)
        o.shared = pool;
    else
        o.stack = sizes[pick(5)];
    if (pick(16) == 0)
        o.name = "model";
    CHECK_INT(weft_coro_new(&e->c, body, (void *)(intptr_t)i, pick(2) || o.shared ? &o : NULL), ==, 0);
    *e = (struct entry){.c = e->c, .state = WEFT_CORO_READY, .fresh = true, .resumer = NOBODY};
    live++;
}

static bool under_way(const struct entry *e)
{
    return e->state == WEFT_CORO_RUNNING || (e->state == WEFT_CORO_READY && !e->fresh);
}

static void step_free(int i)
{
    struct entry *e = &entries[i];
    bool busy = e->state == WEFT_CORO_RUNNING;
    CHECK_INT(weft_coro_free(e->c), ==, busy ? -EBUSY : 0);
    if (!busy) {
        e->c = NULL;
        live--;
    }
}

static void step_reset(int i)
{
    struct entry *e = &entries[i];
    bool busy = under_way(e);
    CHECK_INT(weft_coro_reset(e->c, body, (void *)(intptr_t)i), ==, busy ? -EBUSY : 0);
    if (!busy) {
        e->state = WEFT_CORO_READY;
        e->fresh = true;
    }
}

/* What a resume or transfer to `e` must answer when it cannot be done; 0: it can. */
static int refusal(const struct entry *e)
{
    return e->state == WEFT_CORO_DONE ? -ESRCH : e->state == WEFT_CORO_RUNNING ? -EDEADLK : 0;
}

static void step_resume(int i)
{
    struct entry *e = &entries[i];
    int self = current, rc, expected = refusal(e);
    void *value = &entries;
    if (expected != 0) {
        CHECK_INT(weft_coro_resume(e->c, NULL, &value), ==, expected);
        CHECK_PTR(value, ==, &entries);
        return;
    }
    e->state = WEFT_CORO_RUNNING;
    e->resumer = self;
    current = i;
    to_resumed = ++next_value;
    rc = weft_coro_resume(e->c, (void *)to_resumed, &value);
    CHECK_INT(current, ==, self); /* whoever gave control back said so in the model */
    CHECK_INT(rc, >=, 0);
    CHECK_INT((uintptr_t)value, ==, to_resumer);
}

/* Only in a coroutine: the current one gives way to i, which inherits its resumer. */
static void step_transfer(int i)
{
    struct entry *e = &entries[i], *me = &entries[current];
    int self = current, expected = refusal(e);
    void *value = &entries;
    if (expected != 0) {
        CHECK_INT(weft_coro_transfer(e->c, NULL, &value), ==, expected);
        CHECK_PTR(value, ==, &entries);
        return;
    }
    e->state = WEFT_CORO_RUNNING;
    e->resumer = me->resumer;
    me->state = WEFT_CORO_READY;
    me->resumer = NOBODY;
    current = i;
    to_resumed = ++next_value;
    CHECK_INT(weft_coro_transfer(e->c, (void *)to_resumed, &value), ==, 1);
    CHECK_INT(current, ==, self);
    CHECK_INT(me->state, ==, WEFT_CORO_RUNNING);
    CHECK_INT((uintptr_t)value, ==, to_resumed);
}

static void step_yield(void)
{
    struct entry *me = &entries[current];
    int self = current;
    me->state = WEFT_CORO_READY;
    current = me->resumer;
    to_resumer = ++next_value;
    void *in = weft_coro_yield((void *)to_resumer);
    CHECK_INT(current, ==, self);
    CHECK_INT((uintptr_t)in, ==, to_resumed);
}

static void step(void)
{
    int i = (int)pick(SLOTS);
    unsigned what = pick(100);
    steps_left--;
    if (!entries[i].c) {
        step_new(i);
        return;
    }
    CHECK_INT(weft_coro_state(entries[i].c), ==, entries[i].state);
    CHECK_PTR(weft_coro_current(), ==, current == NOBODY ? NULL : entries[current].c);
    if (what < 8)
        step_free(i);
    else if (what < 14)
        step_reset(i);
    else if (what < 50 || current == NOBODY)
        step_resume(i);
    else if (what < 60)
        step_transfer(i);
    else
        step_yield();
}

/* Takes steps of its own until it is time to return; its locals must be as it left them after every step. */
static void *body(void *arg)
{
    int self = (int)(intptr_t)arg;
    struct entry *me = &entries[self];
    unsigned char locals[256];
    unsigned filled = 1 + pick(255);
    CHECK_INT(current, ==, self);
    me->fresh = false;
    me->started++;
    memset(locals, self & 0xff, filled);
    for (unsigned mine = pick(40); mine > 0 && steps_left > 0; mine--) {
        step();
        for (unsigned i = 0; i < filled; i++) {
            if (locals[i] != (self & 0xff)) {
                CHECK_INT(locals[i], ==, self & 0xff);
                break;
            }
        }
    }
    me->state = WEFT_CORO_DONE;
    current = me->resumer;
    to_resumer = ++next_value;
    return (void *)to_resumer;
}

TEST(random_steps_agree_with_the_model)
{
    const char *wanted = getenv("WEFT_STEPS");
    size_t before = weft_coro_count();
    steps_left = wanted ? atol(wanted) : STEPS;
    long steps = steps_left;
    random_state = test_seed();
    REQUIRE(weft_stacks_new(&pool, 3, 65536) == 0);
    while (steps_left > 0 && !test_has_failed())
        step();
    CHECK_INT(weft_coro_count(), ==, before + live);
    for (int i = 0; i < SLOTS; i++) {
        if (entries[i].c)
            CHECK_INT(weft_coro_free(entries[i].c), ==, 0);
    }
    CHECK_INT(weft_coro_count(), ==, before);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    printf("%ld steps\n", steps);
}

TESTS(coro_model, random_steps_agree_with_the_model)
