/*
 * The line that debug builds print for a failed task that nobody looked at: which calls look, and how often it comes.
 */
#include <stdio.h>

#include <weft/scope.h>

#include "unit/task/places.h"

static int says_seven(void *arg, void **value)
{
    (void)value;
    return weft_fail(-ERANGE, "%s is not %d", (const char *)arg, 7);
}

static int fails_at_gate(void *arg, void **value)
{
    passes(arg);
    return says_seven("six", value);
}

static void counts_value(void *value, void *arg)
{
    (void)value;
    more(arg);
}

/* Calls after which nobody has looked, before its end and after it. */
static void look_away(weft_task *t, bool ended)
{
    void *value = NULL;
    int calls = 0, code = ended ? -ERANGE : -EAGAIN;
    weft_error e;
    CHECK_INT(weft_task_take(t, &value), ==, code);
    CHECK_INT(weft_task_take(t, &value), ==, code);
    if (!ended) {
        CHECK_INT(weft_task_await(t, &value, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_task_error(t, &e), ==, -EAGAIN);
        return;
    }
    CHECK_INT(weft_task_cancel(t), ==, -ESRCH);
    weft_task_then(t, counts_value, &calls);
    CHECK_INT(calls, ==, 0);
    weft_task_finally(weft_task_finally(t, counts_call, &calls), counts_call, &calls);
    CHECK_INT(calls, ==, 2);
}

static void counts_error(const weft_error *error, void *arg)
{
    CHECK_INT(error->code, ==, -ERANGE);
    more(arg);
}

static void *looks_by_scope(void *x)
{
    weft_task *t = NULL;
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, NULL), ==, 0);
    CHECK_INT(weft_task_start(&t, says_seven, "six", &(weft_task_opts){.on = x, .scope = &s}), ==, 0);
    CHECK_INT(weft_scope_wait(&s), ==, -ERANGE);
    CHECK_INT(weft_scope_close(&s), ==, -ERANGE);
    weft_task_free(t);
    return x;
}

/* Tasks that fail: one that nobody looks at, and one for each way to look. */
static void fail_on(enum kind k)
{
    struct place p = place_new(k);
    struct gate g = {.open = k == NOOP};
    int calls = 0;
    weft_error e;
    weft_task *t = start_named(p.x, "lonely", fails_at_gate, &g);
    if (k != NOOP)
        look_away(t, false);
    put(&g.open, 1);
    weft_task *awaited = start_named(p.x, "awaited", says_seven, "six"),
              *asked = start_named(p.x, "asked", says_seven, "six"),
              *caught = start_named(p.x, "caught", says_seven, "six");
    weft_task_catching(caught, counts_error, &calls);
    CHECK_INT(ends(awaited), ==, -ERANGE);
    in_a_fiber(1, looks_by_scope, p.x);
    CHECK_INT(weft_executor_close(p.x, true), ==, 0);
    CHECK_INT(weft_executor_join(p.x, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_task_error(asked, &e), ==, 0);
    CHECK_INT(calls, ==, 1);
    look_away(t, true);
    weft_task *all[] = {t, awaited, asked, caught};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        weft_task_free(all[i]);
    place_free(&p);
}

/* How many lines report a failure. Other lines, which are failed checks, are printed. */
static int count_reports(FILE *said)
{
    char line[1024];
    int n = 0;
    rewind(said);
    while (fgets(line, sizeof line, said)) {
        if (strstr(line, "failed and nobody looked"))
            n++;
        else
            fputs(line, stderr);
    }
    return n;
}

/* With its standard error in a file. */
static void forgets_on_all_kinds(void *arg)
{
    FILE *said = tmpfile();
    int before = dup(STDERR_FILENO);
    (void)arg;
    REQUIRE(said && before >= 0);
    for (enum kind k = 0; k < KINDS; k++) {
        REQUIRE(ftruncate(fileno(said), 0) == 0 && dup2(fileno(said), STDERR_FILENO) == STDERR_FILENO);
        rewind(said);
        fail_on(k);
        dup2(before, STDERR_FILENO);
        CHECK_INT(count_reports(said), ==, WF_DEBUG ? 1 : 0);
    }
    fclose(said);
    close(before);
}

TEST(a_failure_is_reported_once_if_only_calls_that_do_not_look_were_made)
{
    CHECK_CHILD(forgets_on_all_kinds, NULL, 0, NULL);
}

TESTS(task_reported, a_failure_is_reported_once_if_only_calls_that_do_not_look_were_made)
