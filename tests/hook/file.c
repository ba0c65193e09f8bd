/*
 * Regular files: one that is not in memory is read all the same. (RWF_NOWAIT says EAGAIN of it, and epoll has none.) The
 * worker waits for the disk meanwhile, so this is done on the one that has no ticker. And whose the lock of a FILE is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hook/statement.h"

#define ELSEWHERE(name)                                                                                                \
    static void name##_there(void *unused);                                                                            \
    STATEMENT(name)                                                                                                    \
    {                                                                                                                  \
        end(begin_elsewhere(name##_there, NULL));                                                                      \
    }                                                                                                                  \
    static void name##_there(void *unused __attribute__((unused)))

enum { BYTES = 4 << 20, PART = 64 << 10 };

static char content(size_t at)
{
    return (char)(at * 7 + (at >> 12));
}

/* A file beside the program, where there is a disk; it has no name any more. */
static void make_file(void *arg)
{
    char name[] = "hook-file-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    CHECK_INT(fd, >=, 0);
    unlink(name);
    char *text = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = content(i);
    CHECK_INT(write(fd, text, BYTES), ==, BYTES);
    CHECK_INT(fsync(fd), ==, 0);
    free(text);
    *(int *)arg = fd;
}

static int new_file(void)
{
    int fd = -1;
    end(begin_thread(make_file, &fd)); /* fsync has no hook */
    return fd;
}

/* Out of memory with it, and back to the start. */
static void forget(int fd)
{
    CHECK_INT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), ==, 0);
    CHECK_INT(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), ==, 0);
    CHECK_INT(lseek(fd, 0, SEEK_SET), ==, 0);
}

static bool is_right(const char *text, size_t from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != content(from + i))
            return false;
    }
    return true;
}

ELSEWHERE(a_file_that_is_not_in_memory_is_read)
{
    static char text[PART + 1];
    int fd = new_file();
    forget(fd);
    size_t at = 0;
    for (ssize_t n; (n = read(fd, text, PART)) != 0; at += (size_t)n) {
        CHECK_INT(n, >, 0);
        if (n <= 0 || !is_right(text, at, (size_t)n)) {
            test_failed(__FILE__, __LINE__, "wrong at %zu", at);
            break;
        }
    }
    CHECK_INT(at, ==, BYTES);
    CHECK_INT(read(fd, text, 1), ==, 0);
    close(fd);
}

ELSEWHERE(each_way_to_read_it_is_right)
{
    static char text[PART];
    struct iovec parts[2] = {{text, 1000}, {text + 1000, PART - 1000}};
    int fd = new_file();
    forget(fd);
    CHECK_INT(readv(fd, parts, 2), ==, PART);
    CHECK(is_right(text, 0, PART));
    forget(fd);
    CHECK_INT(preadv2(fd, parts, 2, -1, 0), ==, PART);
    CHECK(is_right(text, 0, PART));
    CHECK_INT(lseek(fd, 0, SEEK_CUR), ==, PART);
    forget(fd);
    CHECK_INT(preadv2(fd, parts, 2, 1 << 20, 0), ==, PART);
    CHECK(is_right(text, 1 << 20, PART));
    CHECK_INT(lseek(fd, 0, SEEK_CUR), ==, 0);
    forget(fd);
    CHECK_INT(pread(fd, text, PART, 2 << 20), ==, PART);
    CHECK(is_right(text, 2 << 20, PART));
    CHECK_INT(lseek(fd, BYTES - 10, SEEK_SET), ==, BYTES - 10);
    CHECK_INT(read(fd, text, PART), ==, 10); /* what is left */
    CHECK(is_right(text, BYTES - 10, 10));
    CHECK_INT(readv(fd, parts, 2), ==, 0);
    close(fd);
}

ELSEWHERE(files_are_written)
{
    int fd = new_file();
    char text[4] = "";
    struct stat s;
    CHECK_INT(lseek(fd, 0, SEEK_END), ==, BYTES);
    CHECK_INT(write(fd, "ab", 2), ==, 2);
    CHECK_INT(writev(fd, &(struct iovec){"c", 1}, 1), ==, 1);
    CHECK_INT(pread(fd, text, 3, BYTES), ==, 3);
    CHECK_STR(text, "abc");
    CHECK_INT(fstat(fd, &s), ==, 0);
    CHECK_INT(s.st_size, ==, BYTES + 3);
    int root = open("/", O_RDONLY | O_CLOEXEC);
    CHECK_ERRNO(read(root, text, 1), EISDIR);
    close(root);
    int only = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_ERRNO(write(only, "x", 1), EBADF);
    close(only);
    close(fd);
}

struct reader {
    int fd;
    size_t from;
};

static void read_part(void *arg)
{
    struct reader *r = arg;
    char *text = malloc(PART);
    for (size_t at = r->from; at < r->from + BYTES / 4; at += PART) {
        CHECK_INT(pread(r->fd, text, PART, (off_t)at), ==, PART);
        CHECK(is_right(text, at, PART));
    }
    free(text);
}

STATEMENT(several_read_one_file)
{
    int fd = new_file();
    forget(fd);
    struct reader r[4];
    struct flow *flows[4];
    for (int i = 0; i < 4; i++) {
        r[i] = (struct reader){fd, (size_t)i * (BYTES / 4)};
        flows[i] = i % 2 ? begin_thread(read_part, &r[i]) : begin_elsewhere(read_part, &r[i]);
    }
    for (int i = 0; i < 4; i++)
        end(flows[i]);
    close(fd);
}

struct printer {
    FILE *to;
    const char *first, *second;
    int ms;                /* between them */
    struct printer *other; /* begins when this one has printed its first */
    struct flow *flow;     /* the other's */
};

static void print_two(void *arg)
{
    struct printer *p = arg;
    flockfile(p->to);
    fputs(p->first, p->to);
    if (p->other)
        p->flow = begin(print_two, p->other);
    usleep((useconds_t)p->ms * 1000);
    fputs(p->second, p->to);
    funlockfile(p->to);
}

/* A difference: the lock of a FILE is its thread's, and recursive. */
STATEMENT(fibers_of_one_worker_have_the_lock_of_a_file_together)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    CHECK(to != NULL);
    struct printer b = {.to = to, .first = "b1 ", .second = "b2 ", .ms = 100},
                   a = {.to = to, .first = "a1 ", .second = "a2 ", .ms = 20, .other = &b};
    print_two(&a);
    end(a.flow);
    CHECK_INT(fclose(to), ==, 0);
    CHECK_STR(text, is_kernel() ? "a1 a2 b1 b2 " : "a1 b1 a2 b2 ");
    free(text);
}

STATEMENTS(file, a_file_that_is_not_in_memory_is_read, each_way_to_read_it_is_right, files_are_written,
           several_read_one_file, fibers_of_one_worker_have_the_lock_of_a_file_together)
