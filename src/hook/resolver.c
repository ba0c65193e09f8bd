/*
 * hook/resolver.c: the names of the resolver itself (resolv.h). Each has an older name, which programs built before glibc 2.34
 * call.
 */
#include <errno.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#include <weft/offload.h>

#include "hook/away.h"
#include "hook/real.h"
#include "hook/wait.h"

enum how { BY_QUERY, BY_SEARCH, BY_QUERY_DOMAIN, BY_SEND, BY_NQUERY, BY_NSEARCH, BY_NQUERY_DOMAIN, BY_NSEND };

struct question {
    struct wf_away away;
    enum how how;
    res_state state;
    const char *name, *domain;
    const unsigned char *message;
    int class, type, message_bytes;
    int room, result;
    unsigned char *answer;
};

static void ask(struct wf_away *call)
{
    struct question *q = (struct question *)call;
    switch (q->how) {
    case BY_QUERY:
        q->result = wf_real.res_query(q->name, q->class, q->type, q->answer, q->room);
        break;
    case BY_SEARCH:
        q->result = wf_real.res_search(q->name, q->class, q->type, q->answer, q->room);
        break;
    case BY_QUERY_DOMAIN:
        q->result = wf_real.res_querydomain(q->name, q->domain, q->class, q->type, q->answer, q->room);
        break;
    case BY_SEND:
        q->result = wf_real.res_send(q->message, q->message_bytes, q->answer, q->room);
        break;
    case BY_NQUERY:
        q->result = wf_real.res_nquery(q->state, q->name, q->class, q->type, q->answer, q->room);
        break;
    case BY_NSEARCH:
        q->result = wf_real.res_nsearch(q->state, q->name, q->class, q->type, q->answer, q->room);
        break;
    case BY_NQUERY_DOMAIN:
        q->result = wf_real.res_nquerydomain(q->state, q->name, q->domain, q->class, q->type, q->answer, q->room);
        break;
    case BY_NSEND:
        q->result = wf_real.res_nsend(q->state, q->message, q->message_bytes, q->answer, q->room);
        break;
    }
}

enum { MOST = 65536 }; /* of an answer */

/* A copy of some bytes in memory that begins at *at, which moves on behind it. */
static void *keep(char **at, const void *from, size_t bytes)
{
    if (!from)
        return NULL;
    void *copy = memcpy(*at, from, bytes);
    *at += bytes;
    return copy;
}

static size_t room_for(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/*
 * Made by a helper, with copies of all that the caller has, which may lie on a shared stack; and to its end, as the state
 * would be lost otherwise. The resolver's default state is the thread's: a helper has one of its own, which it makes from
 * the same files.
 */
static int asked(const struct question *given)
{
    size_t message = given->message && given->message_bytes > 0 ? (size_t)given->message_bytes : 0;
    size_t room = given->answer && given->room > 0 ? (size_t)given->room : 0;
    struct question *q = malloc(sizeof *q + sizeof *given->state + room_for(given->name) + room_for(given->domain) +
                                message + room);
    if (!q) {
        h_errno = NETDB_INTERNAL;
        return -1;
    }
    char *at = (char *)(q + 1);
    *q = *given;
    q->away.make = ask;
    q->state = keep(&at, given->state, sizeof *given->state);
    q->name = keep(&at, given->name, room_for(given->name));
    q->domain = keep(&at, given->domain, room_for(given->domain));
    q->message = keep(&at, given->message, message);
    q->answer = given->answer ? (unsigned char *)at : NULL;
    if (!wf_away_to_its_end(&q->away, WEFT_OFFLOAD_NET)) {
        h_errno = NETDB_INTERNAL;
        return -1;
    }
    int result = q->result;
    if (given->state)
        *given->state = *q->state;
    if (result > 0 && room > 0)
        memcpy(given->answer, q->answer, (size_t)result < room ? (size_t)result : room);
    free(q);
    return result;
}

static bool is_away(int room)
{
    return wf_hooked_here() && room <= MOST && wf_may_wait();
}

HOOK int res_query(const char *name, int class, int type, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_query(name, class, type, answer, room);
    return asked(&(struct question){
        .how = BY_QUERY, .name = name, .class = class, .type = type, .answer = answer, .room = room});
}

HOOK int res_search(const char *name, int class, int type, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_search(name, class, type, answer, room);
    return asked(&(struct question){
        .how = BY_SEARCH, .name = name, .class = class, .type = type, .answer = answer, .room = room});
}

HOOK int res_querydomain(const char *name, const char *domain, int class, int type, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_querydomain(name, domain, class, type, answer, room);
    return asked(&(struct question){.how = BY_QUERY_DOMAIN,
                                    .name = name,
                                    .domain = domain,
                                    .class = class,
                                    .type = type,
                                    .answer = answer,
                                    .room = room});
}

HOOK int res_send(const unsigned char *message, int bytes, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_send(message, bytes, answer, room);
    return asked(
        &(struct question){.how = BY_SEND, .message = message, .message_bytes = bytes, .answer = answer, .room = room});
}

HOOK int res_nquery(res_state state, const char *name, int class, int type, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_nquery(state, name, class, type, answer, room);
    return asked(&(struct question){
        .how = BY_NQUERY, .state = state, .name = name, .class = class, .type = type, .answer = answer, .room = room});
}

HOOK int res_nsearch(res_state state, const char *name, int class, int type, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_nsearch(state, name, class, type, answer, room);
    return asked(&(struct question){
        .how = BY_NSEARCH, .state = state, .name = name, .class = class, .type = type, .answer = answer, .room = room});
}

HOOK int res_nquerydomain(res_state state, const char *name, const char *domain, int class, int type,
                          unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_nquerydomain(state, name, domain, class, type, answer, room);
    return asked(&(struct question){.how = BY_NQUERY_DOMAIN,
                                    .state = state,
                                    .name = name,
                                    .domain = domain,
                                    .class = class,
                                    .type = type,
                                    .answer = answer,
                                    .room = room});
}

HOOK int res_nsend(res_state state, const unsigned char *message, int bytes, unsigned char *answer, int room)
{
    if (likely(!is_away(room)))
        return wf_real.res_nsend(state, message, bytes, answer, room);
    return asked(&(struct question){
        .how = BY_NSEND, .state = state, .message = message, .message_bytes = bytes, .answer = answer, .room = room});
}

#if defined(__has_attribute) && __has_attribute(copy)
#define COPY(name) , copy(name)
#else
#define COPY(name)
#endif
#define OLDER(name) HOOK __typeof__(name) __##name __attribute__((alias(#name) COPY(name)));
OLDER(res_query)
OLDER(res_search)
OLDER(res_querydomain)
OLDER(res_send)
OLDER(res_nquery)
OLDER(res_nsearch)
OLDER(res_nquerydomain)
OLDER(res_nsend)
