/*
 * Servers and clients in one process, for as long as one likes. Every byte of a stream depends on the stream and on its
 * place in it. Each end of a connection has a fiber that reads and one that writes, anywhere, and one that disturbs them:
 * it closes the descriptor under them, resets the connection, closes one half, or cancels them and lets others go on; and
 * calls have deadlines. Every byte that arrives is the right one; whoever reads to the end has all that was written; at
 * the end of a round no descriptor and no fiber is left; and nothing stands still for ten seconds.
 *
 * A number is not used after it was closed, as in any program: who closes on another worker than that of the two flows
 * makes sure that they are inside of a call, or will look first.
 *
 * WEFT_SOAK_SECONDS is how long all of it takes, WEFT_SEED the seed of the first round, and the others follow it. A seed
 * repeats the choices, not the order of the threads.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/un.h>

#include <weft/net.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "io/fd.h"
#include "unit/io/ground.h"

enum { CLIENTS = 24, THREADS = 2, MOST_CONNS = 1 << 16, PIECE = 16384, ROUND_MS = 1000, PATIENCE = 10 };
enum { SECONDS = 6 };

/* What one end of a connection has sent and got. owner: its flows, one of each kind at a time; all, when it is over */
struct side {
    uint64_t sent, got;
    bool ended; /* it has read to the end */
    int broken; /* flag: it was told of a reset, or closed the half that it reads from: an end says nothing */
};

struct conn {
    uint64_t keys[2];     /* const: of the bytes that the client sends, and of those that it gets */
    struct side sides[2]; /* the client's, the server's */
};

/* One round's. */
static struct {
    unsigned workers;
    weft_time until;
    uint64_t random;
    struct conn *conns[MOST_CONNS];
    unsigned made; /* atomic: of conns */
    int served, accepted, local;
    weft_stacks *pool;
    weft_waitgroup handlers; /* of those who accept by themselves */
    int threads_over;        /* flag, counted */
} at;

/* All rounds' figures. atomic */
static struct {
    uint64_t seed, connections, bytes, resets, closes, halves, deadlines, cancels;
} total;

static uint64_t steps; /* atomic: calls that have ended. The watchdog looks whether there are more */

static void add(uint64_t *n, uint64_t more)
{
    __atomic_add_fetch(n, more, __ATOMIC_RELAXED);
}

static unsigned pick(uint64_t *random, unsigned n)
{
    return (unsigned)(test_random(random) >> 33) % n;
}

/* ---- the bytes ---- */

static uint64_t word_at(uint64_t key, uint64_t index)
{
    uint64_t x = key + index * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 27;
}

static unsigned char byte_at(uint64_t key, uint64_t place)
{
    return (unsigned char)(word_at(key, place / 8) >> place % 8 * 8);
}

static void fill(unsigned char *bytes, size_t n, uint64_t key, uint64_t place)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(key, place + i);
}

static void check(const unsigned char *bytes, size_t n, uint64_t key, uint64_t place)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_at(key, place + i)) {
            test_failed(__FILE__, __LINE__, "a wrong byte at %llu", (unsigned long long)place + i);
            return;
        }
    }
}

/* ---- the two flows of an end ---- */

struct end;

struct flow {
    struct end *end;
    uint64_t random;
    weft_fiber *fiber;
    int over; /* flag: it needs nobody to go on in its place */
};

struct end {
    int fd;
    struct side *side;
    uint64_t in, out; /* keys */
    uint64_t budget;  /* bytes to send */
    int closed;       /* flag: nobody uses the number any more */
    bool here;        /* the flows are on the worker of who disturbs them */
    struct flow reader, writer;
};

/* Before each call: a read-modify-write, as who closes looks at our state after it has set it. */
static bool is_closed(struct end *e)
{
    return __atomic_fetch_or(&e->closed, 0, __ATOMIC_SEQ_CST);
}

static weft_time some_deadline(struct flow *f)
{
    switch (pick(&f->random, 4)) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_in((weft_span)pick(&f->random, 2000) * WEFT_US);
    default:
        return WEFT_FOREVER;
    }
}

/* What a call that moved no bytes means: whether the flow goes on. */
static bool goes_on(struct flow *f, ptrdiff_t n, weft_time deadline)
{
    struct end *e = f->end;
    switch (n) {
    case -EAGAIN:
        CHECK(deadline.ns == WEFT_NOW.ns);
        weft_yield();
        return true;
    case -ETIMEDOUT:
        CHECK(deadline.ns != INT64_MAX && weft_now().ns >= deadline.ns);
        add(&total.deadlines, 1);
        return true;
    case -ECANCELED:
        CHECK(weft_cancelled());
        return false;
    case -EBADF:
        CHECK(is_closed(e));
        break;
    case -ECONNRESET:
    case -EPIPE:
        put(&e->side->broken, 1);
        break;
    default:
        test_failed(__FILE__, __LINE__, "%s says %d", f == &e->reader ? "a read" : "a write", (int)n);
    }
    put(&f->over, 1);
    return false;
}

static struct msghdr message(struct iovec *parts, unsigned char *bytes, size_t n)
{
    parts[0] = (struct iovec){bytes, n / 3};
    parts[1] = (struct iovec){bytes + n / 3, n - n / 3};
    return (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
}

/* One call. *moved bytes were read, also if it fails. */
static ptrdiff_t some_read(struct flow *f, unsigned char *bytes, size_t room, size_t *moved, weft_time deadline)
{
    int fd = f->end->fd;
    struct iovec parts[2];
    struct msghdr m = message(parts, bytes, room);
    ptrdiff_t n;
    switch (pick(&f->random, 7)) {
    case 0:
        n = weft_readv(fd, parts, 2, deadline);
        break;
    case 1:
        n = weft_recvmsg(fd, &m, 0, deadline);
        break;
    case 2:
        n = weft_recv(fd, bytes, room, 0, deadline);
        break;
    case 3:
        n = weft_recv(fd, bytes, room, MSG_PEEK, deadline);
        if (n <= 0)
            break;
        check(bytes, (size_t)n, f->end->in, f->end->side->got);
        return n;
    case 4:
        return weft_read_full(fd, bytes, room, moved, deadline);
    case 5:
        n = weft_wait_fd(fd, POLLIN, deadline);
        return n > 0 ? -EAGAIN : n;
    default:
        n = weft_read(fd, bytes, room, deadline);
    }
    *moved = n > 0 ? (size_t)n : 0;
    return n;
}

static size_t some_length(struct flow *f)
{
    return 1 + pick(&f->random, pick(&f->random, 3) ? PIECE : 64);
}

static void *reads(void *arg)
{
    struct flow *f = arg;
    struct end *e = f->end;
    unsigned char own[512], *far = malloc(PIECE);
    while (!is_closed(e) && !seen(&f->over)) {
        size_t room = some_length(f), moved = 0;
        bool is_far = room > sizeof own;
        weft_time deadline = some_deadline(f);
        unsigned char *bytes = is_far ? far : own;
        ptrdiff_t n = some_read(f, bytes, room, &moved, deadline);
        check(bytes, moved, e->in, e->side->got);
        e->side->got += moved;
        add(&total.bytes, moved);
        add(&steps, 1);
        if (n == 0) {
            e->side->ended = true;
            put(&f->over, 1);
        } else if (n == -EAGAIN && deadline.ns != WEFT_NOW.ns) {
            continue; /* it was waited for, and is there */
        } else if (n < 0 && !goes_on(f, n, deadline)) {
            break;
        }
    }
    free(far);
    return NULL;
}

static ptrdiff_t some_write(struct flow *f, unsigned char *bytes, size_t n, size_t *moved, weft_time deadline)
{
    int fd = f->end->fd;
    struct iovec parts[2];
    struct msghdr m = message(parts, bytes, n);
    ptrdiff_t sent;
    switch (pick(&f->random, 6)) {
    case 0:
        sent = weft_writev(fd, parts, 2, deadline);
        break;
    case 1:
        sent = weft_sendmsg(fd, &m, 0, deadline);
        break;
    case 2:
        sent = weft_send(fd, bytes, n, 0, deadline);
        break;
    case 3:
        return weft_write_all(fd, bytes, n, moved, deadline);
    case 4:
        sent = weft_wait_fd(fd, POLLOUT, deadline);
        return sent > 0 ? 0 : sent;
    default:
        sent = weft_write(fd, bytes, n, deadline);
    }
    *moved = sent > 0 ? (size_t)sent : 0;
    return sent;
}

/* No more is sent. */
static void closes_half(struct end *e)
{
    int rc = weft_shutdown(e->fd, SHUT_WR);
    CHECK(rc == 0 || rc == -ENOTCONN);
    add(&total.halves, 1);
}

static void *writes(void *arg)
{
    struct flow *f = arg;
    struct end *e = f->end;
    unsigned char own[512], *far = malloc(PIECE);
    while (!is_closed(e) && !seen(&f->over)) {
        size_t n = some_length(f), moved = 0;
        if (n > e->budget - e->side->sent)
            n = e->budget - e->side->sent;
        if (n == 0) {
            closes_half(e);
            put(&f->over, 1);
            break;
        }
        unsigned char *bytes = n > sizeof own ? far : own;
        weft_time deadline = some_deadline(f);
        fill(bytes, n, e->out, e->side->sent);
        ptrdiff_t sent = some_write(f, bytes, n, &moved, deadline);
        e->side->sent += moved;
        add(&steps, 1);
        if (sent < 0 && !goes_on(f, sent, deadline))
            break;
        if (pick(&f->random, 32) == 0)
            weft_sleep((weft_span)pick(&f->random, 500) * WEFT_US); /* so that who reads has to wait */
    }
    free(far);
    return NULL;
}

/* ---- who disturbs them ---- */

static weft_attr some_attr(const struct end *e, uint64_t *random)
{
    weft_attr attr = {.size = sizeof attr};
    if (e->here) {
        attr.worker = WEFT_WORKER(weft_fiber_worker(weft_fiber_current()));
        return attr;
    }
    switch (pick(random, 4)) {
    case 0:
        attr.worker = WEFT_WORKER(pick(random, at.workers));
        break;
    case 1:
        attr.flags = WEFT_MIGRATE;
        break;
    case 2:
        attr.shared = at.pool;
        attr.worker = WEFT_WORKER(0); /* the pool is for one worker */
        break;
    default:
        break;
    }
    return attr;
}

static void start(struct flow *f, uint64_t *random)
{
    struct end *e = f->end;
    weft_attr attr = some_attr(e, random);
    f->random = test_random(random) | 1;
    CHECK_INT(weft_go_with(&f->fiber, &attr, f == &e->reader ? reads : writes, f), ==, 0);
}

/* It ends before its time, and another one goes on where it was. */
static void replace(struct flow *f, uint64_t *random)
{
    weft_cancel(f->fiber);
    ended(f->fiber);
    add(&total.cancels, 1);
    start(f, random);
}

/* Whether a flow is in a call by now, or is not going to make another one. */
static bool is_out_of_the_way(const struct flow *f)
{
    enum weft_fiber_state state = weft_fiber_state(f->fiber);
    return state == WEFT_FIBER_PARKED || state == WEFT_FIBER_DONE;
}

static void set_reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), ==, 0);
    add(&total.resets, 1);
}

static void closes_under_them(struct end *e, bool reset)
{
    if (reset)
        set_reset(e->fd);
    __atomic_store_n(&e->closed, 1, __ATOMIC_SEQ_CST);
    if (!e->here)
        AWAIT(is_out_of_the_way(&e->reader) && is_out_of_the_way(&e->writer));
    CHECK_INT(weft_close(e->fd), ==, 0);
    add(&total.closes, 1);
}

/* `ours`: the number is ours to close. */
static void disturbs(struct end *e, bool ours, uint64_t *random)
{
    for (unsigned n = pick(random, 5); n > 0 && !is_closed(e); n--) {
        weft_sleep((weft_span)pick(random, 1500) * WEFT_US);
        switch (pick(random, 8)) {
        case 0:
            closes_half(e); /* who writes is told */
            break;
        case 1: /* without the reset the kernel may tell the other side for a minute that there is no room */
            put(&e->side->broken, 1);
            weft_shutdown(e->fd, SHUT_RDWR);
            set_reset(e->fd);
            break;
        case 2:
        case 3:
            if (ours)
                closes_under_them(e, pick(random, 2));
            break;
        default:
            replace(pick(random, 2) ? &e->reader : &e->writer, random);
        }
    }
}

/* One end of a connection, to its end. The descriptor is gone if it is ours. */
static void lives(int fd, struct conn *c, int which, bool ours, uint64_t *random)
{
    struct end e = {.fd = fd, .side = &c->sides[which], .in = c->keys[!which], .out = c->keys[which]};
    e.budget = pick(random, 12) ? pick(random, 50000) : pick(random, 1000000);
    e.here = at.workers == 1 || pick(random, 3) == 0;
    e.reader.end = e.writer.end = &e;
    start(&e.reader, random);
    start(&e.writer, random);
    if (pick(random, 2))
        disturbs(&e, ours, random);
    ended(e.reader.fiber);
    ended(e.writer.fiber);
    if (!ours && pick(random, 4) == 0)
        set_reset(fd);
    if (ours && !e.closed)
        CHECK_INT(weft_close(fd), ==, 0);
}

/* ---- servers ---- */

/* The first bytes that a client sends say which connection this is. */
static void meets(int fd, bool ours)
{
    uint32_t index;
    ptrdiff_t n = weft_read_full(fd, &index, sizeof index, NULL, WEFT_FOREVER);
    if (n != sizeof index) {
        CHECK(n == 0 || n == -ECONNRESET);
        if (ours)
            CHECK_INT(weft_close(fd), ==, 0);
        return;
    }
    struct conn *c = __atomic_load_n(&at.conns[index % MOST_CONNS], __ATOMIC_ACQUIRE);
    if (index >= MOST_CONNS || !c) {
        test_failed(__FILE__, __LINE__, "there is no connection %u", index);
        abort();
    }
    uint64_t random = word_at(c->keys[0], index) | 1;
    lives(fd, c, 1, ours, &random);
}

static void serves(int fd, void *arg)
{
    (void)arg;
    meets(fd, false);
}

static void *serves_at(void *arg)
{
    return ptr(weft_serve(*(int *)arg, serves, NULL, NULL, WEFT_FOREVER));
}

static void *handles(void *arg)
{
    meets((int)(intptr_t)arg, true);
    weft_waitgroup_done(&at.handlers);
    return NULL;
}

/* Does as weft_serve does, but handlers close by themselves; some connections are blocking. */
static void *accepts(void *arg)
{
    int fd;
    for (int i = 0; (fd = weft_accept(*(int *)arg, NULL, NULL, i % 2 ? SOCK_NONBLOCK : 0, WEFT_FOREVER)) >= 0; i++) {
        weft_waitgroup_add(&at.handlers, 1);
        CHECK_INT(weft_go(handles, ptr(fd)), ==, 0);
    }
    return ptr(fd);
}

/* ---- clients ---- */

static int connects_to(int listener, uint64_t *random)
{
    struct sockaddr_storage to;
    socklen_t size = sizeof to;
    int few = 4096;
    CHECK_INT(getsockname(listener, (struct sockaddr *)&to, &size), ==, 0);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | (pick(random, 2) ? SOCK_NONBLOCK : 0), 0);
    CHECK_INT(fd, >=, 0);
    if (pick(random, 3) == 0) /* so that whoever writes has to wait often */
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few) == 0 &&
              setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof few) == 0);
    int rc = weft_connect(fd, (struct sockaddr *)&to, size, WEFT_FOREVER);
    for (; rc == -EAGAIN || rc == -EADDRNOTAVAIL; rc = weft_connect(fd, (struct sockaddr *)&to, size, WEFT_FOREVER))
        breathe(); /* a full backlog of a UNIX socket; no port for a moment */
    CHECK_INT(rc, ==, 0);
    return fd;
}

/* NULL: there were as many as a round can have. */
static struct conn *new_conn(uint32_t *index, uint64_t *random)
{
    *index = __atomic_fetch_add(&at.made, 1, __ATOMIC_ACQ_REL);
    if (*index >= MOST_CONNS)
        return NULL;
    struct conn *c = calloc(1, sizeof *c);
    c->keys[0] = test_random(random);
    c->keys[1] = test_random(random);
    __atomic_store_n(&at.conns[*index], c, __ATOMIC_RELEASE); /* before the server hears of it */
    return c;
}

/* On a thread there is only one at a time: what it sends is read in any case, and then it reads. */
static void lives_on_a_thread(int fd, struct conn *c, uint64_t *random)
{
    struct end e = {.fd = fd, .side = &c->sides[0], .in = c->keys[1], .out = c->keys[0]};
    e.budget = pick(random, 50000);
    e.reader = (struct flow){.end = &e, .random = test_random(random) | 1};
    e.writer = (struct flow){.end = &e, .random = test_random(random) | 1};
    writes(&e.writer);
    if (pick(random, 3))
        reads(&e.reader);
    if (pick(random, 3) == 0)
        set_reset(fd);
    CHECK_INT(weft_close(fd), ==, 0);
}

static void connect_once(uint64_t *random, struct conn *c, uint32_t index)
{
    const int listeners[] = {at.served, at.accepted, at.local};
    int fd = connects_to(listeners[pick(random, 3)], random);
    CHECK_INT(weft_write_all(fd, &index, sizeof index, NULL, WEFT_FOREVER), ==, sizeof index);
    add(&total.connections, 1);
    if (weft_fiber_current())
        lives(fd, c, 0, true, random);
    else
        lives_on_a_thread(fd, c, random);
}

static void *connects(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg | 1;
    uint32_t index;
    struct conn *c;
    while (weft_now().ns < at.until.ns && !test_has_failed() && (c = new_conn(&index, &random)) != NULL)
        connect_once(&random, c, index);
    return NULL;
}

static void *connects_on_a_thread(void *arg)
{
    connects(arg);
    more(&at.threads_over);
    return NULL;
}

/* ---- a round ---- */

static void *plays(void *arg)
{
    weft_fiber *clients[CLIENTS];
    pthread_t threads[THREADS];
    weft_fiber *servers[] = {go(serves_at, &at.served), go(accepts, &at.accepted), go(serves_at, &at.local)};
    for (int i = 0; i < THREADS; i++)
        threads[i] = new_thread(connects_on_a_thread, ptr((intptr_t)test_random(&at.random)));
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = go(connects, ptr((intptr_t)test_random(&at.random)));
    for (int i = 0; i < CLIENTS; i++)
        ended(clients[i]);
    while (seen(&at.threads_over) < THREADS)
        weft_sleep(WEFT_MS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(weft_close(at.served), ==, 0);
    CHECK_INT(weft_close(at.accepted), ==, 0);
    CHECK_INT(weft_cancel(servers[2]), ==, 0);
    CHECK_PTR(ended(servers[0]), ==, ptr(0));
    CHECK_PTR(ended(servers[1]), ==, ptr(-EBADF));
    CHECK_PTR(ended(servers[2]), ==, ptr(-ECANCELED));
    CHECK_INT(weft_close(at.local), ==, 0);
    CHECK_INT(weft_waitgroup_wait(&at.handlers, WEFT_FOREVER), ==, 0);
    return arg;
}

/* Nobody got what was not sent, and who has read to the end got all. */
static void check_conn(const struct conn *c)
{
    for (int i = 0; i < 2; i++) {
        const struct side *from = &c->sides[i], *to = &c->sides[!i];
        CHECK_INT(to->got, <=, from->sent);
        if (to->ended && !to->broken)
            CHECK_INT(to->got, ==, from->sent);
    }
}

static void play_round(unsigned workers, uint64_t seed, weft_time end)
{
    char name[64];
    int descriptors = count_descriptors();
    memset(&at, 0, sizeof at);
    at.workers = workers;
    at.random = seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < 8; i++) /* neighbouring seeds are alike at first */
        test_random(&at.random);
    at.until = weft_in(ROUND_MS * WEFT_MS);
    at.until = at.until.ns < end.ns ? at.until : end;
    snprintf(name, sizeof name, "unix:@weft-soak-%d", getpid());
    at.served = weft_listen("127.0.0.1:0");
    at.accepted = weft_listen("127.0.0.1:0");
    at.local = weft_listen(name);
    REQUIRE(at.served >= 0 && at.accepted >= 0 && at.local >= 0 && weft_stacks_new(&at.pool, 2, 0) == 0);
    in_a_fiber(workers, plays, NULL);
    CHECK_INT(weft_stacks_free(at.pool), ==, 0);
    CHECK_INT(count_fibers(), ==, 0);
    CHECK_INT(count_descriptors(), ==, descriptors);
    for (unsigned i = 0; i < at.made && i < MOST_CONNS; i++) {
        check_conn(at.conns[i]);
        free(at.conns[i]);
    }
}

/* What is so of each descriptor that somebody waits for: as it is known here, and as the kernel says. */
static void tell_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        const struct wf_fd *e = wf_fd_look(fd);
        const struct wf_waiter *w = e ? e->waiters.first : NULL;
        struct pollfd now = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
        struct tcp_info tcp = {.tcpi_state = 0};
        socklen_t size = sizeof tcp;
        int in = -1, out = -1;
        if (!w)
            continue;
        poll(&now, 1, 0);
        ioctl(fd, SIOCINQ, &in);
        ioctl(fd, SIOCOUTQ, &out);
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &tcp, &size);
        fprintf(stderr, "  fd %d: word %llx, at %u %u %u, wanted", fd, (unsigned long long)e->word, e->at[0], e->at[1],
                e->at[2]);
        for (; w; w = w->next)
            fprintf(stderr, " %x", (unsigned)(uintptr_t)w->data);
        fprintf(stderr,
                ", is %x; %d to read, %d unsent; tcp state %d, %u unacked, %u retransmits, backoff %u, rto %u\n",
                (unsigned)now.revents, in, out, tcp.tcpi_state, tcp.tcpi_unacked, tcp.tcpi_retransmits,
                tcp.tcpi_backoff, tcp.tcpi_rto);
    }
}

/* Ends the program, with a list of all fibers, when nothing goes on any more. */
static void *watches(void *arg)
{
    uint64_t last = 0;
    for (int still = 0; !seen(arg) && still < PATIENCE * 10; still++) {
        usleep(100000);
        uint64_t now = __atomic_load_n(&steps, __ATOMIC_RELAXED);
        still = now == last ? still : 0;
        last = now;
    }
    if (seen(arg))
        return NULL;
    fprintf(stderr, "soak: nothing goes on for %d s\n", PATIENCE);
    weft_dump(stderr);
    tell_descriptors();
    abort();
}

static void soak(unsigned workers)
{
    static uint64_t seed;
    const char *given = getenv("WEFT_SOAK_SECONDS");
    weft_time end = weft_in((weft_span)((given ? strtod(given, NULL) : SECONDS) * 1e9 / 3));
    struct wf_sys_held held = {0};
    int over = 0;
    if (seed == 0)
        seed = total.seed = test_seed();
    pthread_t watchdog = new_thread(watches, &over);
    for (unsigned round = 0; weft_now().ns < end.ns && !test_has_failed(); round++, seed++) {
        play_round(workers, seed, end);
        if (test_has_failed())
            fprintf(stderr, "with %u workers, WEFT_SEED=%llu\n", workers, (unsigned long long)seed);
        if (round == 0)
            held = wf_sys_held();
    }
    put(&over, 1);
    pthread_join(watchdog, NULL);
    CHECK_INT(wf_sys_held().n, <=, held.n + 64); /* records and stacks of whatever threads there are differ a little */
}

TEST(on_1_worker)
{
    soak(1);
}

TEST(on_2_workers)
{
    soak(2);
}

TEST(on_4_workers)
{
    soak(4);
    printf("soak: seed %llu, %llu connections, %llu bytes, %llu resets, %llu closes, %llu half-closes, %llu deadlines, "
           "%llu cancels\n",
           (unsigned long long)total.seed, (unsigned long long)total.connections, (unsigned long long)total.bytes,
           (unsigned long long)total.resets, (unsigned long long)total.closes, (unsigned long long)total.halves,
           (unsigned long long)total.deadlines, (unsigned long long)total.cancels);
}

TESTS(stress_soak, on_1_worker, on_2_workers, on_4_workers)
