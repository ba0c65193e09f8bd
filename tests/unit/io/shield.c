/*
 * Shields hold for waits of every kind: a cancelled fiber waits in one until what it waits for comes, its own deadline or
 * the shield's. unit/sched/shield has the rules of shields themselves.
 */
#include <weft/chan.h>
#include <weft/offload.h>
#include <weft/sync.h>

#include "unit/io/ground.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/* What is waited for. On no stack: some of the fibers have a shared one. */
static struct {
    struct pair pipe, full, tcp;
    int listener, client;
    struct sockaddr_in at;
    weft_chan *chan;
    weft_mutex mutex, beside;
    weft_sem sem;
    weft_cond cond;
    char buffer[1 << 16];
} on;

static int waits_to_read(weft_time deadline)
{
    return (int)weft_read(on.pipe.a, on.buffer, 1, deadline);
}

static int waits_to_receive(weft_time deadline)
{
    return (int)weft_recv(on.tcp.a, on.buffer, 1, 0, deadline);
}

static int waits_to_write(weft_time deadline)
{
    return (int)weft_write(on.full.b, on.buffer, 1, deadline);
}

static int waits_to_accept(weft_time deadline)
{
    int fd = weft_accept(on.listener, NULL, NULL, 0, deadline);
    if (fd < 0)
        return fd;
    weft_close(fd);
    return 1;
}

static int waits_in_poll(weft_time deadline)
{
    struct pollfd fds[2] = {{.fd = on.pipe.a, .events = POLLIN}, {.fd = on.tcp.a, .events = POLLIN}};
    int rc = weft_poll(fds, 2, deadline);
    if (rc > 0)
        CHECK_INT(weft_read(on.pipe.a, on.buffer, 1, WEFT_NOW), ==, 1);
    return rc == 0 ? -ETIMEDOUT : rc;
}

static int waits_for_a_descriptor(weft_time deadline)
{
    int rc = weft_wait_fd(on.pipe.a, POLLIN, deadline);
    if (rc > 0)
        CHECK_INT(weft_read(on.pipe.a, on.buffer, 1, WEFT_NOW), ==, 1);
    return rc > 0 ? 1 : rc;
}

static int waits_in_a_channel(weft_time deadline)
{
    static int value;
    int rc = weft_chan_recv(on.chan, &value, deadline);
    return rc == 0 ? 1 : rc;
}

static int waits_in_select(weft_time deadline)
{
    static int value;
    weft_case cases[] = {{.op = WEFT_RECV, .chan = on.chan, .value = &value}};
    int rc = weft_select(cases, 1, deadline);
    return rc == 0 ? 1 : rc;
}

static int waits_for_a_mutex(weft_time deadline)
{
    int rc = weft_mutex_lock(&on.mutex, deadline);
    if (rc == 0)
        weft_mutex_unlock(&on.mutex);
    return rc == 0 ? 1 : rc;
}

static int waits_for_a_semaphore(weft_time deadline)
{
    int rc = weft_sem_wait(&on.sem, deadline);
    return rc == 0 ? 1 : rc;
}

static int waits_for_a_condition(weft_time deadline)
{
    CHECK_INT(weft_mutex_lock(&on.beside, WEFT_NOW), ==, 0);
    int rc = weft_cond_wait(&on.cond, &on.beside, deadline);
    weft_mutex_unlock(&on.beside);
    return rc == 0 ? 1 : rc;
}

static int began, opened; /* rounds. opened: atomic: offloaded calls of this round and of earlier ones go on */

static void *blocks(void *arg)
{
    AWAIT(seen(&opened) >= (int)(intptr_t)arg);
    return arg;
}

static int waits_for_a_helper(weft_time deadline)
{
    int rc = weft_offload(blocks, ptr(began), NULL, deadline);
    return rc == 0 ? 1 : rc;
}

static int waits_in_park(weft_time deadline)
{
    int rc = weft_park(deadline);
    return rc == 0 ? 1 : rc;
}

static void feeds_the_pipe(void)
{
    CHECK_INT(write(on.pipe.b, "x", 1), ==, 1);
}

static void feeds_the_connection(void)
{
    CHECK_INT(write(on.tcp.b, "x", 1), ==, 1);
}

static void drains_the_pipe(void)
{
    CHECK(read(on.full.a, on.buffer, sizeof on.buffer) > 0);
}

static void connects(void)
{
    on.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(on.client, (struct sockaddr *)&on.at, sizeof on.at), ==, 0);
}

static void sends(void)
{
    static const int value = 7;
    CHECK_INT(weft_chan_send(on.chan, &value, WEFT_FOREVER), ==, 0);
}

static void unlocks(void)
{
    CHECK_INT(weft_mutex_unlock(&on.mutex), ==, 0);
}

static void posts(void)
{
    CHECK_INT(weft_sem_post(&on.sem), ==, 0);
}

static void signals(void)
{
    CHECK_INT(weft_cond_signal(&on.cond), ==, 0);
}

static void opens(void)
{
    put(&opened, began);
}

static weft_fiber *waiter;

static void unparks(void)
{
    weft_unpark(waiter);
}

static const struct kind {
    const char *name;
    int (*wait)(weft_time deadline); /* 1: what it waits for has come */
    void (*bring)(void);
} kinds[] = {
    {"read", waits_to_read, feeds_the_pipe},
    {"recv", waits_to_receive, feeds_the_connection},
    {"write", waits_to_write, drains_the_pipe},
    {"accept", waits_to_accept, connects},
    {"poll", waits_in_poll, feeds_the_pipe},
    {"wait_fd", waits_for_a_descriptor, feeds_the_pipe},
    {"channel", waits_in_a_channel, sends},
    {"select", waits_in_select, sends},
    {"mutex", waits_for_a_mutex, unlocks},
    {"semaphore", waits_for_a_semaphore, posts},
    {"condition", waits_for_a_condition, signals},
    {"offload", waits_for_a_helper, opens},
    {"park", waits_in_park, unparks},
};
enum { WAITS = sizeof kinds / sizeof kinds[0] };

static void set_up(void)
{
    memset(&on, 0, sizeof on);
    began++;
    on.pipe = pipe_pair(0);
    on.tcp = tcp_pair();
    on.full = pipe_pair(0);
    fcntl(on.full.b, F_SETFL, O_NONBLOCK);
    while (write(on.full.b, on.buffer, 4096) > 0)
        ;
    on.listener = listener(&on.at);
    on.client = -1;
    CHECK_INT(weft_chan_new(&on.chan, sizeof(int), 0), ==, 0);
    CHECK_INT(weft_mutex_lock(&on.mutex, WEFT_NOW), ==, 0);
}

static void tear_down(void)
{
    close_pair(on.pipe);
    close_pair(on.tcp);
    close_pair(on.full);
    weft_close(on.listener);
    if (on.client >= 0)
        weft_close(on.client);
    weft_chan_free(on.chan);
    weft_mutex_unlock(&on.mutex);
    opens();
}

static int stage;

/* Cancelled before, it waits in a shield, times out in it, and is cancelled at its end. */
static void *waits(void *arg)
{
    const struct kind *kind = arg;
    while (!weft_cancelled())
        weft_yield();
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    weft_time until = weft_in(2 * WEFT_MS);
    int rc = kind->wait(until);
    if (rc != -ETIMEDOUT)
        test_failed(__FILE__, __LINE__, "%s: %d where its deadline was to pass", kind->name, rc);
    CHECK_INT(weft_now().ns, >=, until.ns);
    until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_shield_begin(until), ==, 0);
    rc = kind->wait(WEFT_FOREVER);
    if (rc != -ECANCELED)
        test_failed(__FILE__, __LINE__, "%s: %d where the shield was to end", kind->name, rc);
    CHECK_INT(weft_now().ns, >=, until.ns);
    weft_shield_end();
    put(&stage, 1);
    rc = kind->wait(WEFT_FOREVER);
    if (rc != 1)
        test_failed(__FILE__, __LINE__, "%s: %d where it was to wait", kind->name, rc);
    weft_shield_end();
    return arg;
}

/* It is cancelled in its wait. */
static void *is_cancelled(void *arg)
{
    const struct kind *kind = arg;
    CHECK_INT(weft_shield_begin(weft_in(LONG)), ==, 0);
    put(&stage, 1);
    int rc = kind->wait(WEFT_FOREVER);
    if (rc != 1)
        test_failed(__FILE__, __LINE__, "%s: %d where it was to wait", kind->name, rc);
    CHECK(weft_cancelled());
    weft_shield_end();
    return arg;
}

static void try_each(weft_fn *fn, const weft_attr *attr, bool before)
{
    for (int i = 0; i < WAITS; i++) {
        set_up();
        put(&stage, 0);
        CHECK_INT(weft_go_with(&waiter, attr, fn, (void *)(uintptr_t)&kinds[i]), ==, 0);
        if (before)
            weft_cancel(waiter);
        AWAIT(seen(&stage) == 1 && is_parked(waiter));
        if (!before)
            weft_cancel(waiter);
        weft_sleep(WEFT_MS);
        kinds[i].bring();
        ended(waiter);
        tear_down();
    }
}

static void *tries_private_stacks(void *arg)
{
    try_each(waits, NULL, true);
    try_each(is_cancelled, NULL, false);
    return arg;
}

static void *tries_fibers_that_move(void *arg)
{
    const weft_attr attr = {.flags = WEFT_MIGRATE};
    try_each(waits, &attr, true);
    try_each(is_cancelled, &attr, false);
    return arg;
}

static void *tries_shared_stacks(void *arg)
{
    const weft_attr attr = {.shared = arg};
    try_each(waits, &attr, true);
    try_each(is_cancelled, &attr, false);
    return NULL;
}

TEST(a_shield_covers_every_kind_of_wait)
{
    in_a_fiber(1, tries_private_stacks, NULL);
    in_a_fiber(2, tries_private_stacks, NULL);
}

TEST(a_shield_covers_fibers_that_move)
{
    in_a_fiber(2, tries_fibers_that_move, NULL);
}

TEST(a_shield_covers_fibers_on_shared_stacks)
{
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    in_a_fiber(1, tries_shared_stacks, pool);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TESTS(io_shield, a_shield_covers_every_kind_of_wait, a_shield_covers_fibers_that_move,
      a_shield_covers_fibers_on_shared_stacks)
