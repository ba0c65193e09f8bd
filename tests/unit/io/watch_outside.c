/*
 * Watches that are added outside of fibers: on a plain thread, on the thread of a use_caller scheduler, before a start. No
 * add waits for a worker, and each watch ends once, whatever happens before its worker has seen it.
 */
#include <sched.h>
#include <sys/wait.h>

#include <weft/watch.h>

#include "base/sys.h"
#include "io/fd.h"
#include "unit/io/fired.h"
#include "unit/io/ground.h"

/* ---- the thread of a use_caller scheduler ---- */

TEST(a_watch_added_on_the_thread_of_a_use_caller_scheduler_fires_when_that_runs)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        for (int kind = 0; kind < KINDS; kind++) {
            weft_sched *s = new_sched(workers, true);
            struct pair p = make_pair(kind);
            struct fired f = {0};
            CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
            CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, -EEXIST);
            CHECK_INT(weft_sched_run(s, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT); /* there is nothing to read */
            CHECK_INT(seen(&f.count), ==, 0);
            CHECK_INT(write(p.b, "x", 1), ==, 1);
            CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
            CHECK_INT(seen(&f.count), ==, 1);
            CHECK_INT(seen_events(&f) & WEFT_READ, ==, WEFT_READ);
            CHECK_INT(seen(&f.fd), ==, p.a);
            CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==,
                      0); /* it is running now; the byte is still there */
            CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
            CHECK_INT(seen(&f.count), ==, 2);
            end_sched(s);
            close_pair(p);
        }
    }
}

/* In whose fiber it was called; atomic. */
static void notes_scheduler(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events;
    __atomic_store_n((weft_sched **)arg, weft_sched_current(), __ATOMIC_RELEASE);
}

TEST(on_that_thread_a_watch_is_its_schedulers_and_not_that_of_weft_run)
{
    struct run_beside b;
    struct pair p = tcp_pair();
    run_beside_begin(&b);
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_sched *s = new_sched(workers, true), *by = NULL;
        CHECK_INT(weft_watch_add(p.a, WEFT_WRITE, notes_scheduler, &by), ==, 0);
        CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_PTR(__atomic_load_n(&by, __ATOMIC_ACQUIRE), ==, s);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_watch_add(p.a, WEFT_WRITE, notes_scheduler, &by), ==, -ESHUTDOWN); /* it is still the one */
        CHECK_INT(weft_sched_free(s), ==, 0);
        CHECK_INT(weft_watch_add(p.a, WEFT_WRITE, notes_scheduler, &by), ==, 0);
        AWAIT(__atomic_load_n(&by, __ATOMIC_ACQUIRE) == b.sched);
    }
    run_beside_end(&b);
    close_pair(p);
}

/* ---- a plain thread, beside a worker that computes ---- */

struct beside {
    struct pair pair;
    struct fired fired;
    int begun, added;
};

static void *adds_one(void *arg)
{
    struct beside *b = arg;
    AWAIT(seen(&b->begun));
    CHECK_INT(weft_watch_add(b->pair.a, WEFT_READ, notes, &b->fired), ==, 0);
    put(&b->added, 1);
    return NULL;
}

/* It gives way to nobody until the add has returned. */
static void *computes_until_it_is_added(void *arg)
{
    struct beside *b = arg;
    int64_t most = real_now() + AWAIT_SECONDS * WEFT_SEC;
    put(&b->begun, 1);
    while (!seen(&b->added) && real_now() < most)
        ;
    CHECK(seen(&b->added));
    int64_t until = real_now() + 20 * WEFT_MS; /* its worker has not seen the watch */
    CHECK_INT(write(b->pair.b, "x", 1), ==, 1);
    while (real_now() < until)
        ;
    CHECK_INT(seen(&b->fired.count), ==, 0);
    AWAIT(seen(&b->fired.count) == 1);
    CHECK_INT(seen_events(&b->fired), ==, WEFT_READ);
    return NULL;
}

TEST(an_add_on_a_plain_thread_does_not_wait_for_a_worker_that_computes)
{
    struct beside b = {.pair = tcp_pair()};
    pthread_t other = new_thread(adds_one, &b);
    in_a_fiber(1, computes_until_it_is_added, &b);
    pthread_join(other, NULL);
    close_pair(b.pair);
}

/* ---- what happens before its worker has seen it ---- */

TEST(one_that_is_deleted_before_its_worker_has_seen_it_never_fires)
{
    weft_sched *s = new_sched(1, true);
    struct pair p = tcp_pair();
    struct fired f = {0}, g = {0};
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
    CHECK_INT(weft_watch_del(p.a, WEFT_READ | WEFT_WRITE), ==, 0);
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &g), ==, 0); /* in its place */
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(seen(&f.count), ==, 0);
    CHECK_INT(seen(&g.count), ==, 1);
    CHECK_INT(seen_events(&g), ==, WEFT_READ);
    CHECK_INT(figures(s).watches, ==, 0); /* it was armed once, though its worker was asked to twice */
    end_sched(s);
    close_pair(p);
}

TEST(one_that_is_cancelled_before_its_worker_has_seen_it_says_so_once)
{
    weft_sched *s = new_sched(1, true);
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_watch_cancel_all(p.a), ==, 0);
    CHECK_INT(weft_watch_cancel_all(p.a), ==, -ENOENT);
    CHECK_INT(seen(&f.count), ==, 0);
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(seen(&f.count), ==, 1);
    CHECK_INT(seen_events(&f), ==, WEFT_READ | WEFT_CANCELED);
    end_sched(s);
    close_pair(p);
}

TEST(a_close_before_its_worker_has_seen_it_is_told_once_and_leaves_the_next_of_that_number_alone)
{
    weft_sched *s = new_sched(1, true);
    struct pair p = tcp_pair(), q = pipe_pair(0);
    struct fired f = {0}, g = {0};
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(dup2(q.a, p.a), ==, p.a); /* the number is another's now */
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &g), ==, 0);
    CHECK_INT(weft_sched_run(s, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(seen(&f.count), ==, 1);
    CHECK_INT(seen_events(&f), ==, WEFT_READ | WEFT_CLOSED);
    CHECK_INT(seen(&g.count), ==, 0);
    CHECK_INT(write(q.b, "x", 1), ==, 1);
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(seen(&f.count), ==, 1);
    CHECK_INT(seen(&g.count), ==, 1);
    CHECK_INT(seen_events(&g), ==, WEFT_READ);
    end_sched(s);
    close_pair(p);
    close_pair(q);
}

/* ---- schedulers that are named, that have not started, that end ---- */

/* Its byte is written when it has been added, by whom the test likes. */
static void fires_once(struct pair p, struct fired *f)
{
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    AWAIT(seen(&f->count) == 1);
    CHECK_INT(seen_events(f), ==, WEFT_READ);
    CHECK_INT(seen(&f->fd), ==, p.a);
}

TEST(a_watch_added_before_the_start_fires_after_it)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_sched *s = new_sched(workers, false);
        struct pair early = tcp_pair(), late = tcp_pair();
        struct fired f = {0}, g = {0};
        CHECK_INT(write(early.b, "x", 1), ==, 1);
        CHECK_INT(weft_sched_watch_add(s, early.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, late.a, WEFT_READ, notes, &g), ==, 0);
        CHECK_INT(seen(&f.count), ==, 0);
        CHECK_INT(weft_sched_start(s), ==, 0);
        AWAIT(seen(&f.count) == 2);
        CHECK_INT(seen(&g.count), ==, 0);
        fires_once(late, &g);
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
        CHECK_INT(figures(s).watches, ==, 0);
        CHECK_INT(weft_sched_watch_add(s, late.a, WEFT_READ, notes, &g), ==, -ESHUTDOWN);
        CHECK_INT(weft_sched_free(s), ==, 0);
        close_pair(early);
        close_pair(late);
    }
}

struct named {
    weft_sched *sched;
    struct pair pair;
    struct fired fired;
};

static void *names_it(void *arg)
{
    struct named *n = arg;
    CHECK_INT(weft_sched_watch_add(n->sched, n->pair.a, WEFT_READ, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_sched_watch_add(n->sched, n->pair.a, WEFT_READ, notes, &n->fired), ==, 0);
    fires_once(n->pair, &n->fired);
    return NULL;
}

static void *names_its_own(void *arg)
{
    struct pair *p = arg;
    CHECK_INT(weft_sched_watch_add(weft_sched_current(), p->a, WEFT_READ, NULL, NULL), ==, 0);
    CHECK_INT(write(p->b, "x", 1), ==, 1);
    return ptr(weft_park(weft_in(20 * WEFT_SEC)));
}

TEST(a_scheduler_may_be_named_from_anywhere)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct named on_thread = {.sched = running_sched(workers), .pair = tcp_pair()};
        struct named in_fiber = {.sched = on_thread.sched, .pair = tcp_pair()};
        struct pair own = tcp_pair();
        names_it(&on_thread);
        in_a_fiber(workers, names_it, &in_fiber);
        CHECK_PTR(ended(go_on(on_thread.sched, names_its_own, &own)), ==, ptr(0));
        end_sched(on_thread.sched);
        close_pair(on_thread.pair);
        close_pair(in_fiber.pair);
        close_pair(own);
    }
}

TEST(what_is_known_at_once_is_returned)
{
    weft_sched *s = new_sched(1, true);
    struct pair p = tcp_pair();
    struct fired f = {0};
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(weft_watch_add(file, WEFT_READ, notes, &f), ==, -EPERM);
    CHECK_INT(weft_watch_add(-1, WEFT_READ, notes, &f), ==, -EBADF);
    CHECK_INT(weft_watch_add(9999, WEFT_READ, notes, &f), ==, -EBADF);
    CHECK_INT(weft_watch_add(p.a, 0, notes, &f), ==, -EINVAL);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, NULL, NULL), ==, -EINVAL);
    CHECK_INT(weft_sched_watch_add(NULL, p.a, WEFT_READ, notes, &f), ==, -EINVAL);
    CHECK_INT(weft_watch_add(p.a, WEFT_WRITE, notes, &f), ==, 0);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, -EEXIST);
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT); /* nothing of it was added */
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(seen(&f.count), ==, 1);
    for (unsigned n = 1; n <= 4; n++) { /* of two watches, in memory of four parts at most */
        wf_sys_fail(1u << WF_SYS_MALLOC | 1u << WF_SYS_MMAP, n, 0);
        int rc = weft_watch_add(p.a, WEFT_READ | WEFT_WRITE, notes, &f);
        unsigned calls = wf_sys_calls();
        wf_sys_fail(0, 0, 0);
        CHECK_INT(rc, ==, calls >= n ? -ENOMEM : 0);
        if (rc == 0)
            CHECK_INT(weft_watch_del(p.a, WEFT_READ | WEFT_WRITE), ==, 0);
    }
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(seen(&f.count), ==, 1);
    close(file);
    close_pair(p);
}

/* The worker has no driver so far, and cannot have one. */
TEST(what_its_worker_finds_out_later_is_told_by_the_watch)
{
    static const unsigned no_set = 1u << WF_SYS_EPOLL | 1u << WF_SYS_URING, no_place = 1u << WF_SYS_EPOLL_CTL;
    for (int what = 0; what < 2; what++) {
        weft_sched *s = NULL;
        CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true, .io = WEFT_IO_EPOLL}), ==, 0);
        struct pair p = tcp_pair();
        struct fired f = {0};
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_INT(weft_watch_add(p.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
        wf_sys_fail_with(what ? ENOSPC : EMFILE);
        wf_sys_fail(what ? no_place : no_set, what ? 2 : 1, 100); /* the first place is its eventfd's */
        CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
        wf_sys_fail(0, 0, 0);
        wf_sys_fail_with(0);
        CHECK_INT(seen(&f.count), ==, 2);
        CHECK_INT(seen_events(&f) & ~(unsigned)(WEFT_READ | WEFT_WRITE), ==, WEFT_FAILED);
        CHECK_INT(figures(s).watches, ==, 0);
        CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes, &f), ==, 0); /* and now it works */
        CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_INT(seen(&f.count), ==, 3);
        CHECK_INT(seen_events(&f), ==, WEFT_READ);
        end_sched(s);
        close_pair(p);
    }
}

/* ---- a stop, a free, a fork ---- */

TEST(a_stop_cancels_at_its_deadline_what_was_added_before_the_start)
{
    for (int use_caller = 0; use_caller <= 1; use_caller++) {
        for (unsigned workers = 1; workers <= 2; workers++) {
            weft_sched *s = new_sched(workers, use_caller);
            struct pair p = tcp_pair();
            struct fired f = {0};
            CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, notes, &f), ==, 0);
            weft_time until = weft_in(10 * WEFT_MS);
            CHECK_INT(weft_sched_stop(s, until), ==, 0);
            CHECK_INT(weft_now().ns, >=, until.ns);
            CHECK_INT(f.count, ==, 1);
            CHECK_INT(f.events, ==, WEFT_READ | WEFT_CANCELED);
            CHECK_INT(weft_sched_free(s), ==, 0);
            CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
            close_pair(p);
        }
    }
}

/* What was deleted, cancelled or closed is on its way to a worker that never comes. */
TEST(a_free_drops_the_watches_of_a_scheduler_that_never_ran)
{
    struct pair p = tcp_pair(), q = tcp_pair(), r = tcp_pair(), t = tcp_pair();
    struct fired f = {0};
    for (int use_caller = 0; use_caller <= 1; use_caller++) {
        int fibers = count_fibers();
        struct wf_sys_held before = wf_sys_held();
        weft_sched *s = new_sched(2, use_caller);
        CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, q.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, r.a, WEFT_READ | WEFT_WRITE, notes, &f), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, t.a, WEFT_READ, notes, &f), ==, 0);
        CHECK_INT(weft_watch_del(q.a, WEFT_WRITE), ==, 0);
        CHECK_INT(weft_watch_cancel(r.a, WEFT_READ), ==, 0);
        if (use_caller)
            close_pair(t);
        CHECK_INT(weft_sched_go(s, NULL, NULL, ends_at_once, NULL), ==, 0);
        CHECK_INT(weft_sched_free(s), ==, 0);
        CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
        CHECK_INT(count_fibers(), ==, fibers);
        if (use_caller) /* the first time there are records to be made that stay */
            CHECK_INT(wf_sys_held().n, ==, before.n);
    }
    CHECK_INT(seen(&f.count), ==, 0);
    close_pair(p);
    close_pair(q);
    close_pair(r);
}

static void child_has_no_watches(weft_sched *s, struct pair p, struct fired *f)
{
    CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0); /* nothing is left of them */
    CHECK_INT(seen(&f->count), ==, 0);
    CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, notes, f), ==, 0); /* and it has its own */
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(seen(&f->count), ==, 1);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
}

TEST(in_the_child_of_a_fork_there_are_no_watches)
{
    for (int use_caller = 0; use_caller <= 1; use_caller++) {
        weft_sched *s = new_sched(1, use_caller);
        struct pair p = pipe_pair(0), q = tcp_pair();
        struct fired f = {0}, g = {0};
        int status = -1;
        char byte;
        CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, notes, &f), ==, 0);
        CHECK_INT(weft_sched_watch_add(s, q.a, WEFT_READ, notes, &g), ==, 0);
        CHECK_INT(weft_watch_cancel(q.a, WEFT_READ), ==, 0); /* on its way */
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            child_has_no_watches(s, p, &f);
            CHECK_INT(seen(&g.count), ==, 0);
            _exit(test_has_failed());
        }
        CHECK_INT(waitpid(pid, &status, 0), ==, pid);
        CHECK_INT(status, ==, 0);
        CHECK_INT(read(p.a, &byte, 1), ==, 1);
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_INT(weft_sched_run(s, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_INT(seen(&f.count), ==, 1);
        CHECK_INT(seen_events(&f), ==, WEFT_READ);
        CHECK_INT(seen_events(&g), ==, WEFT_READ | WEFT_CANCELED);
        end_sched(s);
        close_pair(p);
        close_pair(q);
    }
}

/* ---- many threads at once ---- */

struct crowd {
    weft_sched *sched;
    int ends[3]; /* by an event or WEFT_CANCELED; WEFT_CLOSED; and those that were added */
};

static void counts_ends(int fd, unsigned events, void *arg)
{
    struct crowd *c = arg;
    (void)fd;
    more(&c->ends[(events & WEFT_CLOSED) != 0]);
}

/* Each watch that was added and not deleted ends once. */
static void *adds_and_ends(void *arg)
{
    struct crowd *c = arg;
    for (int i = 0; i < 300; i++) {
        struct pair p = unix_pair(SOCK_STREAM);
        int added = weft_sched_watch_add(c->sched, p.a, WEFT_READ, counts_ends, c) == 0;
        if (i % 4 == 0)
            CHECK_INT(write(p.b, "x", 1), ==, 1);
        else if (i % 4 == 1)
            added -= weft_watch_del(p.a, WEFT_READ) == 0;
        else if (i % 4 == 2)
            weft_watch_cancel(p.a, WEFT_READ);
        __atomic_add_fetch(&c->ends[2], added, __ATOMIC_ACQ_REL);
        close_pair(p); /* with what is left */
    }
    return NULL;
}

TEST(each_of_many_that_are_ended_at_once_ends_once)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        enum { THREADS = 4 };
        struct crowd c = {.sched = running_sched(workers)};
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            threads[i] = new_thread(adds_and_ends, &c);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK_INT(weft_sched_stop(c.sched, WEFT_FOREVER), ==, 0);
        CHECK_INT(c.ends[0] + c.ends[1], ==, c.ends[2]);
        CHECK_INT(figures(c.sched).watches, ==, 0);
        CHECK_INT(weft_sched_free(c.sched), ==, 0);
    }
}

/* ---- a close while the worker is about to arm it ---- */

struct held {
    const struct wf_fd *record;
    uint32_t generation;
    int there;
};

/* In the worker's fiber, which must not give way here: goes on when the close has begun. */
static void waits_for_the_close(void *arg)
{
    struct held *h = arg;
    int64_t most = real_now() + AWAIT_SECONDS * WEFT_SEC;
    put(&h->there, 1);
    while (wf_fd_generation(h->record) == h->generation && real_now() < most)
        sched_yield();
}

TEST(a_close_while_its_worker_arms_it_returns)
{
    weft_sched *s = new_sched(1, false);
    struct pair p = tcp_pair();
    struct fired f = {0};
    CHECK_INT(weft_sched_watch_add(s, p.a, WEFT_READ, notes, &f), ==, 0);
    struct held h = {.record = wf_fd_look(p.a), .generation = wf_fd_generation(wf_fd_look(p.a))};
    if (strcmp(weft_io_backend(), "io_uring") == 0) { /* epoll has nothing under way that a close would wait for */
        wf_sys_before(1u << WF_SYS_RING_POLL, waits_for_the_close, &h);
        CHECK_INT(weft_sched_start(s), ==, 0);
        AWAIT(seen(&h.there));
    }
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    wf_sys_before(0, NULL, NULL);
    CHECK_INT(seen(&f.count), ==, 1);
    CHECK_INT(seen_events(&f), ==, WEFT_READ | WEFT_CLOSED);
    CHECK_INT(weft_sched_free(s), ==, 0);
    CHECK_INT(weft_close(p.b), ==, 0);
}

TESTS(io_watch_outside, a_watch_added_on_the_thread_of_a_use_caller_scheduler_fires_when_that_runs,
      on_that_thread_a_watch_is_its_schedulers_and_not_that_of_weft_run,
      an_add_on_a_plain_thread_does_not_wait_for_a_worker_that_computes,
      one_that_is_deleted_before_its_worker_has_seen_it_never_fires,
      one_that_is_cancelled_before_its_worker_has_seen_it_says_so_once,
      a_close_before_its_worker_has_seen_it_is_told_once_and_leaves_the_next_of_that_number_alone,
      a_watch_added_before_the_start_fires_after_it, a_scheduler_may_be_named_from_anywhere,
      what_is_known_at_once_is_returned, what_its_worker_finds_out_later_is_told_by_the_watch,
      a_stop_cancels_at_its_deadline_what_was_added_before_the_start,
      a_free_drops_the_watches_of_a_scheduler_that_never_ran, in_the_child_of_a_fork_there_are_no_watches,
      each_of_many_that_are_ended_at_once_ends_once, a_close_while_its_worker_arms_it_returns)
