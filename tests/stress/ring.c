/*
 * The ring on real threads: an owner pushes, pops, grows and shrinks while eight thieves steal. Every item is taken once, by
 * each taker in the order of the pushes; its contents are plain, for ThreadSanitizer to judge. WEFT_STEPS sets the
 * number of items in a round.
 */
#include "base/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitizer.h"
#include "support/test.h"

#if WF_TSAN || WF_VALGRIND || TEST_EMULATED
enum { ITEMS = 200000, ROUNDS = 4 };
#else
enum { ITEMS = 2000000, ROUNDS = 8 };
#endif
enum { THIEVES = 8 };

struct item {
    uint32_t contents; /* plain: published by the push */
    uint32_t taken;    /* atomic */
};

struct taker {
    struct wf_ring ring;
    const struct item *last;
    unsigned long count;
    bool failed;
};

static struct item *items;
static uint32_t item_count;
static struct taker owner, thieves[THIEVES];
static unsigned growths, shrinks; /* owner: the owner */
static bool all_pushed;           /* atomic: the owner's release pairs with the thieves' acquire */

/* Reports the first mistake of a taker only. */
static void took(struct taker *t, struct item *item)
{
    uint32_t number = (uint32_t)(item - items);
    bool good = item->contents == ~number && (!t->last || item > t->last) && wf_add(&item->taken, 1) == 0;
    if (!good && !t->failed) {
        t->failed = true;
        test_failed(__FILE__, __LINE__, "item %u: contents %x, taken %u times, after %td", number, item->contents,
                    wf_load(&item->taken), t->last ? t->last - items : -1);
    }
    t->last = item;
    t->count++;
}

static void take_own(struct taker *t, unsigned most)
{
    struct item *item;
    while (most-- > 0 && (item = wf_ring_pop(&t->ring)))
        took(t, item);
}

/* One steals from the owner only; what it has in its ring is always newer than what it took. */
static void *steal(void *arg)
{
    struct taker *self = arg;
    for (;;) {
        bool was_last_look = wf_load_acquire(&all_pushed); /* pairs with push_all */
        struct item *item = wf_ring_steal(&owner.ring, &self->ring, 0);
        if (item) {
            took(self, item);
            take_own(self, WF_RING_SIZE);
        } else if (was_last_look) {
            return NULL;
        } else {
            sched_yield();
        }
    }
}

static void push_all(uint64_t seed)
{
    for (uint32_t i = 0; i < item_count; i++) {
        items[i].contents = ~i;
        if (!wf_ring_push(&owner.ring, &items[i], i)) {
            growths++;
            CHECK(wf_ring_grow(&owner.ring));
            CHECK(wf_ring_push(&owner.ring, &items[i], i));
        }
        uint64_t dice = test_random(&seed) >> 40;
        if (dice % 4 == 0)
            take_own(&owner, (unsigned)(dice >> 2) % 4);
        if (dice % 4096 == 1)
            take_own(&owner, UINT32_MAX); /* then it may shrink */
        if (dice % 64 == 1 && wf_ring_has_grown(&owner.ring)) {
            wf_ring_shrink(&owner.ring);
            shrinks += !wf_ring_has_grown(&owner.ring);
        }
        if (dice % 512 == 0)
            sched_yield(); /* two cores: let others meet a ring that is not full */
    }
    wf_store_release(&all_pushed, true); /* pairs with steal */
}

static void run_round(uint64_t seed)
{
    pthread_t threads[THIEVES];
    int started = 0;
    unsigned long stolen = 0;
    memset(items, 0, item_count * sizeof *items);
    memset(thieves, 0, sizeof thieves);
    memset(&owner, 0, sizeof owner);
    wf_ring_init(&owner.ring);
    for (int i = 0; i < THIEVES; i++)
        wf_ring_init(&thieves[i].ring);
    growths = shrinks = 0;
    owner.ring.head = owner.ring.tail = 0u - item_count / 2; /* the counters wrap on the way */
    all_pushed = false;
    while (started < THIEVES && pthread_create(&threads[started], NULL, steal, &thieves[started]) == 0)
        started++;
    CHECK_INT(started, ==, THIEVES);
    push_all(seed);
    take_own(&owner, UINT32_MAX);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        stolen += thieves[i].count;
    }
    CHECK_INT(owner.count + stolen, ==, item_count);
    for (uint32_t i = 0; i < item_count && !test_has_failed(); i++)
        CHECK_INT(items[i].taken, ==, 1);
    wf_ring_free(&owner.ring);
    printf("%u items, %lu of them stolen; grew %u times, shrank %u times\n", item_count, stolen, growths, shrinks);
}

TEST(every_item_is_taken_once_while_eight_steal)
{
    const char *wanted = getenv("WEFT_STEPS");
    uint64_t seed = test_seed();
    item_count = wanted ? (uint32_t)strtoul(wanted, NULL, 0) : ITEMS;
    items = calloc(item_count, sizeof *items);
    REQUIRE(items != NULL);
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++)
        run_round(test_random(&seed));
    free(items);
}

TESTS(stress_ring, every_item_is_taken_once_while_eight_steal)
