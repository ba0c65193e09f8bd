/*
 * http/spare.h: memory that a worker keeps for further requests: blocks, large input buffers, and slabs of small ones.
 * Each of these kinds has a list, in which all pieces have the same size. For fibers of the worker.
 *
 *      first ─▶ the piece that was put last ─▶ ... ─▶ the piece that was put first
 *
 * Requests take and put at the beginning of the list. So the pieces at its end have not been used for longest: they are
 * more than the worker has needed at the same time since then. Once a second, the worker's flusher gives those back to
 * the system that were not used for a second. So the lists follow the demand, up and down, and a request in a steady
 * load takes no memory from the system. A worker with no spare memory but a few blocks keeps these, and its flusher sleeps.
 */
#ifndef WH_HTTP_SPARE_H
#define WH_HTTP_SPARE_H

#include <stddef.h>

#include <weft/time.h>

struct wh_worker;

enum { WH_BLOCKS_KEPT = 16 }; /* a worker that has no more blocks keeps them */

/* The first bytes of a spare piece. */
struct wh_spare {
    struct wh_spare *next;
    weft_time used; /* when it was last used: not before the pieces behind it in the list */
};

/* One kind. All zero: there is none. */
struct wh_spares {
    struct wh_spare *first;
    unsigned count; /* of all pieces, spare or in use */
    size_t bytes;   /* of each */
};

/* Takes a spare piece. NULL: there is none. */
static inline void *wh_spares_take(struct wh_spares *s)
{
    struct wh_spare *p = s->first;
    if (p)
        s->first = p->next;
    return p;
}

/* Makes a new piece, all zero. NULL: no memory. */
void *wh_spares_make(struct wh_spares *s, size_t bytes);

/* Keeps a piece. The caller has set `used`, and sees to it that the flusher looks. */
static inline void wh_spares_put(struct wh_spares *s, struct wh_spare *p)
{
    p->next = s->first;
    s->first = p;
}

/* Keeps a piece that was used until now. */
void wh_spares_give(struct wh_worker *w, struct wh_spares *s, void *piece);

/* Gives a piece that is not in the list back to the system. */
void wh_spares_drop(struct wh_spares *s, void *piece);

/* Lets the flusher look within a second, and then once a second, as long as there is something to look at. */
void wh_spares_look_later(struct wh_worker *w);

/* In the flusher: if it is time, looks, and gives back what was not used for a second. Other fibers may run meanwhile. */
void wh_spares_look(struct wh_worker *w);

/* Gives back everything that is spare. */
void wh_spares_free(struct wh_worker *w);

#endif
