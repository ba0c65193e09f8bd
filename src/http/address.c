/*
 * http/address.c: see address.h. A table of lists, changed once for each connection that begins or ends.
 */
#include "http/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include <weft/sync.h>

#include "http/memory.h"
#include "http/server.h"

enum { LISTS = 1024 };

struct wh_address {
    struct wh_address *next; /* guarded by: lock */
    uint64_t key;            /* const: see key_of */
    bool is_six;             /* const */
    unsigned count;          /* connections. guarded by: lock */
};

struct wh_addresses {
    weft_mutex lock;
    uint64_t seed; /* const, random: so clients cannot choose addresses that share a list */
    struct wh_address *lists[LISTS];
};

struct wh_addresses *wh_addresses_new(void)
{
    struct wh_addresses *all = wh_alloc_zero(sizeof *all);
    if (all && getrandom(&all->seed, sizeof all->seed, GRND_NONBLOCK) != sizeof all->seed)
        all->seed = (uint64_t)(uintptr_t)all * 0x9e3779b97f4a7c15;
    return all;
}

void wh_addresses_free(struct wh_addresses *all)
{
    wh_free(all);
}

/* The IPv4 address, or the network part of the IPv6 address. An IPv4 address in IPv6's form counts as IPv4. */
static bool key_of(const struct sockaddr *from, socklen_t size, uint64_t *key, bool *is_six)
{
    *key = 0;
    if (from->sa_family == AF_INET && size >= sizeof(struct sockaddr_in)) {
        *is_six = false;
        memcpy(key, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return true;
    }
    if (from->sa_family != AF_INET6 || size < sizeof(struct sockaddr_in6))
        return false;
    const struct in6_addr *a = &((const struct sockaddr_in6 *)from)->sin6_addr;
    *is_six = !IN6_IS_ADDR_V4MAPPED(a);
    memcpy(key, *is_six ? a->s6_addr : a->s6_addr + 12, *is_six ? 8 : 4);
    return true;
}

static struct wh_address **list_of(struct wh_addresses *all, uint64_t key, bool is_six)
{
    uint64_t n = (key ^ all->seed ^ (is_six ? 0x5bd1e995u : 0)) * 0x9e3779b97f4a7c15;
    return &all->lists[(n ^ n >> 32) * 0xd6e8feb86659fd93 >> 54];
}

static int enter(struct wh_addresses *all, uint64_t key, bool is_six, unsigned most, struct wh_address **out)
{
    struct wh_address **list = list_of(all, key, is_six), *a = *list;
    while (a && (a->key != key || a->is_six != is_six))
        a = a->next;
    if (a && a->count >= most)
        return -EBUSY;
    if (!a) {
        a = wh_alloc(sizeof *a);
        if (!a)
            return -ENOMEM;
        *a = (struct wh_address){.next = *list, .key = key, .is_six = is_six};
        *list = a;
    }
    a->count++;
    *out = a;
    return 0;
}

int wh_address_enter(struct wh_addresses *all, const struct sockaddr *from, socklen_t size, unsigned most,
                     struct wh_address **out)
{
    uint64_t key;
    bool is_six;
    *out = NULL;
    if (!key_of(from, size, &key, &is_six))
        return 0;
    wh_lock(&all->lock);
    int rc = enter(all, key, is_six, most, out);
    weft_mutex_unlock(&all->lock);
    return rc;
}

void wh_address_leave(struct wh_addresses *all, struct wh_address *a)
{
    wh_lock(&all->lock);
    if (--a->count == 0) {
        struct wh_address **at = list_of(all, a->key, a->is_six);
        while (*at != a)
            at = &(*at)->next;
        *at = a->next;
        wh_free(a);
    }
    weft_mutex_unlock(&all->lock);
}
