/*
 * Random producers and consumers on a few channels, by sends, receives and selects with random deadlines, while
 * channels are closed and producers cancelled at random: on 1, 2, 4 and 64 workers, with plain threads, fibers that
 * move and fibers on a shared stack among them. Every element whose send returned 0 is received exactly once and whole,
 * no other is received at all, and what one consumer gets of one producer by one channel is in the order of sending.
 *
 * WEFT_SECONDS sets how long each number of workers is tried.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/chan.h>
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "support/test.h"

enum { CHANNELS = 6, PRODUCERS = 12, CONSUMERS = 8, FLOWS = PRODUCERS + CONSUMERS, MOST = 1 << 18, WORDS = 5 };

/* How a flow runs. Producers and consumers have the same mix. */
enum kind { FIBER, MOVES, SHARED, THREAD, KINDS };

struct flow {
    int number; /* of the producers or of the consumers */
    enum kind kind;
    uint64_t random;
    weft_fiber *fiber;
    pthread_t thread;
    bool ended;                              /* atomic: a thread's last word */
    uint32_t count;                          /* elements sent or received */
    uint32_t last[CHANNELS][PRODUCERS];      /* consumer: the last number that came by this channel of this producer */
    uint32_t timeouts, closed, by_select[2]; /* what came of the calls: for the curious */
};

static weft_chan *channels[CHANNELS];
static size_t elem[CHANNELS];
static weft_event last_call; /* producers: no more */
static struct flow flows[FLOWS];
static uint8_t *sent[PRODUCERS];      /* by number: whether */
static uint32_t *received[PRODUCERS]; /* by number: how often. atomic */
static uint64_t seed;
static weft_time closing_time;

static unsigned pick(struct flow *f, unsigned n)
{
    return n > 1 ? (unsigned)(test_random(&f->random) >> 33) % n : 0;
}

static weft_time some_time(struct flow *f, bool may_wait_for_ever)
{
    unsigned what = pick(f, 8);
    if (what == 0)
        return WEFT_NOW;
    return what < 4 || !may_wait_for_ever ? weft_in((weft_span)pick(f, 300) * WEFT_US) : WEFT_FOREVER;
}

/* The channels that the flow may still use, in a random order; returns how many. */
static unsigned some_channels(struct flow *f, unsigned open, unsigned *which)
{
    unsigned n = 0;
    for (unsigned c = 0; c < CHANNELS; c++) {
        if (open >> c & 1) {
            unsigned at = pick(f, n + 1);
            if (at < n)
                which[n] = which[at];
            which[at] = c;
            n++;
        }
    }
    return n;
}

/* ---- producers ---- */

static void fill(uint64_t *value, int producer, uint32_t number)
{
    for (int i = 0; i < WORDS; i++)
        value[i] = (uint64_t)producer << 32 | number;
}

/* One attempt to send the next element somewhere. A channel that is closed is taken out of *open. */
static int produce(struct flow *f, unsigned *open)
{
    uint64_t values[CHANNELS][WORDS];
    weft_case cases[CHANNELS + 1];
    unsigned which[CHANNELS], n = some_channels(f, *open, which);
    int rc, chosen = 0;
    for (unsigned i = 0; i < n; i++) {
        fill(values[i], f->number, f->count);
        cases[i] = (weft_case){.op = WEFT_SEND, .chan = channels[which[i]], .value = values[i]};
    }
    cases[n] = (weft_case){.op = WEFT_EVENT, .event = &last_call};
    if (pick(f, 2)) {
        rc = weft_chan_send(channels[which[0]], values[0], some_time(f, true));
    } else {
        unsigned of = 1 + pick(f, n);
        chosen = weft_select(cases + n - of + 1, of, some_time(f, false)); /* the last ones, the event among them */
        chosen = chosen < 0 ? chosen : chosen + (int)(n - of) + 1;
        rc = chosen < 0 ? chosen : cases[chosen].result;
        f->by_select[rc == 0]++;
        if (chosen == (int)n)
            return -ESHUTDOWN;
    }
    if (rc == -EPIPE)
        *open &= ~(1u << which[chosen]);
    return rc;
}

static void *producer(void *arg)
{
    struct flow *f = arg;
    unsigned open = (1u << CHANNELS) - 1;
    while (open && f->count < MOST && !weft_event_is_set(&last_call)) {
        int rc = produce(f, &open);
        if (rc == 0) {
            sent[f->number][f->count++] = 1;
        } else if (rc == -ECANCELED || rc == -ESHUTDOWN) {
            break;
        } else {
            CHECK(rc == -EAGAIN || rc == -ETIMEDOUT || rc == -EPIPE);
            f->timeouts += rc == -ETIMEDOUT;
            f->closed += rc == -EPIPE;
        }
        if (pick(f, 64) == 0)
            weft_yield();
    }
    return NULL;
}

/* ---- consumers ---- */

static void take(struct flow *f, unsigned channel, const uint64_t *value)
{
    uint32_t from = (uint32_t)(value[0] >> 32), number = (uint32_t)value[0];
    for (size_t i = 1; i < elem[channel] / sizeof *value; i++) {
        if (value[i] != value[0])
            test_failed(__FILE__, __LINE__, "an element is not whole: %llx, %llx", (unsigned long long)value[0],
                        (unsigned long long)value[i]);
    }
    if (from >= PRODUCERS || number >= MOST) {
        test_failed(__FILE__, __LINE__, "nobody sent this: %llx", (unsigned long long)value[0]);
        return;
    }
    if (number < f->last[channel][from]) /* numbers are from 0, `last` is one more */
        test_failed(__FILE__, __LINE__, "producer %u's %u came after %u", from, number, f->last[channel][from] - 1);
    f->last[channel][from] = number + 1;
    __atomic_add_fetch(&received[from][number], 1, __ATOMIC_RELAXED);
    f->count++;
}

static int consume(struct flow *f, unsigned *open)
{
    uint64_t values[CHANNELS][WORDS];
    weft_case cases[CHANNELS];
    unsigned which[CHANNELS], n = some_channels(f, *open, which);
    int rc, chosen = 0;
    for (unsigned i = 0; i < n; i++)
        cases[i] = (weft_case){.op = WEFT_RECV, .chan = channels[which[i]], .value = values[i]};
    if (pick(f, 2)) {
        rc = weft_chan_recv(channels[which[0]], values[0], some_time(f, false));
    } else {
        chosen = weft_select(cases, n, some_time(f, true)); /* for ever only if it sees all */
        rc = chosen < 0 ? chosen : cases[chosen].result;
        f->by_select[rc == 0]++;
    }
    if (rc == 0)
        take(f, which[chosen], values[chosen]);
    else if (rc == -EPIPE)
        *open &= ~(1u << which[chosen]);
    return rc;
}

/* Until all channels are closed and empty: nothing is left behind. */
static void *consumer(void *arg)
{
    struct flow *f = arg;
    for (unsigned open = (1u << CHANNELS) - 1; open;) {
        int rc = consume(f, &open);
        CHECK(rc == 0 || rc == -EAGAIN || rc == -ETIMEDOUT || rc == -EPIPE);
        f->timeouts += rc == -ETIMEDOUT;
        f->closed += rc == -EPIPE;
        if (pick(f, 64) == 0)
            weft_yield();
    }
    return NULL;
}

/* ---- the round ---- */

static void *on_a_thread(void *arg)
{
    struct flow *f = arg;
    (f < flows + PRODUCERS ? producer : consumer)(f);
    __atomic_store_n(&f->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static void start(struct flow *f, weft_stacks *pool)
{
    int i = (int)(f - flows);
    weft_attr attr = {.size = sizeof attr};
    *f = (struct flow){.number = i < PRODUCERS ? i : i - PRODUCERS};
    f->kind = (enum kind)(f->number % KINDS);
    f->random = (seed + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    if (f->kind == THREAD) {
        CHECK_INT(pthread_create(&f->thread, NULL, on_a_thread, f), ==, 0);
        return;
    }
    if (f->kind == MOVES)
        attr.flags = WEFT_MIGRATE;
    if (f->kind == SHARED) {
        attr.shared = pool;
        attr.worker = WEFT_WORKER(0);
    }
    CHECK_INT(weft_go_with(&f->fiber, &attr, i < PRODUCERS ? producer : consumer, f), ==, 0);
}

static void end(struct flow *f)
{
    if (f->kind != THREAD) {
        CHECK_INT(weft_join(f->fiber, NULL, WEFT_FOREVER), ==, 0);
        return;
    }
    while (!__atomic_load_n(&f->ended, __ATOMIC_ACQUIRE))
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    pthread_join(f->thread, NULL);
}

/* Cancels some producers and closes some channels, then all of them. */
static void disturb(uint64_t *random)
{
    for (int i = 0; i < CHANNELS / 2 && weft_now().ns < closing_time.ns; i++) {
        weft_span left = closing_time.ns - weft_now().ns;
        CHECK_INT(weft_sleep((weft_span)(test_random(random) % (uint64_t)(left > 0 ? left : 1))), ==, 0);
        struct flow *f = &flows[test_random(random) % PRODUCERS];
        if (f->fiber && f->number < 4)
            CHECK(weft_cancel(f->fiber) != -EINVAL);
        int rc = weft_chan_close(channels[test_random(random) % CHANNELS]);
        CHECK(rc == 0 || rc == -EPIPE);
    }
    weft_sleep_until(closing_time);
}

static void check_elements(void)
{
    uint64_t in = 0, out = 0, wrong = 0;
    for (int p = 0; p < PRODUCERS; p++) {
        for (uint32_t i = 0; i < MOST; i++) {
            in += sent[p][i];
            out += received[p][i];
            wrong += sent[p][i] != received[p][i];
        }
    }
    CHECK_INT(wrong, ==, 0);
    CHECK_INT(in, ==, out);
    CHECK_INT(in, >, 0);
    uint32_t timeouts = 0, closed = 0, selected = 0;
    for (int i = 0; i < FLOWS; i++) {
        timeouts += flows[i].timeouts;
        closed += flows[i].closed;
        selected += flows[i].by_select[1];
    }
    printf("%llu elements, %u of the calls were selects, %u timed out, %u met a closed channel\n",
           (unsigned long long)in, selected, timeouts, closed);
}

static void *round_of_all(void *arg)
{
    weft_stacks *pool = arg;
    uint64_t random = seed;
    for (int i = 0; i < FLOWS; i++)
        start(&flows[i], pool);
    disturb(&random);
    CHECK_INT(weft_event_set(&last_call), ==, 0);
    for (int i = 0; i < PRODUCERS; i++)
        end(&flows[i]);
    for (int i = 0; i < CHANNELS; i++)
        weft_chan_close(channels[i]); /* some were before */
    for (int i = PRODUCERS; i < FLOWS; i++)
        end(&flows[i]);
    return NULL;
}

static void stress(unsigned workers)
{
    static const size_t capacities[CHANNELS] = {0, 0, 1, 3, 64, 0};
    const char *seconds = getenv("WEFT_SECONDS");
    struct wf_sys_held held = wf_sys_held();
    weft_stacks *pool;
    weft_sched_opts opts = {.size = sizeof opts, .threads = workers};
    printf("%u workers: ", workers);
    for (int i = 0; i < PRODUCERS; i++) {
        sent[i] = calloc(MOST, 1);
        received[i] = calloc(MOST, sizeof(uint32_t));
        REQUIRE(sent[i] && received[i]);
    }
    for (int i = 0; i < CHANNELS; i++) {
        elem[i] = i % 2 ? WORDS * sizeof(uint64_t) : sizeof(uint64_t);
        REQUIRE(weft_chan_new(&channels[i], elem[i], capacities[i]) == 0);
    }
    last_call = (weft_event){0};
    REQUIRE(weft_stacks_new(&pool, 2, 0) == 0);
    closing_time = weft_in(seconds ? (weft_span)(atof(seconds) * 1e9) : 700 * WEFT_MS);
    CHECK_INT(weft_run(round_of_all, pool, NULL, &opts), ==, 0);
    check_elements();
    for (int i = 0; i < CHANNELS; i++)
        CHECK_INT(weft_chan_free(channels[i]), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    for (int i = 0; i < PRODUCERS; i++) {
        free(sent[i]);
        free(received[i]);
    }
    CHECK_INT(wf_sys_held().n, <=, held.n + 64); /* what the runtime keeps for the next time */
}

TEST(every_element_is_received_once_on_1_worker)
{
    seed = test_seed();
    stress(1);
}

TEST(every_element_is_received_once_on_2_workers)
{
    stress(2);
}

TEST(every_element_is_received_once_on_4_workers)
{
    stress(4);
}

TEST(every_element_is_received_once_on_64_workers)
{
    stress(64);
}

TESTS(stress_chan, every_element_is_received_once_on_1_worker, every_element_is_received_once_on_2_workers,
      every_element_is_received_once_on_4_workers, every_element_is_received_once_on_64_workers)
