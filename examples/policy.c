/*
 * policy.c: an order of one's own. A lottery: every ready fiber holds tickets (its priority and one more), and who runs
 * next is drawn. Three fibers give way to each other all the time; they get turns as they have tickets.
 *
 * Prints: tickets 1, 3, 6: turns 1021, 3061, 5918 of 10000
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

/* A ready fiber, in the 32 bytes that it has for its policy: so a push needs no memory. */
struct holder {
    weft_fiber *fiber;
    struct holder *next;
    uint32_t tickets;
};

/* What is ready on one worker. Only that worker touches it. */
struct lottery {
    struct holder *first;
    uint32_t tickets; /* of all that are in it */
    uint32_t random;
};

static void *lottery_begin(const void *seed)
{
    struct lottery *l = calloc(1, sizeof *l);
    if (l)
        l->random = seed ? *(const uint32_t *)seed : 1;
    return l;
}

static void lottery_push(void *set, weft_fiber *f, enum weft_why why, weft_time now)
{
    struct lottery *l = set;
    struct holder *h = weft_policy_room(f);
    int priority;
    (void)why, (void)now;
    weft_policy_attr(f, &priority, NULL, NULL);
    *h = (struct holder){.fiber = f, .next = l->first, .tickets = (uint32_t)priority + 1};
    l->first = h;
    l->tickets += h->tickets;
}

static weft_fiber *lottery_pop(void *set, weft_time now)
{
    struct lottery *l = set;
    struct holder **at = &l->first;
    (void)now;
    if (!l->first)
        return NULL;
    l->random = l->random * 1664525u + 1013904223u;
    for (uint32_t drawn = (l->random >> 8) % l->tickets; drawn >= (*at)->tickets; at = &(*at)->next)
        drawn -= (*at)->tickets;
    struct holder *winner = *at;
    *at = winner->next;
    l->tickets -= winner->tickets;
    return winner->fiber;
}

static const weft_policy lottery = {.size = sizeof(weft_policy),
                                    .name = "lottery",
                                    .begin = lottery_begin,
                                    .end = free,
                                    .push = lottery_push,
                                    .pop = lottery_pop};

enum { PLAYERS = 3, TURNS = 10000 };

static const int tickets[PLAYERS] = {1, 3, 6};
static int turns[PLAYERS], left = TURNS; /* one worker: its fibers need no lock */

static void *player(void *arg)
{
    for (int *mine = arg; left > 0; weft_yield()) {
        ++*mine;
        left--;
    }
    return NULL;
}

static void *first(void *arg)
{
    (void)arg;
    for (int i = 0; i < PLAYERS; i++) {
        weft_attr attr = {.size = sizeof attr, .priority = tickets[i] - 1};
        if (weft_go_with(NULL, &attr, player, &turns[i]) < 0)
            return NULL;
    }
    return NULL;
}

int main(void)
{
    static const uint32_t seed = 2024;
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1, .policy = &lottery, .policy_arg = &seed};
    if (weft_run(first, NULL, NULL, &opts) < 0)
        return 1;
    printf("tickets %d, %d, %d: turns %d, %d, %d of %d\n", tickets[0], tickets[1], tickets[2], turns[0], turns[1],
           turns[2], TURNS);
    return 0;
}
