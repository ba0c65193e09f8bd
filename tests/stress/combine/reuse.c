/*
 * combine/reuse.c: fibers read one number that is closed by weft_close and used again at once, over and over. The
 * number is private, so the readers need not know when it is closed. A read is from the descriptor that had the number
 * when the read began, and gets that descriptor's bytes, its end, or -EBADF. There must be no other error.
 *
 * If a SOCK_SEQPACKET socket has the number, its packets must not be read late, whatever a read of the socket before it
 * had learnt by the close. A library that takes the socket for TCP is late once, and then forgets its mistake. Any
 * machine may be slow, so the test measures the same under a number that was never closed. It fails only if there are
 * many more late packets than under that number.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#define LATE (25 * WEFT_MS) /* a wait that missed its event is verified after 50 ms */

enum { READERS = 3, MOST_TURNS = 60, ROOM = 16, BYTE = 'x', MARK = 'y' };

/* What may have the number. SOCKETS: TCP and SOCK_SEQPACKET in turn. MIXED: files and pipes too, so nobody uses calls of sockets. */
enum mode { SAME, SOCKETS, MIXED, MODES };

struct door {
    struct scene *scene;
    int number;       /* const */
    int shut;         /* flag: no more turns */
    int packets;      /* flag, counted: packets with a mark that were read */
    enum mode mode;   /* const */
    enum kind kind;   /* const: what has the number, in mode SAME */
    struct ends ends; /* who has the number now. owner: the scene */
};

struct reader {
    struct door *door;
    uint64_t random;
};

static const char *const names[] = {"weft_recv", "weft_read", "weft_recvmsg", "weft_readv", "weft_read_full"};

static ptrdiff_t read_some(struct reader *r, unsigned how, unsigned char *bytes, size_t room, weft_time deadline)
{
    int fd = r->door->number;
    struct iovec part = {bytes, room};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    switch (how) {
    case 0:
        return weft_recv(fd, bytes, room, 0, deadline);
    case 1:
        return weft_read(fd, bytes, room, deadline);
    case 2:
        return weft_recvmsg(fd, &m, 0, deadline);
    case 3:
        return weft_readv(fd, &part, 1, deadline);
    default:
        return weft_read_full(fd, bytes, room, NULL, deadline);
    }
}

/* How it reads next. A read of more than there is tells the library about the descriptor. */
static unsigned some_way(struct reader *r, size_t *room)
{
    unsigned how = pick(&r->random,
                        r->door->mode == SOCKETS ? 4 : 5); /* weft_read_full would wait for a second packet */
    if (r->door->mode == MIXED && (how == 0 || how == 2))
        how = 1;
    *room = r->door->mode == SOCKETS ? ROOM : 1;
    return how;
}

static void check_bytes(struct door *d, const unsigned char *bytes, ptrdiff_t n)
{
    bool is_marked = n == 2 && bytes[1] == MARK;
    for (ptrdiff_t i = 0; i < n - is_marked; i++)
        EXPECT_INT(d->scene, bytes[i], ==, BYTE);
    if (is_marked)
        more(&d->packets);
}

/* Its calls do not count: they go on also where the scene stands still. */
static void *reads(void *arg)
{
    struct reader *r = arg;
    struct scene *s = r->door->scene;
    while (!seen(&r->door->shut)) {
        unsigned char bytes[ROOM] = {0};
        size_t room;
        unsigned how = some_way(r, &room);
        weft_time deadline = chance(&r->random, 4) ? some_deadline(&r->random) : WEFT_FOREVER;
        ptrdiff_t n = read_some(r, how, bytes, room, deadline);
        if (n > 0)
            check_bytes(r->door, bytes, n);
        else if (n != -EBADF && n != 0 && !gave_up_rightly(s, n, deadline))
            WRONG(s, "%s (%s) of a number that is closed and used again: %td (%s)", names[how], weft_io_backend(), n,
                  strerror((int)-n));
        else if (n == -EBADF || n == 0 || n == -EAGAIN)
            breathe();
    }
    return NULL;
}

/* The next one for the number: a has to get it. A file has something to read at once. */
static struct ends make_next(struct door *d, uint64_t *random)
{
    static const enum kind any[] = {UNIX_STREAM, TCP, PIPE, REGULAR};
    static const char bytes[] = {BYTE, BYTE, BYTE, BYTE, BYTE, BYTE, BYTE, BYTE};
    enum kind k = d->mode == MIXED ? any[pick(random, 4)] : d->kind;
    if (d->mode == SOCKETS)
        k = d->ends.kind == TCP ? UNIX_SEQPACKET : TCP;
    struct ends e = make_ends(d->scene, k, random);
    if (e.kind == REGULAR)
        EXPECT_INT(d->scene, pwrite(e.a, bytes, sizeof bytes, 0), ==, sizeof bytes);
    return e;
}

static void send_one(struct door *d)
{
    if (d->ends.kind != REGULAR)
        EXPECT_INT(d->scene, write(d->ends.b, "x", 1), ==, 1);
}

/* Whether packets that come at once, more than there are readers, are read late. The number is that of a SOCK_SEQPACKET socket. */
static bool is_late(struct door *d)
{
    static const char packet[] = {BYTE, MARK};
    int before = seen(&d->packets);
    int64_t since = weft_now().ns;
    for (int i = 0; i < READERS + 1; i++)
        EXPECT_INT(d->scene, write(d->ends.b, packet, sizeof packet), ==, sizeof packet);
    AWAIT(seen(&d->packets) - before == READERS + 1);
    did(d->scene);
    return weft_now().ns - since >= LATE;
}

/* Opens a door that nothing was closed behind, and closes it. */
static void open_control(struct door *control, struct reader *reader, weft_fiber **f, uint64_t *random)
{
    control->ends = make_ends(control->scene, UNIX_SEQPACKET, random);
    move_to(control->scene, &control->ends.a, control->number);
    *reader = (struct reader){.door = control, .random = new_random(random)};
    start(control->scene, f, random, reads, reader);
}

static void close_control(struct door *control, weft_fiber *f)
{
    put(&control->shut, 1);
    EXPECT_INT(control->scene, weft_close(control->number), ==, 0);
    ended(control->scene, f);
    EXPECT_INT(control->scene, weft_close(control->ends.b), ==, 0);
}

static void check_lateness(struct door *d, uint64_t *random)
{
    static int late, late_controls; /* flags, counted: in all scenes of all rounds */
    struct door *control = calloc(1, sizeof *control);
    struct reader *reader = calloc(1, sizeof *reader);
    weft_fiber *f = NULL;
    *control = (struct door){.scene = d->scene, .number = d->number + 1, .mode = SOCKETS};
    if (is_late(d))
        more(&late);
    open_control(control, reader, &f, random);
    if (is_late(control))
        more(&late_controls);
    close_control(control, f);
    free(reader);
    free(control);
    if (seen(&late) >= 10 * (1 + seen(&late_controls)))
        WRONG(d->scene, "packets were read late %d times, and under a fresh number %d times", seen(&late),
              seen(&late_controls));
}

/* Until a reader has just taken the bytes, or for 100 us. Nobody else runs here meanwhile. */
static void spin(const struct door *d)
{
    weft_time until = weft_in(100 * WEFT_US);
    int left = 0;
    while (ioctl(d->number, FIONREAD, &left) == 0 && left > 0 && weft_now().ns < until.ns)
        ;
}

/* One turn: some bytes may come, then the number is closed under whoever reads, and is another's at once. */
static void turn(struct door *d, uint64_t *random)
{
    struct scene *s = d->scene;
    struct ends next = make_next(d, random);
    for (unsigned n = pick(random, 4); n > 0; n--)
        send_one(d);
    if (chance(random, 3))
        nap(s, random, 60);
    if (d->mode == SOCKETS || chance(random, 4))
        send_one(d);
    if (d->mode == SOCKETS)
        spin(d); /* a reader is about to note what it has learnt */
    EXPECT_INT(s, weft_close(d->number), ==, 0);
    EXPECT_INT(s, dup3(next.a, d->number, O_CLOEXEC), ==, d->number);
    EXPECT_INT(s, weft_close(next.a), ==, 0);
    if (d->ends.b >= 0)
        EXPECT_INT(s, weft_close(d->ends.b), ==, 0);
    next.a = d->number;
    d->ends = next;
    if (d->mode == SOCKETS && next.kind == UNIX_SEQPACKET)
        check_lateness(d, random);
    did(s);
}

void step_reuse(struct scene *s)
{
    static const enum kind kinds[] = {UNIX_STREAM, UNIX_SEQPACKET, TCP};
    struct door *d = calloc(1, sizeof *d);
    struct reader *readers = calloc(READERS, sizeof *readers);
    weft_fiber *fibers[READERS];
    unsigned n = 1 + pick(&s->random, READERS);
    *d = (struct door){.scene = s, .number = s->numbers, .mode = (enum mode)pick(&s->random, MODES)};
    d->kind = kinds[pick(&s->random, 3)];
    d->ends = make_next(d, &s->random);
    move_to(s, &d->ends.a, d->number);
    for (unsigned i = 0; i < n; i++) {
        readers[i] = (struct reader){.door = d, .random = new_random(&s->random)};
        start(s, &fibers[i], &s->random, reads, &readers[i]);
    }
    for (unsigned turns = pick(&s->random, MOST_TURNS); turns > 0; turns--)
        turn(d, &s->random);
    put(&d->shut, 1);
    EXPECT_INT(s, weft_close(d->number), ==, 0); /* who waits goes on, and sees the flag */
    for (unsigned i = 0; i < n; i++)
        ended(s, fibers[i]);
    if (d->ends.b >= 0)
        EXPECT_INT(s, weft_close(d->ends.b), ==, 0);
    free(readers);
    free(d);
}
