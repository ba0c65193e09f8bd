/*
 * A dump shows scopes as a tree, with names, deadlines and causes.
 */
#include <stdlib.h>

#include <weft/executor.h>
#include <weft/task.h>

#include "unit/task/ground.h"

static int waits_below(void *arg)
{
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "inner"}) {
        CHECK_INT(weft_scope_go(&s, waits, NULL), ==, 0);
        more(arg);
        return weft_scope_wait(&s);
    }
    return 0;
}

/* Whether the words are in the text, in this order. */
static bool has_in_order(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        text = strstr(text, words[i]);
        if (!text)
            return false;
        text += strlen(words[i]);
    }
    return true;
}

static char *dumped(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    CHECK_INT(weft_dump(to), >=, 2);
    fclose(to);
    return text;
}

IN_A_SCOPE_FIBER(a_dump_shows_scopes_as_a_tree)
{
    int ready = 0;
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "outer", .deadline = weft_in(LONG)}) {
        CHECK_INT(weft_scope_go(&s, waits_below, &ready), ==, 0);
        CHECK_INT(weft_scope_go(&s, waits_below, &ready), ==, 0);
        AWAIT(seen(&ready) == 2);
        char *text = dumped();
        const char *words[] = {"\n  fiber ",        "\n    scope \"outer\" opened at ",     "2 children, deadline in ",
                               "\n      fiber ",    "\n        scope \"inner\" opened at ", "1 child\n",
                               "\n          fiber "};
        words[0] = "  fiber ";
        bool shown = has_in_order(text, words, 7);
        CHECK(shown);
        if (!shown)
            fputs(text, stderr);
        free(text);
        weft_scope_cancel(&s, 0, "by the test");
        text = dumped();
        CHECK(strstr(text, "cancelled: by the test") != NULL);
        free(text);
    }
    return arg;
}

static int waits_as_task(void *arg, void **value)
{
    (void)value;
    more(arg);
    return weft_sleep_until(WEFT_FOREVER);
}

IN_A_SCOPE_FIBER(a_dump_shows_tasks_below_their_scope)
{
    weft_executor *x = NULL;
    weft_task *t[3];
    int ready = 0;
    CHECK_INT(weft_executor_looper(&x, NULL, NULL, NULL), ==, 0);
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "outer"}) {
        weft_task_opts here = {.scope = &s, .name = "near"}, there = {.scope = &s, .on = x, .name = "far"};
        CHECK_INT(weft_task_start(&t[0], waits_as_task, &ready, &here), ==, 0);
        CHECK_INT(weft_task_start(&t[1], waits_as_task, &ready, &there), ==, 0);
        CHECK_INT(weft_task_start(&t[2], waits_as_task, &ready, &there), ==, 0); /* its looper is busy */
        AWAIT(seen(&ready) == 2);
        char *text = dumped();
        const char *words[] = {"    scope \"outer\" opened at ",
                               "3 children\n",
                               "\n      fiber ",
                               " \"near\" ",
                               "\n      task \"far\" begun, on executor \"looper\"\n",
                               "      task \"far\" not begun, on executor \"looper\"\n"};
        words[2] = "      fiber ";
        bool shown = has_in_order(text, words, 6);
        CHECK(shown);
        if (!shown)
            fputs(text, stderr);
        free(text);
    }
    for (int i = 0; i < 3; i++)
        weft_task_free(t[i]);
    CHECK_INT(weft_executor_free(x), ==, 0);
    return arg;
}

enum { LEVELS = 150 };

static int opens_another(void *arg)
{
    int *left = arg;
    if (__atomic_sub_fetch(left, 1, __ATOMIC_SEQ_CST) == 0)
        return waits(NULL);
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, opens_another, left), ==, 0);
        return weft_scope_wait(&s);
    }
    return 0;
}

IN_A_SCOPE_FIBER(a_dump_shows_every_fiber_of_a_deep_tree)
{
    int left = LEVELS;
    WEFT_SCOPE (s, NULL) {
        CHECK_INT(weft_scope_go(&s, opens_another, &left), ==, 0);
        AWAIT(seen(&left) == 0);
        FILE *to = fopen("/dev/null", "w");
        CHECK_INT(weft_dump(to), ==, LEVELS + 1);
        fclose(to);
    }
    return arg;
}

static int dumps_again_and_again(void *arg)
{
    for (int i = 0; i < 100; i++) {
        free(dumped());
        weft_yield();
    }
    put(arg, 1);
    return 0;
}

static int opens_and_closes(void *arg)
{
    while (!seen(arg)) {
        WEFT_SCOPE (s, NULL) {
            weft_scope_go(&s, returns, NULL);
            weft_scope_go(&s, returns, NULL);
            weft_yield();
        }
    }
    return 0;
}

IN_A_SCOPE_FIBER(dumps_and_scopes_do_not_disturb_each_other)
{
    int done = 0;
    WEFT_SCOPE (s, NULL) {
        for (int i = 0; i < 4; i++)
            CHECK_INT(weft_scope_go(&s, opens_and_closes, &done), ==, 0);
        CHECK_INT(weft_scope_go(&s, dumps_again_and_again, &done), ==, 0);
        CHECK_INT(weft_scope_wait(&s), ==, 0);
    }
    return arg;
}

TESTS(scope_dump, a_dump_shows_scopes_as_a_tree, a_dump_shows_tasks_below_their_scope,
      a_dump_shows_every_fiber_of_a_deep_tree, dumps_and_scopes_do_not_disturb_each_other)
