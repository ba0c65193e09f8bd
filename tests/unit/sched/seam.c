/*
 * The seam that cancels a fiber at its nth cancellation point: by the environment for fibers of one name, and by a call
 * for the calling fiber.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include <weft/io.h>
#include <weft/sync.h>

#include "sched/seam.h"
#include "unit/sched/ground.h"

/* Before the library reads it. Only fibers of this name feel it. */
__attribute__((constructor(101))) static void ask_for_victims(void)
{
    setenv("WEFT_SEAM", "cancel:3:victim", 1);
}

static weft_sem permits = WEFT_SEM(1000);

static int passes(void)
{
    return weft_sem_wait(&permits, WEFT_FOREVER);
}

static void *counts_to_three(void *arg)
{
    (void)arg;
    CHECK_INT(wf_seam_cancel_at(3), ==, 0);
    CHECK_INT(passes(), ==, 0);
    CHECK_INT(weft_sleep(0), ==, 0);
    CHECK(!weft_cancelled());
    CHECK_INT(passes(), ==, -ECANCELED);
    CHECK(weft_cancelled());
    CHECK_INT(passes(), ==, -ECANCELED); /* from then on */
    return NULL;
}

TEST(the_calling_fiber_is_cancelled_at_its_nth_point_from_now)
{
    in_a_fiber(1, counts_to_three, NULL);
    in_a_fiber(2, counts_to_three, NULL);
}

static void *passes_what_does_not_count(void *arg)
{
    (void)arg;
    CHECK_INT(wf_seam_cancel_at(2), ==, 0);
    unsigned before = wf_seam_points();
    CHECK_INT(weft_sem_wait(&permits, WEFT_NOW), ==, 0);
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK_INT(passes(), ==, 0);
    weft_shield_end();
    CHECK_INT(weft_sem_post(&permits), ==, 0);
    weft_yield();
    CHECK_INT(wf_seam_points(), ==, before);
    CHECK_INT(passes(), ==, 0);
    CHECK_INT(wf_seam_points(), ==, before + 1);
    CHECK_INT(passes(), ==, -ECANCELED);
    return NULL;
}

TEST(calls_that_are_no_points_do_not_count)
{
    in_a_fiber(1, passes_what_does_not_count, NULL);
}

static void *turns_it_off(void *arg)
{
    (void)arg;
    CHECK_INT(wf_seam_cancel_at(2), ==, 0);
    CHECK_INT(passes(), ==, 0);
    CHECK_INT(wf_seam_cancel_at(0), ==, 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(passes(), ==, 0);
    CHECK(!weft_cancelled());
    return NULL;
}

TEST(zero_turns_it_off)
{
    in_a_fiber(1, turns_it_off, NULL);
}

static void *passes_five_times(void *arg)
{
    int refused = 0;
    for (int i = 0; i < 5; i++)
        refused += passes() == -ECANCELED;
    put(arg, refused);
    return NULL;
}

static void *starts_victims(void *arg)
{
    (void)arg;
    static const char *const names[] = {"victim", "bystander", NULL, "victim"};
    static const int refused[] = {3, 0, 0, 3}; /* the third call, and those after it */
    for (int i = 0; i < 4; i++) {
        int count = -1;
        weft_fiber *f = NULL;
        CHECK_INT(weft_go_with(&f, (&(weft_attr){.name = names[i]}), passes_five_times, &count), ==, 0);
        ended(f);
        CHECK_INT(count, ==, refused[i]);
    }
    return NULL;
}

TEST(the_environment_names_the_fibers_that_are_cancelled)
{
    in_a_fiber(1, starts_victims, NULL);
    in_a_fiber(2, starts_victims, NULL);
}

/* ---- a call of several steps ---- */

enum { MANY = 4 << 20 };

static char bytes[MANY];
static size_t arrived;

static void *reads_all(void *arg)
{
    static char buffer[1 << 16];
    for (ptrdiff_t n; (n = weft_read(*(int *)arg, buffer, sizeof buffer, WEFT_FOREVER)) > 0;)
        arrived += (size_t)n;
    return NULL;
}

static void *writes_a_part(void *arg)
{
    (void)arg;
    int fds[2];
    size_t done = 0;
    /* Not to wait: each step moves what there is room for. A ring's own thread would move all of it in one step. */
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==, 0);
    CHECK_INT(wf_seam_cancel_at(2), ==, 0); /* the first step fills the socket */
    CHECK_INT(weft_write_all(fds[1], bytes, sizeof bytes, &done, WEFT_FOREVER), ==, -ECANCELED);
    CHECK(done > 0 && done < sizeof bytes);
    CHECK_INT(weft_close(fds[1]), ==, 0);
    arrived = 0;
    weft_fiber *reader = go(reads_all, &fds[0]);
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_join(reader, NULL, WEFT_FOREVER), ==, 0);
    weft_shield_end();
    CHECK_INT(arrived, ==, done);
    CHECK_INT(weft_close(fds[0]), ==, 0);
    return NULL;
}

TEST(a_call_of_several_steps_tells_how_much_it_has_done)
{
    in_a_fiber(1, writes_a_part, NULL);
    in_a_fiber(2, writes_a_part, NULL);
}

TESTS(sched_seam, the_calling_fiber_is_cancelled_at_its_nth_point_from_now, calls_that_are_no_points_do_not_count,
      zero_turns_it_off, the_environment_names_the_fibers_that_are_cancelled,
      a_call_of_several_steps_tells_how_much_it_has_done)
