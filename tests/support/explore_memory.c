/*
 * tests/support/explore_memory.c: the weak memory of explore.h: histories, views and buffers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/stack.h>

#include "support/explore_parts.h"

enum { LOCATIONS = 128, BUFFERED = 16, PLAIN = 16 };

/* For each location the place in its history of the oldest value that may still be read. */
struct view {
    uint16_t at[LOCATIONS];
};

/* One value of a location's history. */
struct value {
    uintptr_t bits;
    struct value *older;
    uint16_t place;      /* in the history, from 0 */
    struct view carries; /* what whoever acquires it must see */
};

struct location {
    void *p;
    size_t size;
    struct value *newest; /* the memory at p has the same */
};

/* A store that only its thread sees. */
struct pending {
    int location;
    bool release;
    uintptr_t bits;
    struct view carries;
};

struct thread {
    struct view view;                /* what it must see */
    struct view heard;               /* what its relaxed loads have read carried: a fence adds it to the view */
    struct view fenced;              /* its view at its last fence: what its relaxed stores carry */
    struct pending buffer[BUFFERED]; /* in the order of the program */
    int buffered;
};

static struct memory_habits habits;
static struct thread threads[EXPLORE_THREADS];
static struct location locations[LOCATIONS];
static int location_count;
static struct value values[EXPLORE_STEPS + LOCATIONS]; /* a step makes one at most, if only later */
static size_t value_count;
static struct view last_fence; /* the view of whoever passed a fence last */

static struct {
    const char *start, *end;
} plain[PLAIN]; /* see explore_plain */
static int plain_count;

static void give_up(const char *why)
{
    fprintf(stderr, "explore: %s\n", why);
    abort();
}

void memory_begin(struct memory_habits now)
{
    habits = now;
    location_count = 0;
    value_count = 0;
    memset(&last_fence, 0, sizeof last_fence);
    for (int i = 0; i < EXPLORE_THREADS; i++) {
        memset(&threads[i].view, 0, sizeof threads[i].view);
        memset(&threads[i].heard, 0, sizeof threads[i].heard);
        memset(&threads[i].fenced, 0, sizeof threads[i].fenced);
        threads[i].buffered = 0;
    }
}

uintptr_t memory_read(const void *p, size_t size)
{
    uintptr_t bits = 0;
    memcpy(&bits, p, size); /* our machines are little-endian */
    return bits;
}

void memory_write(void *p, size_t size, uintptr_t bits)
{
    memcpy(p, &bits, size);
}

static uintptr_t of_size(uintptr_t bits, size_t size)
{
    return size < sizeof bits ? bits & (((uintptr_t)1 << size * 8) - 1) : bits;
}

uintptr_t memory_modified(uintptr_t old, size_t size, enum modification how, uintptr_t v)
{
    return of_size(how == ADD ? old + v : how == OR ? old | v : how == AND ? old & v : v, size);
}

void explore_plain(const void *p, size_t bytes)
{
    if (plain_count == PLAIN)
        give_up("too many places for explore_plain");
    plain[plain_count].start = p;
    plain[plain_count++].end = (const char *)p + bytes;
}

/* On the stack of who runs, or near it. */
static bool is_on_stack(const char *p)
{
    const char *here = __builtin_frame_address(0);
    return p > here && p < here + WEFT_STACK_DEFAULT;
}

static bool is_plain(const char *p)
{
    if (habits.plain_stacks && is_on_stack(p))
        return true;
    for (int i = 0; i < plain_count; i++) {
        if (p >= plain[i].start && p < plain[i].end)
            return true;
    }
    return false;
}

/* --- views and histories --- */

static void see(struct view *view, const struct view *also)
{
    for (int i = 0; i < location_count; i++) {
        if (view->at[i] < also->at[i])
            view->at[i] = also->at[i];
    }
}

/* Gives the location its next value, visible from now on to whoever looks for it; returns its place. */
static uint16_t append(int l, uintptr_t bits, const struct view *carries)
{
    struct location *at = &locations[l];
    struct value *v = &values[value_count++];
    v->bits = bits;
    v->older = at->newest;
    v->place = at->newest ? (uint16_t)(at->newest->place + 1) : 0;
    v->carries = *carries;
    v->carries.at[l] = v->place;
    at->newest = v;
    memory_write(at->p, at->size, bits);
    return v->place;
}

/* The location at p. A new one's history begins with what is in memory. */
static int locate(const void *p, size_t size)
{
    static const struct view nothing;
    for (int i = 0; i < location_count; i++) {
        if (locations[i].p == p) {
            if (locations[i].size != size)
                give_up("one location is used in two sizes");
            return i;
        }
    }
    if (location_count == LOCATIONS)
        give_up("too many locations: make the test smaller, or LOCATIONS larger");
    locations[location_count] = (struct location){.p = (void *)(uintptr_t)p, .size = size};
    append(location_count, memory_read(p, size), &nothing);
    return location_count++;
}

/* The thread reads this value, and can read no older one from now on. */
static uintptr_t take_in(struct thread *t, int l, const struct value *v, bool acquire)
{
    t->view.at[l] = v->place;
    see(acquire ? &t->view : &t->heard, &v->carries);
    return v->bits;
}

/* --- buffers --- */

static bool may_publish(const struct thread *t, int which)
{
    for (int i = 0; i < which; i++) {
        if (t->buffer[which].release || t->buffer[i].location == t->buffer[which].location)
            return false;
    }
    return true;
}

static void publish(struct thread *t, int which)
{
    struct pending *p = &t->buffer[which];
    int l = p->location;
    uint16_t place = append(l, p->bits, &p->carries);
    trace_step((int)(t - threads), "  is visible", locations[l].p, "%lx", p->bits, 0);
    t->view.at[l] = place;
    t->buffered--;
    memmove(p, p + 1, (size_t)(t->buffered - which) * sizeof *p);
    for (int i = which; i < t->buffered; i++) { /* those that the program stores after it */
        if (t->buffer[i].release)
            t->buffer[i].carries.at[l] = place;
    }
}

static void publish_all(struct thread *t)
{
    while (t->buffered > 0)
        publish(t, 0);
}

void memory_publish_all(void)
{
    for (int i = 0; i < EXPLORE_THREADS; i++)
        publish_all(&threads[i]);
}

void memory_publish_some(void)
{
    for (struct thread *t = threads; t < threads + EXPLORE_THREADS; t++) {
        if (t->buffered > 0 && explore_chance(habits.publish)) {
            int which = (int)explore_random((unsigned)t->buffered);
            if (may_publish(t, which))
                publish(t, which);
        }
    }
}

/* The thread's last buffered store to the location, or NULL. */
static const struct pending *buffered(const struct thread *t, int l)
{
    for (int i = t->buffered - 1; i >= 0; i--) {
        if (t->buffer[i].location == l)
            return &t->buffer[i];
    }
    return NULL;
}

/* --- the operations --- */

uintptr_t memory_load(int thread, const void *p, size_t size, bool acquire)
{
    const char *what = acquire ? "load_acquire" : "load";
    struct thread *t = &threads[thread];
    int l = locate(p, size);
    const struct pending *own = buffered(t, l);
    if (own) {
        trace_step(thread, what, p, "%lx (its own)", own->bits, 0);
        return own->bits;
    }
    const struct value *newest = locations[l].newest, *v = newest;
    unsigned older = (unsigned)(newest->place - t->view.at[l]);
    if (older > 0 && explore_chance(habits.old)) {
        for (unsigned back = 1 + explore_random(older); back > 0; back--)
            v = v->older;
    }
    trace_step(thread, what, p, v == newest ? "%lx" : "%lx (the newest is %lx)", v->bits, newest->bits);
    return take_in(t, l, v, acquire);
}

void memory_store(int thread, void *p, size_t size, uintptr_t v, bool release)
{
    struct thread *t = &threads[thread];
    int l = locate(p, size);
    if (t->buffered == BUFFERED)
        publish(t, 0);
    struct pending *last = &t->buffer[t->buffered++];
    last->location = l;
    last->release = release;
    last->bits = of_size(v, size);
    last->carries = release ? t->view : t->fenced;
    trace_step(thread, release ? "store_release" : "store", p, "%lx", last->bits, 0);
    if (release && is_plain(p))
        publish_all(t);
    else if (is_plain(p))
        publish(t, t->buffered - 1);
}

/* Reads the newest value and writes the next one. */
static uintptr_t replace(struct thread *t, int l, enum modification how, uintptr_t v)
{
    publish_all(t);
    uintptr_t old = take_in(t, l, locations[l].newest, true);
    t->view.at[l] = append(l, memory_modified(old, locations[l].size, how, v), &t->view);
    return old;
}

uintptr_t memory_modify(int thread, void *p, size_t size, enum modification how, uintptr_t v)
{
    static const char *const names[] = {"exchange", "add", "or", "and"};
    int l = locate(p, size);
    uintptr_t old = replace(&threads[thread], l, how, v);
    trace_step(thread, names[how], p, "%lx -> %lx", old, locations[l].newest->bits);
    return old;
}

bool memory_cas(int thread, void *p, size_t size, uintptr_t *expected, uintptr_t v)
{
    struct thread *t = &threads[thread];
    uintptr_t wanted = of_size(*expected, size);
    int l = locate(p, size);
    if (buffered(t, l))
        publish_all(t); /* its own store is the newest then */
    *expected = locations[l].newest->bits;
    if (*expected != wanted) {
        trace_step(thread, "cas", p, "fails: is %lx, not %lx", *expected, wanted);
        take_in(t, l, locations[l].newest, true);
        return false;
    }
    replace(t, l, EXCHANGE, v);
    trace_step(thread, "cas", p, "%lx -> %lx", wanted, locations[l].newest->bits);
    return true;
}

void memory_fence(int thread)
{
    struct thread *t = &threads[thread];
    publish_all(t);
    see(&t->view, &t->heard);
    see(&t->view, &last_fence);
    last_fence = t->view;
    t->fenced = t->view;
    trace_step(thread, "fence", NULL, "", 0, 0);
}
