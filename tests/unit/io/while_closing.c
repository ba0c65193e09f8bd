/*
 * Calls that begin while weft_close waits for calls that are under way: none of them waits for what is being closed.
 */
#include "io/fd.h"
#include "unit/io/ground.h"

/* A descriptor that is being closed for as long as the test likes: the test is in a call on it. */
struct closing {
    struct pair pair;
    struct wf_fd_ref user;
    weft_sched *sched;
    weft_fiber *closer;
};

static void *closes(void *arg)
{
    return ptr(weft_close(*(int *)arg));
}

static bool is_closing(const struct closing *c)
{
    return wf_load(&c->user.e->word) & WF_FD_CLOSING;
}

static void begin_closing(struct closing *c)
{
    c->pair = unix_pair(SOCK_STREAM);
    c->sched = running_sched(1);
    c->user = (struct wf_fd_ref){.fd = -1};
    CHECK_INT(wf_fd_refer(&c->user, c->pair.a), ==, 0);
    CHECK(wf_fd_enter(&c->user, 0));
    c->closer = go_on(c->sched, closes, &c->pair.a);
    AWAIT(is_closing(c));
}

static void end_closing(struct closing *c)
{
    CHECK(is_closing(c));
    wf_fd_leave(&c->user);
    CHECK_PTR(ended(c->closer), ==, ptr(0));
    end_sched(c->sched);
    CHECK_INT(weft_close(c->pair.b), ==, 0);
}

/* What a call says; 0: it has not returned. */
struct call {
    int fd;
    int said;
};

static void *polls(void *arg)
{
    struct call *c = arg;
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int n = weft_poll(&p, 1, WEFT_FOREVER);
    put(&c->said, n == 1 && p.revents == POLLNVAL ? -EBADF : 1);
    return NULL;
}

static void *waits(void *arg)
{
    struct call *c = arg;
    put(&c->said, weft_wait_fd(c->fd, POLLIN, WEFT_FOREVER));
    return NULL;
}

static void *reads(void *arg)
{
    struct call *c = arg;
    char byte;
    put(&c->said, (int)weft_read(c->fd, &byte, 1, WEFT_FOREVER));
    return NULL;
}

static weft_fn *const calls[] = {polls, waits, reads};

TEST(a_fibers_call_on_what_is_being_closed_returns_at_once)
{
    for (int i = 0; i < 3; i++) {
        struct closing c;
        begin_closing(&c);
        struct call call = {.fd = c.pair.a};
        weft_fiber *f = go_on(c.sched, calls[i], &call);
        AWAIT(seen(&call.said) != 0);
        CHECK_INT(seen(&call.said), ==, -EBADF);
        end_closing(&c);
        ended(f);
    }
}

TEST(a_plain_threads_call_on_what_is_being_closed_returns_at_once)
{
    for (int i = 0; i < 3; i++) {
        struct closing c;
        begin_closing(&c);
        struct call call = {.fd = c.pair.a};
        pthread_t t = new_thread(calls[i], &call);
        AWAIT(seen(&call.said) != 0);
        CHECK_INT(seen(&call.said), ==, -EBADF);
        end_closing(&c);
        pthread_join(t, NULL);
    }
}

struct two {
    struct call call;
    int other;
};

/* One of the two is being closed, the other has nothing to say. */
static void *polls_two(void *arg)
{
    struct two *two = arg;
    struct pollfd p[] = {{.fd = two->other, .events = POLLIN}, {.fd = two->call.fd, .events = POLLIN}};
    int n = weft_poll(p, 2, WEFT_FOREVER);
    put(&two->call.said, n == 1 && p[0].revents == 0 && p[1].revents == POLLNVAL ? -EBADF : 1);
    return NULL;
}

TEST(a_poll_of_several_says_which_is_being_closed)
{
    struct closing c;
    begin_closing(&c);
    struct pair other = unix_pair(SOCK_STREAM);
    struct two two = {.call.fd = c.pair.a, .other = other.a};
    weft_fiber *f = go_on(c.sched, polls_two, &two);
    AWAIT(seen(&two.call.said) != 0);
    CHECK_INT(seen(&two.call.said), ==, -EBADF);
    end_closing(&c);
    ended(f);
    close_pair(other);
}

TESTS(io_while_closing, a_fibers_call_on_what_is_being_closed_returns_at_once,
      a_plain_threads_call_on_what_is_being_closed_returns_at_once, a_poll_of_several_says_which_is_being_closed)
