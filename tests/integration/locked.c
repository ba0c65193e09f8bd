/*
 * How many locked instructions the ways take that every program takes all the time: a yield to another fiber, and a
 * weft_go with the pick that starts the fiber. Promised: none, and one at most.
 *
 * Fibers mark each turn, and worker 0 is stepped through (support/step.h). A second worker, if there is one, is kept busy
 * and is not stepped. tools/count-locked runs this and prints what it counted.
 */
#include <stdio.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/sched.h>

#include "base/clock.h"
#include "support/step.h"
#include "support/test.h"

#ifdef STEP_NOT_HERE

TEST(locked_instructions_are_seen)
{
    SKIP(STEP_NOT_HERE);
}

TEST(yield_has_no_locked_instruction)
{
    SKIP(STEP_NOT_HERE);
}

TEST(go_and_its_pick_have_one_locked_instruction_at_most)
{
    SKIP(STEP_NOT_HERE);
}

#else

enum { WARM_UP = 300, TURNS = 40 };

/* What is between two marks, of `turns` such pieces: the most of one piece, and the instructions of the shortest. */
struct counted {
    unsigned turns, locked_most, locked_least;
    unsigned long steps_least;
};

/* ---- the child: fibers that mark their turns ---- */

static int release_worker_1;

static void *yields(void *arg)
{
    (void)arg;
    for (int i = 0; i < WARM_UP; i++)
        weft_yield();
    for (int i = 0; i < TURNS / 2; i++) {
        step_mark();
        weft_yield();
    }
    return NULL;
}

static void *two_that_yield(void *arg)
{
    weft_fiber *other = NULL;
    CHECK_INT(weft_go_with(&other, &(weft_attr){.worker = WEFT_WORKER(0)}, yields, NULL), ==, 0);
    weft_yield();
    yields(arg);
    CHECK_INT(weft_join(other, NULL, WEFT_FOREVER), ==, 0);
    __atomic_store_n(&release_worker_1, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *does_nothing(void *arg)
{
    return arg;
}

static void *marks_its_start(void *arg)
{
    step_mark();
    return arg;
}

/* The pieces are by turns: go, yield, and the start of the other; the other's end. */
static void *goes(void *arg)
{
    (void)arg;
    for (int i = 0; i < WARM_UP; i++) {
        CHECK_INT(weft_go(does_nothing, NULL), ==, 0);
        weft_yield();
    }
    for (int i = 0; i < TURNS; i++) {
        step_mark();
        weft_go(marks_its_start, NULL);
        weft_yield();
    }
    __atomic_store_n(&release_worker_1, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *has_three(void *arg)
{
    uint32_t word = 0, other = 1;
    step_mark();
    __asm__ volatile("lock addl $1, %0\n\t"
                     "xchgl %1, %0\n\t"
                     "mfence\n\t"
                     "addl $1, %0\n\t"
                     "xchgl %1, %%ecx"
                     : "+m"(word), "+r"(other)
                     :
                     : "ecx", "cc", "memory");
    step_mark();
    return arg;
}

static void *is_busy(void *arg)
{
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&release_worker_1, __ATOMIC_ACQUIRE))
        ;
    return NULL;
}

static void run(unsigned workers, weft_fn *fn)
{
    static int busy;
    weft_sched *s = NULL;
    wf_clock_set(1000 * WEFT_SEC); /* to the workers no time passes: what they do now and then is not counted */
    if (weft_sched_new(&s, &(weft_sched_opts){.threads = workers, .use_caller = true}) != 0 || weft_sched_start(s) != 0)
        _exit(2);
    if (workers > 1) {
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(1)}, is_busy, &busy), ==, 0);
        while (!__atomic_load_n(&busy, __ATOMIC_ACQUIRE))
            usleep(100);
    }
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, fn, NULL), ==, 0);
    weft_sched_run(s, WEFT_FOREVER);
}

/* ---- the parent ---- */

struct what {
    unsigned workers;
    weft_fn *fn;
};

static void run_it(void *arg)
{
    const struct what *what = arg;
    run(what->workers, what->fn);
}

/* Of every piece, or of every other one. */
struct tally {
    bool every_other;
    unsigned pieces;
    struct counted *out;
};

static void add_piece(const struct step_piece *p, void *ctx)
{
    struct tally *t = ctx;
    struct counted *out = t->out;
    if (t->pieces++ % 2 == 1 && t->every_other)
        return;
    out->turns++;
    out->locked_most = p->locked > out->locked_most ? p->locked : out->locked_most;
    out->locked_least = p->locked < out->locked_least ? p->locked : out->locked_least;
    out->steps_least = p->instructions < out->steps_least ? p->instructions : out->steps_least;
}

/* False: it cannot be done here, and was skipped. */
static bool count(unsigned workers, weft_fn *fn, bool every_other, struct counted *out)
{
    struct what what = {workers, fn};
    struct tally tally = {.every_other = every_other, .out = out};
    *out = (struct counted){.locked_least = UINT32_MAX, .steps_least = UINT64_MAX};
    return step_through(run_it, &what, add_piece, &tally);
}

static void say(const char *what, unsigned workers, const struct counted *c)
{
    printf("%s, %u worker%s: %u locked instructions at most, %u at least, of %lu in all (the fewest of %u turns)\n",
           what, workers, workers > 1 ? "s" : "", c->locked_most, c->locked_least, c->steps_least, c->turns);
}

TEST(locked_instructions_are_seen)
{
    struct counted c;
    if (!count(1, has_three, false, &c))
        return;
    CHECK_INT(c.turns, ==, 1);
    CHECK_INT(c.locked_most, ==, 3);
}

TEST(yield_has_no_locked_instruction)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct counted c;
        if (!count(workers, two_that_yield, false, &c))
            return;
        say("weft_yield", workers, &c);
        CHECK_INT(c.turns, >=, TURNS - 2);
        CHECK_INT(c.locked_most, ==, 0);
    }
}

TEST(go_and_its_pick_have_one_locked_instruction_at_most)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct counted c;
        if (!count(workers, goes, true, &c))
            return;
        say("weft_go and the pick", workers, &c);
        CHECK_INT(c.turns, ==, TURNS);
        CHECK_INT(c.locked_most, <=, 1);
    }
}

#endif

TESTS(integration_locked, locked_instructions_are_seen, yield_has_no_locked_instruction,
      go_and_its_pick_have_one_locked_instruction_at_most)
