/*
 * tests/clients/interpreter.h: an interpreter whose main runs in a fiber, the first of weft_run, under the hooks. Its
 * runtime ends blocking calls by signals, and must not notice that it is in a fiber.
 *
 * A program links the interpreter and says by `struct interpreter` how its main is called. Its tests give it pieces of
 * text to run, each in a process of its own, and look at how that ends.
 */
#ifndef TESTS_CLIENTS_INTERPRETER_H
#define TESTS_CLIENTS_INTERPRETER_H

#include "support/test.h"

struct interpreter {
    const char *name;
    const char *option;                 /* what stands before a text to run: "-c", "-e" */
    int (*main)(int argc, char **argv); /* its status */
};

/* main of the program: its status. */
int interpreter_main(const struct interpreter *it, int argc, char **argv, const struct test *tests, size_t count);

/*
 * Runs the text. When it has printed "ready" it is sent `signal` (0: none), again and again until it ends. It must end
 * with `status`, as waitpid(2) tells it, and the last line that it prints must be `last` (NULL: any), before a limit
 * of a minute. A ticker on the same worker is seen to run, if `ticks`.
 */
void interpreter_check(const char *file, int line, const char *text, int number, int status, const char *last,
                       bool ticks);

#define CHECK_RUNS(text, ticks) interpreter_check(__FILE__, __LINE__, text, 0, 0, "done", ticks)
#define CHECK_SIGNAL(text, number, status, last)                                                                       \
    interpreter_check(__FILE__, __LINE__, text, number, status, last, false)
#define EXITED(status) ((status) << 8)

#endif
