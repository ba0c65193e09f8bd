/*
 * The ring on one thread: order, its ends, the wrap of its counters, how it grows and shrinks, what a steal moves.
 */
#include "base/ring.h"

#include "base/sys.h"
#include "support/test.h"

enum { HALF = WF_RING_SIZE / 2, MANY = 20 * WF_RING_SIZE };

static struct wf_ring ring, other;
static char things[MANY]; /* the note of each is its number */

/* An empty ring whose counters stand at `start`. */
static void empty(struct wf_ring *r, uint32_t start)
{
    wf_ring_init(r);
    r->head = r->tail = start;
}

/* Pushes things [from, to). */
static void push(struct wf_ring *r, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        CHECK(wf_ring_push(r, &things[i], i));
}

/* Pops things [from, to), in this order, each with its note. */
static void pop(struct wf_ring *r, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        CHECK_INT(wf_ring_note(r, r->head), ==, i);
        CHECK_PTR(wf_ring_pop(r), ==, &things[i]);
    }
}

TEST(what_is_pushed_first_is_popped_first)
{
    empty(&ring, 0);
    CHECK_PTR(wf_ring_pop(&ring), ==, NULL);
    push(&ring, 0, 10);
    CHECK_INT(wf_ring_count(&ring), ==, 10);
    pop(&ring, 0, 4);
    push(&ring, 10, 12);
    pop(&ring, 4, 12);
    CHECK_PTR(wf_ring_pop(&ring), ==, NULL);
    CHECK_INT(wf_ring_count(&ring), ==, 0);
}

TEST(a_full_ring_takes_no_more_until_there_is_room)
{
    empty(&ring, 0);
    push(&ring, 0, WF_RING_SIZE);
    CHECK(!wf_ring_push(&ring, &things[WF_RING_SIZE], 0));
    CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE);
    pop(&ring, 0, 1);
    push(&ring, WF_RING_SIZE, WF_RING_SIZE + 1);
    CHECK(!wf_ring_push(&ring, &things[0], 0));
    pop(&ring, 1, WF_RING_SIZE + 1);
    CHECK_PTR(wf_ring_pop(&ring), ==, NULL);
}

TEST(the_counters_wrap_unnoticed)
{
    for (uint32_t before = 0; before <= WF_RING_SIZE; before++) {
        empty(&ring, UINT32_MAX - before + 1);
        empty(&other, UINT32_MAX - before / 2);
        push(&ring, 0, WF_RING_SIZE);
        CHECK(!wf_ring_push(&ring, &things[0], 0));
        CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE);
        pop(&ring, 0, 3);
        push(&ring, WF_RING_SIZE, WF_RING_SIZE + 3);
        CHECK_PTR(wf_ring_steal(&ring, &other, 4), ==, &things[3]);
        pop(&other, 4, 3 + HALF);
        CHECK_PTR(wf_ring_pop(&other), ==, NULL);
        pop(&ring, 3 + HALF, 3 + WF_RING_SIZE);
        CHECK_INT(wf_ring_count(&ring), ==, 0);
        if (test_has_failed())
            break;
    }
}

TEST(a_ring_that_grows_keeps_its_items_in_order)
{
    for (uint32_t start = 0u - 3 * WF_RING_SIZE; start != WF_RING_SIZE; start += WF_RING_SIZE / 2) {
        empty(&ring, start);
        push(&ring, 0, WF_RING_SIZE);
        pop(&ring, 0, 7);
        push(&ring, WF_RING_SIZE, WF_RING_SIZE + 7);
        CHECK(!wf_ring_has_grown(&ring));
        CHECK(wf_ring_grow(&ring));
        CHECK(wf_ring_has_grown(&ring));
        push(&ring, WF_RING_SIZE + 7, 4 * WF_RING_SIZE + 7);
        CHECK(!wf_ring_push(&ring, &things[0], 0));
        CHECK_INT(wf_ring_count(&ring), ==, 4 * WF_RING_SIZE);
        pop(&ring, 7, 4 * WF_RING_SIZE + 7);
        CHECK_PTR(wf_ring_pop(&ring), ==, NULL);
        wf_ring_free(&ring);
    }
}

TEST(a_ring_grows_again_and_shrinks_only_when_it_is_empty)
{
    struct wf_sys_held before = wf_sys_held();
    empty(&ring, 0);
    for (int round = 0; round < 3; round++) {
        unsigned pushed = 0;
        for (; pushed < MANY; pushed++) {
            if (!wf_ring_push(&ring, &things[pushed], pushed)) {
                CHECK(wf_ring_grow(&ring));
                push(&ring, pushed, pushed + 1);
            }
        }
        pop(&ring, 0, MANY - 1);
        wf_ring_shrink(&ring);
        CHECK(wf_ring_has_grown(&ring));
        pop(&ring, MANY - 1, MANY);
        wf_ring_shrink(&ring);
        CHECK(!wf_ring_has_grown(&ring));
        push(&ring, 0, WF_RING_SIZE); /* that is its size again */
        CHECK(!wf_ring_push(&ring, &things[0], 0));
        pop(&ring, 0, WF_RING_SIZE);
    }
    CHECK_INT(wf_sys_held().bytes, >, before.bytes);
    wf_ring_free(&ring);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
}

TEST(a_ring_that_cannot_grow_stays_as_it_is)
{
    empty(&ring, 5);
    push(&ring, 0, WF_RING_SIZE);
    wf_sys_fail(1u << WF_SYS_MMAP, 1, 0);
    CHECK(!wf_ring_grow(&ring));
    wf_sys_fail(0, 0, 0);
    CHECK(!wf_ring_has_grown(&ring));
    CHECK(!wf_ring_push(&ring, &things[WF_RING_SIZE], 0));
    CHECK(wf_ring_grow(&ring));
    push(&ring, WF_RING_SIZE, WF_RING_SIZE + 1);
    pop(&ring, 0, WF_RING_SIZE + 1);
    wf_ring_free(&ring);
}

TEST(a_thief_takes_no_more_than_half_a_first_buffer)
{
    empty(&ring, 0);
    empty(&other, 9);
    push(&ring, 0, WF_RING_SIZE);
    CHECK(wf_ring_grow(&ring));
    push(&ring, WF_RING_SIZE, 3 * WF_RING_SIZE);
    for (unsigned taken = 0; taken < 4 * HALF; taken += HALF) {
        CHECK_PTR(wf_ring_steal(&ring, &other, taken + 1), ==, &things[taken]);
        CHECK_INT(wf_ring_count(&other), ==, HALF - 1);
        pop(&other, taken + 1, taken + HALF);
    }
    pop(&ring, 4 * HALF, 3 * WF_RING_SIZE);
    wf_ring_free(&ring);
}

TEST(a_thief_takes_the_older_half_and_one_at_least)
{
    for (unsigned there = 1; there <= WF_RING_SIZE; there++) {
        unsigned taken = there - there / 2;
        empty(&ring, 100);
        empty(&other, 7);
        push(&ring, 0, there);
        CHECK_PTR(wf_ring_steal(&ring, &other, 1), ==, &things[0]);
        CHECK_INT(wf_ring_count(&other), ==, taken - 1);
        CHECK_INT(wf_ring_count(&ring), ==, there - taken);
        pop(&other, 1, taken);
        pop(&ring, taken, there);
    }
    CHECK_PTR(wf_ring_steal(&ring, &other, 0), ==, NULL);
    CHECK_INT(wf_ring_count(&other), ==, 0);
}

TEST(a_thief_takes_no_more_than_it_has_room_for)
{
    for (unsigned room = 0; room < 4; room++) {
        empty(&ring, 0);
        empty(&other, UINT32_MAX);
        push(&ring, WF_RING_SIZE, 2 * WF_RING_SIZE);
        push(&other, room, WF_RING_SIZE);
        CHECK_PTR(wf_ring_steal(&ring, &other, WF_RING_SIZE + 1), ==, &things[WF_RING_SIZE]);
        CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE - 1 - room);
        pop(&other, room, WF_RING_SIZE);
        pop(&other, WF_RING_SIZE + 1, WF_RING_SIZE + 1 + room);
        CHECK_PTR(wf_ring_pop(&other), ==, NULL);
    }
}

TESTS(base_ring, what_is_pushed_first_is_popped_first, a_full_ring_takes_no_more_until_there_is_room,
      the_counters_wrap_unnoticed, a_ring_that_grows_keeps_its_items_in_order,
      a_ring_grows_again_and_shrinks_only_when_it_is_empty, a_ring_that_cannot_grow_stays_as_it_is,
      a_thief_takes_no_more_than_half_a_first_buffer, a_thief_takes_the_older_half_and_one_at_least,
      a_thief_takes_no_more_than_it_has_room_for)
