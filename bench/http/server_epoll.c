/*
 * server_epoll.c: the least that an HTTP server on epoll can do: one loop that parses by hand. It is level-triggered,
 * with one read for each event, and one write for all answers to the bytes of that read. A descriptor is registered
 * once; epoll_ctl is called again only if an answer does not fit into its socket.
 *
 * All connections share one buffer to read into and one to write from. A connection has memory of its own only while a
 * part of a request, or of an answer, is left over. Several workers are processes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "request.h"
#include "server.h"

#define EVENTS 512
#define DESCRIPTORS 65536
#define ROOM 65536

/* What is left over of a connection. */
struct rest {
    uint64_t skip;    /* bytes of a body that are to come, and are thrown away */
    size_t in_count;  /* bytes that were read and not parsed: at the beginning of `bytes` */
    size_t out_count; /* bytes to send: behind them */
    size_t file_left; /* bytes of the file to send, after out_count */
    bool closes;      /* the connection is closed after all of this was sent */
    char bytes[];
};

static struct rest *rests[DESCRIPTORS]; /* by descriptor; NULL: nothing */
static struct answer_texts answers;
static int set, listener, file;

static char in[ROOM], out[ROOM];

/* What happens to the connection that is being served. */
static struct {
    int fd;
    size_t in_at, in_count; /* bytes of `in` that were parsed, and that there are */
    size_t out_at, out_count;
    size_t file_left;
    uint64_t skip;
    bool closes; /* after the answers; nothing is parsed any more */
    bool broken;
} now;

static void control(int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(set, operation, fd, &event) != 0)
        case_fail("epoll_ctl: %s", strerror(errno));
}

static void accept_all(void)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= DESCRIPTORS)
            case_fail("descriptor %d is too big", fd);
        control(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        case_fail("accept4: %s", strerror(errno));
}

static bool is_stuck(void)
{
    return now.out_at < now.out_count || now.file_left > 0;
}

/* Sends the answers that were collected, then the file. What does not fit stays. */
static void flush(void)
{
    if (now.out_at < now.out_count) {
        ssize_t n = send(now.fd, out + now.out_at, now.out_count - now.out_at,
                         MSG_NOSIGNAL | (now.file_left > 0 ? MSG_MORE : 0));
        now.broken |= n < 0 && errno != EAGAIN;
        now.out_at += n > 0 ? (size_t)n : 0;
    }
    if (now.out_at < now.out_count || now.broken)
        return;
    now.out_at = now.out_count = 0;
    if (now.file_left > 0) {
        off_t from = (off_t)(SERVER_FILE_BYTES - now.file_left);
        ssize_t n = sendfile(now.fd, file, &from, now.file_left);
        now.broken |= n == 0 || (n < 0 && errno != EAGAIN);
        now.file_left -= n > 0 ? (size_t)n : 0;
    }
}

static void collect_answer(const struct request *request)
{
    const struct answer_text *text = answer_to(&answers, request);

    memcpy(out + now.out_count, text->bytes, text->count);
    now.out_count += text->count;
    now.closes = request->end == REQUEST_CLOSE;
    now.skip = request->body_bytes;
    now.file_left = request->target == REQUEST_FILE ? SERVER_FILE_BYTES : 0;
}

static void skip_body(void)
{
    size_t left = now.in_count - now.in_at, part = now.skip < left ? (size_t)now.skip : left;

    now.in_at += part;
    now.skip -= part;
}

/* Returns whether there may be more requests, which must wait until the answers have gone out. */
static bool collect_answers(void)
{
    while (now.in_at < now.in_count && !now.closes) {
        struct request request;
        size_t left = now.in_count - now.in_at;
        ssize_t head;
        if (now.file_left > 0 || now.out_count + sizeof(struct answer_text) > sizeof(out))
            return true;
        if (now.skip > 0) {
            skip_body();
            continue;
        }
        head = request_parse(in + now.in_at, left, &request);
        now.closes = head < 0 || (head == 0 && left == sizeof(in));
        if (head <= 0)
            return false;
        now.in_at += (size_t)head;
        collect_answer(&request);
    }
    return false;
}

/* Answers the requests that are there, until one is not complete or an answer does not fit into the socket. */
static void answer_all(void)
{
    bool more;

    do {
        more = collect_answers();
        flush();
    } while (more && !now.broken && !is_stuck());
}

/* Takes back what was left over. Returns whether there was something to send. */
static bool take_rest(void)
{
    struct rest *rest = rests[now.fd];
    bool was_stuck;

    if (!rest)
        return false;
    memcpy(in, rest->bytes, rest->in_count);
    memcpy(out, rest->bytes + rest->in_count, rest->out_count);
    now.in_count = rest->in_count;
    now.out_count = rest->out_count;
    now.file_left = rest->file_left;
    now.skip = rest->skip;
    now.closes = rest->closes;
    was_stuck = is_stuck();
    free(rest);
    rests[now.fd] = NULL;
    return was_stuck;
}

static void keep_rest(void)
{
    size_t in_left = now.in_count - now.in_at, out_left = now.out_count - now.out_at;
    struct rest *rest;

    if (in_left == 0 && now.skip == 0 && !is_stuck())
        return;
    rest = malloc(sizeof(*rest) + in_left + out_left);
    if (!rest)
        case_fail("no memory");
    *rest = (struct rest){
        .skip = now.skip, .in_count = in_left, .out_count = out_left, .file_left = now.file_left, .closes = now.closes};
    memcpy(rest->bytes, in + now.in_at, in_left);
    memcpy(rest->bytes + in_left, out + now.out_at, out_left);
    rests[now.fd] = rest;
}

static void read_more(void)
{
    ssize_t n = recv(now.fd, in + now.in_count, sizeof(in) - now.in_count, 0);

    now.broken = n == 0 || (n < 0 && errno != EAGAIN);
    now.in_count += n > 0 ? (size_t)n : 0;
}

/* A connection can be read, or written to if an answer was stuck, or is broken. */
static void serve_one(int fd)
{
    bool was_stuck;

    now.fd = fd;
    now.in_at = now.in_count = now.out_at = now.out_count = now.file_left = 0;
    now.skip = 0;
    now.closes = now.broken = false;
    was_stuck = take_rest();
    if (was_stuck)
        flush();
    else
        read_more();
    if (!now.broken && !is_stuck())
        answer_all();
    if (now.broken || (now.closes && !is_stuck())) {
        close(fd);
        return;
    }
    if (is_stuck() != was_stuck)
        control(EPOLL_CTL_MOD, fd, was_stuck ? EPOLLIN : EPOLLOUT);
    keep_rest();
}

static void serve(const struct server *server, int on)
{
    static struct epoll_event events[EVENTS];

    listener = on;
    file = server_open_file(server);
    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        case_fail("epoll_create1: %s", strerror(errno));
    control(EPOLL_CTL_ADD, listener, EPOLLIN);
    for (;;) {
        int n = epoll_wait(set, events, EVENTS, -1);
        answers_refresh(&answers);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all();
            else
                serve_one(events[i].data.fd);
        }
    }
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);

    server_run_processes(&server, serve);
}
