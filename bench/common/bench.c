/*
 * bench.c: the driver's command line and its rounds. See bench.h.
 */
#include "bench.h"

#include "result.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A library that has taken this long in a bench is not run again: its row says how many runs it had. */
#define SHARE_S 20.0
#define SHARE_QUICK_S 0.5

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct plan {
    bool quick;
    bool judged;                    /* only what the limits name */
    bool chosen[BENCH_BENCHES_MAX]; /* by index in the suite */
    const char *libraries;          /* a list with commas; NULL: all */
    const char *json_path;
};

static void print_benches(FILE *f, const struct bench_suite *suite)
{
    fprintf(f, "benches:\n");
    for (const struct bench *b = suite->benches; b->name; b++)
        fprintf(f, "  %-16s %s, %s\n", b->name, b->title, b->unit);
}

static void print_usage(FILE *f, const struct bench_suite *suite)
{
    fprintf(f,
            "usage: %s [OPTION...]\n"
            "  --quick        short runs; rows that take seconds each are left out\n"
            "  --only BENCH   only this one; may be repeated, and may be a list with commas\n"
            "  --library LIST only these libraries, with commas between them\n"
            "  --judged       only the benches and the libraries that the limits name\n"
            "  --json FILE    write a JSON object a line for each library of each bench\n"
            "  --help         this text\n",
            suite->name);
    print_benches(f, suite);
}

static bool choose(struct plan *plan, const struct bench_suite *suite, const char *name, size_t length)
{
    for (size_t i = 0; suite->benches[i].name; i++)
        if (strlen(suite->benches[i].name) == length && !strncmp(suite->benches[i].name, name, length)) {
            plan->chosen[i] = true;
            return true;
        }
    fprintf(stderr, "%s: no bench is called '%.*s'\n", suite->name, (int)length, name);
    print_benches(stderr, suite);
    return false;
}

static bool choose_list(struct plan *plan, const struct bench_suite *suite, const char *list)
{
    for (;;) {
        size_t length = strcspn(list, ",");
        if (!choose(plan, suite, list, length))
            return false;
        if (!list[length])
            return true;
        list += length + 1;
    }
}

/* Whether a list with this separator has this name. */
static bool is_listed(const char *list, char separator, const char *name)
{
    const char ends[] = {separator, '\0'};
    size_t length = strlen(name);

    for (;;) {
        size_t part = strcspn(list, ends);
        if (part == length && !strncmp(list, name, length))
            return true;
        if (!list[part])
            return false;
        list += part + 1;
    }
}

static bool has_library(const struct bench_suite *suite, const char *name)
{
    for (const struct bench *b = suite->benches; b->name; b++)
        for (const struct bench_row *row = b->rows; row->library; row++)
            if (!strcmp(row->library, name))
                return true;
    return false;
}

static bool has_libraries(const struct bench_suite *suite, const char *list)
{
    char name[64];

    for (; *list; list += strcspn(list, ","), list += *list == ',') {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(list, ","), list);
        if (!has_library(suite, name)) {
            fprintf(stderr, "%s: no library is called '%s'\n", suite->name, name);
            return false;
        }
    }
    return true;
}

/* Whether a limit of this bench names this library; of any library if that is NULL. */
static bool is_judged(const struct bench_suite *suite, const char *bench, const char *library)
{
    for (const struct bench_limit *l = suite->limits; l->bench; l++) {
        const char *colon = l->reference ? strstr(l->reference, ": ") : NULL;
        if (!strcmp(l->bench, bench) && (!library || is_listed(l->library, '|', library)))
            return true;
        if (!colon && l->reference && library && !strcmp(l->bench, bench) && is_listed(l->reference, '|', library))
            return true;
        if (colon && strlen(bench) == (size_t)(colon - l->reference) && !strncmp(l->reference, bench, strlen(bench)) &&
            (!library || is_listed(colon + 2, '|', library)))
            return true;
    }
    return false;
}

/* Without --only, all benches are chosen that have something to show. */
static void choose_default(struct plan *plan, const struct bench_suite *suite)
{
    for (size_t i = 0; suite->benches[i].name; i++)
        plan->chosen[i] = !plan->judged || is_judged(suite, suite->benches[i].name, NULL);
}

/* Returns -1 if there is something to run, else the exit status. */
static int parse(struct plan *plan, const struct bench_suite *suite, int argc, char **argv)
{
    static const struct option options[] = {
        {"quick", no_argument, NULL, 'q'},
        {"only", required_argument, NULL, 'o'},
        {"library", required_argument, NULL, 'l'},
        {"judged", no_argument, NULL, 'g'},
        {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool any = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'q':
            plan->quick = true;
            break;
        case 'o':
            if (!choose_list(plan, suite, optarg))
                return EXIT_USAGE;
            any = true;
            break;
        case 'l':
            if (!has_libraries(suite, optarg))
                return EXIT_USAGE;
            plan->libraries = optarg;
            break;
        case 'g':
            plan->judged = true;
            break;
        case 'j':
            plan->json_path = optarg;
            break;
        case 'h':
            print_usage(stdout, suite);
            return EXIT_OK;
        default:
            print_usage(stderr, suite);
            return EXIT_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: what is '%s'?\n", suite->name, argv[optind]);
        print_usage(stderr, suite);
        return EXIT_USAGE;
    }
    if (!any)
        choose_default(plan, suite);
    return -1;
}

static bool has_had_its_share(const struct plan *plan, const struct result *r)
{
    return r->state != RESULT_OK || r->seconds > (plan->quick ? SHARE_QUICK_S : SHARE_S);
}

static void leave_out_unasked_rows(const struct plan *plan, const struct bench_suite *suite, const struct bench *bench,
                                   struct result *results)
{
    for (size_t i = 0; bench->rows[i].library; i++) {
        const char *library = bench->rows[i].library;
        if ((plan->libraries && !is_listed(plan->libraries, ',', library)) ||
            (plan->judged && !is_judged(suite, bench->name, library)))
            results[i].state = RESULT_UNASKED;
    }
}

static void leave_out_slow_rows(const struct bench *bench, struct result *results)
{
    for (size_t i = 0; bench->rows[i].library; i++)
        if (bench->rows[i].slow && results[i].state == RESULT_OK) {
            results[i].state = RESULT_NA;
            snprintf(results[i].text, sizeof(results[i].text), "left out of --quick");
        }
}

static void run_bench(const struct plan *plan, const struct bench *bench, struct result *results)
{
    const struct bench_effort *effort = plan->quick ? &bench->quick : &bench->full;

    if (plan->quick)
        leave_out_slow_rows(bench, results);
    for (unsigned run = 0; run < effort->runs; run++)
        for (size_t i = 0; bench->rows[i].library; i++)
            if (!has_had_its_share(plan, &results[i]))
                result_run(&results[i], bench, &bench->rows[i], effort->budget_ms);
    for (size_t i = 0; bench->rows[i].library; i++)
        result_sort(&results[i]);
}

/* Says on standard error which rows failed. */
static bool all_sound(const struct bench *bench, const struct result *results)
{
    bool sound = true;
    for (size_t i = 0; bench->rows[i].library; i++)
        if (results[i].state == RESULT_FAILED) {
            fprintf(stderr, "FAILED: %s %s: %s\n", bench->name, bench->rows[i].library, results[i].text);
            sound = false;
        }
    return sound;
}

/* A figure of a library in the bench whose name has this length, or NULL if there is none. */
static const struct series *find_series(const struct bench_suite *suite, const struct result results[][BENCH_ROWS_MAX],
                                        const char *name, size_t length, const char *library, const char *figure)
{
    for (size_t i = 0; suite->benches[i].name; i++)
        if (strlen(suite->benches[i].name) == length && !strncmp(suite->benches[i].name, name, length))
            return result_find(&suite->benches[i], results[i], library, figure);
    return NULL;
}

/* What a limit's `reference` names: "LIBRARY" or "BENCH: LIBRARY". */
static const struct series *find_reference(const struct bench_suite *suite,
                                           const struct result results[][BENCH_ROWS_MAX],
                                           const struct bench_limit *limit)
{
    const char *colon = limit->reference ? strstr(limit->reference, ": ") : NULL;

    if (!limit->reference)
        return NULL;
    if (!colon)
        return find_series(suite, results, limit->bench, strlen(limit->bench), limit->reference, limit->figure);
    return find_series(suite, results, limit->reference, (size_t)(colon - limit->reference), colon + 2, limit->figure);
}

/* Returns false if one was missed that must not be. */
static bool report_limits(const struct bench_suite *suite, const struct plan *plan,
                          const struct result results[][BENCH_ROWS_MAX])
{
    bool first = true, sound = true;

    for (const struct bench_limit *limit = suite->limits; limit->bench; limit++)
        for (size_t i = 0; suite->benches[i].name; i++)
            if (plan->chosen[i] && !strcmp(suite->benches[i].name, limit->bench)) {
                const struct bench *bench = &suite->benches[i];
                if (first)
                    printf("\njudged%67s %10s %12s\n", "by medians", "by mins", "limit");
                first = false;
                if (!report_limit(limit, bench, result_find(bench, results[i], limit->library, limit->figure),
                                  find_reference(suite, results, limit)) &&
                    limit->must)
                    sound = false;
            }
    if (!first)
        printf("Limits are goals for a quiet machine, judged by medians; one that is missed is not an error.\n");
    return sound;
}

int bench_main(int argc, char **argv, const struct bench_suite *suite)
{
    static struct result results[BENCH_BENCHES_MAX][BENCH_ROWS_MAX];
    struct plan plan = {0};
    FILE *json = NULL;
    bool sound = true;
    int status = parse(&plan, suite, argc, argv);

    if (status >= 0)
        return status;
    if (plan.json_path && !(json = fopen(plan.json_path, "we"))) {
        fprintf(stderr, "%s: cannot write %s: %s\n", suite->name, plan.json_path, strerror(errno));
        return EXIT_FAILED;
    }
    for (size_t i = 0; suite->benches[i].name; i++) {
        const struct bench *bench = &suite->benches[i];
        if (!plan.chosen[i])
            continue;
        leave_out_unasked_rows(&plan, suite, bench, results[i]);
        run_bench(&plan, bench, results[i]);
        report_table(bench, results[i]);
        if (json)
            report_json(json, bench, results[i]);
        sound = all_sound(bench, results[i]) && sound;
    }
    sound = report_limits(suite, &plan, results) && sound;
    if (json && (ferror(json) | fclose(json)) != 0) {
        fprintf(stderr, "%s: cannot write %s: %s\n", suite->name, plan.json_path, strerror(errno));
        return EXIT_FAILED;
    }
    return sound ? EXIT_OK : EXIT_FAILED;
}
