/*
 * Kinds that cannot be told not to wait, and have no O_NONBLOCK: terminals, FIFOs and event descriptors. The worker never waits in
 * a call on them, and the calls leave the locks of fcntl(2) alone.
 */
#include <sys/wait.h>
#include <termios.h>

#include "unit/io/kind_swap.h"

/* Whether another process finds it locked. */
static bool is_locked(int fd)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        _exit(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK);
    }
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    return status != 0;
}

static void lock(int fd)
{
    CHECK_INT(fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK}), ==, 0);
    CHECK(is_locked(fd));
}

IN_FIBER(reads_and_writes_leave_the_locks_of_the_process_alone)
{
    char byte = 'x';
    for (enum swap_kind kind = FIFO_OUT; kind <= TERMINAL; kind += TERMINAL - FIFO_OUT) {
        struct pair p = swap_pair(kind);
        lock(p.a);
        CHECK_INT(weft_write(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_write(p.a, &byte, 1, WEFT_NOW), ==, 1);
        CHECK(is_locked(p.a));
        if (kind == TERMINAL) {
            CHECK_INT(weft_read(p.a, &byte, 1, WEFT_NOW), ==, -EAGAIN);
            CHECK(is_locked(p.a));
        }
        close_pair(p);
    }
    return arg;
}

static void make_raw(int fd)
{
    struct termios how;
    CHECK_INT(tcgetattr(fd, &how), ==, 0);
    cfmakeraw(&how);
    CHECK_INT(tcsetattr(fd, TCSANOW, &how), ==, 0);
}

/* Text of every kind of byte that a terminal puts out as several. */
static void fill_with_text(char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(i % 7 == 6 ? '\n' : i % 5 == 4 ? '\t' : 'a' + (int)(i % 26));
}

static void set_tabs(int fd)
{
    struct termios how;
    CHECK_INT(tcgetattr(fd, &how), ==, 0);
    how.c_oflag |= OPOST | ONLCR | TAB3;
    CHECK_INT(tcsetattr(fd, TCSANOW, &how), ==, 0);
}

/* Each time that it is full a little is taken out, so that there is little room. */
IN_FIBER(a_write_to_a_full_terminal_does_not_block_the_worker)
{
    char text[4096], out[1024];
    fill_with_text(text, sizeof text);
    for (int raw = 0; raw < 2; raw++) {
        struct pair p = terminal_pair();
        if (raw)
            make_raw(p.a);
        else
            set_tabs(p.a);
        fcntl(p.b, F_SETFL, O_NONBLOCK);
        for (int i = 1; i < 300; i++) {
            ptrdiff_t n;
            while ((n = weft_write(p.a, text, i % 3 ? sizeof text : (size_t)i, WEFT_NOW)) > 0)
                ;
            CHECK_INT(n, ==, -EAGAIN);
            CHECK_INT(read(p.b, out, (size_t)(i * 37) % sizeof out + 1), >, 0);
        }
        ptrdiff_t n;
        do
            n = weft_write(p.a, text, sizeof text, weft_in(WEFT_MS));
        while (n > 0);
        CHECK_INT(n, ==, -ETIMEDOUT);
        close_pair(p);
    }
    return arg;
}

struct writer {
    int fd;
    char text[20000];
};

static void *writes_all(void *arg)
{
    struct writer *w = arg;
    CHECK_INT(weft_write_all(w->fd, w->text, sizeof w->text, NULL, WEFT_FOREVER), ==, sizeof w->text);
    return NULL;
}

IN_FIBER(a_terminal_gets_every_byte_in_order)
{
    static struct writer w;
    struct pair p = terminal_pair();
    char back[sizeof w.text];
    w.fd = p.a;
    fill_with_text(w.text, sizeof w.text);
    make_raw(p.a);
    weft_fiber *f = go(writes_all, &w);
    CHECK_INT(weft_read_full(p.b, back, sizeof back, NULL, weft_in(20 * WEFT_SEC)), ==, sizeof back);
    CHECK(memcmp(back, w.text, sizeof back) == 0);
    ended(f);
    close_pair(p);
    return arg;
}

struct adder {
    int fd;
    uint64_t value;
    int done; /* atomic */
};

static void *adds(void *arg)
{
    struct adder *a = arg;
    CHECK_INT(weft_write(a->fd, &a->value, sizeof a->value, WEFT_FOREVER), ==, sizeof a->value);
    put(&a->done, 1);
    return NULL;
}

/* poll(2) says of it that it can be written to, as 1 can be added. */
IN_FIBER(a_value_too_great_for_an_event_descriptor_waits_for_room)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t value = UINT64_MAX - 5, hundred[2] = {100, 1};
    CHECK_INT(weft_write(fd, &value, sizeof value, WEFT_FOREVER), ==, sizeof value);
    CHECK_INT(weft_write(fd, hundred, sizeof value, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_write(fd, hundred, sizeof value, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    struct iovec parts[] = {{hundred, 0}, {&hundred[1], 8}, {&hundred[0], 8}};
    CHECK_INT(weft_writev(fd, parts, 3, WEFT_NOW), ==, 8); /* as much as there is room for */
    struct adder a = {.fd = fd, .value = 100};
    weft_fiber *f = go(adds, &a);
    weft_yield();
    CHECK_INT(seen(&a.done), ==, 0);
    CHECK_INT(read(fd, &value, sizeof value), ==, sizeof value);
    CHECK_INT(value == UINT64_MAX - 4, ==, 1);
    ended(f);
    CHECK_INT(read(fd, &value, sizeof value), ==, sizeof value);
    CHECK_INT(value, ==, 100);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

/* What has O_NONBLOCK takes as much as the system call does. */
IN_FIBER(one_that_does_not_block_is_written_to_in_one_piece)
{
    struct pair p = fifo_pair();
    char bytes[2 * PIPE_BUF + 1] = {0};
    fcntl(p.a, F_SETFL, O_NONBLOCK);
    CHECK_INT(weft_write(p.a, bytes, sizeof bytes, WEFT_FOREVER), ==, sizeof bytes);
    CHECK_INT(weft_read(p.a, bytes, 1, WEFT_FOREVER), ==, -EBADF);
    fcntl(p.a, F_SETFL, 0);
    CHECK_INT(weft_write(p.a, bytes, sizeof bytes, WEFT_FOREVER), >=, PIPE_BUF); /* a ring writes all of it */
    close_pair(p);
    return arg;
}

TESTS(io_polled, reads_and_writes_leave_the_locks_of_the_process_alone,
      a_write_to_a_full_terminal_does_not_block_the_worker, a_terminal_gets_every_byte_in_order,
      a_value_too_great_for_an_event_descriptor_waits_for_room, one_that_does_not_block_is_written_to_in_one_piece)
