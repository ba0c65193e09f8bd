/*
 * server_uring.c: the least that an echo server on io_uring can do, in two ways. raw-uring: a send with a receive linked
 * behind it, one of each for a message, as a program must that says into which buffer to read. raw-uring-multi: one
 * receive for all of a connection's messages, into buffers that the kernel picks from a ring of them, and a send for each.
 */
#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/case.h"
#include "server.h"

#define ENTRIES 4096
#define COMPLETIONS 32768
#define BUFFERS 4096 /* of raw-uring-multi; fewer if they are big */
#define BUFFERS_BIG 256
#define GROUP 0

/* What a completion is for, in the lowest bits of its user_data. */
enum { ACCEPTED = 0, RECEIVED = 1, SENT = 2, MEANING = 3 };

struct connection {
    int fd;
    char room[]; /* of raw-uring */
};

static struct server server;
static struct io_uring ring;
static bool multi;
static struct {
    struct io_uring_buf_ring *ring;
    char *bytes;
    unsigned count;
} buffers;

static struct io_uring_sqe *next_sqe(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    if (!sqe)
        case_fail("the submission queue stays full");
    return sqe;
}

/* Two that are linked must go to the kernel together. */
static void make_room_for_two(void)
{
    if (io_uring_sq_space_left(&ring) < 2)
        io_uring_submit(&ring);
}

static void accept_next(void)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_multishot_accept(sqe, server.listener, NULL, NULL, SOCK_CLOEXEC);
    io_uring_sqe_set_data64(sqe, ACCEPTED);
}

static void receive(struct connection *c)
{
    struct io_uring_sqe *sqe = next_sqe();

    if (multi) {
        io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = GROUP;
    } else {
        io_uring_prep_recv(sqe, c->fd, c->room, server.room, 0);
    }
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)c | RECEIVED);
}

static void give_back(unsigned buffer)
{
    io_uring_buf_ring_add(buffers.ring, buffers.bytes + buffer * server.room, (unsigned)server.room,
                          (unsigned short)buffer, io_uring_buf_ring_mask(buffers.count), 0);
    io_uring_buf_ring_advance(buffers.ring, 1);
}

static struct io_uring_sqe *send_all(int fd, const char *bytes, size_t count)
{
    struct io_uring_sqe *sqe = next_sqe();
    io_uring_prep_send(sqe, fd, bytes, count, MSG_WAITALL | MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, SENT);
    return sqe;
}

static void accepted(const struct io_uring_cqe *cqe)
{
    if (cqe->res >= 0) {
        struct connection *c = server_alloc(sizeof(*c) + (multi ? 0 : server.room));
        c->fd = cqe->res;
        receive(c);
    } else if (cqe->res != -ECONNABORTED) {
        case_fail("accept: %s", strerror(-cqe->res));
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        accept_next();
}

static void end(struct connection *c)
{
    close(c->fd);
    free(c);
}

static void received(struct connection *c, const struct io_uring_cqe *cqe)
{
    if (cqe->res <= 0) {
        end(c);
        return;
    }
    make_room_for_two();
    send_all(c->fd, c->room, (size_t)cqe->res)->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    receive(c);
}

/* A send's user_data names its buffer; where it fails, the receive that is under way says so to the connection. */
static void received_multi(struct connection *c, const struct io_uring_cqe *cqe)
{
    if (cqe->res > 0) {
        unsigned buffer = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
        struct io_uring_sqe *sqe = send_all(c->fd, buffers.bytes + buffer * server.room, (size_t)cqe->res);
        io_uring_sqe_set_data64(sqe, (uint64_t)buffer << 2 | SENT);
    } else if (cqe->res != -ENOBUFS) {
        end(c);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        receive(c);
}

static void handle(const struct io_uring_cqe *cqe)
{
    uint64_t data = cqe->user_data;

    switch (data & MEANING) {
    case ACCEPTED:
        accepted(cqe);
        break;
    case RECEIVED:
        (multi ? received_multi : received)((struct connection *)(uintptr_t)(data & ~(uint64_t)MEANING), cqe);
        break;
    default:
        if (multi)
            give_back((unsigned)(data >> 2));
        break;
    }
}

static void make_ring(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
        .cq_entries = COMPLETIONS,
    };
    int rc = io_uring_queue_init_params(ENTRIES, &ring, &params);
    if (rc != 0)
        case_na("io_uring: %s", strerror(-rc));
}

static void make_buffers(void)
{
    struct io_uring_buf_reg reg = {.bgid = GROUP};
    void *memory;
    int rc;

    buffers.count = server.room > SERVER_ROOM_SMALL ? BUFFERS_BIG : BUFFERS;
    buffers.bytes = server_alloc(buffers.count * server.room);
    if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), buffers.count * sizeof(struct io_uring_buf)) != 0)
        case_fail("no memory");
    buffers.ring = memory;
    reg.ring_addr = (uint64_t)(uintptr_t)memory;
    reg.ring_entries = buffers.count;
    rc = io_uring_register_buf_ring(&ring, &reg, 0);
    if (rc != 0)
        case_na("a ring of buffers: %s", strerror(-rc));
    io_uring_buf_ring_init(buffers.ring);
    for (unsigned i = 0; i < buffers.count; i++)
        give_back(i);
}

int main(int argc, char **argv)
{
    server = server_open(argc, argv);
    multi = server_is(&server, "raw-uring-multi");
    make_ring();
    if (multi)
        make_buffers();
    accept_next();
    server_announce(&server);
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        int rc = io_uring_submit_and_wait(&ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EBUSY)
            case_fail("io_uring_submit_and_wait: %s", strerror(-rc));
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            handle(cqe);
            n++;
        }
        io_uring_cq_advance(&ring, n);
    }
}
