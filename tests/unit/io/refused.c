/*
 * System calls that a sandbox refuses: the filters of some containers answer EPERM to calls that they do not know, where a
 * kernel that has no such call says ENOSYS. Each test is a child with such a filter.
 */
#include <sys/mman.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/sandbox.h"
#include "unit/io/ground.h"

static void *writes_soon(void *arg)
{
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(weft_write(*(int *)arg, "abc", 3, WEFT_FOREVER), ==, 3);
    return NULL;
}

static void check_pair(struct pair p)
{
    char bytes[8] = "";
    struct iovec parts[] = {{bytes, 1}, {bytes + 1, 7}};
    weft_fiber *f = go(writes_soon, &p.b);
    CHECK_INT(weft_read(p.a, bytes, sizeof bytes, weft_in(20 * WEFT_SEC)), ==, 3);
    CHECK(memcmp(bytes, "abc", 3) == 0);
    ended(f);
    CHECK_INT(weft_writev(p.b, parts, 2, weft_in(20 * WEFT_SEC)), ==, 8);
    CHECK_INT(weft_readv(p.a, parts, 2, weft_in(20 * WEFT_SEC)), ==, 8);
    CHECK_INT(weft_read(p.a, bytes, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    close_pair(p);
}

static void *uses_all(void *arg)
{
    char bytes[8] = "";
    for (int kind = 0; kind < KINDS; kind++)
        check_pair(make_pair(kind));
    int file = memfd_create("refused", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK_INT(weft_write(file, "0123456789", 10, WEFT_FOREVER), ==, 10);
    CHECK_INT(weft_pwrite(file, "ab", 2, 4, WEFT_FOREVER), ==, 2);
    CHECK_INT(weft_pread(file, bytes, 4, 3, WEFT_FOREVER), ==, 4);
    CHECK(memcmp(bytes, "3ab6", 4) == 0);
    CHECK_INT(lseek(file, 0, SEEK_SET), ==, 0);
    CHECK_INT(weft_read(file, bytes, 3, WEFT_FOREVER), ==, 3);
    CHECK(memcmp(bytes, "012", 3) == 0);
    struct pair p = unix_pair(SOCK_STREAM);
    off_t offset = 2;
    CHECK_INT(weft_sendfile(p.b, file, &offset, 4, WEFT_FOREVER), ==, 4);
    CHECK_INT(weft_read_full(p.a, bytes, 4, NULL, weft_in(20 * WEFT_SEC)), ==, 4);
    CHECK(memcmp(bytes, "23ab", 4) == 0);
    close_pair(p);
    CHECK_INT(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), ==, 0); /* the kernel's own EPERM stays one */
    CHECK_INT(weft_pwrite(file, "ab", 2, 4, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_write(file, "ab", 2, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

static void runs_refused(void *arg)
{
    if (!refuse(SYS_preadv2, SYS_pwritev2, (int)(intptr_t)arg)) {
        fprintf(stderr, "no filters\n");
        return;
    }
    fprintf(stderr, "filtered\n");
    in_a_fiber(1, uses_all, NULL);
    in_a_fiber(2, uses_all, NULL);
    int file = memfd_create("refused", MFD_CLOEXEC);
    char byte = 0;
    CHECK_INT(weft_pwrite(file, "x", 1, 0, WEFT_FOREVER), ==, 1); /* on a plain thread */
    CHECK_INT(weft_pread(file, &byte, 1, 0, WEFT_FOREVER), ==, 1);
    CHECK_INT(byte, ==, 'x');
    CHECK_INT(weft_close(file), ==, 0);
}

static bool can_filter(void)
{
    bool emulated = TEST_EMULATED, instrumented = WF_VALGRIND;
    return !emulated && !instrumented && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
}

TEST(calls_with_flags_that_a_filter_refuses_with_eperm_are_done_without)
{
    if (!can_filter())
        SKIP("there are no filters of system calls");
    CHECK_CHILD(runs_refused, ptr(EPERM), 0, "filtered");
}

TEST(calls_with_flags_that_a_kernel_does_not_have_are_done_without)
{
    if (!can_filter())
        SKIP("there are no filters of system calls");
    CHECK_CHILD(runs_refused, ptr(ENOSYS), 0, "filtered");
}

TESTS(io_refused, calls_with_flags_that_a_filter_refuses_with_eperm_are_done_without,
      calls_with_flags_that_a_kernel_does_not_have_are_done_without)
