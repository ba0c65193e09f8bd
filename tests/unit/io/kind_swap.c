/*
 * A number that was closed behind the library's back, by close(2) or dup2(2), belongs to a descriptor of another kind: what the
 * library knew about the old one decides neither about SIGPIPE nor about the result.
 */
#include "io/fd.h"
#include "unit/io/kind_swap.h"

/* Reads and writes, so that the library learns what there is to learn. */
static void use(int fd)
{
    char some[8] = {0};
    weft_read(fd, some, sizeof some, WEFT_NOW);
    weft_write(fd, some, sizeof some, WEFT_NOW);
    weft_read(fd, some, sizeof some, weft_in(WEFT_MS));
}

/* `fd` is made to be a socket whose other end has closed. */
static void make_broken_socket(int fd, enum swap_kind kind)
{
    struct pair p = swap_pair(kind);
    CHECK_INT(dup2(p.a, fd), ==, fd);
    close(p.a);
    close(p.b);
    if (kind == TCP) { /* the first write is answered by a reset */
        struct pollfd reset = {.fd = fd, .events = 0};
        weft_send(fd, "x", 1, 0, WEFT_NOW);
        CHECK_INT(poll(&reset, 1, 20000), ==, 1);
        char byte;
        recv(fd, &byte, 1, MSG_DONTWAIT); /* takes the ECONNRESET: from now on it is EPIPE */
    }
}

static void expect_epipe(int fd, enum swap_kind kind, weft_time deadline)
{
    int expected = kind == UNIX_DATAGRAM ? -ECONNREFUSED : -EPIPE;
    struct iovec parts[] = {{(char[]){"ab"}, 2}, {(char[]){"cd"}, 2}};
    CHECK_INT(weft_write(fd, "x", 1, deadline), ==, expected);
    expected = kind == UNIX_DATAGRAM ? -ENOTCONN : expected; /* the first refusal has taken its connection away */
    CHECK_INT(weft_writev(fd, parts, 2, deadline), ==, expected);
    CHECK_INT(weft_write_all(fd, "xyz", 3, NULL, deadline), ==, expected);
}

IN_FIBER(a_socket_that_gets_the_number_of_another_kind_raises_no_sigpipe)
{
    count_sigpipes();
    for (enum swap_kind before = 0; before < SWAP_KINDS; before++) {
        for (enum swap_kind after = UNIX_STREAM; after <= TCP; after++) {
            for (int waits = 0; waits < 2; waits++) {
                struct pair p = swap_pair(before);
                use(p.a);
                make_broken_socket(p.a, after);
                expect_epipe(p.a, after, waits ? weft_in(20 * WEFT_SEC) : WEFT_NOW);
                CHECK_INT(weft_close(p.a), ==, 0);
                if (p.b >= 0)
                    close(p.b);
                if (test_has_failed() || seen(&sigpipes) > 0) {
                    test_failed(__FILE__, __LINE__, "kind %d before kind %d: %d SIGPIPEs", before, after,
                                seen(&sigpipes));
                    return arg;
                }
            }
        }
    }
    return arg;
}

/* io.h: as write(2), which raises it on whatever is no socket. */
IN_FIBER(a_pipe_without_a_reader_raises_sigpipe_as_write_does)
{
    for (enum swap_kind kind = PIPE_OUT; kind <= FIFO_OUT; kind++) {
        for (int waits = 0; waits < 2; waits++) {
            struct pair p = swap_pair(kind);
            count_sigpipes();
            weft_time deadline = waits ? weft_in(20 * WEFT_SEC) : WEFT_NOW;
            CHECK_INT(weft_write(p.a, "x", 1, deadline), ==, 1);
            close(p.b);
            struct iovec parts[] = {{(char[]){"ab"}, 2}, {(char[]){"cd"}, 2}};
            CHECK_INT(weft_write(p.a, "x", 1, deadline), ==, -EPIPE);
            CHECK_INT(seen(&sigpipes), ==, 1);
            CHECK_INT(weft_writev(p.a, parts, 2, deadline), ==, -EPIPE);
            CHECK_INT(seen(&sigpipes), ==, 2);
            CHECK_INT(weft_close(p.a), ==, 0);
        }
    }
    return arg;
}

/* A regular file cannot be waited for, and is read all the same, whatever the number was before. */
IN_FIBER(a_file_that_gets_the_number_of_another_kind_is_read_and_written)
{
    for (enum swap_kind before = 0; before < SWAP_KINDS; before++) {
        struct pair p = swap_pair(before);
        use(p.a);
        FILE *file = tmpfile();
        CHECK_INT(dup2(fileno(file), p.a), ==, p.a);
        fclose(file);
        char back[5] = "";
        CHECK_INT(weft_write(p.a, "text", 4, weft_in(20 * WEFT_SEC)), ==, 4);
        CHECK_INT(lseek(p.a, 0, SEEK_SET), ==, 0);
        CHECK_INT(weft_read(p.a, back, 4, weft_in(20 * WEFT_SEC)), ==, 4);
        CHECK_STR(back, "text");
        CHECK_INT(weft_close(p.a), ==, 0);
        if (p.b >= 0)
            close(p.b);
    }
    return arg;
}

static void *reads_the_end(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, weft_in(20 * WEFT_SEC)));
}

/* What one worker knows to be drained another cannot wait for: it is a file, or /dev/null, by now. */
static void *reads_on_the_other_worker(void *arg)
{
    static const char *const names[] = {"/dev/null", "/proc/self/environ"};
    for (int i = 0; i < 2; i++) {
        struct pair p = tcp_pair();
        weft_fiber *f = NULL;
        use(p.a);
        int file = open(names[i], O_RDONLY | O_CLOEXEC);
        lseek(file, 0, SEEK_END);
        CHECK_INT(dup2(file, p.a), ==, p.a);
        close(file);
        CHECK_INT(
            weft_go_with(&f, &(weft_attr){.size = sizeof(weft_attr), .worker = WEFT_WORKER(1)}, reads_the_end, &p.a),
            ==, 0);
        CHECK_INT((intptr_t)ended(f), >=, 0);
        close_pair(p);
    }
    return arg;
}

static void *starts_on_worker_0(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.size = sizeof(weft_attr), .worker = WEFT_WORKER(0)},
                           reads_on_the_other_worker, arg),
              ==, 0);
    ended(f);
    return arg;
}

TEST(a_file_that_gets_the_number_of_a_drained_stream_is_read_by_another_worker)
{
    in_a_fiber(2, starts_on_worker_0, NULL);
}

static void *closes(void *arg)
{
    return ptr(weft_close(*(int *)arg));
}

/* As a read does that has learnt something when weft_close has begun, and waits for it. */
TEST(a_call_that_ends_while_its_number_is_closed_leaves_nothing_to_the_next_descriptor)
{
    struct pair p = tcp_pair();
    struct wf_fd_ref r;
    REQUIRE(wf_fd_refer(&r, p.a) == 0);
    CHECK(wf_fd_enter(&r, 0));
    pthread_t closer = new_thread(closes, &p.a);
    AWAIT(wf_load(&r.e->word) & WF_FD_CLOSING);
    wf_fd_learn(&r, 0, WF_FD_NO_SOCKET);
    wf_fd_exit(&r, 0, WF_FD_KNOWN | WF_FD_STREAM);
    pthread_join(closer, NULL);
    CHECK_INT(wf_load(&r.e->word) & WF_FD_BITS, ==, 0);
    CHECK(!wf_fd_enter(&r, 0));
    CHECK_INT(weft_close(p.b), ==, 0);
}

/* The same for a pipe, which sends must not be tried on for ever. */
IN_FIBER(a_pipe_that_gets_the_number_of_another_kind_is_read_and_written)
{
    for (enum swap_kind before = 0; before < SWAP_KINDS; before++) {
        struct pair p = swap_pair(before), q = pipe_pair(0);
        char back[5] = "";
        use(p.a);
        CHECK_INT(dup2(q.b, p.a), ==, p.a);
        close(q.b);
        CHECK_INT(weft_write(p.a, "text", 4, weft_in(20 * WEFT_SEC)), ==, 4);
        CHECK_INT(dup2(q.a, p.a), ==, p.a);
        close(q.a);
        CHECK_INT(weft_read(p.a, back, 4, weft_in(20 * WEFT_SEC)), ==, 4);
        CHECK_STR(back, "text");
        CHECK_INT(weft_close(p.a), ==, 0);
        if (p.b >= 0)
            close(p.b);
    }
    return arg;
}

TESTS(io_kind_swap, a_call_that_ends_while_its_number_is_closed_leaves_nothing_to_the_next_descriptor,
      a_socket_that_gets_the_number_of_another_kind_raises_no_sigpipe,
      a_pipe_without_a_reader_raises_sigpipe_as_write_does,
      a_file_that_gets_the_number_of_another_kind_is_read_and_written,
      a_file_that_gets_the_number_of_a_drained_stream_is_read_by_another_worker,
      a_pipe_that_gets_the_number_of_another_kind_is_read_and_written)
