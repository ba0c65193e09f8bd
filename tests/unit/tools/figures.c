/*
 * Figures, their text as JSON, and the history of them.
 */
#include "tools/weft/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

#include "tools/weft/history.h"
#include "support/test.h"
#include "unit/tools/json.h"

static struct figures *figures_of(size_t workers, int second)
{
    struct figures *f = calloc(1, sizeof *f + workers * sizeof f->workers[0]);
    f->worker_count = workers;
    f->at.ns = (int64_t)second * WEFT_SEC;
    f->clock_ms = (int64_t)second * 1000;
    return f;
}

TEST(rates_are_changes_per_second)
{
    struct figures *a = figures_of(0, 10), *b = figures_of(0, 14);
    CHECK_INT(figures_rate(a, 100, b, 500), ==, 100);
    CHECK_INT(figures_rate(a, 500, b, 500), ==, 0);
    CHECK_INT(figures_rate(a, 500, b, 100), ==, 0); /* such figures are not taken in one moment */
    CHECK_INT(figures_rate(a, 0, a, 500), ==, 0);
    free(a);
    free(b);
}

TEST(a_load_lies_between_0_and_1)
{
    struct figures *a = figures_of(3, 1), *b = figures_of(3, 3);
    a->workers[0].cpu = 5;
    b->workers[0].cpu = 6;
    b->workers[1].cpu = 2.01;
    a->workers[2].cpu = 1; /* its thread can no longer be read */
    CHECK_INT(figures_load(a, b, 0) * 100, ==, 50);
    CHECK_INT(figures_load(a, b, 1) * 100, ==, 100);
    CHECK_INT(figures_load(a, b, 2) * 100, ==, 0);
    CHECK_INT(figures_load(a, a, 0) * 100, ==, 0);
    free(a);
    free(b);
}

static void burn(double seconds)
{
    struct timespec t;
    double end = 0;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        double now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
        end = end > 0 ? end : now + seconds;
        if (now >= end)
            return;
    } while (true);
}

static void *take_figures(void *arg)
{
    weft_http *h = arg;
    struct figures *a = figures_new(), *b = figures_new();
    CHECK_INT(a->worker_count, ==, 2);
    figures_take(a, h);
    burn(0.1);
    figures_take(b, h);
    CHECK(a->workers[0].thread > 0 && a->workers[1].thread > 0 && a->workers[0].thread != a->workers[1].thread);
    double used = b->workers[0].cpu + b->workers[1].cpu - a->workers[0].cpu - a->workers[1].cpu;
    CHECK(used >= 0.05); /* ticks are 10 ms */
    CHECK(b->resident > 100000);
    CHECK(b->at.ns > a->at.ns && b->clock_ms >= a->clock_ms);
    CHECK(b->sched.spawned >= 1);
    char *text = snapshot_text(a, b);
    CHECK(is_json(text));
    static const char *const names[] = {"version", "pid",        "time",        "uptime",   "driver",
                                        "workers", "fibers",     "connections", "requests", "status",
                                        "bytes",   "latency_us", "memory",      "helpers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char member[32];
        snprintf(member, sizeof member, "\"%s\":", names[i]);
        CHECK(strstr(text, member));
    }
    CHECK(strstr(text, "\"last_second\":{\"count\":0,\"p50\":null,")); /* JSON has no infinity and no NaN */
    free(text);
    memset(&b->http, 0xff, sizeof b->http); /* the largest numbers there can be */
    b->http.latencies[3] = 1;
    text = snapshot_text(a, b);
    CHECK(is_json(text));
    CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
    free(text);
    free(a);
    free(b);
    return NULL;
}

TEST(figures_of_a_server_are_taken_and_are_json)
{
    weft_http *h = NULL;
    CHECK_INT(weft_http_new(&h, NULL), ==, 0);
    CHECK_INT(weft_run(take_figures, h, NULL, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 2}), ==,
              0);
    weft_http_free(h);
}

TEST(an_empty_history_is_an_empty_array)
{
    struct history h;
    REQUIRE(history_init(&h, 2));
    char *text = history_text(&h);
    CHECK_STR(text, "[]");
    free(text);
    history_destroy(&h);
}

TEST(a_point_has_the_values_of_its_second_in_their_order)
{
    struct history h;
    struct figures *a = figures_of(2, 1), *b = figures_of(2, 2);
    REQUIRE(history_init(&h, 2));
    b->http.requests = 30;
    b->http.latencies[10] = 100;
    b->http.connections = 7;
    b->sched.spawned = 12;
    b->sched.ended = 4;
    b->resident = 1000;
    b->page_tables = 24;
    b->http.bytes_in = 2000;
    b->http.bytes_out = 3000;
    b->workers[0].cpu = 0.25;
    b->workers[1].cpu = 0.5;
    history_add(&h, a, b);
    b->at.ns += WEFT_SEC;
    b->clock_ms += 1000;
    history_add(&h, b, b); /* nothing has happened */
    char *text = history_text(&h);
    CHECK_STR(text, "[[2000,30.0,768.0,1018.9,7,8,1024,2000,3000,[0.250,0.500]],"
                    "[3000,0.0,null,null,7,8,1024,0,0,[0.000,0.000]]]");
    free(text);
    history_destroy(&h);
    free(a);
    free(b);
}

/* With an odd number of workers a point's size must be rounded up. */
TEST(the_oldest_points_go_when_the_history_is_full)
{
    for (size_t workers = 0; workers <= 5; workers++) {
        struct history h;
        char first[32];
        struct figures *before = figures_of(workers, 0), *now = figures_of(workers, 0);
        REQUIRE(history_init(&h, workers));
        for (int second = 1; second <= 3 * HISTORY_SECONDS + 7; second++) {
            now->clock_ms = second;
            history_add(&h, before, now);
            if (second % HISTORY_SECONDS > 2 && second % HISTORY_SECONDS < HISTORY_SECONDS - 2)
                continue; /* where nothing is new */
            char *text = history_text(&h);
            CHECK(is_json(text));
            CHECK_INT(json_count(text), ==, second < HISTORY_SECONDS ? second : HISTORY_SECONDS);
            snprintf(first, sizeof first, "[[%d,", second < HISTORY_SECONDS ? 1 : second - HISTORY_SECONDS + 1);
            CHECK(strncmp(text, first, strlen(first)) == 0);
            free(text);
        }
        history_destroy(&h);
        free(before);
        free(now);
    }
}

TESTS(tools_figures, rates_are_changes_per_second, a_load_lies_between_0_and_1,
      figures_of_a_server_are_taken_and_are_json, an_empty_history_is_an_empty_array,
      a_point_has_the_values_of_its_second_in_their_order, the_oldest_points_go_when_the_history_is_full)
