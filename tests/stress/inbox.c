/*
 * The inbox on real threads: four push, one takes. Everything arrives once and in the order of each thread's pushes;
 * the contents are plain, for ThreadSanitizer to judge. WEFT_STEPS sets how many each pushes.
 */
#include "base/inbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sanitizer.h"
#include "support/test.h"

#if WF_TSAN || WF_VALGRIND
enum { EACH = 50000 };
#else
enum { EACH = 2000000 };
#endif
enum { PRODUCERS = 4 };

struct letter {
    struct wf_inbox_node node; /* the first: a node is its letter */
    uint32_t number;           /* plain: published by the push */
    uint32_t from;
};

static struct wf_inbox inbox;
static struct letter *letters[PRODUCERS];
static unsigned long found_empty[PRODUCERS]; /* owner: its producer, then who joins it */
static uint32_t each;

static void *produce(void *arg)
{
    uint32_t self = (uint32_t)(uintptr_t)arg;
    for (uint32_t i = 0; i < each; i++) {
        letters[self][i].number = i;
        letters[self][i].from = self;
        found_empty[self] += wf_inbox_push(&inbox, &letters[self][i].node);
        if (i % 128 == 0)
            sched_yield(); /* two cores: let the others in */
    }
    return NULL;
}

TEST(everything_arrives_once_and_in_order)
{
    const char *wanted = getenv("WEFT_STEPS");
    pthread_t threads[PRODUCERS];
    uint32_t next[PRODUCERS] = {0};
    unsigned long taken = 0, takes = 0, promised = 0;
    each = wanted ? (uint32_t)strtoul(wanted, NULL, 0) : EACH;
    for (uintptr_t i = 0; i < PRODUCERS; i++) {
        letters[i] = calloc(each, sizeof *letters[i]);
        REQUIRE(letters[i] != NULL);
        REQUIRE(pthread_create(&threads[i], NULL, produce, (void *)i) == 0);
    }
    while (taken < (unsigned long)PRODUCERS * each && !test_has_failed()) {
        struct wf_inbox_node *node = wf_inbox_take_all(&inbox);
        if (!node)
            sched_yield();
        takes += node != NULL;
        for (; node; node = node->next, taken++) {
            struct letter *letter = (struct letter *)node;
            CHECK_INT(letter->number, ==, next[letter->from]);
            next[letter->from] = letter->number + 1;
        }
    }
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        promised += found_empty[i];
        free(letters[i]);
    }
    CHECK_INT(promised, ==, takes); /* each take was promised by the one push that found nothing */
    CHECK(wf_inbox_is_empty(&inbox));
    printf("%lu letters in %lu takes\n", taken, takes);
}

TESTS(stress_inbox, everything_arrives_once_and_in_order)
