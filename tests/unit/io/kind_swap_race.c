/*
 * One number changes its kind again and again, by weft_close, close(2) and dup2(2), while fibers of several workers read from
 * it and write to it. No SIGPIPE comes, whatever a writer knew about the kind before. A message that the other end has sent is
 * not hidden by what was known about the kind before: after weft_close it is read at once, after the others within the bound
 * that io.h states.
 *
 * After close(2) and dup2(2) a reader that tries again now and then would find the messages by itself. So in some rounds one reader
 * alone is left, which waits without a deadline.
 *
 * A worker may have to wait for a CPU. So time is counted in the ticks of fibers that sleep for a millisecond, one on each worker:
 * a worker that ticks looks at its descriptors too.
 */
#include <sys/syscall.h>

#include <weft/offload.h>

#include "base/sanitizer.h"
#include "unit/io/kind_swap.h"

enum {
    SLOW = WF_TSAN || WF_ASAN || TEST_EMULATED,
#ifdef KIND_SWAP_LOUD
    SWAPS = SLOW ? 500 : 2000,
#else
    SWAPS = SLOW ? 1000 : 11200, /* nine times */
#endif
    NUMBER = 900, /* far from what others get */
    MOST_WORKERS = 4,
    OLD = 64,           /* other ends that are kept open for a while */
    AFTER_CLOSE = 10,   /* ticks */
    AFTER_OTHERS = 900, /* ticks; io.h says 0.85 s */
    HIDES_EVERY = 500   /* swaps */
};

enum way { BY_WEFT_CLOSE, BY_CLOSE, BY_DUP2 };

struct swap {
    enum way way;
    unsigned workers;
    uint64_t random; /* the swapper's */
    int stop;        /* atomic */
    int alone;       /* atomic: the readers are to rest, but for the late one */
    int resting;     /* atomic: how many do */
    int ticks[MOST_WORKERS];
    int have;   /* atomic: bytes of messages of this round that were read */
    int round;  /* atomic: in each message */
    int worst;  /* ticks until a message was read */
    int sender; /* the other end of what has the number, if that is TCP; or -1 */
    int old[OLD];
    int writes[MOST_WORKERS];          /* that each writer has made; atomic */
    int old_writes[OLD][MOST_WORKERS]; /* when the number became the next one's */
};

struct message {
    int round;
    int zero;
};

static struct swap *now;

static void *ticks(void *arg)
{
    int *count = arg;
    while (!seen(&now->stop)) {
        weft_sleep(WEFT_MS);
        more(count);
    }
    return NULL;
}

/* The fewest ticks that any worker has had. */
static int slowest(const int *since)
{
    int fewest = INT32_MAX;
    for (unsigned i = 0; i < now->workers; i++) {
        int n = seen(&now->ticks[i]) - (since ? since[i] : 0);
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

/*
 * A read that gives up tries once more, and finds what was hidden: after weft_close every read is patient. A call that waits
 * while the number is closed behind the library's back is not told: it must not wait for long.
 */
static weft_time some_deadline(uint64_t *random)
{
    if (now->way == BY_WEFT_CLOSE)
        return weft_in(20 * WEFT_SEC);
    switch (test_random(random) >> 40 & 3) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_in(50 * WEFT_US);
    default:
        return weft_in(2 * WEFT_MS);
    }
}

static void count_message(const struct message *m, ptrdiff_t n)
{
    if (n > 0 && m->round == seen(&now->round))
        __atomic_add_fetch(&now->have, (int)n, __ATOMIC_ACQ_REL);
}

static void rest(void)
{
    more(&now->resting);
    while (seen(&now->alone))
        weft_sleep(20 * WEFT_US);
    __atomic_sub_fetch(&now->resting, 1, __ATOMIC_ACQ_REL);
}

static void *reads(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (!seen(&now->stop)) {
        struct message m[8];
        if (seen(&now->alone)) {
            rest();
            continue;
        }
        ptrdiff_t n = weft_read(NUMBER, m, sizeof m, some_deadline(&random));
        count_message(m, n);
        weft_yield();
    }
    return NULL;
}

/* Begins after the number was closed, and waits for as long as it takes. */
static void *reads_late(void *arg)
{
    ptrdiff_t n;
    do {
        struct message m[8];
        n = weft_read(NUMBER, m, sizeof m, WEFT_FOREVER);
        count_message(m, n);
    } while (n > 0);
    return arg;
}

static void *writes(void *arg)
{
    int *count = arg;
    uint64_t random = (uint64_t)(uintptr_t)arg;
    static const char zero[8];
    struct iovec parts[] = {{(void *)(uintptr_t)zero, 4}, {(void *)(uintptr_t)zero, 4}};
    while (!seen(&now->stop)) {
        if (test_random(&random) >> 40 & 1)
            weft_write(NUMBER, zero, sizeof zero, weft_in(100 * WEFT_US));
        else
            weft_writev(NUMBER, parts, 2, weft_in(100 * WEFT_US));
        more(count);
        weft_yield();
    }
    return NULL;
}

static weft_fiber *go_on_worker(unsigned worker, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.size = sizeof(weft_attr), .worker = WEFT_WORKER((int)worker)}, fn, arg),
              ==, 0);
    return f;
}

/* The number is another descriptor's from now on. */
static void put_in_place(struct swap *s, int fd)
{
    if (s->way == BY_WEFT_CLOSE)
        CHECK_INT(weft_close(NUMBER), ==, 0);
    else if (s->way == BY_CLOSE)
        CHECK_INT(syscall(SYS_close, NUMBER), ==, 0); /* past ThreadSanitizer, which takes it for a mistake */
    CHECK_INT(syscall(SYS_dup3, fd, NUMBER, O_CLOEXEC), ==, NUMBER);
    close(fd);
    for (unsigned i = 0; i < s->workers; i++)
        s->old_writes[(s->round + OLD - 1) % OLD][i] = seen(&s->writes[i]);
}

/* The other end sends two messages, as soon as the number is its peer's. They are waited for. */
static void expect_messages(struct swap *s, enum swap_kind kind, int b)
{
    int since[MOST_WORKERS] = {0};
    struct message m = {.round = s->round};
    for (unsigned i = 0; i < s->workers; i++)
        since[i] = seen(&s->ticks[i]);
    for (int i = 0; i < 2; i++)
        CHECK_INT(write(b, &m, sizeof m), ==, sizeof m);
    int limit = s->way == BY_WEFT_CLOSE ? AFTER_CLOSE : AFTER_OTHERS;
    weft_fiber *late_reader = go_on_worker(0, reads_late, NULL);
    while (seen(&s->have) < (int)(2 * sizeof m)) {
        int late = slowest(since);
        if (late > s->worst)
            s->worst = late;
        if (late > limit) {
            test_failed(__FILE__, __LINE__, "way %d, %u workers, kind %d, round %d: read %d bytes after %d ticks",
                        s->way, s->workers, kind, s->round, seen(&s->have), late);
            break;
        }
        weft_sleep(20 * WEFT_US);
    }
    weft_cancel(late_reader);
    ended(late_reader);
}

static void *closes_end(void *arg)
{
    close((int)(intptr_t)arg);
    return NULL;
}

/*
 * Not on a worker: to close the one end of a terminal waits in the kernel until nobody polls the other end any more, and a ring
 * still does if the number was replaced under a read. Only the ring's own thread can end that.
 */
static void close_elsewhere(int fd)
{
    CHECK_INT(weft_offload(closes_end, (void *)(intptr_t)fd, NULL, WEFT_FOREVER), ==, 0);
}

/* Not while a write may be under way that began when the number was this pipe's: SIGPIPE would be right. */
static void close_old(struct swap *s, int which)
{
    if (s->old[which] < 0)
        return;
    for (unsigned i = 0; i < s->workers; i++) {
        while (seen(&s->writes[i]) == s->old_writes[which][i])
            weft_sleep(20 * WEFT_US);
    }
    if (isatty(s->old[which]))
        close_elsewhere(s->old[which]);
    else
        close(s->old[which]);
    s->old[which] = -1;
}

static void *finds_nothing(void *arg)
{
    char byte;
    CHECK_INT(weft_read(NUMBER, &byte, 1, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    return arg;
}

/*
 * Before the next swap: the number is a stream's in which nothing is, worker 0 knows that, and no reader is left that would try
 * anew by itself. With epoll only the look at waits that take long finds the next one's messages. Returns the stream's other end.
 */
static int hide_the_next(struct swap *s)
{
    struct pair empty = unix_pair(SOCK_STREAM | SOCK_NONBLOCK);
    put(&s->alone, 1);
    while (seen(&s->resting) <= (int)s->workers)
        weft_sleep(20 * WEFT_US);
    put_in_place(s, empty.a);
    ended(go_on_worker(0, finds_nothing, NULL));
    return empty.b;
}

/* A reader is in the middle of a short read when the number is closed. */
static void keep_readers_busy(struct swap *s)
{
    struct message m = {.round = s->round};
    if (s->sender >= 0 && test_random(&s->random) >> 40 & 1)
        CHECK_INT(send(s->sender, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL), ==, sizeof m);
}

static void swap_once(struct swap *s)
{
    /* Only weft_close keeps a read of a file from what gets the number: that read cannot be told not to wait. */
    unsigned kinds = s->way == BY_WEFT_CLOSE ? SWAP_KINDS : REGULAR;
    bool hides = s->way != BY_WEFT_CLOSE && (s->round + 1) % HIDES_EVERY == 0;
    enum swap_kind kind;
    do
        kind = (enum swap_kind)((test_random(&s->random) >> 33) % kinds);
    while (hides && !brings_messages(kind));
    struct pair p = swap_pair(kind);
    bool breaks = !hides && is_socket(kind) && test_random(&s->random) >> 40 & 1;
    if (breaks) { /* before the number is its own: a writer must not get through */
        close(p.b);
        p.b = -1;
    }
    /* io.h: a call on a terminal, a FIFO or an event descriptor may wait for what gets the number, if that blocks. */
    if (s->way != BY_WEFT_CLOSE && kind != FIFO_OUT && kind != EVENT) /* which 8 bytes always fit into */
        CHECK_INT(fcntl(p.a, F_SETFL, O_NONBLOCK), ==, 0);
    keep_readers_busy(s);
    int empty = hides ? hide_the_next(s) : -1;
    put(&s->have, 0);
    put(&s->round, s->round + 1);
    put_in_place(s, p.a);
    s->sender = s->way == BY_WEFT_CLOSE && kind == TCP ? p.b : -1;
    if (p.b >= 0 && brings_messages(kind) && (s->way == BY_WEFT_CLOSE || hides))
        expect_messages(s, kind, p.b);
    else if (test_random(&s->random) >> 40 & 1)
        weft_yield();
    if (hides) {
        put(&s->alone, 0);
        close(empty);
    }
    close_old(s, s->round % OLD);
    s->old[s->round % OLD] = p.b;
}

static void *swaps(void *arg)
{
    struct swap *s = arg;
    weft_fiber *all[4 * MOST_WORKERS];
    unsigned count = 0;
    CHECK_INT(dup2(0, NUMBER), ==, NUMBER);
    for (unsigned i = 0; i < s->workers; i++) {
        all[count++] = go_on_worker(i, ticks, &s->ticks[i]);
        all[count++] = go_on_worker(i, reads, ptr(i + 1));
        all[count++] = go_on_worker(i, writes, &s->writes[i]);
    }
    all[count++] = go_on_worker(0, reads, ptr(77));
    for (int i = 0; i < SWAPS && !test_has_failed() && seen(&sigpipes) == 0; i++)
        swap_once(s);
    put(&s->round, s->round + 1);
    put_in_place(s, swap_pair(EVENT).a); /* no pipe that is about to lose its reader */
    for (int i = 0; i < OLD; i++)        /* a call that reads from what had the number before sees its end */
        close_old(s, i);
    put(&s->stop, 1);
    CHECK_INT(weft_close(NUMBER), ==, 0);
    for (unsigned i = 0; i < count; i++)
        ended(all[i]);
    return NULL;
}

static void swap_with(enum way way)
{
    if (TEST_EMULATED)
        SKIP("qemu-user ends with an assertion of its own");
    count_sigpipes();
    for (unsigned workers = 1; workers <= MOST_WORKERS; workers *= 2) {
        struct swap s = {.way = way, .workers = workers, .random = test_seed() + workers, .sender = -1};
        memset(s.old, -1, sizeof s.old);
        now = &s;
        in_a_fiber(workers, swaps, &s);
        CHECK_INT(seen(&sigpipes), ==, 0);
        printf("    way %d, %u workers: %d swaps, the latest message after %d ticks\n", way, workers, s.round, s.worst);
    }
}

TEST(numbers_that_weft_close_gives_back_carry_nothing_to_the_next_descriptor)
{
    swap_with(BY_WEFT_CLOSE);
}

TEST(numbers_that_close_gives_back_raise_no_sigpipe_and_hide_nothing_for_long)
{
    swap_with(BY_CLOSE);
}

TEST(numbers_that_dup2_replaces_raise_no_sigpipe_and_hide_nothing_for_long)
{
    swap_with(BY_DUP2);
}

TESTS(io_kind_swap_race, numbers_that_weft_close_gives_back_carry_nothing_to_the_next_descriptor,
      numbers_that_close_gives_back_raise_no_sigpipe_and_hide_nothing_for_long,
      numbers_that_dup2_replaces_raise_no_sigpipe_and_hide_nothing_for_long)
