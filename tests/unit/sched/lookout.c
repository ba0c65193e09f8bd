/*
 * A fiber that may move does not wait beside an idle worker, though the fiber that woke it goes on computing. If it does
 * not go on, the two stay on one worker.
 */
#include <weft/chan.h>
#include <weft/sync.h>

#include "sched/lookout.h"
#include "sched/sched.h"
#include "unit/sched/ground.h"

/* ---- what the lookout takes, on workers made by hand ---- */

static union {
    weft_sched it;
    char bytes[sizeof(weft_sched) + 2 * sizeof(struct wf_worker *)];
} sched;
static struct wf_worker lookout, busy;
static weft_fiber fibers[2];

/* Worker `busy` has switched so many times, has made so many offers, and the last one was f. */
static void has(uint64_t switches, uint32_t offers, weft_fiber *f)
{
    busy.counts.switches = switches;
    busy.offers = offers;
    busy.offered = f;
}

static void set_up(void)
{
    lookout = (struct wf_worker){.sched = &sched.it};
    busy = (struct wf_worker){.sched = &sched.it};
    sched.it = (weft_sched){.workers = 2};
    sched.it.worker[0] = &lookout;
    sched.it.worker[1] = &busy;
    has(10, 5, &fibers[0]);
}

TEST(an_offer_is_ripe_when_it_is_seen_again_and_its_worker_has_not_switched)
{
    set_up();
    CHECK(wf_lookout_begin(&lookout));
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NEWS);
    CHECK_PTR(wf_lookout_take(&lookout), ==, NULL);
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_RIPE);
    CHECK_PTR(wf_lookout_take(&lookout), ==, &fibers[0]);
    CHECK_PTR(busy.offered, ==, NULL);
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NOTHING);
    CHECK_PTR(wf_lookout_take(&lookout), ==, NULL);
}

TEST(an_offer_of_a_worker_that_switches_is_left_to_it)
{
    set_up();
    CHECK(wf_lookout_begin(&lookout));
    for (uint64_t i = 0; i < 5; i++) {
        has(20 + i, 5, &fibers[0]);
        CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NEWS);
    }
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_RIPE);
    has(30, 5, &fibers[0]); /* between the look and the taking */
    CHECK_PTR(wf_lookout_take(&lookout), ==, NULL);
    CHECK_PTR(busy.offered, ==, &fibers[0]);
}

TEST(a_later_offer_of_the_same_fiber_is_news)
{
    set_up();
    CHECK(wf_lookout_begin(&lookout));
    for (uint32_t i = 0; i < 5; i++) {
        has(10, 6 + i, &fibers[i % 2]);
        CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NEWS);
    }
    has(10, 11, NULL); /* it was there, and its worker has taken it */
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NEWS);
    CHECK_INT(wf_lookout_look(&lookout), ==, WF_SIGHT_NOTHING);
}

TEST(there_is_one_lookout_and_only_if_there_is_news)
{
    set_up();
    has(10, 5, NULL);
    busy.seen_offers = 5;
    CHECK(!wf_lookout_begin(&lookout));
    busy.seen_offers = 4; /* the offer is gone, but there may be more of them */
    CHECK(wf_lookout_begin(&lookout));
    CHECK(wf_lookout_begin(&lookout));
    lookout.offered = &fibers[1];
    CHECK(!wf_lookout_begin(&busy));
    wf_lookout_end(&lookout);
    CHECK(wf_lookout_begin(&busy));
    wf_lookout_end(&busy);
}

/* ---- fibers that may move, beside others that compute ---- */

enum { MOST = 8 };

/* What those who may move wait for. */
enum wait { PARK, PARK_WITH_DEADLINE, CHANNEL, WAITS };

struct scene {
    weft_sched *sched;
    enum wait wait;
    int wakers, each;   /* so many fibers compute, each on a worker of its own, and each wakes so many */
    bool all_at_once;   /* those who are woken compute until all of them run */
    int computing;      /* wakers that have woken all of theirs */
    int ran, elsewhere; /* of those who were woken; on another worker than they waited on */
};

struct mover {
    struct scene *scene;
    weft_chan *chan;
    weft_fiber *fiber;
    int home;
};

struct waker {
    struct scene *scene;
    int worker;
    struct mover movers[MOST];
};

/* Computes until so many run, or it has taken too long. */
static void compute_until(const int *ran, int count)
{
    int64_t limit = real_now() + AWAIT_SECONDS * WEFT_SEC;
    while (seen(ran) < count && real_now() < limit) /* valgrind runs one thread at a time, and not in turn: */
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); /* keeps the worker, and not the processor */
    CHECK_INT(seen(ran), >=, count);
}

static void *waits_and_runs(void *arg)
{
    struct mover *m = arg;
    struct scene *s = m->scene;
    char element;
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, m->home);
    if (s->wait == CHANNEL)
        CHECK_INT(weft_chan_recv(m->chan, &element, WEFT_FOREVER), ==, 0);
    else
        CHECK_INT(weft_park(s->wait == PARK ? WEFT_FOREVER : weft_in(1000 * WEFT_SEC)), ==, 0);
    if (weft_fiber_worker(weft_fiber_current()) != m->home)
        more(&s->elsewhere);
    more(&s->ran);
    if (s->all_at_once)
        compute_until(&s->ran, s->wakers * s->each);
    return NULL;
}

static void wake(const struct mover *m)
{
    if (m->scene->wait == CHANNEL)
        CHECK_INT(weft_chan_send(m->chan, "", WEFT_NOW), ==, 0); /* one that may wait may give way as well */
    else
        weft_unpark(m->fiber);
}

static void *wakes_and_computes(void *arg)
{
    struct waker *w = arg;
    struct scene *s = w->scene;
    for (int i = 0; i < s->each; i++) {
        struct mover *m = &w->movers[i];
        *m = (struct mover){.scene = s, .home = w->worker};
        CHECK_INT(weft_chan_new(&m->chan, 1, 0), ==, 0);
        CHECK_INT(weft_fiber_new(&m->fiber, &(weft_attr){.flags = WEFT_MIGRATE}, waits_and_runs, m), ==, 0);
        CHECK_INT(weft_sched_submit(s->sched, m->fiber, WEFT_WORKER(w->worker)), ==, 0);
        AWAIT(is_parked(m->fiber));
    }
    more(&s->computing);
    compute_until(&s->computing, s->wakers); /* nobody is idle on behalf of a waker that has not begun */
    for (int i = 0; i < s->each; i++)
        wake(&w->movers[i]);
    compute_until(&s->ran, s->wakers * s->each);
    return NULL;
}

static void play(struct scene s, unsigned workers)
{
    static struct waker wakers[MOST];
    weft_fiber *f[MOST];
    s.sched = running_sched(workers);
    for (int i = 0; i < s.wakers; i++) {
        wakers[i] = (struct waker){.scene = &s, .worker = i};
        CHECK_INT(weft_sched_go(s.sched, &f[i], &(weft_attr){.worker = WEFT_WORKER(i)}, wakes_and_computes, &wakers[i]),
                  ==, 0);
    }
    for (int i = 0; i < s.wakers; i++)
        ended(f[i]);
    for (int i = 0; i < s.wakers; i++) {
        for (int j = 0; j < s.each; j++) {
            ended(wakers[i].movers[j].fiber);
            weft_chan_free(wakers[i].movers[j].chan);
        }
    }
    CHECK_INT(s.elsewhere, ==, s.wakers * s.each);
    end_sched(s.sched);
}

TEST(one_that_may_move_runs_while_the_fiber_that_woke_it_computes)
{
    for (enum wait wait = 0; wait < WAITS; wait++) {
        play((struct scene){.wait = wait, .wakers = 1, .each = 1}, 2);
        play((struct scene){.wait = wait, .wakers = 1, .each = 1}, 4);
    }
}

TEST(so_do_several_that_one_fiber_has_woken)
{
    for (enum wait wait = 0; wait < WAITS; wait++) {
        play((struct scene){.wait = wait, .wakers = 1, .each = MOST}, 2);
        play((struct scene){.wait = wait, .wakers = 1, .each = 3, .all_at_once = true}, 4);
    }
}

TEST(one_idle_worker_serves_several_that_compute)
{
    for (enum wait wait = 0; wait < WAITS; wait++)
        play((struct scene){.wait = wait, .wakers = 3, .each = 2}, 4);
}

/* A worker that has taken one leaves the rest to the next. */
TEST(idle_workers_follow_each_other_as_lookout)
{
    for (int round = 0; round < 20; round++)
        play((struct scene){.wait = CHANNEL, .wakers = 3, .each = 1, .all_at_once = true}, 6);
}

/* ---- fibers that may move, whose own worker computes while another thread wakes them ---- */

enum across { BY_UNPARK, BY_CHANNEL, BY_SELECT, BY_CONDITION, BY_JOIN, BY_CANCEL, ACROSS };

/* What the fiber that wakes the mover does then. If it waits, its worker goes straight to the mover. */
enum then { ENDS, COMPUTES, WAITS_FOR_IT };

struct distance {
    enum across by;
    weft_chan *chan;
    weft_mutex mutex;
    weft_cond cond;
    bool signalled; /* guarded by: mutex */
    weft_fiber *mover, *joined;
    int computing, ran;
    enum then then;
    weft_fiber *waker; /* with WAITS_FOR_IT. atomic */
};

static void *waits_far_away(void *arg)
{
    struct distance *d = arg;
    char element;
    weft_case one = {.op = WEFT_RECV, .chan = d->chan, .value = &element};
    switch (d->by) {
    case BY_UNPARK:
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
        break;
    case BY_CHANNEL:
        CHECK_INT(weft_chan_recv(d->chan, &element, WEFT_FOREVER), ==, 0);
        break;
    case BY_SELECT:
        CHECK_INT(weft_select(&one, 1, WEFT_FOREVER), ==, 0);
        break;
    case BY_CONDITION:
        CHECK_INT(weft_mutex_lock(&d->mutex, WEFT_FOREVER), ==, 0);
        while (!d->signalled)
            CHECK_INT(weft_cond_wait(&d->cond, &d->mutex, WEFT_FOREVER), ==, 0);
        weft_mutex_unlock(&d->mutex);
        break;
    case BY_JOIN:
        CHECK_INT(weft_join(d->joined, NULL, WEFT_FOREVER), ==, 0);
        break;
    default:
        CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
        break;
    }
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), !=, 0);
    more(&d->ran);
    if (d->then == WAITS_FOR_IT)
        weft_unpark(wf_load(&d->waker));
    return NULL;
}

static void wake_far_away(struct distance *d)
{
    switch (d->by) {
    case BY_UNPARK:
        weft_unpark(d->mover);
        break;
    case BY_CHANNEL:
    case BY_SELECT:
        CHECK_INT(weft_chan_send(d->chan, "", WEFT_NOW), ==, 0);
        break;
    case BY_CONDITION:
        CHECK_INT(weft_mutex_lock(&d->mutex, WEFT_FOREVER), ==, 0);
        d->signalled = true;
        weft_mutex_unlock(&d->mutex);
        CHECK_INT(weft_cond_signal(&d->cond), ==, 0);
        break;
    case BY_JOIN:
        weft_unpark(d->joined);
        break;
    default:
        CHECK_INT(weft_cancel(d->mover), ==, 0);
        break;
    }
}

static void *ends_when_unparked(void *arg)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    return arg;
}

static void *computes_at_home(void *arg)
{
    struct distance *d = arg;
    more(&d->computing);
    compute_until(&d->ran, 1);
    return NULL;
}

static void *wakes_from_afar(void *arg)
{
    struct distance *d = arg;
    wf_store(&d->waker, weft_fiber_current());
    wake_far_away(d);
    if (d->then == COMPUTES)
        compute_until(&d->ran, 1);
    if (d->then == WAITS_FOR_IT)
        CHECK_INT(weft_park(WEFT_FOREVER), ==, 0);
    return NULL;
}

/* `waker`: the worker of the fiber that wakes the mover; 0: a plain thread wakes it. */
static void play_across(enum across by, unsigned workers, int waker, enum then then)
{
    struct distance d = {.by = by, .then = then};
    weft_sched *s = running_sched(workers);
    weft_fiber *busy_one, *from = NULL;
    CHECK_INT(weft_chan_new(&d.chan, 1, 0), ==, 0);
    if (by == BY_JOIN) { /* on another worker, or its own end would be the wake */
        CHECK_INT(weft_sched_go(s, &d.joined, &(weft_attr){.worker = WEFT_WORKER(1)}, ends_when_unparked, NULL), ==, 0);
        AWAIT(is_parked(d.joined));
    }
    CHECK_INT(weft_fiber_new(&d.mover, &(weft_attr){.flags = WEFT_MIGRATE}, waits_far_away, &d), ==, 0);
    CHECK_INT(weft_sched_submit(s, d.mover, WEFT_WORKER(0)), ==, 0);
    AWAIT(is_parked(d.mover));
    CHECK_INT(weft_sched_go(s, &busy_one, &(weft_attr){.worker = WEFT_WORKER(0)}, computes_at_home, &d), ==, 0);
    AWAIT(seen(&d.computing) == 1);
    if (waker > 0)
        CHECK_INT(weft_sched_go(s, &from, &(weft_attr){.worker = WEFT_WORKER(waker)}, wakes_from_afar, &d), ==, 0);
    else
        wake_far_away(&d);
    ended(busy_one); /* only when the mover has run */
    ended(d.mover);
    if (from)
        ended(from);
    weft_chan_free(d.chan);
    end_sched(s);
}

TEST(one_that_a_thread_wakes_runs_while_its_own_worker_computes)
{
    for (enum across by = 0; by < ACROSS; by++) {
        play_across(by, 2, 0, ENDS);
        play_across(by, 4, 0, ENDS);
    }
}

TEST(so_does_one_that_another_worker_wakes_even_if_that_computes_too)
{
    for (enum across by = 0; by < ACROSS; by++) {
        play_across(by, 2, 1, ENDS);
        play_across(by, 2, 1, WAITS_FOR_IT);
        play_across(by, 3, 1, by == BY_JOIN ? ENDS : COMPUTES); /* the joined fiber ends on the waker's worker */
    }
}

/* Two that hand over to each other: at least so many times, and until `done`. */
struct pair {
    weft_chan *to, *from;
    int times, done;
};

static void *answers(void *arg)
{
    const struct pair *p = arg;
    int n;
    while (weft_chan_recv(p->to, &n, WEFT_FOREVER) == 0)
        CHECK_INT(weft_chan_send(p->from, &n, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void *asks(void *arg)
{
    const struct pair *p = arg;
    int64_t limit = real_now() + AWAIT_SECONDS * WEFT_SEC;
    int answer = 0;
    for (int i = 0; i < p->times || (!seen(&p->done) && real_now() < limit); i++) {
        CHECK_INT(weft_chan_send(p->to, &i, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_chan_recv(p->from, &answer, WEFT_FOREVER), ==, 0);
        CHECK_INT(answer, ==, i);
    }
    CHECK(seen(&p->done));
    CHECK_INT(weft_chan_close(p->to), ==, 0);
    return NULL;
}

static void begin_pair(struct pair *p)
{
    CHECK_INT(weft_chan_new(&p->to, sizeof(int), 0), ==, 0);
    CHECK_INT(weft_chan_new(&p->from, sizeof(int), 0), ==, 0);
}

static void end_pair(struct pair *p, weft_fiber *const f[2])
{
    for (int i = 0; i < 2; i++)
        ended(f[i]);
    weft_chan_free(p->to);
    weft_chan_free(p->from);
}

static weft_fiber *go_on_worker_0(weft_sched *s, unsigned flags, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, &(weft_attr){.flags = flags}, fn, arg), ==, 0);
    CHECK_INT(weft_sched_submit(s, f, WEFT_WORKER(0)), ==, 0);
    return f;
}

TEST(two_that_hand_over_to_each_other_are_seldom_taken)
{
    for (unsigned workers = 2; workers <= 4; workers++) {
        struct pair p = {.times = 20000, .done = 1};
        weft_sched *s = running_sched(workers);
        begin_pair(&p);
        weft_fiber *f[] = {go_on_worker_0(s, WEFT_MIGRATE, answers, &p), go_on_worker_0(s, WEFT_MIGRATE, asks, &p)};
        end_pair(&p, f);
        CHECK_INT(figures(s).stolen, <=, p.times / 2);
        end_sched(s);
    }
}

static void *yields_often(void *done)
{
    for (int i = 0; i < 1000; i++)
        weft_yield();
    put(done, 1);
    return NULL;
}

/* The one is woken to the slot, the other is offered: together they must not have more turns in a row than one slot. */
TEST(two_of_which_one_may_move_let_others_run)
{
    struct pair p = {0};
    int over = 0;
    weft_fiber *other; /* nobody is idle, or a lookout might part the two */
    weft_sched *s = NULL;
    weft_sched_opts opts = {.threads = 2, .look_every = 3600 * WEFT_SEC}; /* a send does not give way by itself */
    CHECK_INT(weft_sched_new(&s, &opts), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    CHECK_INT(weft_sched_go(s, &other, &(weft_attr){.worker = WEFT_WORKER(1)}, spins, &over), ==, 0);
    begin_pair(&p);
    weft_fiber *f[] = {go_on_worker_0(s, WEFT_MIGRATE, answers, &p), go_on_worker_0(s, 0, asks, &p)};
    weft_fiber *third = go_on_worker_0(s, 0, yields_often, &p.done);
    end_pair(&p, f);
    ended(third);
    put(&over, 1);
    ended(other);
    end_sched(s);
}

TESTS(sched_lookout, an_offer_is_ripe_when_it_is_seen_again_and_its_worker_has_not_switched,
      an_offer_of_a_worker_that_switches_is_left_to_it, a_later_offer_of_the_same_fiber_is_news,
      there_is_one_lookout_and_only_if_there_is_news, one_that_may_move_runs_while_the_fiber_that_woke_it_computes,
      so_do_several_that_one_fiber_has_woken, one_idle_worker_serves_several_that_compute,
      idle_workers_follow_each_other_as_lookout, one_that_a_thread_wakes_runs_while_its_own_worker_computes,
      so_does_one_that_another_worker_wakes_even_if_that_computes_too,
      two_that_hand_over_to_each_other_are_seldom_taken, two_of_which_one_may_move_let_others_run)
