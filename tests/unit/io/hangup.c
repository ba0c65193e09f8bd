/*
 * weft_cancel_on_hangup: which ends of a connection cancel the fiber, when, and that it is never another fiber.
 */
#include <sys/wait.h>

#include <weft/net.h>
#include <weft/sync.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "io/fd.h"
#include "io/set.h"
#include "unit/io/ground.h"
#include "unit/sched/heard.h"

#define LONG (AWAIT_SECONDS * WEFT_SEC)

/* Ends a connection by a reset. */
static void reset(int fd)
{
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), ==, 0);
    CHECK_INT(close(fd), ==, 0);
}

static bool is_ring(void)
{
    return strcmp(weft_io_backend(), "io_uring") == 0;
}

/* A fiber that waits for something else than its descriptor. Not on a stack: it may be on a shared one. */
struct handler {
    int fd;
    int began; /* atomic */
    weft_fiber *fiber;
};

static void *handles(void *arg)
{
    struct handler *h = arg;
    CHECK_INT(weft_cancel_on_hangup(h->fd, weft_fiber_current()), ==, 0);
    put(&h->began, 1);
    return ptr(weft_park(WEFT_FOREVER));
}

static void begin(struct handler *h, int fd, const weft_attr *attr)
{
    *h = (struct handler){.fd = fd};
    CHECK_INT(weft_go_with(&h->fiber, attr, handles, h), ==, 0);
    AWAIT(seen(&h->began) && is_parked(h->fiber));
}

/* It has not been cancelled: an unpark is what ends its wait. */
static void check_untouched(struct handler *h)
{
    weft_sleep(5 * WEFT_MS);
    CHECK(is_parked(h->fiber));
    weft_unpark(h->fiber);
    CHECK_INT((intptr_t)ended(h->fiber), ==, 0);
}

static void check_cancelled(struct handler *h)
{
    CHECK_INT((intptr_t)ended(h->fiber), ==, -ECANCELED);
}

/* Each kind of fiber. */
static void with_each_fiber(void (*fn)(const weft_attr *attr))
{
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    fn(NULL);
    fn(&(weft_attr){.flags = WEFT_MIGRATE});
    fn(&(weft_attr){.shared = pool});
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static void close_and_look(const weft_attr *attr)
{
    static struct handler h;
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        struct pair p = unix_pair(types[i]);
        begin(&h, p.a, attr);
        CHECK_INT(close(p.b), ==, 0);
        check_cancelled(&h);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    struct pair p = pipe_pair(0);
    begin(&h, p.b, attr);
    CHECK_INT(close(p.a), ==, 0);
    check_cancelled(&h);
    CHECK_INT(weft_close(p.b), ==, 0);
    p = tcp_pair();
    begin(&h, p.a, attr);
    reset(p.b);
    check_cancelled(&h);
    CHECK_INT(weft_close(p.a), ==, 0);
    p = tcp_pair();
    CHECK_INT(write(p.a, "unread", 6), ==, 6);
    AWAIT(recv(p.b, &(char[1]){0}, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
    begin(&h, p.a, attr);
    CHECK_INT(close(p.b), ==, 0);
    check_cancelled(&h);
    CHECK_INT(weft_close(p.a), ==, 0);
}

IN_FIBER(a_client_that_is_gone_cancels_the_fiber)
{
    with_each_fiber(close_and_look);
    return arg;
}

static void half_close_and_look(const weft_attr *attr)
{
    static struct handler h;
    for (int tcp = 0; tcp < 2; tcp++) {
        struct pair p = tcp ? tcp_pair() : unix_pair(SOCK_STREAM);
        begin(&h, p.a, attr);
        CHECK_INT(shutdown(p.b, SHUT_WR), ==, 0);
        CHECK(weft_wait_fd(p.a, POLLRDHUP, weft_in(LONG)) & POLLRDHUP);
        check_untouched(&h);
        begin(&h, p.a, attr); /* with the half-close seen already */
        weft_sleep(WEFT_MS);
        CHECK(is_parked(h.fiber));
        if (tcp) { /* the whole close looks the same, until it is answered by a reset */
            CHECK_INT(close(p.b), ==, 0);
            weft_sleep(5 * WEFT_MS);
            CHECK(is_parked(h.fiber));
            CHECK_INT(weft_send(p.a, "x", 1, 0, WEFT_FOREVER), ==, 1);
        } else {
            CHECK_INT(close(p.b), ==, 0);
        }
        check_cancelled(&h);
        CHECK_INT(weft_close(p.a), ==, 0);
    }
}

IN_FIBER(a_half_close_does_not_cancel_and_the_end_after_it_does)
{
    with_each_fiber(half_close_and_look);
    return arg;
}

static void *calls_late(void *arg)
{
    int fd = *(int *)arg;
    CHECK_INT(weft_cancel_on_hangup(fd, weft_fiber_current()), ==, 0);
    return ptr(weft_cancelled());
}

IN_FIBER(one_that_has_hung_up_already_cancels_at_once)
{
    for (int seen_before = 0; seen_before < 2; seen_before++) {
        struct pair p = unix_pair(SOCK_STREAM);
        CHECK_INT(close(p.b), ==, 0);
        if (seen_before) { /* its event has come and gone */
            char byte;
            CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 0);
            CHECK(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & POLLHUP);
            CHECK_INT(weft_cancel_on_hangup(p.a, NULL), ==, 0);
        }
        for (int i = 0; i < 3; i++) {
            weft_fiber *f = NULL;
            CHECK_INT(weft_go_with(&f, NULL, calls_late, &p.a), ==, 0);
            CHECK_PTR(ended(f), ==, ptr(1));
        }
        CHECK_INT(weft_close(p.a), ==, 0);
    }
    return arg;
}

IN_FIBER(another_call_replaces_the_fiber_and_null_takes_it_back)
{
    struct handler h[3];
    struct pair p = unix_pair(SOCK_STREAM), q = unix_pair(SOCK_STREAM);
    begin(&h[0], p.a, NULL);
    begin(&h[1], p.a, NULL);
    begin(&h[2], q.a, NULL);
    CHECK_INT(weft_cancel_on_hangup(q.a, NULL), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(q.a, NULL), ==, 0); /* none is there any more */
    CHECK_INT(close(p.b), ==, 0);
    CHECK_INT(close(q.b), ==, 0);
    check_cancelled(&h[1]);
    check_untouched(&h[0]);
    check_untouched(&h[2]);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_close(q.a), ==, 0);
    return arg;
}

IN_FIBER(one_fiber_may_be_that_of_several_descriptors)
{
    struct handler h;
    struct pair p = unix_pair(SOCK_STREAM), q = unix_pair(SOCK_STREAM);
    begin(&h, p.a, NULL);
    CHECK_INT(weft_cancel_on_hangup(q.a, h.fiber), ==, 0);
    CHECK_INT(close(q.b), ==, 0);
    check_cancelled(&h);
    CHECK_INT(close(p.b), ==, 0); /* for nobody */
    weft_sleep(WEFT_MS);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_close(q.a), ==, 0);
    return arg;
}

/* By each way to close; the number is another connection's then. */
static void close_number(int fd, int way)
{
    if (way == 0) {
        CHECK_INT(weft_close(fd), ==, 0);
    } else {
        CHECK(weft_closing((unsigned)fd, (unsigned)fd));
        CHECK_INT(close(fd), ==, 0);
        weft_closed((unsigned)fd, (unsigned)fd);
    }
}

IN_FIBER(a_close_takes_it_along_and_the_next_of_the_number_cancels_nobody)
{
    for (int way = 0; way < 2; way++) {
        struct handler h;
        struct pair p = unix_pair(SOCK_STREAM), next = unix_pair(SOCK_STREAM);
        char byte;
        begin(&h, p.a, NULL);
        close_number(p.a, way);
        CHECK_INT(read(p.b, &byte, 1), ==, 0); /* it is closed, whatever was in a ring */
        CHECK_INT(dup2(next.a, p.a), ==, p.a);
        CHECK_INT(weft_close(next.a), ==, 0);
        CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* it is registered */
        CHECK_INT(close(next.b), ==, 0);
        CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 0);
        check_untouched(&h);
        CHECK_INT(weft_close(p.a), ==, 0);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

static void *subscribes_and_ends(void *arg)
{
    CHECK_INT(weft_cancel_on_hangup(*(int *)arg, weft_fiber_current()), ==, 0);
    return NULL;
}

static void *subscribes_and_parks(void *arg)
{
    subscribes_and_ends(arg);
    return parks(NULL);
}

IN_FIBER(the_fibers_record_may_be_another_fibers_by_then)
{
    enum { MANY = 200 };
    weft_fiber *others[MANY];
    struct pair p = unix_pair(SOCK_STREAM), q = unix_pair(SOCK_STREAM);
    reuse_records();
    weft_fiber *gone = go(subscribes_and_ends, &p.a);
    ended(gone);
    bool again = false;
    for (int i = 0; i < MANY; i++) {
        others[i] = go(subscribes_and_parks, &q.a);
        again |= others[i] == gone;
    }
    if (!WF_DEBUG) /* there a record waits long for its next fiber */
        CHECK(again || figures(weft_sched_current()).workers > 1);
    for (int i = 0; i < MANY; i++)
        AWAIT(is_parked(others[i]));
    CHECK_INT(close(p.b), ==, 0);
    CHECK(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & POLLHUP);
    weft_sleep(WEFT_MS);
    for (int i = 0; i < MANY; i++) {
        weft_unpark(others[i]);
        CHECK_INT((intptr_t)ended(others[i]), ==, 0);
    }
    CHECK_INT(weft_close(p.a), ==, 0);
    close_pair(q);
    return arg;
}

IN_FIBER(an_event_that_is_not_so_any_more_cancels_nobody)
{
    struct handler h;
    struct pair p = unix_pair(SOCK_STREAM);
    begin(&h, p.a, NULL);
    for (int i = 0; i < 3; i++) /* as a worker that is late would tell it, or a set that is made anew */
        wf_fd_event(p.a, wf_fd_generation(wf_fd_look(p.a)), POLLERR | POLLHUP);
    weft_sleep(WEFT_MS);
    CHECK(is_parked(h.fiber));
    CHECK_INT(close(p.b), ==, 0);
    check_cancelled(&h);
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

/* A datagram socket whose other side is not there: each packet comes back as an error. */
static int refused_socket(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(other, (struct sockaddr *)&at, sizeof at), ==, 0);
    CHECK_INT(getsockname(other, (struct sockaddr *)&at, &size), ==, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&at, sizeof at), ==, 0);
    close(other);
    return fd;
}

/* Without giving way: the worker learns of it later. */
static void send_and_be_refused(int fd)
{
    struct pollfd p = {.fd = fd};
    CHECK_INT(send(fd, "x", 1, 0), ==, 1);
    CHECK_INT(poll(&p, 1, AWAIT_SECONDS * 1000), ==, 1);
    CHECK_INT(p.revents & POLLERR, ==, POLLERR);
}

static void *has_an_error_that_is_over(void *arg)
{
    static struct handler h;
    int fd = refused_socket(), error = 0;
    socklen_t size = sizeof error;
    wf_sys_fail(1u << WF_SYS_URING, 1, 0); /* a ring of the second choice: it completes a poll when it wakes */
    wf_sys_fail_with(EINVAL);
    CHECK(weft_io_backend() != NULL);
    wf_sys_fail(0, 0, 0);
    wf_sys_fail_with(0);
    begin(&h, fd, NULL);
    for (int i = 0; i < 5; i++) {
        send_and_be_refused(fd);
        CHECK_INT(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), ==, 0);
        CHECK_INT(error, ==, ECONNREFUSED);
        weft_sleep(WEFT_MS);
        CHECK(is_parked(h.fiber));
    }
    send_and_be_refused(fd);
    check_cancelled(&h);
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

TEST(an_error_that_is_over_cancels_nobody_and_the_next_one_does)
{
    in_a_fiber(1, has_an_error_that_is_over, NULL);
}

TEST(who_waits_for_a_hangup_alone_is_not_stuck)
{
    struct heard said;
    struct pair p = unix_pair(SOCK_STREAM);
    struct handler h = {.fd = p.a};
    pid_t client = fork();
    if (client == 0) {
        close(p.a);
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* longer than it takes to say that all are stuck */
        _exit(0);
    }
    CHECK_INT(close(p.b), ==, 0);
    hear(&said);
    void *value = NULL;
    CHECK_INT(weft_run(handles, &h, &value, &(weft_sched_opts){.threads = 1}), ==, 0);
    heard(&said);
    CHECK_INT(waitpid(client, NULL, 0), ==, client);
    CHECK_INT((intptr_t)value, ==, -ECANCELED);
    CHECK_INT(how_often(said.text, "waits for fibers"), ==, 0);
    CHECK_INT(weft_close(p.a), ==, 0);
}

/* ---- other schedulers ---- */

static struct handler elsewhere;

static void *subscribes_the_other(void *arg)
{
    CHECK_INT(weft_cancel_on_hangup(*(int *)arg, elsewhere.fiber), ==, 0);
    put(&elsewhere.began, 1);
    return ptr(weft_park(WEFT_FOREVER));
}

TEST(the_fiber_may_be_of_another_scheduler)
{
    weft_sched *a = running_sched(1), *b = running_sched(2);
    struct pair p = unix_pair(SOCK_STREAM);
    elsewhere = (struct handler){.fd = p.a, .fiber = go_on(b, parks, NULL)};
    AWAIT(is_parked(elsewhere.fiber));
    weft_fiber *f = go_on(a, subscribes_the_other, &p.a);
    AWAIT(seen(&elsewhere.began) && is_parked(f));
    CHECK_INT(close(p.b), ==, 0);
    check_cancelled(&elsewhere);
    CHECK(is_parked(f));
    weft_unpark(f);
    ended(f);
    CHECK_INT(weft_close(p.a), ==, 0);
    end_sched(a);
    end_sched(b);
}

TEST(a_scheduler_may_end_with_it_and_run_again)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_sched *s = running_sched(1);
    weft_fiber *f = go_on(s, subscribes_and_ends, &p.a);
    ended(f);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    struct handler h = {.fd = p.a};
    CHECK_INT(weft_sched_go(s, &h.fiber, NULL, handles, &h), ==, 0);
    AWAIT(seen(&h.began) && is_parked(h.fiber));
    CHECK_INT(close(p.b), ==, 0);
    check_cancelled(&h);
    end_sched(s);
    CHECK_INT(weft_close(p.a), ==, 0);
}

/* The scheduler of the fiber that called, not of the fiber that is subscribed. */
TEST(a_subscription_outlasts_a_stop_of_the_scheduler_that_reports_it)
{
    for (int late = 0; late < 2; late++) {
        weft_sched *a = running_sched(1), *b = running_sched(1);
        struct pair p = unix_pair(SOCK_STREAM);
        elsewhere = (struct handler){.fd = p.a, .fiber = go_on(b, parks, NULL)};
        AWAIT(is_parked(elsewhere.fiber));
        weft_fiber *f = go_on(a, subscribes_the_other, &p.a);
        AWAIT(seen(&elsewhere.began) && is_parked(f));
        weft_unpark(f);
        ended(f);
        CHECK_INT(weft_sched_stop(a, WEFT_FOREVER), ==, 0);
        if (!late)
            CHECK_INT(close(p.b), ==, 0); /* while no worker is there to report it */
        CHECK_INT(weft_sched_start(a), ==, 0);
        if (late) {
            ended(go_on(a, ends_at_once, NULL));
            CHECK_INT(close(p.b), ==, 0);
        }
        check_cancelled(&elsewhere);
        CHECK_INT(weft_close(p.a), ==, 0);
        end_sched(a);
        end_sched(b);
    }
}

/* A descriptor may be closed while its scheduler stands still: nothing of it is left when that runs again. */
TEST(a_stopped_scheduler_holds_up_no_close)
{
    weft_sched *a = running_sched(1), *b = running_sched(1);
    struct pair p = unix_pair(SOCK_STREAM), next = unix_pair(SOCK_STREAM);
    char byte;
    elsewhere = (struct handler){.fd = p.a, .fiber = go_on(b, parks, NULL)};
    AWAIT(is_parked(elsewhere.fiber));
    weft_fiber *f = go_on(a, subscribes_the_other, &p.a);
    AWAIT(seen(&elsewhere.began) && is_parked(f));
    weft_unpark(f);
    ended(f);
    CHECK_INT(weft_sched_stop(a, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(read(p.b, &byte, 1), ==, 0);
    CHECK_INT(fcntl(next.a, F_DUPFD_CLOEXEC, p.a), ==, p.a);
    CHECK_INT(weft_sched_start(a), ==, 0);
    ended(go_on(a, ends_at_once, NULL));
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_close(next.a), ==, 0);
    CHECK_INT(read(next.b, &byte, 1), ==, 0); /* no poll holds it */
    check_untouched(&elsewhere);
    CHECK_INT(close(p.b), ==, 0);
    CHECK_INT(close(next.b), ==, 0);
    end_sched(a);
    end_sched(b);
}

/* ---- what it is for ---- */

static int reached; /* atomic */

static void answers_late(int fd, void *arg)
{
    char byte;
    (void)arg;
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_cancel_on_hangup(fd, weft_fiber_current()), ==, 0);
    more(&reached);
    CHECK_INT(weft_sleep(LONG), ==, -ECANCELED); /* a query to a database, say */
    more(&reached);
}

static void *serves(void *arg)
{
    weft_serve(*(int *)arg, answers_late, NULL, NULL, WEFT_FOREVER);
    return NULL;
}

IN_FIBER(a_servers_handler_ends_when_its_client_is_gone)
{
    enum { CLIENTS = 20 };
    struct sockaddr_in at;
    int l = listener(&at), fds[CLIENTS];
    weft_fiber *server = go(serves, &l);
    put(&reached, 0);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], (struct sockaddr *)&at, sizeof at), ==, 0);
        CHECK_INT(write(fds[i], "?", 1), ==, 1);
    }
    AWAIT(seen(&reached) == CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        reset(fds[i]);
    AWAIT(seen(&reached) == 2 * CLIENTS);
    weft_cancel(server);
    ended(server);
    CHECK_INT(weft_close(l), ==, 0);
    return arg;
}

/* ---- while the worker is about to cancel ---- */

enum way { TAKE_BACK, REPLACE, CLOSE };

/* A call that ends a subscription while another worker is about to cancel the subscribed fiber. */
struct overtaking {
    enum way way;
    int fd;
    weft_fiber *target;
    int held;      /* flag: the worker is about to cancel */
    int returned;  /* flag: the call has returned */
    int overtaken; /* flag: the call has returned before the worker cancelled */
};

static void hold_up(void *arg)
{
    struct overtaking *o = arg;
    if (seen(&o->held)) /* of the call itself */
        return;
    put(&o->held, 1);
    for (int i = 0; i < 20 && !seen(&o->returned);
         i++) /* the call has to wait for us, so this cannot wait for the call */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    put(&o->overtaken, seen(&o->returned));
}

static void *overtakes(void *arg)
{
    struct overtaking *o = arg;
    while (!seen(&o->held))
        weft_yield();
    if (o->way == TAKE_BACK)
        CHECK_INT(weft_cancel_on_hangup(o->fd, NULL), ==, 0);
    else if (o->way == REPLACE)
        CHECK_INT(weft_cancel_on_hangup(o->fd, weft_fiber_current()), ==, 0);
    else
        CHECK_INT(weft_close(o->fd), ==, 0);
    put(&o->returned, 1);
    return ptr(weft_cancelled());
}

static void *is_overtaken(void *arg)
{
    struct overtaking *o = arg;
    struct pair p = unix_pair(SOCK_STREAM);
    weft_fiber *caller = NULL;
    o->fd = p.a;
    o->target = go(parks, NULL);
    AWAIT(is_parked(o->target));
    CHECK_INT(weft_go_with(&caller, &(weft_attr){.worker = WEFT_WORKER(1)}, overtakes, o), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(p.a, o->target), ==, 0); /* of this worker, which is worker 0 */
    CHECK_INT(close(p.b), ==, 0);
    AWAIT(seen(&o->returned));
    CHECK_INT((intptr_t)ended(o->target), ==, -ECANCELED);
    CHECK_PTR(ended(caller), ==, ptr(o->way == REPLACE)); /* the descriptor had hung up by then */
    CHECK(!seen(&o->overtaken));
    if (o->way != CLOSE)
        CHECK_INT(weft_close(p.a), ==, 0);
    return NULL;
}

/* Once the call has returned, the fiber that was subscribed before is cancelled, or stays as it is. */
TEST(a_fiber_is_not_cancelled_after_the_call_that_ends_its_subscription)
{
    for (enum way way = TAKE_BACK; way <= CLOSE; way++) {
        struct overtaking o = {.way = way};
        wf_sys_before(1u << WF_SYS_HANGUP, hold_up, &o);
        in_a_fiber(2, is_overtaken, &o);
        wf_sys_before(0, NULL, NULL);
        CHECK(seen(&o.held));
    }
}

/* ---- what it costs ---- */

static int polls; /* atomic: that went into rings */

static void count_poll(void *arg)
{
    more(arg);
}

static void *subscribes_often(void *arg)
{
    struct pair p = unix_pair(SOCK_STREAM);
    char byte;
    put(&polls, 0);
    CHECK_INT(weft_cancel_on_hangup(p.a, weft_fiber_current()), ==, 0);
    CHECK_INT(seen(&polls), ==, is_ring() ? 1 : 0);
    wf_sys_fail(1u << WF_SYS_EPOLL_CTL, 1u << 30, 0);
    for (int i = 0; i < 100; i++) { /* requests on one connection */
        CHECK_INT(weft_cancel_on_hangup(p.a, weft_fiber_current()), ==, 0);
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_INT(weft_read(p.a, &byte, 1, WEFT_NOW), ==, 1);
        CHECK_INT(weft_cancel_on_hangup(p.a, NULL), ==, 0);
    }
    if (!is_ring())
        CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* nor does a wait register it again */
    CHECK_INT(wf_sys_calls(), ==, 0);
    CHECK_INT(seen(&polls), ==, is_ring() ? 1 : 0);
    wf_sys_fail(0, 0, 0);
    close_pair(p);
    return arg;
}

TEST(a_request_costs_no_call_of_epoll_and_no_poll_in_a_ring)
{
    wf_sys_before(1u << WF_SYS_RING_POLL, count_poll, &polls);
    in_a_fiber(1, subscribes_often, NULL);
    wf_sys_before(0, NULL, NULL);
}

/* A ring's ticket says how often its place was used, in 12 bits. Ticket 0 stands for no poll. */
static void *uses_a_place_often(void *arg)
{
    struct pair p = unix_pair(SOCK_STREAM);
    struct wf_fd_ref ref;
    struct wf_set *set = NULL;
    int zeros = 0;
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(wf_fd_refer(&ref, p.a), ==, 0);
    CHECK_INT(wf_set_here(p.a, &set), ==, 0);
    for (int i = 0; i < 2 * 4096 + 2; i++) {
        uint32_t ticket = 0;
        CHECK_INT(wf_set_arm(set, &ref, POLLIN, &ticket), ==, 0);
        zeros += ticket == 0;
        AWAIT(!(wf_load(&ref.e->word) & WF_FD_USERS)); /* it has reported: the place is free again */
    }
    CHECK_INT(zeros, ==, 0);
    close_pair(p);
    return arg;
}

TEST(a_poll_in_a_ring_never_has_ticket_0)
{
    if (!is_ring())
        SKIP("epoll has no tickets");
    in_a_fiber(1, uses_a_place_often, NULL);
}

struct turns {
    int fd, turn; /* turn: atomic */
};

static void *subscribes_in_turn(void *arg)
{
    struct turns *t = arg;
    int me = weft_fiber_worker(weft_fiber_current());
    for (int i = 0; i < 50; i++) {
        AWAIT(seen(&t->turn) % 2 == me);
        CHECK_INT(weft_cancel_on_hangup(t->fd, weft_fiber_current()), ==, 0);
        more(&t->turn);
    }
    return NULL;
}

/* How many calls and polls are under way on a descriptor. */
static uint64_t users(int fd)
{
    return (wf_load(&wf_fd_look(fd)->word) & WF_FD_USERS) / WF_FD_USER;
}

static void *has_two_workers_subscribe(void *arg)
{
    struct pair p = unix_pair(SOCK_STREAM);
    struct turns t = {.fd = p.a};
    weft_fiber *f[2];
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.worker = WEFT_WORKER(i)}, subscribes_in_turn, &t), ==, 0);
    for (int i = 0; i < 2; i++)
        ended(f[i]);
    AWAIT(users(p.a) <= 1);
    close_pair(p);
    return arg;
}

TEST(a_descriptor_has_one_poll_whichever_worker_asks)
{
    in_a_fiber(2, has_two_workers_subscribe, NULL);
}

static void *fails(void *arg)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_fiber *me = weft_fiber_current();
    CHECK(weft_io_backend() != NULL); /* the set is there */
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    int rc = weft_cancel_on_hangup(p.a, me);
    wf_sys_fail(0, 0, 0);
    CHECK_INT(rc, ==, -ENOMEM);
    if (!is_ring()) {
        wf_sys_fail(1u << WF_SYS_EPOLL_CTL, 1, 0);
        wf_sys_fail_with(ENOSPC);
        rc = weft_cancel_on_hangup(p.a, me);
        wf_sys_fail(0, 0, 0);
        wf_sys_fail_with(0);
        CHECK_INT(rc, ==, -ENOSPC);
    }
    CHECK_INT(close(p.b), ==, 0);
    CHECK(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & POLLHUP);
    CHECK(!weft_cancelled());
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

TEST(a_call_that_fails_leaves_nothing_behind)
{
    in_a_fiber(1, fails, NULL);
}

static void *is_refused(void *arg)
{
    weft_fiber *me = weft_fiber_current(), *gone = go(returns_at_once, NULL);
    CHECK_INT(weft_cancel_on_hangup(-1, me), ==, -EBADF);
    CHECK_INT(weft_cancel_on_hangup(-1, NULL), ==, -EBADF);
    CHECK_INT(weft_cancel_on_hangup(1 << 30, me), ==, -EBADF);
    struct pair p = unix_pair(SOCK_STREAM);
    int closed = dup(p.a);
    close(closed);
    CHECK_INT(weft_cancel_on_hangup(closed, me), ==, -EBADF);
    CHECK_INT(weft_cancel_on_hangup(closed, NULL), ==, 0);
    AWAIT(weft_fiber_state(gone) == WEFT_FIBER_DONE);
    CHECK_INT(weft_cancel_on_hangup(p.a, gone), ==, -ESRCH);
    ended(gone);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(weft_cancel_on_hangup(file, me), ==, -EPERM);
    CHECK(!weft_cancelled());
    close(file);
    close_pair(p);
    return arg;
}

TEST(what_cannot_be_is_refused)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(0, f), ==, -ENXIO);
    CHECK_INT(weft_cancel_on_hangup(0, NULL), ==, 0);
    CHECK_INT(weft_detach(f), ==, 0);
    in_a_fiber(1, is_refused, NULL);
}

static void *subscribes_one_that_is_new(void *arg)
{
    struct pair p = unix_pair(SOCK_STREAM);
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(p.a, f), ==, 0);
    CHECK_INT(close(p.b), ==, 0);
    CHECK(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & POLLHUP);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, 0), ==, 0);
    CHECK_INT((intptr_t)ended(f), ==, -ECANCELED);
    CHECK_INT(weft_close(p.a), ==, 0);
    p = unix_pair(SOCK_STREAM); /* and one that never begins */
    CHECK_INT(weft_fiber_new(&f, NULL, parks, NULL), ==, 0);
    CHECK_INT(weft_cancel_on_hangup(p.a, f), ==, 0);
    CHECK_INT(weft_detach(f), ==, 0);
    CHECK_INT(close(p.b), ==, 0);
    CHECK(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER) & POLLHUP);
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

TEST(a_fiber_that_has_not_begun_may_be_cancelled_so)
{
    in_a_fiber(1, subscribes_one_that_is_new, NULL);
}

/* ---- all at once ---- */

enum { TURNS = WF_TSAN || WF_ASAN || TEST_EMULATED ? 300 : 3000, SIDES = 8 };

struct side {
    struct pair pair;
    weft_fiber *closer;
    unsigned random;
};

static void *closes_it(void *arg)
{
    struct side *s = arg;
    for (unsigned i = s->random % 5; i > 0; i--)
        weft_yield();
    CHECK_INT(close(s->pair.b), ==, 0);
    return NULL;
}

/* Subscribes, and may have ended when its client hangs up; then its record is an innocent one's. */
static void *comes_and_goes(void *arg)
{
    struct side *s = arg;
    CHECK_INT(weft_cancel_on_hangup(s->pair.a, weft_fiber_current()), ==, 0);
    for (unsigned i = s->random / 5 % 5; i > 0; i--)
        weft_yield();
    if (s->random % 3 == 0)
        CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    return NULL;
}

static void *is_innocent(void *arg)
{
    for (int i = 0; i < 4; i++)
        CHECK_INT(weft_sleep(i * WEFT_US), ==, 0);
    CHECK(!weft_cancelled());
    return arg;
}

static void *takes_sides(void *arg)
{
    struct side s = {.random = (unsigned)(uintptr_t)arg * 7919u + 1};
    for (int i = 0; i < TURNS; i++) {
        s.random = s.random * 1664525u + 1013904223u;
        s.random ^= s.random >> 16;
        s.pair = unix_pair(SOCK_STREAM);
        weft_fiber *f = go(comes_and_goes, &s), *closer = go(closes_it, &s);
        if (s.random % 2)
            CHECK(weft_cancel_on_hangup(s.pair.a, f) <= 0); /* -ESRCH it was quicker */
        ended(f);
        weft_fiber *innocent = go(is_innocent, NULL);
        ended(closer);
        ended(innocent);
        CHECK_INT(weft_close(s.pair.a), ==, 0);
    }
    return NULL;
}

static void *races(void *arg)
{
    weft_fiber *fibers[SIDES];
    for (intptr_t i = 0; i < SIDES; i++)
        fibers[i] = go(takes_sides, ptr(i));
    for (int i = 0; i < SIDES; i++)
        ended(fibers[i]);
    return arg;
}

TEST(fibers_that_end_while_clients_go_leave_the_innocent_alone)
{
    in_a_fiber(1, races, NULL);
    in_a_fiber(4, races, NULL);
}

TESTS(io_hangup, who_waits_for_a_hangup_alone_is_not_stuck, /* first: no caches are to be trimmed */
      a_client_that_is_gone_cancels_the_fiber, a_half_close_does_not_cancel_and_the_end_after_it_does,
      one_that_has_hung_up_already_cancels_at_once, another_call_replaces_the_fiber_and_null_takes_it_back,
      one_fiber_may_be_that_of_several_descriptors, a_close_takes_it_along_and_the_next_of_the_number_cancels_nobody,
      the_fibers_record_may_be_another_fibers_by_then, an_event_that_is_not_so_any_more_cancels_nobody,
      an_error_that_is_over_cancels_nobody_and_the_next_one_does, the_fiber_may_be_of_another_scheduler,
      a_scheduler_may_end_with_it_and_run_again, a_subscription_outlasts_a_stop_of_the_scheduler_that_reports_it,
      a_stopped_scheduler_holds_up_no_close, a_fiber_is_not_cancelled_after_the_call_that_ends_its_subscription,
      a_servers_handler_ends_when_its_client_is_gone, a_request_costs_no_call_of_epoll_and_no_poll_in_a_ring,
      a_descriptor_has_one_poll_whichever_worker_asks, a_poll_in_a_ring_never_has_ticket_0,
      a_call_that_fails_leaves_nothing_behind, what_cannot_be_is_refused,
      a_fiber_that_has_not_begun_may_be_cancelled_so, fibers_that_end_while_clients_go_leave_the_innocent_alone)
