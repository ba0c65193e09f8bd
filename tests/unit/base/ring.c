/*
 * The ring on one thread: order, its ends, the wrap of its counters, what spill and steal move.
 */
#include "base/ring.h"

#include "support/test.h"

enum { HALF = WF_RING_SIZE / 2 };

static struct wf_ring ring, other;
static char things[4 * WF_RING_SIZE];

/* An empty ring whose counters stand at `start`. */
static void empty(struct wf_ring *r, uint32_t start)
{
    *r = (struct wf_ring){.head = start, .tail = start};
}

/* Pushes things [from, to). */
static void push(struct wf_ring *r, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        CHECK(wf_ring_push(r, &things[i]));
}

/* Pops things [from, to), in this order. */
static void pop(struct wf_ring *r, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        CHECK_PTR(wf_ring_pop(r), ==, &things[i]);
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
    CHECK(!wf_ring_push(&ring, &things[WF_RING_SIZE]));
    CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE);
    pop(&ring, 0, 1);
    push(&ring, WF_RING_SIZE, WF_RING_SIZE + 1);
    CHECK(!wf_ring_push(&ring, &things[0]));
    pop(&ring, 1, WF_RING_SIZE + 1);
    CHECK_PTR(wf_ring_pop(&ring), ==, NULL);
}

TEST(the_counters_wrap_unnoticed)
{
    void *out[HALF];
    for (uint32_t before = 0; before <= WF_RING_SIZE; before++) {
        empty(&ring, UINT32_MAX - before + 1);
        empty(&other, UINT32_MAX - before / 2);
        push(&ring, 0, WF_RING_SIZE);
        CHECK(!wf_ring_push(&ring, &things[0]));
        CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE);
        pop(&ring, 0, 3);
        push(&ring, WF_RING_SIZE, WF_RING_SIZE + 3);
        CHECK_INT(wf_ring_spill(&ring, out), ==, HALF);
        CHECK_PTR(out[HALF - 1], ==, &things[3 + HALF - 1]);
        CHECK_PTR(wf_ring_steal(&ring, &other), ==, &things[3 + HALF]);
        pop(&other, 4 + HALF, 3 + HALF + HALF / 2);
        CHECK_PTR(wf_ring_pop(&other), ==, NULL);
        pop(&ring, 3 + HALF + HALF / 2, 3 + WF_RING_SIZE);
        CHECK_INT(wf_ring_count(&ring), ==, 0);
        if (test_has_failed())
            break;
    }
}

TEST(a_full_ring_spills_its_older_half_and_another_nothing)
{
    void *out[HALF + 1] = {[HALF] = &ring};
    empty(&ring, 0);
    push(&ring, 0, WF_RING_SIZE - 1);
    CHECK_INT(wf_ring_spill(&ring, out), ==, 0);
    push(&ring, WF_RING_SIZE - 1, WF_RING_SIZE);
    CHECK_INT(wf_ring_spill(&ring, out), ==, HALF);
    for (unsigned i = 0; i < HALF; i++)
        CHECK_PTR(out[i], ==, &things[i]);
    CHECK_PTR(out[HALF], ==, &ring);
    CHECK_INT(wf_ring_count(&ring), ==, HALF);
    push(&ring, WF_RING_SIZE, WF_RING_SIZE + HALF);
    pop(&ring, HALF, WF_RING_SIZE + HALF);
}

TEST(a_thief_takes_the_older_half_and_one_at_least)
{
    for (unsigned there = 1; there <= WF_RING_SIZE; there++) {
        unsigned taken = there - there / 2;
        empty(&ring, 100);
        empty(&other, 7);
        push(&ring, 0, there);
        CHECK_PTR(wf_ring_steal(&ring, &other), ==, &things[0]);
        CHECK_INT(wf_ring_count(&other), ==, taken - 1);
        CHECK_INT(wf_ring_count(&ring), ==, there - taken);
        pop(&other, 1, taken);
        pop(&ring, taken, there);
    }
    CHECK_PTR(wf_ring_steal(&ring, &other), ==, NULL);
    CHECK_INT(wf_ring_count(&other), ==, 0);
}

TEST(a_thief_takes_no_more_than_it_has_room_for)
{
    for (unsigned room = 0; room < 4; room++) {
        empty(&ring, 0);
        empty(&other, UINT32_MAX);
        push(&ring, WF_RING_SIZE, 2 * WF_RING_SIZE);
        push(&other, room, WF_RING_SIZE);
        CHECK_PTR(wf_ring_steal(&ring, &other), ==, &things[WF_RING_SIZE]);
        CHECK_INT(wf_ring_count(&ring), ==, WF_RING_SIZE - 1 - room);
        pop(&other, room, WF_RING_SIZE);
        pop(&other, WF_RING_SIZE + 1, WF_RING_SIZE + 1 + room);
        CHECK_PTR(wf_ring_pop(&other), ==, NULL);
    }
}

TESTS(base_ring, what_is_pushed_first_is_popped_first, a_full_ring_takes_no_more_until_there_is_room,
      the_counters_wrap_unnoticed, a_full_ring_spills_its_older_half_and_another_nothing,
      a_thief_takes_the_older_half_and_one_at_least, a_thief_takes_no_more_than_it_has_room_for)
