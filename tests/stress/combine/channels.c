/*
 * combine/channels.c: messages over channels. Every message arrives once, and the messages of one sender over one
 * channel arrive in order, even if senders and receivers are cancelled and select among channels.
 */
#include "stress/combine/combine.h"

enum { MOST_CHANS = 3, MOST_SENDERS = 3, MOST_RECEIVERS = 3, MOST_LETTERS = 120 };

struct letter {
    uint32_t sender, chan, number, check;
};

static uint32_t check_of(const struct letter *l)
{
    return (l->sender * 31 + l->chan) * 2654435761u ^ l->number;
}

struct post;

struct sender {
    struct post *post;
    uint32_t index, letters; /* const */
    uint32_t sent[MOST_CHANS], total;
    uint64_t random;
    weft_fiber *fiber; /* NULL: a thread */
    int over;          /* flag: it has sent all */
};

struct receiver {
    struct post *post;
    uint64_t random;
    uint32_t got[MOST_CHANS][MOST_SENDERS];
    uint32_t next[MOST_CHANS][MOST_SENDERS]; /* the least number that may come */
    bool done[MOST_CHANS];                   /* closed and empty */
    weft_fiber *fiber;
    int over; /* flag: every channel has ended */
};

/* One step's. On the heap: parts may be on shared stacks. */
struct post {
    struct scene *scene;
    unsigned chans, senders, receivers;
    weft_chan *chan[MOST_CHANS];
    weft_event never, often; /* cases of selects: one is never set, one is at times */
    int left;                /* senders that are not over. atomic */
    struct sender sender[MOST_SENDERS];
    struct receiver receiver[MOST_RECEIVERS];
};

/* ---- sending ---- */

static struct letter write_letter(const struct sender *me, uint32_t chan)
{
    struct letter l = {me->index, chan, me->sent[chan], 0};
    l.check = check_of(&l);
    return l;
}

/* Whoever insists on one of several channels may wait for somebody who insists on another. */
static weft_time patience(const struct post *p, weft_time deadline)
{
    return p->chans > 1 && deadline.ns == WEFT_FOREVER.ns ? weft_in(WEFT_MS) : deadline;
}

/* Sends one letter, or gives up: the channel that took it, or a negative errno. */
static int send_some(struct sender *me, weft_time *deadline)
{
    struct post *p = me->post;
    uint32_t to = pick(&me->random, p->chans);
    struct letter letters[MOST_CHANS];
    if (chance(&me->random, 2)) {
        letters[0] = write_letter(me, to);
        *deadline = patience(p, *deadline);
        int rc = weft_chan_send(p->chan[to], &letters[0], *deadline);
        return rc == 0 ? (int)to : rc;
    }
    weft_case cases[MOST_CHANS + 1];
    for (unsigned i = 0; i < p->chans; i++) {
        letters[i] = write_letter(me, i);
        cases[i] = (weft_case){.op = WEFT_SEND, .chan = p->chan[i], .value = &letters[i]};
    }
    cases[p->chans] = (weft_case){.op = WEFT_EVENT, .event = chance(&me->random, 2) ? &p->never : &p->often};
    int which = weft_select(cases, p->chans + 1, *deadline);
    if (which == (int)p->chans) {
        EXPECT(p->scene, cases[which].event == &p->often);
        return -EINTR; /* it was the event */
    }
    if (which >= 0)
        EXPECT_INT(p->scene, cases[which].result, ==, 0);
    return which;
}

static void *sends(void *arg)
{
    struct sender *me = arg;
    struct post *p = me->post;
    while (me->total < me->letters) {
        weft_time deadline = some_deadline(&me->random);
        int rc = send_some(me, &deadline);
        did(p->scene);
        if (rc >= 0) {
            me->sent[rc]++;
            me->total++;
        } else if (rc == -EINTR) {
            weft_event_reset(&p->often);
        } else if (!gave_up_rightly(p->scene, rc, deadline)) {
            WRONG(p->scene, "a send: %d", rc);
            break;
        } else if (rc == -ECANCELED) {
            return NULL; /* another one goes on */
        } else if (rc == -EAGAIN) {
            breathe();
        }
    }
    put(&me->over, 1);
    if (__atomic_sub_fetch(&p->left, 1, __ATOMIC_ACQ_REL) == 0) { /* the last one closes */
        for (unsigned i = 0; i < p->chans; i++)
            EXPECT_INT(p->scene, weft_chan_close(p->chan[i]), ==, 0);
    }
    return NULL;
}

/* ---- receiving ---- */

static void take(struct receiver *me, uint32_t chan, const struct letter *l)
{
    struct post *p = me->post;
    if (l->check != check_of(l) || l->chan != chan || l->sender >= p->senders) {
        WRONG(p->scene, "a letter that nobody sent: sender %u, channel %u, number %u", l->sender, l->chan, l->number);
        return;
    }
    if (l->number < me->next[chan][l->sender])
        WRONG(p->scene, "number %u came after %u", l->number, me->next[chan][l->sender]);
    me->next[chan][l->sender] = l->number + 1;
    me->got[chan][l->sender]++;
}

/* The channel that it heard of, with *result, or a negative errno. */
static int receive_some(struct receiver *me, struct letter *l, int *result, weft_time *deadline)
{
    struct post *p = me->post;
    unsigned of[MOST_CHANS], n = 0;
    weft_case cases[2 * MOST_CHANS + 1];
    for (unsigned i = 0; i < p->chans; i++) {
        if (!me->done[i])
            of[n++] = i;
    }
    if (chance(&me->random, 2)) {
        unsigned from = of[pick(&me->random, n)];
        *deadline = patience(p, *deadline);
        int rc = weft_chan_recv(p->chan[from], l, *deadline);
        *result = rc;
        return rc == 0 || rc == -EPIPE ? (int)from : rc;
    }
    for (unsigned i = 0; i < n; i++) /* each channel in two cases */
        cases[i] = cases[n + i] = (weft_case){.op = WEFT_RECV, .chan = p->chan[of[i]], .value = l};
    cases[2 * n] = (weft_case){.op = WEFT_EVENT, .event = &p->never};
    int which = weft_select(cases, 2 * n + 1, *deadline);
    if (which < 0)
        return which;
    EXPECT(p->scene, which < 2 * (int)n);
    *result = cases[which].result;
    return (int)of[which < (int)n ? which : which - (int)n];
}

static bool is_done(const struct receiver *me)
{
    for (unsigned i = 0; i < me->post->chans; i++) {
        if (!me->done[i])
            return false;
    }
    return true;
}

static void *receives(void *arg)
{
    struct receiver *me = arg;
    struct post *p = me->post;
    while (!is_done(me)) {
        weft_time deadline = some_deadline(&me->random);
        struct letter l = {0};
        int result = 0, from = receive_some(me, &l, &result, &deadline);
        did(p->scene);
        if (from >= 0 && result == 0) {
            take(me, (uint32_t)from, &l);
        } else if (from >= 0) {
            EXPECT_INT(p->scene, result, ==, -EPIPE);
            me->done[from] = true;
        } else if (!gave_up_rightly(p->scene, from, deadline)) {
            WRONG(p->scene, "a receive: %d", from);
            break;
        } else if (from == -ECANCELED) {
            return NULL;
        } else if (from == -EAGAIN) {
            weft_event_set(&p->often);
            breathe();
        }
    }
    put(&me->over, 1);
    return NULL;
}

/* ---- the step ---- */

static void check_post(struct post *p)
{
    for (unsigned c = 0; c < p->chans; c++) {
        for (unsigned i = 0; i < p->senders; i++) {
            uint32_t got = 0;
            for (unsigned r = 0; r < p->receivers; r++)
                got += p->receiver[r].got[c][i];
            if (got != p->sender[i].sent[c])
                WRONG(p->scene, "of %u letters %u arrived", p->sender[i].sent[c], got);
        }
        EXPECT_INT(p->scene, weft_chan_free(p->chan[c]), ==, 0);
    }
}

/* Cancels one, and lets another go on in its place. */
static void replace(struct scene *s, weft_fiber **f, weft_fn *fn, void *arg, const int *over)
{
    weft_cancel(*f);
    ended(s, *f);
    *f = NULL;
    if (!seen(over))
        start(s, f, &s->random, fn, arg);
}

static void disturb(struct post *p)
{
    struct scene *s = p->scene;
    for (unsigned n = pick(&s->random, 6); n > 0; n--) {
        struct sender *from = &p->sender[pick(&s->random, p->senders)];
        struct receiver *to = &p->receiver[pick(&s->random, p->receivers)];
        nap(s, &s->random, 400);
        if (chance(&s->random, 2) && from->fiber)
            replace(s, &from->fiber, sends, from, &from->over);
        else if (to->fiber)
            replace(s, &to->fiber, receives, to, &to->over);
    }
}

static void finish(struct scene *s, weft_fiber *f, pthread_t thread, bool on_thread, const int *over)
{
    if (on_thread)
        join_thread(thread, over);
    else if (f)
        ended(s, f);
}

void step_post(struct scene *s)
{
    struct post *p = calloc(1, sizeof *p);
    pthread_t threads[2] = {0};
    bool sends_on_thread = chance(&s->random, 4), receives_on_thread = chance(&s->random, 4);
    p->scene = s;
    p->chans = 1 + pick(&s->random, MOST_CHANS);
    p->senders = 1 + pick(&s->random, MOST_SENDERS);
    p->receivers = 1 + pick(&s->random, MOST_RECEIVERS);
    p->left = (int)p->senders;
    for (unsigned i = 0; i < p->chans; i++)
        EXPECT_INT(s, weft_chan_new(&p->chan[i], sizeof(struct letter), pick(&s->random, 4)), ==, 0);
    for (unsigned i = 0; i < p->senders; i++) {
        struct sender *me = &p->sender[i];
        *me = (struct sender){.post = p, .index = i, .letters = pick(&s->random, MOST_LETTERS)};
        me->random = new_random(&s->random);
        if (i == 0 && sends_on_thread)
            threads[0] = new_thread(s, sends, me);
        else
            start(s, &me->fiber, &s->random, sends, me);
    }
    for (unsigned i = 0; i < p->receivers; i++) {
        struct receiver *me = &p->receiver[i];
        me->post = p;
        me->random = new_random(&s->random);
        if (i == 0 && receives_on_thread)
            threads[1] = new_thread(s, receives, me);
        else
            start(s, &me->fiber, &s->random, receives, me);
    }
    disturb(p);
    for (unsigned i = 0; i < p->senders; i++)
        finish(s, p->sender[i].fiber, threads[0], i == 0 && sends_on_thread, &p->sender[i].over);
    for (unsigned i = 0; i < p->receivers; i++)
        finish(s, p->receiver[i].fiber, threads[1], i == 0 && receives_on_thread, &p->receiver[i].over);
    check_post(p);
    free(p);
}
