/*
 * The inbox under the explorer: whatever the order of the steps, everything that is pushed is taken once, with its
 * contents, and what one thread pushes in the order of its pushes. On one thread: the order of all.
 */
#define WF_EXPLORE 1
#include "base/inbox.h"

#include <string.h>

#include "support/explore.h"
#include "support/test.h"

enum { PRODUCERS = 3, EACH = 3 };

static struct letter {
    struct wf_inbox_node node; /* the first: a node is its letter */
    uint32_t contents;
    uint32_t is_free; /* atomic: the taker's release pairs with the producer's acquire */
} letters[PRODUCERS][EACH];

static struct wf_inbox inbox;
static uint32_t last_of[PRODUCERS]; /* the contents that the taker has seen last of each */
static unsigned sent, taken;
static unsigned found_empty; /* pushes that say so */
static unsigned takes;       /* that got something */

static void set_up(void)
{
    memset(letters, 0, sizeof letters);
    memset(last_of, 0, sizeof last_of);
    inbox.top = NULL;
    sent = taken = found_empty = takes = 0;
}

static void send(struct letter *letter, uint32_t contents)
{
    wf_store(&letter->contents, contents);
    bool was_empty = wf_inbox_push(&inbox, &letter->node); /* others run meanwhile: it comes before the += */
    found_empty += was_empty;
    sent++;
}

static void producer(int self)
{
    for (uint32_t i = 0; i < EACH; i++)
        send(&letters[self][i], i + 1);
}

static void take(void)
{
    struct wf_inbox_node *node = wf_inbox_take_all(&inbox), *after;
    takes += node != NULL;
    for (; node; node = after) {
        struct letter *letter = (struct letter *)node;
        int from = (int)((letter - letters[0]) / EACH);
        after = wf_load(&node->next);
        CHECK_INT(wf_load(&letter->contents), ==, last_of[from] + 1);
        last_of[from]++;
        taken++;
        wf_store_release(&letter->is_free, 1); /* pairs with producer_of_one */
    }
}

static void taker(int self)
{
    (void)self;
    for (int i = 0; i < 4; i++)
        take();
}

/* What is left is taken here. Every take that got something was promised by one push. */
static void check(void)
{
    take();
    CHECK_INT(taken, ==, sent);
    CHECK_INT(found_empty, ==, takes);
    CHECK_PTR(inbox.top, ==, NULL);
}

static void name_memory(void)
{
    static bool named;
    if (!named) {
        explore_name(&inbox, sizeof inbox, "inbox");
        explore_name(letters, sizeof letters, "letters");
    }
    named = true;
}

TEST(nothing_that_three_push_is_lost)
{
    name_memory();
    explore(&(struct explore){.set_up = set_up, .threads = {producer, producer, producer, taker}, .check = check});
    CHECK_INT(taken, ==, PRODUCERS * EACH);
}

/* Sends the same letter again as soon as it is back: the top of the inbox leaves and returns while others push. */
static void producer_of_one(int self)
{
    struct letter *letter = &letters[self][0];
    for (uint32_t i = 0; i < EACH; i++) {
        while (i > 0 && !wf_load_acquire(&letter->is_free)) /* pairs with take */
            wf_cpu_relax();
        wf_store(&letter->is_free, 0);
        send(letter, i + 1);
    }
}

static void taker_of_all(int self)
{
    (void)self;
    while (taken < 2 * EACH) {
        take();
        wf_cpu_relax();
    }
}

TEST(a_node_can_be_pushed_again_once_it_is_taken)
{
    name_memory();
    explore(&(struct explore){
        .set_up = set_up, .threads = {producer_of_one, producer_of_one, taker_of_all}, .check = check});
    CHECK_INT(taken, ==, 2 * EACH);
}

TEST(all_are_taken_in_the_order_of_the_pushes)
{
    set_up();
    CHECK(wf_inbox_take_all(&inbox) == NULL);
    for (int i = 0; i < EACH; i++)
        CHECK_INT(wf_inbox_push(&inbox, &letters[0][i].node), ==, i == 0);
    CHECK(!wf_inbox_is_empty(&inbox));
    struct wf_inbox_node *node = wf_inbox_take_all(&inbox);
    for (int i = 0; i < EACH && node; i++, node = node->next)
        CHECK_PTR(node, ==, &letters[0][i].node);
    CHECK_PTR(node, ==, NULL);
    CHECK(wf_inbox_is_empty(&inbox));
}

TESTS(base_inbox_explore, all_are_taken_in_the_order_of_the_pushes, nothing_that_three_push_is_lost,
      a_node_can_be_pushed_again_once_it_is_taken)
