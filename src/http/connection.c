/*
 * http/connection.c: see connection.h. The loop of a connection, phase by phase.
 *
 * Waits are made in small frames and with buffers in the heap: on a shared stack all that lies on the stack during a wait
 * is copied.
 */
#include "http/connection.h"

#include <errno.h>
#include <string.h>

#include <weft/io.h>
#include <weft/stack.h>

#include "http/address.h"
#include "http/block.h"
#include "http/body.h"
#include "http/input.h"
#include "http/log.h"
#include "http/memory.h"
#include "http/output.h"
#include "http/server.h"
#include "http/transport.h"

#define GIVE_BACK WEFT_SEC         /* idle for so long, a connection gives back its block and its stack's pages */
#define LINGER_TIME (2 * WEFT_SEC) /* for the client to read its last answer */
#define MORE 512                   /* bytes that a read for the rest of a head has room for, at least */
#define LINGER_MOST (16u << 20)    /* bytes that are thrown away meanwhile */

bool wh_is_stopping(const struct wh_connection *c)
{
    return atomic_load_explicit(&c->serving->is_stopping, memory_order_relaxed);
}

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
    if (c->block)
        wh_block_give(c->h, c->w, c->block);
    c->block = NULL;
}

/* Without a buffer: the first bytes come into the connection itself. */
static ptrdiff_t wait_small(struct wh_connection *c, weft_time deadline)
{
    wh_input_end(c);
    weft_stack_release();
    wh_count_add(&c->w->idle_begun, 1);
    ptrdiff_t n = wh_receive(c, c->first, sizeof c->first, deadline);
    wh_count_add(&c->w->idle_ended, 1);
    if (!wh_input_begin(c))
        return -ENOMEM;
    if (n > 0)
        memcpy(c->in, c->first, (size_t)n);
    return n;
}

/* Waits for the first bytes of a request: how many came, 0 at the end, or a negative errno. */
static ptrdiff_t wait_for_request(struct wh_connection *c)
{
    weft_span idle = c->h->o.idle_time, quick = idle < GIVE_BACK ? idle : GIVE_BACK;
    weft_time since = c->block->sent;
    wh_input_clear(c);
    give_block(c);
    ptrdiff_t n = wh_receive(c, c->in, c->in_size, later(since, quick));
    if (n == -ETIMEDOUT && idle > quick)
        n = wait_small(c, later(since, idle));
    if (n <= 0 || !take_block(c))
        return n <= 0 ? n : -ENOMEM;
    c->in_end = (uint32_t)n;
    c->block->came = weft_now();
    return n;
}

/* IDLE: until bytes of a request are there. False: none will come. */
static bool idle(struct wh_connection *c)
{
    if (wh_out_flush(c) != 0)
        return false;
    wh_enter(c, wh_phase(c), WH_IDLE);
    /* pairs with the store of is_stopping in server.c */
    if (atomic_load_explicit(&c->serving->is_stopping, memory_order_seq_cst))
        return false;
    return wait_for_request(c) > 0;
}

/* HEAD */

static int receive_more(struct wh_connection *c, weft_time deadline)
{
    if (!wh_input_reserve(c, MORE))
        return -ENOMEM;
    int rc = wh_out_flush(c); /* answers to earlier requests */
    if (rc != 0)
        return rc;
    ptrdiff_t n = wh_receive(c, c->in + c->in_end, c->in_size - c->in_end, deadline);
    if (n > 0) {
        c->in_end += (uint32_t)n;
        c->block->came = weft_now();
    }
    return (int)n;
}

/* The bytes of the head; minus the status of the refusal; 0: the connection ends without one. */
static int read_head(struct wh_connection *c)
{
    struct wh_block *b = c->block;
    weft_time deadline = later(b->came, c->h->o.head_time);
    wh_head_begin(&b->x.head);
    for (;;) {
        int n = wh_parse_head(&b->x.head, c->in + c->in_at, c->in_end - c->in_at);
        if (n != 0)
            return n;
        n = receive_more(c, deadline);
        if (n == -ETIMEDOUT)
            return -408;
        if (n <= 0) {
            c->has_failed = n < 0;
            return 0;
        }
    }
}

static void log_refused(struct wh_log *log, int status)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (weft_peer((struct sockaddr *)&peer, &size) != 0)
        size = 0;
    wh_log_refused(log, (struct sockaddr *)&peer, size, status);
}

/* A head that was refused has no strings. It is answered, and the connection ends. */
static void refuse_head(struct wh_connection *c, int status)
{
    weft_exchange *x = &c->block->x;
    x->head.method = WH_OTHER_METHOD;
    x->head.minor = 1;
    x->head.count = 0;
    x->head.keeps_alive = x->head.is_chunked = x->head.expects_continue = x->head.has_query = false;
    x->head.length = 0;
    x->head.path = x->head.method_text = x->head.host = (struct wh_slice){0};
    wh_exchange_begin(x, c);
    x->has_parsed = false;
    wh_exchange_answer(x, status);
    if (c->h->log)
        log_refused(c->h->log, status);
    wh_exchange_end(x);
}

/* FINISH */

static void count_end(struct wh_connection *c, const weft_exchange *x)
{
    if (x->answer != WH_ENDED)
        wh_count_add(&c->w->cut, 1);
    if (x->is_stream)
        wh_count_add(&c->w->streams_ended, 1);
}

/* What happens to the connection now. */
enum fate { KEPT, LAST, CUT };

static enum fate finish(struct wh_connection *c)
{
    weft_exchange *x = &c->block->x;
    if (c->h->log)
        wh_log_request(c->h->log, x, x->answer == WH_NO_ANSWER ? 499 : x->status, x->sent);
    count_end(c, x);
    enum fate fate = x->answer != WH_ENDED || c->has_failed ? CUT : x->keeps && wh_body_drain(x) ? KEPT : LAST;
    if (fate == CUT && x->ends_with_close)
        c->resets = true;
    else if (fate == CUT)
        wh_out_flush(c); /* the complete answers to earlier requests, and what there is of this one */
    wh_exchange_end(x);
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

/* Throws away what still comes, so that the close does not reset the connection before the client has read its answer. */
static void linger(struct wh_connection *c)
{
    size_t size = 0;
    if (wh_out_flush(c) != 0)
        return;
    weft_cancel_on_hangup(c->fd, NULL); /* from now on its close would be one */
    wh_send_end(c);
    weft_time end = weft_in(LINGER_TIME);
    while (size < LINGER_MOST) {
        ptrdiff_t n = wh_receive(c, c->block->out, WH_OUT_SIZE, end);
        if (n <= 0)
            break;
        size += (size_t)n;
    }
}

/* Whether something may still come that the close would answer by a reset. */
static bool should_linger(const struct wh_connection *c, bool was_refused)
{
    const struct wh_block *b = c->block;
    return was_refused || has_bytes(c) || b->x.head.keeps_alive || b->x.body != WH_NO_BODY;
}

static void end_last(struct wh_connection *c, bool was_refused)
{
    wh_enter(c, wh_phase(c), WH_LINGER);
    if (should_linger(c, was_refused))
        linger(c);
    else
        wh_out_flush(c);
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
        return;
    }
}

/* Counts it for its address: false, and *is_full tells why not. */
static bool enter_address(struct wh_connection *c, bool *is_full)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (weft_peer((struct sockaddr *)&peer, &size) != 0)
        return true; /* it is gone already: reading will tell */
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
    weft_http *h = c->h;
    c->block->sent = weft_now();
    wh_server_add(h, c);
    weft_cancel_on_hangup(c->fd, weft_fiber_current());
    serve(c);
    wh_enter(c, wh_phase(c), WH_CLOSED);
    wh_server_remove(h, c);
    if (c->resets)
        wh_reset_at_close(c);
}

__attribute__((noinline)) static bool begin(struct wh_connection *c, bool *is_full)
{
    return enter_address(c, is_full) && wh_input_begin(c) && take_block(c);
}

void wh_serve_connection(int fd, void *arg)
{
    struct wh_connection *c = new_connection(fd, arg);
    bool is_full = false;
    if (!c)
        return;
    if (begin(c, &is_full)) {
        wh_count_add(&c->w->connections, 1);
        run(c);
        wh_count_add(&c->w->ended, 1);
    }
    give_block(c);
    wh_input_end(c);
    if (c->address)
        wh_address_leave(c->h->addresses, c->address);
    wh_free(c);
    if (is_full)
        wh_refuse_connection(fd, arg);
}

/* Refusals */

static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                           "Content-Length: 20\r\nConnection: close\r\nRetry-After: 5\r\n\r\nService Unavailable\n";

void wh_refuse_connection(int fd, void *arg)
{
    struct wh_serving *s = arg;
    struct wh_worker *w = &s->h->workers[weft_fiber_worker(weft_fiber_current())];
    wh_count_add(&w->refused, 1);
    if (s->h->o.busy == WEFT_HTTP_BUSY_CLOSE || weft_send(fd, busy, sizeof busy - 1, 0, WEFT_NOW) < 0)
        return;
    weft_shutdown(fd, SHUT_WR);
    char *waste = wh_alloc(4096);
    weft_time end = weft_in(LINGER_TIME);
    while (waste && weft_read(fd, waste, 4096, end) > 0)
        ;
    wh_free(waste);
}
