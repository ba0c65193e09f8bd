/*
 * timeout.c: one timeout over a chain of calls. No function of the chain takes a deadline; the scope around them has
 * it. At the deadline the wait at the bottom returns -ECANCELED, and each function returns to its caller. The clean-up
 * of the request runs in a shield, so it can still wait.
 *
 * Prints: read_rows: cancelled, the scope's deadline has passed / roll_back: could wait / request: Connection timed out
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

static int database[2]; /* a pipe into which nothing is ever written */

static ptrdiff_t read_rows(char *rows, size_t size)
{
    weft_cause why = {.size = sizeof why};
    ptrdiff_t n = weft_read(database[0], rows, size, WEFT_FOREVER);
    if (n == -ECANCELED && weft_cancel_cause(&why) == 0)
        printf("read_rows: cancelled, %s\n", why.text);
    return n;
}

static void roll_back(void *arg)
{
    (void)arg;
    if (weft_sleep(10 * WEFT_MS) == 0) /* in the cancelled fiber; without the shield it would return -ECANCELED */
        printf("roll_back: could wait\n");
}

static int load_user(void)
{
    char rows[100];
    weft_defer(roll_back, NULL); /* runs when the scope is closed, on every path */
    ptrdiff_t n = read_rows(rows, sizeof rows);
    return n < 0 ? (int)n : 0;
}

static int answer_request(void)
{
    int rc = load_user();
    return rc < 0 ? rc : puts("answer_request: not reached");
}

static void *first(void *arg)
{
    weft_scope s;
    if (pipe(database) < 0 || weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(50 * WEFT_MS)}) < 0)
        return NULL;
    answer_request();
    printf("request: %s\n", strerror(-weft_scope_close(&s)));
    return arg;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0;
}
