/*
 * A dump shows scopes as a tree, with names, deadlines and causes.
 */
#include <stdlib.h>

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
    CHECK_INT(weft_dump(to), >=, 4);
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

TESTS(scope_dump, a_dump_shows_scopes_as_a_tree, dumps_and_scopes_do_not_disturb_each_other)
