/*
 * The ring under the explorer: the owner pushes, pops, grows and shrinks while others steal. Every item is taken once and
 * with its contents, by each taker in the order of the pushes. The first buffer has 2 places, to be full and to go round often.
 */
#define WF_EXPLORE 1
#define WF_RING_SIZE 2u

#include <string.h>

#include "base/sys.h"

/* The second and the third buffer of a ring; there is no memory for more, nor always for these. */
static void *map(size_t bytes);
static void discard(void *base, size_t bytes);
#define wf_sys_map map
#define wf_sys_discard discard

#include "base/ring.c" // NOLINT(bugprone-suspicious-include): compiled for the explorer

#include "support/explore.h"
#include "support/test.h"

enum { ITEMS = 8, OWNER = 0 };

/* What the ring carries: the owner writes the contents right before the push. */
static struct item {
    uint32_t contents;
} items[ITEMS];

static struct wf_ring rings[3]; /* thread n owns rings[n] */
static unsigned pushed;
static int last_taken[3]; /* by each thread */
static int memory_left;   /* so many times a ring can get a larger buffer */
static void *maps[8][48];
static size_t mapped;
static int taken_by[ITEMS]; /* how often */

static void set_up(void)
{
    memset(items, 0, sizeof items);
    memset(taken_by, 0, sizeof taken_by);
    memset(maps, 0, sizeof maps);
    mapped = 0;
    memory_left = (int)explore_random(4);
    pushed = 0;
    for (int i = 0; i < 3; i++) {
        wf_ring_init(&rings[i]);
        rings[i].head = rings[i].tail = explore_random(2) ? 0u - explore_random(6) : explore_random(4);
        last_taken[i] = -1;
    }
}

static void *map(size_t bytes)
{
    if (mapped == sizeof maps / sizeof maps[0] || memory_left == 0 || bytes > sizeof maps[0])
        return NULL;
    memory_left--;
    return maps[mapped++];
}

/* As if the kernel had taken the pages, though not all at once. */
static void discard(void *base, size_t bytes)
{
    for (void **item = base; (char *)(item + 1) <= (char *)base + bytes; item++)
        wf_store(item, NULL);
}

static void took(int self, const struct item *item)
{
    int number = (int)(item - items);
    if (!item || number < 0 || number >= ITEMS) {
        CHECK(item >= items && item < items + ITEMS);
        return;
    }
    CHECK_INT(wf_load(&item->contents), ==, 1000 + number);
    CHECK_INT(number, >, last_taken[self]);
    last_taken[self] = number;
    CHECK_INT(++taken_by[number], ==, 1);
}

static void take_own(int self, unsigned most)
{
    struct item *item;
    while (most-- > 0 && (item = wf_ring_pop(&rings[self])))
        took(self, item);
}

static void push_next(int self)
{
    struct item *item = &items[pushed];
    wf_store(&item->contents, 1000 + pushed);
    while (!wf_ring_push(&rings[self], item, 0)) {
        if (!wf_ring_grow(&rings[self]))
            take_own(self, 1);
    }
    pushed++;
}

static void owner(int self)
{
    while (pushed < ITEMS) {
        push_next(self);
        if (explore_random(3) == 0)
            take_own(self, 1 + explore_random(4));
        if (explore_random(2) == 0)
            wf_ring_shrink(&rings[self]);
    }
}

static void steal_from(int victim, int self)
{
    for (int tries = 0; tries < 4; tries++) {
        struct item *item = wf_ring_steal(&rings[victim], &rings[self], 0);
        if (item)
            took(self, item);
        take_own(self, ITEMS);
    }
}

static void thief(int self)
{
    steal_from(OWNER, self);
}

/* Steals more while its ring, from which the next thread steals, is not empty: what it takes is in no order. */
static void slow_thief(int self)
{
    for (int tries = 0; tries < 3; tries++) {
        struct item *item = wf_ring_steal(&rings[OWNER], &rings[self], 0);
        if (item)
            took(self, item);
        last_taken[self] = -1;
        take_own(self, explore_random(2));
        last_taken[self] = -1;
    }
}

static void thief_of_thief(int self)
{
    steal_from(self - 1, self);
}

/* What is left is taken here: then all have been taken once. */
static void check(void)
{
    for (int i = 2; i >= 0; i--)
        take_own(i, ITEMS);
    for (int i = 0; i < ITEMS; i++)
        CHECK_INT(taken_by[i], ==, 1);
}

static void name_memory(void)
{
    static bool named;
    static const char *const names[] = {"owner's", "thief 1's", "thief 2's"};
    for (int i = 0; i < 3 && !named; i++)
        explore_name(&rings[i], sizeof rings[i], names[i]);
    if (!named)
        explore_name(items, sizeof items, "items");
    named = true;
}

TEST(an_item_is_taken_once_by_the_owner_or_a_thief)
{
    name_memory();
    explore(&(struct explore){.set_up = set_up, .threads = {owner, thief}, .check = check});
}

TEST(an_item_is_taken_once_when_two_steal)
{
    name_memory();
    explore(&(struct explore){.set_up = set_up, .threads = {owner, thief, thief}, .check = check});
}

TEST(an_item_is_taken_once_when_a_thief_is_stolen_from)
{
    name_memory();
    explore(&(struct explore){.set_up = set_up, .threads = {owner, slow_thief, thief_of_thief}, .check = check});
}

/* Two in all are pushed: by a head newer than the tail the ring would look full. */
static void push_and_pop_two(int self)
{
    push_next(self);
    take_own(self, 1);
    push_next(self);
    take_own(self, 1);
}

static void count(int self)
{
    (void)self;
    for (int i = 0; i < 4; i++)
        CHECK_INT(wf_ring_count(&rings[OWNER]), <=, 2);
}

TEST(no_more_are_counted_than_were_pushed)
{
    name_memory();
    explore(&(struct explore){.set_up = set_up, .threads = {push_and_pop_two, count, thief}});
}

TESTS(base_ring_explore, an_item_is_taken_once_by_the_owner_or_a_thief, an_item_is_taken_once_when_two_steal,
      an_item_is_taken_once_when_a_thief_is_stolen_from, no_more_are_counted_than_were_pushed)
