/*
 * A sandbox that answers EPERM to preadv2 and pwritev2, as the filters of some containers do: reading and writing is as
 * without it.
 */
#include "hook/ends.h"

#include <string.h>
#include <sys/uio.h>

#include "support/sandbox.h"

static void write_soon(void *arg)
{
    int fd = *(int *)arg;
    usleep(20000);
    CHECK_INT(write(fd, "abc", 3), ==, 3);
    CHECK_INT(writev(fd, (struct iovec[]){{"d", 1}, {"ef", 2}}, 2), ==, 3);
}

static void check_ends(struct ends e)
{
    char bytes[8] = "";
    struct iovec parts[] = {{bytes + 3, 1}, {bytes + 4, 2}};
    double start = now_ms(); /* before the other flow begins */
    struct flow *f = begin(write_soon, &e.b);
    CHECK_INT(read(e.a, bytes, 3), ==, 3);
    CHECK_AFTER(start, 20);
    CHECK_INT(readv(e.a, parts, 2), ==, 3);
    CHECK_STR(bytes, "abcdef");
    end(f);
    close_ends(e);
}

static void read_a_lot(void *arg)
{
    char bytes[4096];
    for (ssize_t n, left = 200000; left > 0; left -= n) {
        n = read(*(int *)arg, bytes, sizeof bytes);
        CHECK_INT(n, >, 0);
        if (n <= 0)
            return;
    }
}

/* More than there is room for. */
static void check_long_write(struct ends e)
{
    static char bytes[200000];
    struct flow *f = begin(read_a_lot, &e.a);
    CHECK_INT(write(e.b, bytes, sizeof bytes), ==, sizeof bytes);
    end(f);
    close_ends(e);
}

static void check_all(void)
{
    check_ends(pipe_ends());
    check_ends(unix_ends(SOCK_STREAM));
    check_ends(tcp_ends());
    check_long_write(pipe_ends());
    check_long_write(unix_ends(SOCK_STREAM));
}

STATEMENT(reading_and_writing_wait_though_calls_with_flags_are_refused)
{
    if (refuse(SYS_preadv2, SYS_pwritev2, EPERM))
        check_all();
}

/* The filter that was last installed is asked first, and what an earlier one says counts if that is no less strict. */
STATEMENT(reading_and_writing_wait_though_calls_with_flags_are_unknown)
{
    if (refuse(SYS_preadv2, SYS_pwritev2, ENOSYS))
        check_all();
}

STATEMENTS(refused, reading_and_writing_wait_though_calls_with_flags_are_refused,
           reading_and_writing_wait_though_calls_with_flags_are_unknown)
