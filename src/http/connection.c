/*
 * http/connection.c: see connection.h. The loop of a connection, phase by phase.
 *
 * Functions that wait have small frames, and buffers lie in the heap: everything on a shared stack is copied when its
 * fiber waits.
 */
#include "http/connection.h"

#include <errno.h>
#include <string.h>

#include <weft/io.h>
#include <weft/stack.h>

#include "http/address.h"
#include "http/block.h"
#include "http/body.h"
#include "http/flusher.h"
#include "http/input.h"
#include "http/log.h"
#include "http/memory.h"
#include "http/output.h"
#include "http/refuse.h"
#include "http/server.h"
#include "http/transport.h"

#define RARE __attribute__((noinline)) /* so that the frame of the loop, which waits, does not have its locals */

#define GIVE_BACK WEFT_SEC      /* after so long an idle connection gives back its buffer and its stack's pages */
#define MORE 512                /* the least room in bytes of a read for the rest of a head */
#define LARGE_ANSWER (8u << 10) /* bytes of body; less fits into the first window of a client */
#define LINGER_MOST (16u << 20) /* the most bytes that LINGER discards */

static weft_time later(weft_time t, weft_span d)
{
    return t.ns > INT64_MAX - d ? WEFT_FOREVER : (weft_time){t.ns + d};
}

/* IDLE */

static bool has_bytes(const struct wh_connection *c)
{
    return c->in_at < c->in_end;
}

static bool take_block(struct wh_connection *c)
{
    c->block = wh_block_take(c->h, c->w);
    return c->block != NULL;
}

static void give_block(struct wh_connection *c)
{
    if (c->is_unflushed)
        wh_flusher_forget(c);
    if (c->block)
        wh_block_give(c->w, c->block);
    c->block = NULL;
}

static weft_span quick_time(const struct wh_connection *c)
{
    return c->h->o.idle_time < GIVE_BACK ? c->h->o.idle_time : GIVE_BACK;
}

/* Gives back the buffer and the pages of the stack. The next bytes come to `first`. Returns the deadline. */
static RARE weft_time shrink(struct wh_connection *c)
{
    wh_input_end(c);
    weft_stack_release();
    wh_count_add(&c->w->idle_begun, 1);
    return weft_in(c->h->o.idle_time - quick_time(c));
}

/* Takes a buffer again, and copies the `n` bytes that have come to it. Returns n, or -ENOMEM. */
static RARE ptrdiff_t unshrink(struct wh_connection *c, ptrdiff_t n)
{
    wh_count_add(&c->w->idle_ended, 1);
    if (n <= 0)
        return n;
    if (!wh_input_begin(c))
        return -ENOMEM;
    memcpy(c->in, c->first, (size_t)n);
    return n;
}

/* On a private stack, the connection keeps its buffer for a second, because its next request mostly comes soon. */
static ptrdiff_t wait_on_private(struct wh_connection *c, weft_time since)
{
    weft_time deadline = later(since, quick_time(c));
    ptrdiff_t n;
    while ((n = wh_receive(c, c->in ? c->in : c->first, c->in ? c->in_size : sizeof c->first, deadline)) ==
               -ETIMEDOUT &&
           c->in && c->h->o.idle_time > GIVE_BACK)
        deadline = shrink(c);
    return c->in ? n : unshrink(c, n);
}

/*
 * Clears the stack below the caller's frame, because the copies of connections on a shared stack take less memory if
 * they are alike. The frames of a wait do not write all of their bytes, so bytes of earlier calls would show in the
 * copy.
 */
static RARE void clear_below(void)
{
    char below[512];
    memset(below, 0, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

/*
 * On a shared stack, everything on the stack is copied for the wait. So the connection waits in wh_wait, which puts
 * least on the stack, and without a buffer (docs/decisions/0029).
 */
static ptrdiff_t wait_on_shared(struct wh_connection *c, weft_time since)
{
    ptrdiff_t n = -EAGAIN;
    wh_input_lend(c);
    wh_count_add(&c->w->idle_begun, 1);
    while (n == -EAGAIN) {
        clear_below();
        n = wh_wait(c, later(since, c->h->o.idle_time));
        if (n >= 0 && !c->in && !wh_input_begin(c))
            n = -ENOMEM;
        if (n >= 0)
            n = wh_receive(c, c->in, c->in_size, WEFT_NOW);
    }
    wh_count_add(&c->w->idle_ended, 1);
    return n;
}

/* Waits for the first bytes of a request; with only_looks it takes what has come. Returns how many bytes came, 0 at the
 * end, or a negative errno. */
static ptrdiff_t wait_for_request(struct wh_connection *c, bool only_looks)
{
    weft_time since = c->block->sent;
    wh_input_clear(c);
    give_block(c);
    c->w->tries = 0; /* this read may let others run */
    ptrdiff_t n = only_looks       ? wh_receive(c, c->in, c->in_size, WEFT_NOW)
                  : c->h->o.shared ? wait_on_shared(c, since)
                                   : wait_on_private(c, since);
    if (n <= 0 || !take_block(c))
        return n <= 0 ? n : -ENOMEM;
    c->in_end = (uint32_t)n;
    c->block->came = weft_now();
    return n;
}

/*
 * IDLE: waits until bytes of a request have come. False: none will come. When serving ends, it still takes a request
 * that has already come.
 */
static bool idle(struct wh_connection *c)
{
    if (c->block->out_end == 0)
        c->block->sent = weft_now(); /* the last answer went out earlier: idle_time begins now */
    else if (wh_out_flush(c) != 0)
        return false;
    wh_enter(c, wh_phase(c), WH_IDLE);
    /* pairs with the store of is_stopping in serve.c */
    bool is_stopping = atomic_load_explicit(&c->serving->is_stopping, memory_order_seq_cst);
    return wait_for_request(c, is_stopping) > 0;
}

/* HEAD */

/* Reads more of a head. If more bytes of a batch have already come, its first answers wait for the others. Else they go
 * out before the wait. */
static RARE int receive_more(struct wh_connection *c, weft_time deadline)
{
    bool has_room = wh_input_reserve(c, MORE);
    ptrdiff_t n = has_room ? -EAGAIN : -ENOMEM;
    if (has_room && c->block->out_end > 0)
        n = wh_receive(c, c->in + c->in_end, c->in_size - c->in_end, WEFT_NOW);
    if (n <= 0) {
        int rc = wh_out_flush(c);
        if (rc != 0)
            return rc;
    }
    if (n == -EAGAIN)
        n = wh_receive(c, c->in + c->in_end, c->in_size - c->in_end, deadline);
    if (n > 0) {
        c->in_end += (uint32_t)n;
        c->block->came = weft_now();
    }
    return (int)n;
}

/* Returns the size of the head; minus the status of a refusal; 0: the connection ends without an answer. */
static int read_head(struct wh_connection *c)
{
    struct wh_block *b = c->block;
    weft_time deadline = WEFT_NOW; /* not known yet */
    if (c->last_at == WH_NO_LAST)
        wh_head_begin(&b->x.head);
    else
        wh_head_go_on(&b->x.head, c->in_at - c->last_at);
    for (;;) {
        int n = wh_parse_head(&b->x.head, c->in + c->in_at, c->in_end - c->in_at);
        if (n != 0)
            return n;
        if (deadline.ns ==
            WEFT_NOW.ns) /* not from b->came: the bytes may be older, or have come behind a chunked body */
            deadline = weft_in(c->h->o.head_time);
        n = receive_more(c, deadline);
        if (n == -ETIMEDOUT)
            return -408;
        if (n <= 0) {
            c->has_failed = n < 0;
            return 0;
        }
    }
}

static void log_refused(struct wh_log *log, const weft_exchange *x)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (weft_peer((struct sockaddr *)&peer, &size) != 0)
        size = 0;
    wh_log_refused(log, (struct sockaddr *)&peer, size, x->status, x->sent);
}

static void count_end(struct wh_connection *c, const weft_exchange *x)
{
    if (x->answer != WH_ENDED)
        wh_count_add(&c->w->cut, 1);
    if (x->is_stream)
        wh_count_add(&c->w->streams_ended, 1);
}

/* Answers a head that was refused. All strings of such an exchange are empty. The connection then ends. */
static RARE void refuse_head(struct wh_connection *c, int status)
{
    weft_exchange *x = &c->block->x;
    x->head.method = WH_OTHER_METHOD;
    x->head.minor = 1;
    x->head.count = 0;
    x->head.keeps_alive = x->head.is_chunked = x->head.expects_continue = x->head.has_query = false;
    x->head.length = 0;
    x->head.path = x->head.method_text = x->head.host = (struct wh_slice){0};
    wh_exchange_begin(x, c);
    wh_exchange_answer(x, status);
    if (c->h->log)
        log_refused(c->h->log, x);
    count_end(c, x);
    wh_exchange_end(x);
}

/* FINISH */

/* What happens to the connection after an exchange. */
enum fate { KEPT, LAST, CUT };

__attribute__((always_inline)) static inline enum fate finish(struct wh_connection *c)
{
    weft_exchange *x = &c->block->x;
    if (c->h->log)
        wh_log_request(c->h->log, x, x->answer == WH_NO_ANSWER ? 500 : x->status, x->sent);
    count_end(c, x);
    enum fate fate = x->answer != WH_ENDED || c->has_failed                    ? CUT
                     : x->keeps && (x->body == WH_NO_BODY || wh_body_drain(x)) ? KEPT
                                                                               : LAST;
    if (fate == CUT && x->ends_with_close)
        c->resets = true;
    if (x->extra)
        wh_exchange_end(x);
    c->last_at = c->in_at;
    c->in_at = c->body_at;
    return fate;
}

/* HANDLE, and FINISH. */
static enum fate answer(struct wh_connection *c, int head_size)
{
    weft_exchange *x = &c->block->x;
    if (x->head.is_chunked && !wh_input_reserve(c, WH_IN_SPARE))
        return CUT;
    wh_enter(c, WH_HEAD_PHASE, WH_HANDLE);
    wh_count_add(&c->w->requests, 1);
    x->head_size = (uint32_t)head_size;
    c->body_at = c->in_at + x->head_size;
    wh_exchange_begin(x, c);
    wh_exchange_run(x);
    wh_enter(c, WH_HANDLE, WH_FINISH);
    return finish(c);
}

/* LINGER */

/* Discards what still comes, so that the close does not reset the connection before the client has read its answer. */
static void linger(struct wh_connection *c)
{
    size_t size = 0;
    weft_cancel_on_hangup(c->fd, NULL); /* because after wh_send_end, a normal close by the client counts as a hangup */
    wh_send_end(c);
    weft_time end = weft_in(WH_LINGER_TIME);
    while (size < LINGER_MOST) {
        ptrdiff_t n = wh_receive(c, c->block->out, WH_OUT_SIZE, end);
        if (n <= 0)
            break;
        size += (size_t)n;
    }
}

/*
 * Whether the client may still send bytes. They would make the close reset the connection, and the client would lose
 * its answer. A client that has asked for the close mostly sends no more, and lingering for it would make the request
 * cost a third more. But a large answer takes long to arrive, and a reset would cut it. So its client gets the time to
 * read it.
 */
static bool should_linger(const struct wh_connection *c, bool was_refused)
{
    const struct wh_block *b = c->block;
    return was_refused || has_bytes(c) || b->x.head.keeps_alive || b->x.body != WH_NO_BODY || b->x.sent > LARGE_ANSWER;
}

static RARE void end_last(struct wh_connection *c, bool was_refused)
{
    wh_enter(c, wh_phase(c), WH_LINGER);
    if (wh_out_flush(c) != 0)
        c->resets = c->block->x.ends_with_close; /* else the client would take its part for the whole answer */
    else if (should_linger(c, was_refused))
        linger(c);
}

/* The loop */

static void serve(struct wh_connection *c)
{
    while (has_bytes(c) || idle(c)) {
        wh_enter(c, wh_phase(c), WH_HEAD_PHASE);
        int n = read_head(c);
        if (n <= 0) {
            if (n < 0) {
                wh_count_add(&c->w->requests, 1);
                refuse_head(c, -n);
                end_last(c, true);
            }
            return;
        }
        enum fate fate = answer(c, n);
        if (fate == KEPT)
            continue;
        if (fate == LAST)
            end_last(c, false);
        else
            wh_out_flush_whole(c);
        return;
    }
}

/* The life of a connection */

/* Counts the connection for its address. False: the connection is not served; *is_full: because of max_per_address. */
static bool enter_address(struct wh_connection *c, bool *is_full)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (weft_peer((struct sockaddr *)&peer, &size) != 0)
        return true; /* the client is gone: the first read will tell */
    int rc = wh_address_enter(c->h->addresses, (struct sockaddr *)&peer, size, c->h->o.max_per_address, &c->address);
    *is_full = rc == -EBUSY;
    return rc == 0;
}

static struct wh_connection *new_connection(int fd, struct wh_serving *s)
{
    struct wh_connection *c = wh_alloc_zero(sizeof *c);
    if (!c)
        return NULL;
    int worker = weft_fiber_worker(weft_fiber_current());
    c->h = s->h;
    c->serving = s;
    c->w = &s->h->workers[worker];
    c->fd = fd;
    return c;
}

static void run(struct wh_connection *c)
{
    wh_count_add(&c->w->connections, 1);
    wh_server_add(c->h, c);
    c->is_listed = true;
    weft_cancel_on_hangup(c->fd, weft_fiber_current());
    serve(c);
}

static RARE bool begin(struct wh_connection *c, bool *is_full)
{
    return enter_address(c, is_full) && wh_input_begin(c) && take_block(c);
}

/* A handler has ended its fiber. Earlier answers go out, and its own is cut. */
static RARE void abandon(struct wh_connection *c)
{
    weft_exchange *x = &c->block->x;
    wh_exchange_abandon(x);
    wh_enter(c, WH_HANDLE, WH_FINISH);
    x->keeps = false;
    finish(c);
    wh_out_flush_whole(c);
}

/*
 * The end of a connection. A handler may end its fiber (pthread_exit under libweft-hook, which unwinds the stack): then
 * no function of the library returns, and this runs as a cleanup.
 */
static void end(struct wh_connection **at)
{
    struct wh_connection *c = *at;
    if (!c)
        return;
    if (wh_phase(c) == WH_HANDLE)
        abandon(c);
    if (c->is_listed) {
        wh_enter(c, wh_phase(c), WH_CLOSED);
        wh_server_remove(c->h, c);
        if (c->resets)
            wh_reset_at_close(c);
        wh_count_add(&c->w->ended, 1);
    }
    if (c->block)
        c->block->sent = weft_now(); /* the block was used until now: spare.h */
    give_block(c);
    wh_input_end(c);
    if (c->address)
        wh_address_leave(c->h->addresses, c->address);
    wh_free(c);
}

/* True: the connection was not served, because its address has too many. */
static bool serve_or_tell(int fd, struct wh_serving *s)
{
    __attribute__((cleanup(end))) struct wh_connection *c = new_connection(fd, s);
    bool is_full = false;
    if (c && begin(c, &is_full))
        run(c);
    return is_full;
}

void wh_serve_connection(int fd, void *arg)
{
    if (serve_or_tell(fd, arg))
        wh_refuse_address(fd, arg);
}
