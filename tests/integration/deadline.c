/*
 * What a deadline costs a read that has to wait, in instructions and in system calls, by each driver. Promised: at most 60
 * and none.
 *
 * Stepping is slow, so to the worker no time passes: what it does now and then is not to be counted. The one look at the
 * clock that a worker with deadlines takes before it sleeps is therefore counted by itself, and added; what the vdso does in
 * it is told apart. tools/count-deadline runs this and prints what it counted.
 */
#include <stdio.h>

#include "base/clock.h"
#include "integration/deadline/pingpong.h"
#include "support/step.h"
#include "support/test.h"

#ifdef STEP_NOT_HERE

TEST(a_deadline_costs_a_read_60_instructions_and_no_system_call)
{
    SKIP(STEP_NOT_HERE);
}

#else

enum { TURNS = 15, LIMIT = 60 };

static void run(void *arg)
{
    wf_clock_set(1000 * WEFT_SEC);
    pingpong(arg);
}

static void look_at_clock(void *arg)
{
    (void)arg;
    for (int i = 0; i <= TURNS; i++) {
        step_mark();
        wf_clock_real();
    }
}

/* All turns; what is taken is the one in the middle: now and then a worker looks around, and finds what it waits for. */
struct turns {
    unsigned count;
    struct step_piece all[TURNS];
};

static void take(const struct step_piece *p, void *ctx)
{
    struct turns *t = ctx;
    if (t->count < TURNS)
        t->all[t->count] = *p;
    t->count++;
}

static int by_instructions(const void *a, const void *b)
{
    const struct step_piece *x = a, *y = b;
    return (x->instructions > y->instructions) - (x->instructions < y->instructions);
}

/* False: it cannot be done here, and was skipped. */
static bool count(void (*fn)(void *), void *arg, struct step_piece *out)
{
    struct turns turns = {0};
    if (!step_through(fn, arg, take, &turns))
        return false;
    CHECK_INT(turns.count, ==, TURNS);
    qsort(turns.all, TURNS, sizeof turns.all[0], by_instructions);
    *out = turns.all[TURNS / 2];
    return true;
}

static bool count_read(bool has_deadline, struct step_piece *out)
{
    struct pingpong p = {.has_deadline = has_deadline, .turns = TURNS, .each = step_mark};
    return count(run, &p, out);
}

TEST(a_deadline_costs_a_read_60_instructions_and_no_system_call)
{
    struct step_piece forever, deadline, clock;
    if (!count_read(false, &forever) || !count_read(true, &deadline) || !count(look_at_clock, NULL, &clock))
        return;
    double more = ((double)deadline.instructions - (double)forever.instructions) / PINGPONG_READS;
    printf("a read that waits, with its part of the worker: %lu instructions, %u system calls\n",
           forever.instructions / PINGPONG_READS, forever.system_calls / PINGPONG_READS);
    printf("with a deadline: %.1f more, and %lu for the clock; %lu in the vdso; %u system calls\n", more,
           clock.instructions, clock.in_vdso, deadline.system_calls / PINGPONG_READS);
    CHECK_INT(more + (double)clock.instructions, <=, LIMIT);
    CHECK_INT(forever.system_calls, >=, PINGPONG_READS);                        /* it has waited */
    CHECK_INT(deadline.system_calls, <, forever.system_calls + PINGPONG_READS); /* but for one that comes with time */
    CHECK_INT(clock.system_calls, ==, 0);
}

#endif

TESTS(integration_deadline, a_deadline_costs_a_read_60_instructions_and_no_system_call)
