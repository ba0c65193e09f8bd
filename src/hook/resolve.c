/*
 * hook/resolve.c: the names that look up names. The C library waits inside of them where nobody can stand in for it, so
 * they are made whole, by a helper.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <weft/offload.h>

#include "hook/away.h"
#include "hook/real.h"
#include "hook/wait.h"

/* A string in memory that begins at *at, which moves on behind it. */
static char *keep(char **at, const char *text)
{
    if (!text)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = memcpy(*at, text, bytes);
    *at += bytes;
    return copy;
}

static size_t room_for(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* ---- getaddrinfo ---- */

struct addresses {
    struct wf_away away;
    const char *host, *service;
    const struct addrinfo *hints;
    struct addrinfo hints_copy;
    struct addrinfo *found;
    int rc;
    char memory[];
};

static void find_addresses(struct wf_away *call)
{
    struct addresses *a = (struct addresses *)call;
    a->rc = wf_real.getaddrinfo(a->host, a->service, a->hints, &a->found);
}

static void discard_addresses(struct wf_away *call)
{
    struct addresses *a = (struct addresses *)call;
    if (call->made && a->rc == 0)
        freeaddrinfo(a->found);
}

HOOK int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.getaddrinfo(host, service, hints, out);
    struct addresses *a = malloc(sizeof *a + room_for(host) + room_for(service));
    if (!a)
        return EAI_MEMORY;
    char *at = a->memory;
    a->away = (struct wf_away){.make = find_addresses, .discard = discard_addresses};
    a->host = keep(&at, host);
    a->service = keep(&at, service);
    a->hints = NULL;
    if (hints) {
        a->hints_copy = *hints;
        a->hints = &a->hints_copy;
    }
    if (!wf_away(&a->away, WEFT_OFFLOAD_NET))
        return errno == ENOMEM ? EAI_MEMORY : EAI_SYSTEM;
    int rc = a->rc;
    if (rc == 0)
        *out = a->found;
    free(a);
    return rc;
}

/* ---- getnameinfo ---- */

struct naming {
    struct wf_away away;
    struct sockaddr_storage at;
    socklen_t size, host_room, service_room;
    bool host, service;
    int flags, rc;
    char memory[]; /* the host, then the service */
};

static void find_name(struct wf_away *call)
{
    struct naming *n = (struct naming *)call;
    n->rc = wf_real.getnameinfo((struct sockaddr *)&n->at, n->size, n->host ? n->memory : NULL, n->host_room,
                                n->service ? n->memory + n->host_room : NULL, n->service_room, n->flags);
}

HOOK int getnameinfo(const struct sockaddr *at, socklen_t size, char *host, socklen_t host_room, char *service,
                     socklen_t service_room, int flags)
{
    if (likely(!wf_hooked_here()) || size > sizeof(struct sockaddr_storage) || !at || !wf_may_wait() ||
        host_room > 65536 || service_room > 65536)
        return wf_real.getnameinfo(at, size, host, host_room, service, service_room, flags);
    struct naming *n = malloc(sizeof *n + host_room + service_room);
    if (!n)
        return EAI_MEMORY;
    *n = (struct naming){.away.make = find_name,
                         .size = size,
                         .host_room = host_room,
                         .service_room = service_room,
                         .host = host,
                         .service = service,
                         .flags = flags};
    memcpy(&n->at, at, size);
    if (!wf_away(&n->away, WEFT_OFFLOAD_NET))
        return errno == ENOMEM ? EAI_MEMORY : EAI_SYSTEM;
    if (n->rc == 0 && host && host_room)
        memcpy(host, n->memory, strlen(n->memory) + 1);
    if (n->rc == 0 && service && service_room)
        memcpy(service, n->memory + host_room, strlen(n->memory + host_room) + 1);
    int rc = n->rc;
    free(n);
    return rc;
}

/* ---- gethostbyname and its kin: each answers in memory of the C library's, or of the caller's ---- */

enum { MOST = 65536 }; /* of a caller's buffer that is copied */

struct host {
    struct wf_away away;
    enum { BY_NAME, BY_NAME2, BY_ADDRESS, BY_NAME_R, BY_NAME2_R, BY_ADDRESS_R } how;
    int family, rc, error;
    socklen_t size;
    size_t room;
    struct hostent entry, *found;
    size_t key_bytes;
    char *answer; /* `room` bytes of memory, behind the key */
    char memory[];
};

static void find_host(struct wf_away *call)
{
    struct host *h = (struct host *)call;
    const char *key = h->memory;
    switch (h->how) {
    case BY_NAME:
        h->found = wf_real.gethostbyname(key);
        break;
    case BY_NAME2:
        h->found = wf_real.gethostbyname2(key, h->family);
        break;
    case BY_ADDRESS:
        h->found = wf_real.gethostbyaddr(key, h->size, h->family);
        break;
    case BY_NAME_R:
        h->rc = wf_real.gethostbyname_r(key, &h->entry, h->answer, h->room, &h->found, &h->error);
        break;
    case BY_NAME2_R:
        h->rc = wf_real.gethostbyname2_r(key, h->family, &h->entry, h->answer, h->room, &h->found, &h->error);
        break;
    case BY_ADDRESS_R:
        h->rc = wf_real.gethostbyaddr_r(key, h->size, h->family, &h->entry, h->answer, h->room, &h->found, &h->error);
        break;
    }
}

/* NULL: errno says why; else to be freed. */
static struct host *look_up(int how, const void *key, size_t key_bytes, int family, size_t room)
{
    size_t aligned = (key_bytes + 15) & ~(size_t)15;
    struct host *h = calloc(1, sizeof *h + aligned + room);
    if (!h)
        return NULL;
    h->away.make = find_host;
    h->how = how;
    h->family = family;
    h->size = (socklen_t)key_bytes;
    h->room = room;
    h->answer = h->memory + aligned;
    memcpy(h->memory, key, key_bytes);
    return wf_away(&h->away, WEFT_OFFLOAD_NET) ? h : NULL;
}

static struct hostent *found_by(int how, const void *key, size_t key_bytes, int family)
{
    struct host *h = look_up(how, key, key_bytes, family, 0);
    struct hostent *found = h ? h->found : NULL;
    if (!h)
        h_errno = NETDB_INTERNAL;
    free(h);
    return found;
}

HOOK struct hostent *gethostbyname(const char *name)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.gethostbyname(name);
    return found_by(BY_NAME, name, strlen(name) + 1, 0);
}

HOOK struct hostent *gethostbyname2(const char *name, int family)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.gethostbyname2(name, family);
    return found_by(BY_NAME2, name, strlen(name) + 1, family);
}

HOOK struct hostent *gethostbyaddr(const void *at, socklen_t size, int family)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.gethostbyaddr(at, size, family);
    return found_by(BY_ADDRESS, at, size, family);
}

/* A pointer into `from` (of `bytes`), or a list of such, as it is in a copy of that at `to`. */
static void *moved(void *pointer, const char *from, size_t bytes, char *to)
{
    const char *p = pointer;
    return p >= from && p < from + bytes ? to + (p - from) : pointer;
}

static void move_list(char **list, const char *from, size_t bytes, char *to)
{
    for (; list && *list; list++)
        *list = moved(*list, from, bytes, to);
}

/* The answer, in the caller's memory. */
static int answer(struct host *h, struct hostent *entry, char *memory, size_t room, struct hostent **out, int *error)
{
    if (!h) {
        *out = NULL;
        *error = NETDB_INTERNAL;
        return errno;
    }
    int rc = h->rc;
    *error = h->error;
    *out = NULL;
    if (rc == 0 && h->found) {
        memcpy(memory, h->answer, room);
        *entry = h->entry;
        entry->h_name = moved(entry->h_name, h->answer, room, memory);
        entry->h_aliases = moved(entry->h_aliases, h->answer, room, memory);
        entry->h_addr_list = moved(entry->h_addr_list, h->answer, room, memory);
        move_list(entry->h_aliases, h->answer, room, memory);
        move_list(entry->h_addr_list, h->answer, room, memory);
        *out = entry;
    }
    free(h);
    return rc;
}

HOOK int gethostbyname_r(const char *name, struct hostent *entry, char *memory, size_t room, struct hostent **out,
                         int *error)
{
    if (likely(!wf_hooked_here()) || room > MOST || !wf_may_wait())
        return wf_real.gethostbyname_r(name, entry, memory, room, out, error);
    return answer(look_up(BY_NAME_R, name, strlen(name) + 1, 0, room), entry, memory, room, out, error);
}

HOOK int gethostbyname2_r(const char *name, int family, struct hostent *entry, char *memory, size_t room,
                          struct hostent **out, int *error)
{
    if (likely(!wf_hooked_here()) || room > MOST || !wf_may_wait())
        return wf_real.gethostbyname2_r(name, family, entry, memory, room, out, error);
    return answer(look_up(BY_NAME2_R, name, strlen(name) + 1, family, room), entry, memory, room, out, error);
}

HOOK int gethostbyaddr_r(const void *at, socklen_t size, int family, struct hostent *entry, char *memory, size_t room,
                         struct hostent **out, int *error)
{
    if (likely(!wf_hooked_here()) || room > MOST || !wf_may_wait())
        return wf_real.gethostbyaddr_r(at, size, family, entry, memory, room, out, error);
    return answer(look_up(BY_ADDRESS_R, at, size, family, room), entry, memory, room, out, error);
}
