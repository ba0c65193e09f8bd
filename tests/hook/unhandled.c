/*
 * A program that has set no signal handler: the first fiber of weft_run waits as any other fiber does. It is no program of
 * statements, as their runner sets handlers. Fails with a line that tells how the two waits differ.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

struct reader {
    int pipe[2];
    weft_fiber *fiber;
};

static struct reader first, other;

static void *reads(void *arg)
{
    struct reader *r = arg;
    char byte;
    return read(r->pipe[0], &byte, 1) == 1 ? NULL : arg;
}

static const char *wait_of(const struct reader *r)
{
    const char *what;
    while (*(what = weft_fiber_waits_for(r->fiber, NULL)) == '\0')
        weft_sleep(WEFT_MS);
    return what;
}

static void *compares(void *arg)
{
    const char *a = wait_of(&first), *b = wait_of(&other);
    bool alike = strcmp(a, b) == 0;
    if (!alike)
        fprintf(stderr, "the first fiber waits for \"%s\", another one for \"%s\"\n", a, b);
    bool written = write(first.pipe[1], "x", 1) == 1 && write(other.pipe[1], "x", 1) == 1;
    return alike && written ? NULL : arg;
}

static void *runs(void *arg)
{
    weft_fiber *f;
    void *failed = arg, *value;
    first.fiber = weft_fiber_current();
    if (weft_go_with(&other.fiber, NULL, reads, &other) != 0 || weft_go_with(&f, NULL, compares, &first) != 0)
        return arg;
    failed = reads(&first);
    if (weft_join(f, &value, WEFT_FOREVER) != 0 || value)
        failed = arg;
    if (weft_join(other.fiber, &value, WEFT_FOREVER) != 0 || value)
        failed = arg;
    return failed;
}

int main(void)
{
    void *failed;
    if (pipe(first.pipe) != 0 || pipe(other.pipe) != 0)
        return 1;
    return weft_run(runs, &first, &failed, NULL) != 0 || failed;
}
