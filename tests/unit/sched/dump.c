/*
 * weft_dump: a line for every fiber of the process, with everything that is known of it; also while they go on.
 */
#include <stdlib.h>

#include "unit/sched/ground.h"

/* What a dump says, and how many fibers it says there are. */
struct dumped {
    char *text;
    int count;
};

static struct dumped dump(void)
{
    struct dumped d = {0};
    size_t size;
    FILE *f = open_memstream(&d.text, &size);
    d.count = f ? weft_dump(f) : -1;
    if (f)
        fclose(f);
    return d;
}

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* The line of the fiber of that name must say it. */
static void check_line(const char *file, int line, const struct dumped *d, const char *name, const char *says)
{
    char quoted[64], found[512] = "no line";
    snprintf(quoted, sizeof quoted, " \"%s\" ", name);
    const char *at = strstr(d->text, quoted);
    if (at) {
        while (at > d->text && at[-1] != '\n')
            at--;
        snprintf(found, sizeof found, "%.*s", (int)(strchrnul(at, '\n') - at), at);
    }
    if (!strstr(found, says))
        test_failed(file, line, "of %s it says \"%s\", not \"%s\"", name, found, says);
}
#define CHECK_LINE(d, name, says) check_line(__FILE__, __LINE__, d, name, says)

TEST(without_fibers_it_says_so)
{
    struct dumped d = dump();
    CHECK_INT(d.count, ==, 0);
    CHECK_STR(d.text, "  0 fibers\n");
    free(d.text);
    CHECK_INT(weft_dump(NULL), ==, -EINVAL);
}

static void *sleeps_long(void *arg)
{
    (void)arg;
    return ptr(weft_sleep(10 * WEFT_SEC));
}

static void *joins_it(void *arg)
{
    return ended(arg);
}

static weft_fiber *go_named(weft_sched *s, const char *name, int worker, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.name = name, .worker = worker};
    CHECK_INT(weft_sched_go(s, &f, &attr, fn, arg), ==, 0);
    return f;
}

TEST(each_fiber_has_a_line_with_everything)
{
    enum { ALL = 8 };
    weft_fiber *f[ALL];
    int over = 0;
    char text[300];
    clock_begin();
    weft_sched *s = running_sched(3), *idle = new_sched(2, false);
    const int line = __LINE__ + 1;
    CHECK_INT(weft_fiber_new(&f[0], &(weft_attr){.name = "fresh"}, returns_at_once, NULL), ==, 0);
    f[1] = go_named(idle, "queued", 0, returns_at_once, NULL);
    f[2] = go_named(idle, "bound", WEFT_WORKER(1), returns_at_once, NULL);
    f[3] = go_named(s, "busy", WEFT_WORKER(2), spins, &over);
    f[4] = go_named(s, "parked", WEFT_WORKER(1), parks, NULL);
    f[5] = go_named(s, "asleep", WEFT_WORKER(0), sleeps_long, NULL);
    f[6] = go_named(s, "joins", WEFT_WORKER(1), joins_it, f[4]);
    f[7] = go_named(s, "done", WEFT_WORKER(0), returns_at_once, NULL);
    AWAIT(weft_fiber_state(f[3]) == WEFT_FIBER_RUNNING && is_parked(f[4]) && is_parked(f[5]) && is_parked(f[6]) &&
          weft_fiber_state(f[7]) == WEFT_FIBER_DONE);
    CHECK_INT(weft_cancel(f[3]), ==, 0);
    clock_forward(1234 * WEFT_MS);
    struct dumped d = dump();
    CHECK_INT(d.count, ==, ALL);
    CHECK_INT(lines(d.text), ==, ALL + 1);
    CHECK(strstr(d.text, "  8 fibers\n") != NULL);
    CHECK_LINE(&d, "fresh", "\"fresh\" new, age 1.234 s, spawned at");
    CHECK_LINE(&d, "queued", "\"queued\" ready, age 1.234 s, spawned at");
    CHECK_LINE(&d, "bound", "\"bound\" ready, age 1.234 s, worker 1, spawned at");
    CHECK_LINE(&d, "busy", "\"busy\" running, cancelled, age 1.234 s, worker 2, spawned at");
    CHECK_LINE(&d, "parked", "\"parked\" parked, waits for unpark, age 1.234 s, worker 1, spawned at");
    CHECK_LINE(&d, "asleep",
               "\"asleep\" parked, waits for sleep for at most 8.766 s, age 1.234 s, worker 0, spawned at");
    CHECK_LINE(&d, "joins", "\"joins\" parked, waits for join, age 1.234 s, worker 1, spawned at");
    CHECK_LINE(&d, "done", "\"done\" done, age 1.234 s");
    snprintf(text, sizeof text, "spawned at %s:%d", __FILE__, line);
    CHECK_LINE(&d, "fresh", text);
    for (int i = 0; i < ALL; i++) {
        snprintf(text, sizeof text, "fiber %llu \"%s\" ", (unsigned long long)weft_fiber_id(f[i]),
                 weft_fiber_name(f[i]));
        CHECK_LINE(&d, weft_fiber_name(f[i]), text);
    }
    if (test_has_failed())
        fputs(d.text, stderr);
    free(d.text);
    put(&over, 1);
    weft_unpark(f[4]);
    CHECK_INT(weft_cancel(f[5]), ==, 0);
    ended(f[6]);
    ended(f[3]);
    ended(f[5]);
    ended(f[7]);
    CHECK_INT(weft_detach(f[0]), ==, 0);
    end_sched(s);
    CHECK_INT(weft_sched_free(idle), ==, 0);
    clock_end();
    d = dump();
    CHECK_STR(d.text, "  0 fibers\n");
    free(d.text);
}

TEST(a_scheduler_with_a_name_is_named)
{
    weft_sched *s, *unnamed = running_sched(1);
    REQUIRE(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .name = "mill"}) == 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    weft_fiber *ours = go_named(s, "ours", 0, parks, NULL), *other = go_named(unnamed, "other", 0, parks, NULL);
    AWAIT(is_parked(ours) && is_parked(other));
    struct dumped d = dump();
    CHECK_LINE(&d, "ours", ", worker 0 of \"mill\", spawned at");
    CHECK_LINE(&d, "other", ", worker 0, spawned at");
    free(d.text);
    weft_unpark(ours);
    weft_unpark(other);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
    d = dump(); /* its value waits for a join, and its scheduler is gone */
    CHECK_LINE(&d, "ours", "\"ours\" done");
    CHECK(strstr(d.text, "mill") == NULL);
    free(d.text);
    CHECK_INT(weft_fiber_worker(ours), ==, -1);
    ended(ours);
    ended(other);
    end_sched(unnamed);
}

static void *dumps(void *arg)
{
    struct dumped d = dump();
    CHECK_INT(d.count, ==, 1);
    CHECK(strstr(d.text, " running, ") != NULL);
    CHECK(strstr(d.text, "spawned at weft_run\n") != NULL);
    CHECK(strstr(d.text, "  1 fiber\n") != NULL);
    free(d.text);
    return arg;
}

TEST(a_fiber_may_dump)
{
    in_a_fiber(1, dumps, NULL);
}

/* Fibers come and go meanwhile, with and without names. */
static void *lives_shortly(void *arg)
{
    if (arg)
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
    return NULL;
}

static void *spawns_until(void *arg)
{
    for (intptr_t i = 0; !seen(arg); i++) {
        weft_attr attr = {.name = i % 3 == 0 ? NULL : i % 3 == 1 ? "short" : "one with a longer name"};
        CHECK_INT(weft_go_with(NULL, &attr, lives_shortly, ptr(i % 2)), ==, 0);
        weft_yield();
    }
    return NULL;
}

TEST(it_may_be_called_while_fibers_come_and_go)
{
    int over = 0;
    weft_sched *s = running_sched(3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_sched_go(s, NULL, NULL, spawns_until, &over), ==, 0);
    for (int i = 0; i < 100; i++) {
        struct dumped d = dump();
        CHECK_INT(lines(d.text), ==, d.count + 1);
        free(d.text);
    }
    put(&over, 1);
    end_sched(s);
}

TESTS(sched_dump, without_fibers_it_says_so, each_fiber_has_a_line_with_everything, a_scheduler_with_a_name_is_named,
      a_fiber_may_dump, it_may_be_called_while_fibers_come_and_go)
