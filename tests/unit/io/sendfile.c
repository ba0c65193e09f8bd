/*
 * Files to sockets and pipes: what arrives, who waits, what a close and a dead peer mean.
 */
#include <weft/file.h>

#include "base/sanitizer.h"
#include "io/fd.h"
#include "unit/io/ground.h"
#include "unit/offload/ground.h"

enum { BIG = 1000003 };

static char byte_at(size_t place)
{
    return (char)(place * 7 + place / 251);
}

/* A file without a name, of BIG bytes that depend on their place. */
static int new_file(void)
{
    char path[] = "/tmp/weft-sendfile-XXXXXX", *bytes = malloc(BIG);
    int fd = mkostemp(path, O_CLOEXEC);
    CHECK(fd >= 0 && bytes && unlink(path) == 0);
    for (size_t i = 0; bytes && i < BIG; i++)
        bytes[i] = byte_at(i);
    CHECK_INT(weft_pwrite(fd, bytes, BIG, 0, WEFT_FOREVER), ==, BIG);
    free(bytes);
    return fd;
}

struct reading {
    int fd;
    size_t from, bytes; /* what is to come: places in the file */
};

static void *reads_and_checks(void *arg)
{
    struct reading *r = arg;
    char *bytes = malloc(r->bytes + 1);
    CHECK_INT(weft_read_full(r->fd, bytes, r->bytes, NULL, weft_in(60 * WEFT_SEC)), ==, r->bytes);
    for (size_t i = 0; i < r->bytes && !test_has_failed(); i++)
        CHECK_INT(bytes[i], ==, byte_at(r->from + i));
    free(bytes);
    return NULL;
}

/* Sends all of it, in as many calls as it takes; how many. */
static int send_all(int to, int file, off_t *offset, size_t bytes)
{
    int calls = 0;
    for (size_t sent = 0; sent < bytes && !test_has_failed(); calls++) {
        ptrdiff_t n = weft_sendfile(to, file, offset, bytes - sent, weft_in(60 * WEFT_SEC));
        CHECK_INT(n, >, 0);
        sent += n > 0 ? (size_t)n : 0;
    }
    return calls;
}

static void go_through(int file, bool in_one_call)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct reading r = {.fd = p.a, .bytes = BIG};
        off_t offset = 0;
        weft_fiber *f = go(reads_and_checks, &r);
        int calls = send_all(p.b, file, &offset, BIG);
        CHECK(!in_one_call || kind % 2 == 1 || calls == 1); /* as the system call on a blocking descriptor */
        CHECK_INT(offset, ==, BIG);
        CHECK_INT(weft_sendfile(p.b, file, &offset, BIG, WEFT_FOREVER), ==, 0); /* there is no more */
        ended(f);

        r = (struct reading){.fd = p.a, .from = 1000, .bytes = 100};
        f = go(reads_and_checks, &r);
        CHECK_INT(lseek(file, 1000, SEEK_SET), ==, 1000);
        send_all(p.b, file, NULL, 100);
        CHECK_INT(lseek(file, 0, SEEK_CUR), ==, 1100);
        ended(f);
        close_pair(p);
    }
}

IN_FIBER(a_file_goes_through_to_any_kind)
{
    int file = new_file();
    go_through(file, true);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

/* As on a file system that cannot say whether it would wait. */
static void never_in_memory(int file)
{
    wf_or(&wf_fd_of(file)->word, WF_FD_NO_NOWAIT);
}

/* The same, and as after a long time. */
IN_FIBER(what_is_not_in_memory_goes_through_too)
{
    int file = new_file();
    never_in_memory(file);
    go_through(file, true);
    CHECK_INT(weft_close(file), ==, 0);
    file = new_file();
    CHECK_INT(weft_fsync(file, WEFT_FOREVER), ==, 0);
    CHECK_INT(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), ==, 0);
    go_through(file, true);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

struct sending {
    int to, file;
    off_t offset;
    weft_time until;
};

static void *sends(void *arg)
{
    struct sending *s = arg;
    return ptr(weft_sendfile(s->to, s->file, &s->offset, BIG, s->until));
}

static void *holds_a_helper(void *arg)
{
    CHECK_INT(weft_offload_with(&(weft_offload_opts){.kind = WEFT_OFFLOAD_FILE}, passes, arg, NULL, WEFT_FOREVER), ==,
              0);
    return NULL;
}

/* The only helper is busy, and so the file takes its time: for the fiber, not for its worker. */
IN_FIBER(who_sends_waits_for_the_disk_alone)
{
    int file = new_file();
    struct pair p = make_pair(1);
    struct gate disk = {0};
    struct sending s = {.to = p.b, .file = file, .until = WEFT_FOREVER};
    if (strcmp(weft_io_backend(), "epoll") == 0) {
        CHECK_INT(weft_offload_limit(WEFT_OFFLOAD_FILE, 1), ==, 0);
        weft_fiber *g = go(holds_a_helper, &disk);
        AWAIT(seen(&disk.begun) == 1);
        never_in_memory(file);
        weft_fiber *f = go(sends, &s);
        AWAIT(is_parked(f));
        CHECK_STR(weft_fiber_waits_for(f, NULL), "helper");
        put(&disk.open, 1);
        CHECK((intptr_t)ended(f) > 0);
        ended(g);
        default_limits();
    }
    close_pair(p);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

/* With nobody reading: it ends at its deadline, with what there was room for. */
IN_FIBER(who_sends_waits_for_room_until_its_deadline)
{
    int file = new_file();
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct sending s = {.to = p.b, .file = file, .until = weft_in(10 * WEFT_MS)};
        ptrdiff_t n = 1;
        for (int few = 4096; kind < 4 && few; few = 0)
            CHECK(setsockopt(p.b, SOL_SOCKET, SO_SNDBUF, &few, sizeof few) == 0 &&
                  setsockopt(p.a, SOL_SOCKET, SO_RCVBUF, &few, sizeof few) == 0);
        while (n > 0 && s.offset < BIG) {
            off_t before = s.offset;
            n = (ptrdiff_t)(intptr_t)sends(&s);
            CHECK_INT(s.offset - before, ==, n > 0 ? n : 0);
        }
        CHECK_INT(n, ==, -ETIMEDOUT);
        CHECK_INT(weft_now().ns, >=, s.until.ns);
        s.until = WEFT_NOW;
        CHECK_PTR(sends(&s), ==, ptr(-EAGAIN));
        weft_fiber *f = NULL;
        s.until = WEFT_FOREVER;
        f = go(sends, &s);
        AWAIT(is_parked(f)); /* and its worker runs us */
        size_t before = (size_t)s.offset;
        CHECK_INT(weft_close(p.b), ==, 0);
        CHECK_PTR(ended(f), ==, ptr(-EBADF));
        CHECK_INT(s.offset, ==, before);
        struct reading r = {.fd = p.a, .bytes = before};
        reads_and_checks(&r);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

/* SIGPIPE would end this program. */
IN_FIBER(a_dead_peer_is_told_without_a_signal)
{
    int file = new_file();
    for (int kind = 0; kind < 4; kind++) {
        struct pair p = make_pair(kind);
        off_t offset = 0;
        ptrdiff_t n;
        CHECK_INT(weft_close(p.a), ==, 0);
        do
            n = weft_sendfile(p.b, file, &offset, 1000, WEFT_FOREVER);
        while (n > 0 && offset < BIG);
        CHECK(n == -EPIPE || n == -ECONNRESET);
        CHECK_INT(weft_sendfile(p.b, file, &offset, 1000, WEFT_FOREVER), ==, -EPIPE);
        sigset_t pending;
        CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

IN_FIBER(what_cannot_be_sent_is_said)
{
    int file = new_file();
    struct pair p = tcp_pair(), q = pipe_pair(0);
    off_t offset = 0, before = -1;
    errno = 12345;
    CHECK_INT(weft_sendfile(-1, file, &offset, 1, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_sendfile(p.b, -1, &offset, 1, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_sendfile(p.b, 9999, &offset, 1, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_sendfile(9999, file, &offset, 1, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_sendfile(p.b, file, &before, 1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_sendfile(p.b, q.a, NULL, 1, WEFT_FOREVER), ==, -EINVAL); /* a pipe has no place */
    CHECK_INT(weft_sendfile(p.b, p.a, NULL, 1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_sendfile(p.b, file, &offset, 0, WEFT_FOREVER), ==, 0);
    CHECK_INT(offset, ==, 0);
    CHECK_INT(before, ==, -1);
    CHECK_INT(errno, ==, 12345);
    close_pair(p);
    close_pair(q);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

static void *reads_on_a_thread(void *arg)
{
    return reads_and_checks(arg);
}

TEST(a_plain_thread_may_send)
{
    int file = new_file();
    for (int kind = 0; kind < KINDS; kind++) {
        struct pair p = make_pair(kind);
        struct reading r = {.fd = p.a, .bytes = BIG};
        off_t offset = 0;
        pthread_t t = new_thread(reads_on_a_thread, &r);
        send_all(p.b, file, &offset, BIG);
        pthread_join(t, NULL);
        close_pair(p);
    }
    CHECK_INT(weft_close(file), ==, 0);
}

TESTS(io_sendfile, a_file_goes_through_to_any_kind, what_is_not_in_memory_goes_through_too,
      who_sends_waits_for_the_disk_alone, who_sends_waits_for_room_until_its_deadline,
      a_dead_peer_is_told_without_a_signal, what_cannot_be_sent_is_said, a_plain_thread_may_send)
