/*
 * combine/flows.c: one read or write of a stream, by a random call of the library. The caller knows the stream's key
 * and place, and checks the result.
 */
#include "stress/combine/combine.h"

static struct msghdr message(struct iovec *parts, unsigned char *bytes, size_t n)
{
    parts[0] = (struct iovec){bytes, n / 3};
    parts[1] = (struct iovec){bytes + n / 3, n - n / 3};
    return (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
}

size_t some_room(const struct call *c, uint64_t *random)
{
    if (keeps_records(c->kind)) /* a record that does not fit would lose bytes */
        return MOST_RECORD + pick(random, MOST_BYTES - MOST_RECORD);
    return 1 + pick(random, chance(random, 3) ? 64 : MOST_BYTES);
}

size_t some_length(const struct call *c, uint64_t *random)
{
    return 1 + pick(random, keeps_records(c->kind) ? MOST_RECORD : chance(random, 3) ? 64 : MOST_BYTES);
}

/* Waits for an event, and says -EAGAIN with what is there left alone. */
static ptrdiff_t wait_somehow(struct call *c, short event, weft_time deadline)
{
    if (chance(&c->random, 2)) {
        c->name = "weft_wait_fd";
        int rc = weft_wait_fd(c->fd, (unsigned)event, deadline);
        return rc > 0 ? 1 : rc;
    }
    c->name = "weft_poll";
    struct pollfd *p = malloc(sizeof *p); /* the caller may be on a shared stack */
    *p = (struct pollfd){.fd = c->fd, .events = event};
    int rc = weft_poll(p, 1, deadline);
    if (rc > 0)
        rc = p->revents & POLLNVAL ? -EBADF : 1;
    else if (rc == 0) /* poll says it in another way */
        rc = deadline.ns == WEFT_NOW.ns ? -EAGAIN : -ETIMEDOUT;
    free(p);
    return rc;
}

static ptrdiff_t peek(struct call *c, unsigned char *bytes, size_t room, weft_time deadline, uint64_t key,
                      uint64_t place)
{
    c->name = "weft_recv with MSG_PEEK";
    ptrdiff_t n = weft_recv(c->fd, bytes, room, MSG_PEEK, deadline);
    if (n > 0 && differs_at(bytes, (size_t)n, key, place) != (size_t)n)
        WRONG(c->scene, "a peek at a %s saw a wrong byte at %llu", kind_names[c->kind],
              (unsigned long long)(place + differs_at(bytes, (size_t)n, key, place)));
    return n > 0 ? 1 : n;
}

ptrdiff_t read_somehow(struct call *c, unsigned char *bytes, size_t room, size_t *moved, weft_time deadline,
                       uint64_t key, uint64_t place)
{
    struct iovec parts[2];
    struct msghdr m = message(parts, bytes, room);
    ptrdiff_t n;
    unsigned how = pick(&c->random, 8);
    *moved = 0;
    if (how >= 3 && how < 7 && c->kind == PIPE)
        how = 0;
    if (how == 2 && keeps_records(c->kind))
        how = 0;
    switch (how) {
    case 0:
        c->name = "weft_read";
        n = weft_read(c->fd, bytes, room, deadline);
        break;
    case 1:
        c->name = "weft_readv";
        n = weft_readv(c->fd, parts, 2, deadline);
        break;
    case 2:
        c->name = "weft_read_full";
        return weft_read_full(c->fd, bytes, room, moved, deadline);
    case 3:
        c->name = "weft_recv";
        n = weft_recv(c->fd, bytes, room, 0, deadline);
        break;
    case 4:
        c->name = "weft_recvmsg";
        n = weft_recvmsg(c->fd, &m, 0, deadline);
        break;
    case 5:
        c->name = "weft_recvfrom";
        n = weft_recvfrom(c->fd, bytes, room, 0, NULL, NULL, deadline);
        break;
    case 6:
        return peek(c, bytes, room, deadline, key, place);
    default:
        return wait_somehow(c, POLLIN, deadline);
    }
    *moved = n > 0 ? (size_t)n : 0;
    return n;
}

static ptrdiff_t send_file(struct call *c, size_t n, size_t *moved, weft_time deadline, uint64_t place)
{
    off_t *offset = malloc(sizeof *offset);
    *offset = (off_t)place;
    c->name = "weft_sendfile";
    ptrdiff_t sent = weft_sendfile(c->fd, c->file, offset, n, deadline);
    *moved = sent > 0 ? (size_t)sent : 0;
    if (*offset != (off_t)(place + *moved))
        WRONG(c->scene, "weft_sendfile moved the offset by %lld and says %td", (long long)(*offset - (off_t)place),
              sent);
    free(offset);
    return sent;
}

ptrdiff_t write_somehow(struct call *c, unsigned char *bytes, size_t n, size_t *moved, weft_time deadline,
                        uint64_t place)
{
    struct iovec parts[2];
    struct msghdr m = message(parts, bytes, n);
    ptrdiff_t sent;
    unsigned how = pick(&c->random, 8);
    *moved = 0;
    if (how >= 3 && how < 6 && c->kind == PIPE)
        how = 0;
    if (how == 7 && (c->file < 0 || keeps_records(c->kind)))
        how = 1;
    switch (how) {
    case 0:
        c->name = "weft_write";
        sent = weft_write(c->fd, bytes, n, deadline);
        break;
    case 1:
        c->name = "weft_writev";
        sent = weft_writev(c->fd, parts, 2, deadline);
        break;
    case 2:
        c->name = "weft_write_all";
        return weft_write_all(c->fd, bytes, n, moved, deadline);
    case 3:
        c->name = "weft_send";
        sent = weft_send(c->fd, bytes, n, 0, deadline);
        break;
    case 4:
        c->name = "weft_sendmsg";
        sent = weft_sendmsg(c->fd, &m, 0, deadline);
        break;
    case 5:
        c->name = "weft_sendto";
        sent = weft_sendto(c->fd, bytes, n, 0, NULL, 0, deadline);
        break;
    case 6:
        return wait_somehow(c, POLLOUT, deadline);
    default:
        return send_file(c, n, moved, deadline, place);
    }
    *moved = sent > 0 ? (size_t)sent : 0;
    return sent;
}
