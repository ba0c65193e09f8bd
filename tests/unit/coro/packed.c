/*
 * Fibers on shared stacks whose copies are packed: whatever they have on their stacks, they find it again, and the
 * memory of it goes when they do.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "coro/packed.h"
#include "fiber/fiber.h"
#include "unit/sched/ground.h"

#ifdef WF_UCONTEXT
#define HAS_LARGE_FRAMES true
#else
#define HAS_LARGE_FRAMES WF_TSAN
#endif

enum { FIBERS = 60, TURNS = 40, PACKS = WF_PACKS && !HAS_LARGE_FRAMES }; /* larger frames are not packed */

/* What a fiber has on its stack. */
struct words {
    uint64_t word[8];
};

enum how { NEAR, FAR, MIXED, KINDS };

static uint64_t word_of(enum how how, uint64_t number, uint64_t turn, uint64_t i)
{
    uint64_t near = 0x7f0000000000 + number * 320 + turn, far = (number + 1) * 0x9e3779b97f4a7c15 + turn + i;
    return how == NEAR ? near : how == FAR ? far : i % 2 ? near : far;
}

static void fill(struct words *w, enum how how, uint64_t number, uint64_t turn)
{
    for (uint64_t i = 0; i < 8; i++)
        w->word[i] = word_of(how, number, turn, i);
    __asm__ volatile("" : : "r"(w) : "memory");
}

static bool is_intact(struct words *w, enum how how, uint64_t number, uint64_t turn)
{
    bool intact = true;
    __asm__ volatile("" : : "r"(w) : "memory");
    for (uint64_t i = 0; i < 8; i++)
        intact &= w->word[i] == word_of(how, number, turn, i);
    return intact;
}

struct crowd {
    enum how how;
    bool is_deep_at_times;
    weft_fiber *fiber[FIBERS];
    int broken, done, packed; /* flags */
};

struct member {
    struct crowd *crowd;
    uint64_t number;
};

/* More than is ever packed. */
__attribute__((noinline)) static void yield_deep(struct member *m)
{
    char bytes[1000];
    memset(bytes, (int)m->number, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
    weft_yield();
    __asm__ volatile("" : : "r"(bytes) : "memory");
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (bytes[i] != (char)m->number)
            more(&m->crowd->broken);
    }
}

/* Another depth, which becomes usual too. */
__attribute__((noinline)) static void yield_elsewhere(struct member *m, uint64_t turn)
{
    struct words mine;
    fill(&mine, m->crowd->how, m->number, ~turn);
    weft_yield();
    if (!is_intact(&mine, m->crowd->how, m->number, ~turn))
        more(&m->crowd->broken);
}

static void *takes_turns(void *arg)
{
    struct member *m = arg;
    struct crowd *c = m->crowd;
    struct words mine;
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        fill(&mine, c->how, m->number, turn);
        weft_yield();
        if (!is_intact(&mine, c->how, m->number, turn))
            more(&c->broken);
        if (c->is_deep_at_times && (turn + m->number) % 7 == 0)
            yield_deep(m);
        if (c->is_deep_at_times && turn > TURNS / 2)
            yield_elsewhere(m, turn);
    }
    more(&c->done);
    free(m);
    return NULL;
}

/* How many copies are packed right now, seen from another stack of the same worker. */
static int count_packed(const struct crowd *c)
{
    int count = 0;
    for (int i = 0; i < FIBERS; i++)
        count += c->fiber[i]->coro && wf_packed(c->fiber[i]->coro);
    return count;
}

static void *meets(void *arg)
{
    struct crowd *c = arg;
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, 2, 0), ==, 0);
    for (int i = 0; i < FIBERS; i++) {
        struct member *m = malloc(sizeof *m);
        *m = (struct member){c, (uint64_t)i};
        CHECK_INT(weft_go_with(&c->fiber[i], &(weft_attr){.shared = pool}, takes_turns, m), ==, 0);
    }
    while (seen(&c->done) < FIBERS) {
        int now = seen(&c->done) == 0 ? count_packed(c) : 0;
        c->packed = now > c->packed ? now : c->packed;
        weft_yield();
    }
    for (int i = 0; i < FIBERS; i++)
        ended(c->fiber[i]);
    CHECK_INT(seen(&c->broken), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return NULL;
}

static struct crowd meet(enum how how, bool is_deep_at_times)
{
    struct crowd c = {.how = how, .is_deep_at_times = is_deep_at_times};
    in_a_fiber(1, meets, &c);
    return c;
}

TEST(copies_that_are_alike_are_packed)
{
    struct crowd c = meet(NEAR, false);
    if (PACKS)
        CHECK_INT(c.packed, >=, FIBERS - 4); /* but for the ones that are on the stacks, and the first */
}

TEST(copies_with_words_far_apart_are_intact)
{
    struct crowd far = meet(FAR, false), mixed = meet(MIXED, false);
    if (PACKS)
        CHECK_INT(mixed.packed, >=, far.packed);
}

TEST(copies_from_several_depths_are_intact)
{
    for (enum how how = 0; how < KINDS; how++)
        meet(how, true);
}

/* Memory for images and copies fails now and then: a fiber waits for it, and loses nothing. */
static void *meets_without_memory(void *arg)
{
    wf_sys_fail(1u << WF_SYS_MALLOC, 20 + 5 * (unsigned)(uintptr_t)arg, 2);
    struct crowd c = {.how = MIXED, .is_deep_at_times = true};
    meets(&c);
    wf_sys_fail(0, 0, 0);
    return NULL;
}

TEST(a_lack_of_memory_breaks_no_copy)
{
    for (uintptr_t i = 0; i < 20; i++)
        in_a_fiber(1, meets_without_memory, (void *)(FIBERS / 5 + i));
}

static void *meets_twice(void *arg)
{
    struct crowd first = {.how = MIXED, .is_deep_at_times = true}, second = first;
    (void)arg;
    meets(&first);
    size_t before = wf_sys_held().n;
    meets(&second);
    CHECK_INT(wf_sys_held().n, ==, before);
    return NULL;
}

TEST(images_go_with_their_stacks)
{
    in_a_fiber(1, meets_twice, NULL);
}

TESTS(coro_packed, copies_that_are_alike_are_packed, copies_with_words_far_apart_are_intact,
      copies_from_several_depths_are_intact, a_lack_of_memory_breaks_no_copy, images_go_with_their_stacks)
