/*
 * Fibers on shared stacks send from and receive to their locals, and select with all of it in locals, while another
 * fiber fills the very same stack. One worker, one shared stack.
 */
#include <errno.h>
#include <string.h>

#include <weft/chan.h>
#include <weft/coro.h>
#include <weft/stack.h>
#include <weft/sync.h>

#include "base/sys.h"
#include "support/locals.h"
#include "support/test.h"
#include "unit/sync/flows.h"

enum { WIDE = 200 };

struct wide {
    unsigned char bytes[WIDE];
};

static weft_stacks *pool;
static weft_chan *words, *wides, *release; /* of 8 and of WIDE bytes, and signals; all with capacity 0 */
static weft_event event;
static int result; /* of the call that was to be tried */

static weft_fiber *on_shared(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .shared = pool};
    CHECK_INT(weft_go_with(&f, &attr, fn, arg), ==, 0);
    return f;
}

static void ends(weft_fiber *f)
{
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
}

/* Is on the stack, deeper than anybody else, until it is released. */
static void *fills_the_stack(void *arg)
{
    struct locals mine, more;
    locals_fill(&mine, 21);
    locals_fill(&more, 22);
    CHECK_INT(weft_chan_recv(release, arg, WEFT_FOREVER), ==, 0);
    CHECK(locals_intact(&mine, 21));
    CHECK(locals_intact(&more, 22));
    return NULL;
}

static weft_fiber *filler(void)
{
    weft_fiber *f = on_shared(fills_the_stack, NULL);
    waits_on(release, 1);
    return f;
}

static void let_go(weft_fiber *f)
{
    CHECK_INT(weft_chan_send(release, NULL, WEFT_FOREVER), ==, 0);
    ends(f);
}

/* Runs the scenario in a fiber with a stack of its own, and sees that no memory is left. */
static void shared(void (*scenario)(void))
{
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    words = new_chan(sizeof(uint64_t), 0);
    wides = new_chan(WIDE, 0);
    release = new_chan(0, 0);
    event = (weft_event){0};
    in_fibers(scenario, 1);
    CHECK_INT(weft_chan_free(words), ==, 0);
    CHECK_INT(weft_chan_free(wides), ==, 0);
    CHECK_INT(weft_chan_free(release), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

static struct wide wide_of(int c)
{
    struct wide w;
    memset(w.bytes, c, sizeof w.bytes);
    return w;
}

static bool is_wide_of(const struct wide *w, int c)
{
    struct wide expected = wide_of(c);
    return memcmp(w, &expected, sizeof expected) == 0;
}

static void *sends_locals(void *arg)
{
    struct locals mine;
    struct wide w = wide_of('s');
    uint64_t v = 42;
    locals_fill(&mine, 1);
    result = weft_chan_send(words, &v, WEFT_FOREVER);
    CHECK_INT(result, ==, 0);
    CHECK_INT(weft_chan_send(wides, &w, WEFT_FOREVER), ==, 0);
    CHECK(locals_intact(&mine, 1));
    return arg;
}

static void receives_from_a_shared_stack(void)
{
    weft_fiber *f = on_shared(sends_locals, NULL);
    struct wide w;
    uint64_t v = 0;
    waits_on(words, 1);
    weft_fiber *g = filler();
    CHECK_INT(weft_chan_recv(words, &v, WEFT_NOW), ==, 0);
    CHECK_INT(v, ==, 42);
    waits_on(wides, 1);
    let_go(g);
    g = filler();
    CHECK_INT(weft_chan_recv(wides, &w, WEFT_NOW), ==, 0);
    CHECK(is_wide_of(&w, 's'));
    let_go(g);
    ends(f);
}

TEST(what_is_sent_from_a_shared_stack_arrives)
{
    shared(receives_from_a_shared_stack);
}

static void *receives_to_locals(void *arg)
{
    struct locals mine;
    struct wide w = {{0}};
    uint64_t v = 0;
    locals_fill(&mine, 2);
    CHECK_INT(weft_chan_recv(words, &v, WEFT_FOREVER), ==, 0);
    CHECK_INT(v, ==, 43);
    CHECK_INT(weft_chan_recv(wides, &w, WEFT_FOREVER), ==, 0);
    CHECK(is_wide_of(&w, 'r'));
    CHECK_INT(v, ==, 43);
    CHECK(locals_intact(&mine, 2));
    return arg;
}

static void sends_to_a_shared_stack(void)
{
    weft_fiber *f = on_shared(receives_to_locals, NULL);
    struct wide w = wide_of('r');
    uint64_t v = 43;
    waits_on(words, 1);
    weft_fiber *g = filler();
    CHECK_INT(weft_chan_send(words, &v, WEFT_NOW), ==, 0);
    waits_on(wides, 1);
    let_go(g);
    g = filler();
    CHECK_INT(weft_chan_send(wides, &w, WEFT_NOW), ==, 0);
    let_go(g);
    ends(f);
}

TEST(what_is_received_to_a_shared_stack_arrives)
{
    shared(sends_to_a_shared_stack);
}

/* Two fibers of one shared stack pass a ball of locals to each other. */
enum { BOUNCES = 200 };

static void *plays(void *arg)
{
    struct locals mine;
    bool serves = arg != NULL;
    uint64_t ball = 0;
    locals_fill(&mine, 3 + serves);
    for (uint64_t i = 0; i < BOUNCES; i++) {
        if (serves == (i % 2 == 0)) {
            ball = 7 * i;
            CHECK_INT(weft_chan_send(words, &ball, WEFT_FOREVER), ==, 0);
        } else {
            CHECK_INT(weft_chan_recv(words, &ball, WEFT_FOREVER), ==, 0);
        }
        CHECK_INT(ball, ==, 7 * i);
    }
    CHECK(locals_intact(&mine, 3 + serves));
    return NULL;
}

static void two_play(void)
{
    weft_fiber *f = on_shared(plays, NULL), *g = on_shared(plays, &pool);
    ends(f);
    ends(g);
}

TEST(two_fibers_of_one_stack_exchange_locals)
{
    shared(two_play);
}

/* What a select among locals is to see, and what it saw. */
static void *selects_among_locals(void *arg)
{
    struct locals mine;
    struct wide w = wide_of('s'), got = {{0}};
    uint64_t v = 0;
    weft_case k[5] = {{.op = WEFT_RECV, .chan = words, .value = &v},
                      {.op = WEFT_SEND, .chan = wides, .value = &w},
                      {.op = WEFT_RECV, .chan = wides, .value = &got},
                      {.op = WEFT_EVENT, .event = &event},
                      {.op = WEFT_NONE, .value = &v}};
    locals_fill(&mine, 5);
    result = weft_select(k, 5, weft_in(10 * WEFT_SEC)); /* only to fail instead of hanging */
    CHECK_INT(result, ==, (intptr_t)arg);
    CHECK_INT(k[result < 0 ? 0 : result].result, ==, 0);
    CHECK_INT(v, ==, result == 0 ? 44 : 0);
    CHECK(is_wide_of(&got, result == 2 ? 'g' : 0));
    CHECK(is_wide_of(&w, 's'));
    CHECK(locals_intact(&mine, 5));
    return NULL;
}

static void meets_a_select_of_locals(void)
{
    for (intptr_t which = 0; which < 4 && !test_has_failed(); which++) {
        weft_fiber *f = on_shared(selects_among_locals, (void *)which);
        waits_on(words, 1);
        weft_fiber *g = filler();
        struct wide w = wide_of('g');
        if (which == 0)
            CHECK_INT(weft_chan_send(words, &(uint64_t){44}, WEFT_NOW), ==, 0);
        else if (which == 1)
            CHECK_INT(weft_chan_recv(wides, &w, WEFT_NOW), ==, 0);
        else if (which == 2)
            CHECK_INT(weft_chan_send(wides, &w, WEFT_NOW), ==, 0);
        else
            CHECK_INT(weft_event_set(&event), ==, 0);
        CHECK(is_wide_of(&w, which == 1 ? 's' : 'g'));
        let_go(g);
        ends(f);
    }
}

TEST(a_select_may_have_its_cases_and_values_on_a_shared_stack)
{
    shared(meets_a_select_of_locals);
}

/* No memory for a copy is an answer; and where nothing waits, none is needed. */
static void *finds_no_memory(void *arg)
{
    uint64_t v = 1, w = 2;
    weft_time late = weft_in(5 * WEFT_SEC); /* only to fail instead of hanging */
    weft_chan *buffered = arg;
    weft_case k[2] = {{.op = WEFT_RECV, .chan = words, .value = &v}, {.op = WEFT_RECV, .chan = buffered, .value = &w}};
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 1000);
    CHECK_INT(weft_chan_send(words, &v, late), ==, -ENOMEM);
    CHECK_INT(weft_chan_recv(words, &v, late), ==, -ENOMEM);
    CHECK_INT(weft_select(k, 2, late), ==, -ENOMEM);
    CHECK_INT(weft_select(k, 2, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_send(words, &v, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_chan_send(buffered, &v, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_select(k, 2, WEFT_FOREVER), ==, 1);
    CHECK_INT(w, ==, 1);
    wf_sys_fail(0, 0, 0);
    return NULL;
}

static void no_memory(void)
{
    weft_chan *buffered = new_chan(sizeof(uint64_t), 1);
    ends(on_shared(finds_no_memory, buffered));
    CHECK_INT(weft_chan_free(buffered), ==, 0);
}

TEST(no_memory_for_a_copy_is_enomem)
{
    shared(no_memory);
}

/* Waits that end without a value leave locals and memory as they were. */
static void *gives_up(void *arg)
{
    uint64_t v = 5;
    struct wf_sys_held held = wf_sys_held();
    weft_case k[2] = {{.op = WEFT_RECV, .chan = words, .value = &v}, {.op = WEFT_SEND, .chan = words, .value = &v}};
    CHECK_INT(weft_chan_recv(words, &v, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_chan_send(words, &v, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_select(k, 2, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_select(NULL, 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_INT(weft_chan_recv(words, &v, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_select(k, 2, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(weft_chan_close(words), ==, 0);
    CHECK_INT(weft_chan_recv(words, &v, WEFT_NOW), ==, -EPIPE);
    CHECK_INT(weft_select(k, 2, WEFT_NOW), >=, 0);
    CHECK_INT(v, ==, 5);
    CHECK_INT(wf_sys_held().n, ==, held.n + 1); /* the cause of its cancel, until it ends */
    return arg;
}

static void one_gives_up(void)
{
    ends(on_shared(gives_up, NULL));
}

TEST(a_wait_without_a_value_leaves_locals_as_they_were)
{
    shared(one_gives_up);
}

/* A fiber with a stack of its own runs a coroutine on a shared one, and that waits. */
static void *runs_on_top(void *fn)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, (weft_fn *)fn, NULL, &(weft_coro_opts){.shared = pool}), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return NULL;
}

static void waits_on_top(void)
{
    weft_fiber *f = NULL, *g;
    uint64_t v = 43;
    struct wide w = wide_of('r');
    CHECK_INT(weft_go_with(&f, NULL, runs_on_top, (void *)receives_to_locals), ==, 0);
    waits_on(words, 1);
    g = filler();
    CHECK_INT(weft_chan_send(words, &v, WEFT_NOW), ==, 0);
    let_go(g);
    CHECK_INT(weft_chan_send(wides, &w, WEFT_FOREVER), ==, 0);
    ends(f);
}

TEST(a_coroutine_on_a_shared_stack_waits_inside_a_fiber)
{
    shared(waits_on_top);
}

TESTS(sync_chan_copied, what_is_sent_from_a_shared_stack_arrives, what_is_received_to_a_shared_stack_arrives,
      two_fibers_of_one_stack_exchange_locals, a_select_may_have_its_cases_and_values_on_a_shared_stack,
      no_memory_for_a_copy_is_enomem, a_wait_without_a_value_leaves_locals_as_they_were,
      a_coroutine_on_a_shared_stack_waits_inside_a_fiber)
