/*
 * load.c: see load.h. The latency of an answer begins before the write of its request, and ends with the read of its
 * last byte.
 */
#include "load.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "reply.h"

static struct {
    const struct site *site;
    char *requests[SITE_PAGES];
    char *rooms;      /* a room for each client */
    size_t room_size; /* of each room */
    unsigned *next;   /* the page that each client asks for next. owner: the client */
} load;

static _Atomic uint64_t latencies[LATENCY_BUCKETS];

static void count_latency(weft_time begun)
{
    int64_t ns = weft_now().ns - begun.ns;
    atomic_fetch_add_explicit(&latencies[latency_bucket(ns > 0 ? (uint64_t)ns : 0)], 1, memory_order_relaxed);
}

/* Says what is wrong with an answer; NULL: nothing. */
static const char *judge(const struct reply *r, const struct page *page)
{
    if (r->status != 200)
        return "the status of an answer is not 200";
    if (r->bytes != page->bytes)
        return "an answer is longer or shorter than the file";
    return memcmp(r->body, page->body, page->bytes) == 0 ? NULL : "an answer is not what is in the file";
}

/* One request and its answer. */
static bool ask(void *arg, unsigned client, int fd, struct crowd_wrong *wrong)
{
    unsigned number = load.next[client];
    const char *request = load.requests[number];
    struct reply r = {.room = load.rooms + client * load.room_size, .size = load.room_size};
    weft_time begun = weft_now(), deadline = {begun.ns + CROWD_PATIENCE};
    (void)arg;
    load.next[client] = (number + 1) % load.site->count;
    ptrdiff_t rc = weft_write_all(fd, request, strlen(request), NULL, deadline);
    *wrong = (struct crowd_wrong){"cannot send", rc};
    if (rc < 0)
        return false;
    rc = reply_read(&r, fd, deadline);
    *wrong = (struct crowd_wrong){"no answer, or not one", rc};
    if (rc < 0)
        return false;
    count_latency(begun);
    *wrong = (struct crowd_wrong){judge(&r, &load.site->pages[number]), 0};
    return !wrong->what;
}

/* Makes the memory and the requests of the clients. Returns false without memory. */
static bool prepare(const char *address, const struct site *site, unsigned clients)
{
    load.site = site;
    load.room_size = REPLY_HEAD + site->largest + 1;
    load.rooms = malloc(clients * load.room_size);
    load.next = malloc(clients * sizeof load.next[0]);
    if (!load.rooms || !load.next)
        return false;
    for (unsigned i = 0; i < clients; i++)
        load.next[i] = i % site->count;
    for (unsigned i = 0; i < site->count; i++) {
        if (asprintf(&load.requests[i], "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: first-run\r\nAccept: */*\r\n\r\n",
                     site->pages[i].path, address) < 0)
            return false;
    }
    return true;
}

struct crowd *load_new(const char *address, const struct site *site, unsigned clients)
{
    return prepare(address, site, clients) ? crowd_new(address, clients, ask, NULL) : NULL;
}

void load_latencies(struct latency *out)
{
    out->count = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        out->buckets[i] = atomic_load_explicit(&latencies[i], memory_order_relaxed);
        out->count += out->buckets[i];
    }
}

void load_free(void)
{
    for (unsigned i = 0; i < load.site->count; i++)
        free(load.requests[i]);
    free(load.rooms);
    free(load.next);
}
