/*
 * status.c: see status.h.
 */
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weft/weft.h>

#include "history.h"
#include "local.h"
#include "page.h"

#define PERIOD WEFT_SEC
#define MARGIN (20 * WEFT_MS) /* a stream looks for a new snapshot so long after it is due */

struct status {
    weft_http *server;
    weft_fiber *sampler;
    struct figures *before, *now; /* of the sampler */
    weft_mutex lock;
    char *latest;           /* guarded by: lock. JSON */
    uint64_t number;        /* guarded by: lock. Of the latest snapshot */
    weft_time next;         /* guarded by: lock. When the next snapshot is due */
    struct history history; /* guarded by: lock */
};

/* ---- the sampler ---- */

static void sample(struct status *s, weft_time next)
{
    struct figures *oldest = s->before;
    s->before = s->now;
    s->now = oldest;
    figures_take(s->now, s->server);
    char *text = snapshot_text(s->before, s->now);
    if (weft_mutex_lock(&s->lock, WEFT_FOREVER) != 0) {
        free(text);
        return; /* the sampler is cancelled, and ends */
    }
    if (text) {
        free(s->latest);
        s->latest = text;
    }
    s->number++;
    s->next = next;
    history_add(&s->history, s->before, s->now);
    weft_mutex_unlock(&s->lock);
}

static void *run_sampler(void *arg)
{
    struct status *s = arg;
    weft_time next = {s->now->at.ns + PERIOD};
    while (weft_sleep_until(next) == 0) {
        weft_time now = weft_now();
        next.ns += PERIOD * (1 + (now.ns - next.ns) / PERIOD); /* skips the turns that a pause has missed */
        sample(s, next);
    }
    return NULL;
}

/* ---- the routes ---- */

/* A copy of the latest snapshot. *number is its number, and *next is when the next snapshot is due. */
static char *copy_latest(struct status *s, weft_exchange *x, uint64_t *number, weft_time *next)
{
    if (weft_mutex_lock(&s->lock, WEFT_FOREVER) != 0)
        return NULL;
    size_t size = strlen(s->latest) + 1;
    char *copy = weft_http_alloc(x, size);
    if (copy)
        memcpy(copy, s->latest, size);
    *number = s->number;
    *next = s->next;
    weft_mutex_unlock(&s->lock);
    return copy;
}

static int answer_json(weft_exchange *x, void *arg)
{
    uint64_t number;
    weft_time next;
    int rc = local_or_refuse(x);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    const char *text = copy_latest(arg, x, &number, &next);
    if (!text)
        return -EAGAIN;
    weft_http_add_header(x, "Cache-Control", "no-store");
    weft_http_add_header(x, "Cross-Origin-Resource-Policy", "same-origin");
    weft_http_add_header(x, "X-Content-Type-Options", "nosniff");
    return weft_http_reply(x, 200, "application/json", text, strlen(text));
}

/* Sends the latest snapshot, unless its number is *number. *next is when to look again. */
static int send_latest(struct status *s, weft_exchange *x, uint64_t *number, weft_time *next)
{
    int rc = weft_mutex_lock(&s->lock, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    char *text = *number != s->number ? strdup(s->latest) : NULL;
    *number = s->number;
    *next = (weft_time){s->next.ns + MARGIN};
    weft_mutex_unlock(&s->lock);
    rc = text ? weft_http_event(x, NULL, text) : 0;
    free(text);
    return rc;
}

static int send_history(struct status *s, weft_exchange *x)
{
    int rc = weft_mutex_lock(&s->lock, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    char *text = history_text(&s->history);
    weft_mutex_unlock(&s->lock);
    rc = text ? weft_http_event(x, "history", text) : -ENOMEM;
    free(text);
    return rc;
}

static int answer_events(weft_exchange *x, void *arg)
{
    struct status *s = arg;
    uint64_t number = 0;
    weft_time next;
    int rc = local_or_refuse(x);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = weft_http_events(x);
    if (rc == 0)
        rc = send_history(s, x);
    while (rc == 0) {
        rc = send_latest(s, x, &number, &next);
        if (rc == 0 && next.ns < weft_now().ns)
            next = weft_in(PERIOD / 4); /* the sampler is late */
        if (rc == 0)
            rc = weft_event_wait(weft_stop_event(), next);
        if (rc == 0)
            return 0; /* serving ends */
        if (rc == -ETIMEDOUT)
            rc = 0;
    }
    return rc;
}

/* The policy allows only the page's own script and style, by a nonce that cannot be guessed. */
static int answer_page(weft_exchange *x, void *arg)
{
    char nonce[PAGE_NONCE + 1], policy[320];
    (void)arg;
    int rc = local_or_refuse(x);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    char *page = weft_http_alloc(x, page_size());
    if (!page)
        return -EAGAIN;
    if (!page_nonce(nonce))
        return -EIO;
    page_write(page, nonce);
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; img-src data:; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    weft_http_add_header(x, "Content-Security-Policy", policy);
    weft_http_add_header(x, "X-Content-Type-Options", "nosniff");
    weft_http_add_header(x, "Referrer-Policy", "no-referrer");
    weft_http_add_header(x, "Cache-Control", "no-store");
    return weft_http_reply(x, 200, "text/html; charset=utf-8", page, page_size());
}

/* Users also type the address with a slash behind it. */
static int answer_slash(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = local_or_refuse(x);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return weft_http_redirect(x, 308, "/_weft");
}

/* ---- beginning and end ---- */

static int add_routes(struct status *s, weft_http *h)
{
    int rc = weft_http_route(h, "GET /_weft", answer_page, s);
    if (rc == 0)
        rc = weft_http_route(h, "GET /_weft/", answer_slash, s);
    if (rc == 0)
        rc = weft_http_route(h, "GET /_weft/status.json", answer_json, s);
    return rc == 0 ? weft_http_route(h, "GET /_weft/events", answer_events, s) : rc;
}

static int prepare(struct status *s, weft_http *h)
{
    s->server = h;
    s->before = figures_new();
    s->now = figures_new();
    if (!s->before || !s->now || !history_init(&s->history, s->now->worker_count))
        return -ENOMEM;
    figures_take(s->now, h);
    memcpy(s->before, s->now, sizeof *s->now + s->now->worker_count * sizeof s->now->workers[0]);
    history_add(&s->history, s->before, s->now);
    s->latest = snapshot_text(s->before, s->now);
    s->number = 1;
    s->next = (weft_time){s->now->at.ns + PERIOD};
    return s->latest ? add_routes(s, h) : -ENOMEM;
}

int status_start(struct status **out, weft_http *h)
{
    struct status *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    int rc = prepare(s, h);
    if (rc == 0)
        rc = weft_go_with(&s->sampler, NULL, run_sampler, s);
    if (rc == 0)
        *out = s;
    else
        status_end(s);
    return rc;
}

void status_end(struct status *s)
{
    if (!s)
        return;
    if (s->sampler) {
        weft_cancel(s->sampler);
        weft_join(s->sampler, NULL, WEFT_FOREVER);
    }
    history_destroy(&s->history);
    free(s->latest);
    free(s->before);
    free(s->now);
    free(s);
}
