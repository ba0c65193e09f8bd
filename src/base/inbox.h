/*
 * base/inbox.h: where any thread leaves things for one: a list that many push to and one takes whole.
 *
 * A push is one compare-and-swap at the top, a take is one exchange of the top for NULL; the list comes out last in,
 * first out, and the taker turns it round, so that what one thread pushed is taken in that order. Nodes are the
 * caller's, inside of what they stand for, and belong to the inbox from the push until they are taken.
 *
 * Why it is right.
 *
 * 1. The taker sees what was written before the push: the node's next, and whatever the node is part of. The push
 *    releases and the take acquires. One take pairs with all the pushes that it takes, not only with the last: between
 *    two takes the top is changed by compare-and-swaps alone, each of which hands on what the ones before it released.
 *
 * 2. Nothing is lost: a push writes the top only if it still is what the node's next says.
 *
 * 3. The top may leave and come back meanwhile, as the taker takes a node and its owner pushes it again. That does no
 *    harm here: a push never looks into the top node, and whatever happened, next says what is the top when the
 *    compare-and-swap succeeds. (It would harm a pop of one node, which there is not.)
 *
 * 4. Of all pushes between two takes exactly one finds the inbox empty: that one wakes the taker. A taker that goes to
 *    sleep must say so, wf_fence(), and look once more; a push that is to wake it must wf_fence() between the push and
 *    its look whether the taker sleeps.
 */
#ifndef WF_BASE_INBOX_H
#define WF_BASE_INBOX_H

#include "base/atomic.h"

struct wf_inbox_node {
    struct wf_inbox_node *next; /* owner: who pushes, then who takes. Relaxed atomic only for the explorer to see it */
};

/* Zeroed memory is an empty inbox. */
struct wf_inbox {
    struct wf_inbox_node *top; /* atomic: the release of wf_inbox_push pairs with the acquire of wf_inbox_take_all */
};

/* Anybody may ask; what was true a moment ago. */
static inline bool wf_inbox_is_empty(const struct wf_inbox *in)
{
    return wf_load(&in->top) == NULL;
}

/* Any thread: gives the node to the inbox. True if that was empty before. */
static inline bool wf_inbox_push(struct wf_inbox *in, struct wf_inbox_node *node)
{
    struct wf_inbox_node *top = wf_load(&in->top);
    do {
        wf_store(&node->next, top);
    } while (!wf_cas(&in->top, &top, node)); /* release: pairs with wf_inbox_take_all */
    return top == NULL;
}

/* The taker only: everything that is there, linked by `next` in the order of the pushes; NULL if there is nothing. */
static inline struct wf_inbox_node *wf_inbox_take_all(struct wf_inbox *in)
{
    struct wf_inbox_node *list = NULL;
    if (wf_inbox_is_empty(in)) /* a look costs less than an exchange, and most looks find nothing */
        return NULL;
    for (struct wf_inbox_node *node = wf_exchange(&in->top, NULL), *next; node; node = next) { /* acquire: the pushes */
        next = wf_load(&node->next);
        wf_store(&node->next, list);
        list = node;
    }
    return list;
}

#endif
