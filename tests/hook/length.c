/*
 * tests/hook/length.c: how much one call moves, and what it says of lengths that cannot be.
 */
#include "hook/peer.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define MOST ((size_t)0x7ffff000) /* read(2) */
#define MUCH ((size_t)5 << 30)    /* more than 32 bits say */

static volatile size_t all = SIZE_MAX, half = SSIZE_MAX; /* the compiler must not know */

#define SKIP_IF_CHECKED()                                                                                              \
    do {                                                                                                               \
        if (STATEMENT_ASAN)                                                                                            \
            SKIP("a sanitizer looks at the memory before the kernel does");                                            \
    } while (0)

/* Memory that costs nothing. */
static char *much(int access)
{
    char *memory = mmap(NULL, MUCH, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

STATEMENT(a_length_that_memory_cannot_have_is_efault_of_read_and_write)
{
    SKIP_IF_CHECKED();
    static char text[64];
    int pair[2], pipefd[2];
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    CHECK_INT(write(pair[1], "abc", 3), ==, 3);
    CHECK_INT(write(pipefd[1], "abc", 3), ==, 3);
    double start = now_ms();
    CHECK_ERRNO(read(pair[0], text, all), EFAULT);
    CHECK_ERRNO(read(pair[0], text, half), EFAULT);
    CHECK_ERRNO(write(pair[0], text, all), EFAULT);
    CHECK_ERRNO(write(pair[0], text, half), EFAULT);
    CHECK_ERRNO(read(pipefd[0], text, all), EFAULT);
    CHECK_ERRNO(read(pipefd[0], text, half), EFAULT);
    CHECK_ERRNO(write(pipefd[1], text, all), EFAULT);
    CHECK_ERRNO(write(pipefd[1], text, half), EFAULT);
    CHECK_ERRNO(readv(pair[0], &(struct iovec){text, all}, 1), EINVAL);
    CHECK_ERRNO(writev(pair[0], &(struct iovec){text, all}, 1), EINVAL);
    CHECK_ERRNO(read(-1, text, all), EBADF);
    CHECK_AT_ONCE(start);
    CHECK_INT(recv(pair[0], text, all, 0), ==, 3); /* those of sockets take as much as they can */
    CHECK_INT(read(pipefd[0], text, sizeof text), ==, 3);
    CHECK_ERRNO(recv(pair[1], text, sizeof text, MSG_DONTWAIT), EAGAIN);
    close_pair(pair);
    close_pair(pipefd);
}

STATEMENT(a_length_of_more_than_32_bits_is_no_other_length)
{
    int pair[2], pipefd[2];
    char *memory = much(PROT_READ | PROT_WRITE);
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    struct writer w = {pair[1], 30, "abc", 3}, v = {pipefd[1], 30, "abc", 3};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(pair[0], memory, (size_t)1 << 32), ==, 3);
    end(writes);
    writes = begin(write_later, &w);
    CHECK_INT(recv(pair[0], memory, (size_t)1 << 32, 0), ==, 3);
    end(writes);
    writes = begin(write_later, &v);
    CHECK_INT(read(pipefd[0], memory, (size_t)1 << 32), ==, 3);
    end(writes);
    munmap(memory, MUCH);
    close_pair(pair);
    close_pair(pipefd);
}

/* Takes all that comes, without a look at it. */
static void discard(void *arg)
{
    while (recv(*(int *)arg, NULL, 1 << 30, MSG_TRUNC) > 0) {
    }
}

static void send_too_much(void *arg)
{
    bool in_parts = *(bool *)arg;
    int pair[2];
    tcp_pair(pair);
    struct flow *takes = begin_thread(discard, &pair[1]);
    char *memory = much(PROT_READ);
    struct iovec parts[2] = {{memory, MOST - 1000}, {memory, 1 << 20}};
    CHECK_INT(in_parts ? writev(pair[0], parts, 2) : send(pair[0], memory, MOST + 65536, 0), ==, MOST);
    CHECK_INT(close(pair[0]), ==, 0);
    end(takes);
    close(pair[1]);
    munmap(memory, MUCH);
}

/* Who takes it is so fast that the kernel is in no hurry to come back: where no ticker is. */
STATEMENT(no_more_than_2_gib_are_sent_by_one_call)
{
    for (int i = 0; i < 2; i++) {
        bool in_parts = i;
        end(begin_elsewhere(send_too_much, &in_parts));
    }
}

STATEMENTS(length, a_length_that_memory_cannot_have_is_efault_of_read_and_write,
           a_length_of_more_than_32_bits_is_no_other_length, no_more_than_2_gib_are_sent_by_one_call)
