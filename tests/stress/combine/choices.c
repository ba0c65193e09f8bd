/*
 * combine/choices.c: which case weft_select chooses, and what a program may do with a channel right after the last
 * message. A select that waits is as fair as a select that does not, even among several cases of one channel.
 */
#include "stress/combine/combine.h"

enum { MOST_CASES = 4, CHOICES = 160 }; /* one of 4 cases is never chosen of 160 times: 4 * 0.75^160 = 4e-20 */

struct choice {
    struct scene *scene;
    weft_chan *chan;
    uint64_t random;
    unsigned cases;
    unsigned off; /* the case that is switched off; `cases`: none is */
    bool sends;   /* the select sends, and the scene receives */
    bool waits;   /* the scene lets the select wait first */
    bool ordered; /* by weft_select_ordered: the first case that is not off */
    int chosen[MOST_CASES];
    int rounds; /* flag, counted */
};

static void *chooses(void *arg)
{
    struct choice *c = arg;
    int values[MOST_CASES];
    for (int i = 0; i < CHOICES; i++) {
        weft_case cases[MOST_CASES];
        for (unsigned k = 0; k < c->cases; k++) {
            values[k] = c->sends ? (int)k : -1;
            cases[k] = (weft_case){.op = c->sends ? WEFT_SEND : WEFT_RECV, .chan = c->chan, .value = &values[k]};
            if (k == c->off)
                cases[k].op = WEFT_NONE;
        }
        int which = c->ordered ? weft_select_ordered(cases, c->cases, WEFT_FOREVER)
                               : weft_select(cases, c->cases, WEFT_FOREVER);
        if (which < 0 || which >= (int)c->cases) {
            WRONG(c->scene, "a select: %d", which);
            break;
        }
        EXPECT_INT(c->scene, cases[which].result, ==, 0);
        for (unsigned k = 0; k < c->cases && !c->sends; k++)
            EXPECT_INT(c->scene, values[k], ==, (int)k == which ? i : -1);
        c->chosen[which]++;
        more(&c->rounds);
    }
    return NULL;
}

/* The other side of one choice. */
static void meet(struct choice *c, weft_fiber *f, int round)
{
    struct scene *s = c->scene;
    if (c->waits)
        AWAIT(is_parked(f));
    int value = round;
    if (c->sends) {
        EXPECT_INT(s, weft_chan_recv(c->chan, &value, WEFT_FOREVER), ==, 0);
        EXPECT(s, value >= 0 && value < (int)c->cases);
    } else {
        EXPECT_INT(s, weft_chan_send(c->chan, &value, WEFT_FOREVER), ==, 0);
    }
    AWAIT(seen(&c->rounds) > round);
    did(s);
}

static void check_fairness(struct scene *s)
{
    struct choice *c = calloc(1, sizeof *c);
    weft_fiber *f = NULL;
    *c = (struct choice){.scene = s, .cases = 2 + pick(&s->random, MOST_CASES - 1), .sends = chance(&s->random, 2)};
    c->waits = chance(&s->random, 2);
    c->ordered = chance(&s->random, 4);
    c->off = chance(&s->random, 3) ? pick(&s->random, c->cases) : c->cases;
    EXPECT_INT(s, weft_chan_new(&c->chan, sizeof(int), 0), ==, 0);
    start(s, &f, &s->random, chooses, c);
    for (int i = 0; i < CHOICES; i++)
        meet(c, f, i);
    ended(s, f);
    for (unsigned k = 0; k < c->cases; k++) {
        bool may = c->ordered ? k == (c->off == 0 ? 1 : 0) : k != c->off;
        if (!may)
            EXPECT_INT(s, c->chosen[k], ==, 0);
        else if (c->chosen[k] == 0)
            WRONG(s, "case %u of %u (%s, one channel) was not chosen once in %d selects%s", k, c->cases,
                  c->sends ? "sends" : "receives", CHOICES, c->waits ? " that waited" : "");
    }
    EXPECT_INT(s, weft_chan_free(c->chan), ==, 0);
    free(c);
}

/* ---- the last message ---- */

struct last {
    struct scene *scene;
    weft_chan *chan;
    unsigned cases;
    int number;
};

static void *sends_last(void *arg)
{
    struct last *l = arg;
    weft_case cases[MOST_CASES];
    for (unsigned k = 0; k < l->cases; k++)
        cases[k] = (weft_case){.op = WEFT_SEND, .chan = l->chan, .value = &l->number};
    if (l->cases == 1)
        EXPECT_INT(l->scene, weft_chan_send(l->chan, &l->number, WEFT_FOREVER), ==, 0);
    else
        EXPECT(l->scene, weft_select(cases, l->cases, WEFT_FOREVER) >= 0);
    did(l->scene);
    return NULL;
}

/* The receiver of the last value frees the channel at once, whatever its sender is doing. */
static void free_at_once(struct scene *s)
{
    struct last *l = malloc(sizeof *l);
    weft_fiber *f = NULL;
    int got = 0;
    *l = (struct last){.scene = s, .cases = 1 + pick(&s->random, MOST_CASES), .number = (int)pick(&s->random, 1 << 20)};
    EXPECT_INT(s, weft_chan_new(&l->chan, sizeof(int), pick(&s->random, 2)), ==, 0);
    start(s, &f, &s->random, sends_last, l);
    if (chance(&s->random, 2))
        AWAIT(is_parked(f) || weft_fiber_state(f) == WEFT_FIBER_DONE);
    EXPECT_INT(s, weft_chan_recv(l->chan, &got, WEFT_FOREVER), ==, 0);
    int rc = weft_chan_free(l->chan);
    if (rc != 0)
        WRONG(s, "weft_chan_free after the last value is %d; its sender had the channel in %u cases", rc, l->cases);
    EXPECT_INT(s, got, ==, l->number);
    ended(s, f);
    free(l);
}

void step_choice(struct scene *s)
{
    if (chance(&s->random, 4))
        check_fairness(s);
    for (unsigned n = pick(&s->random, 30); n > 0; n--)
        free_at_once(s);
}
