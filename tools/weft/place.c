/*
 * place.c: see place.h.
 */
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/net.h>

#include "owner.h"
#include "say.h"

#define FIRST_FREE_PORT "/proc/sys/net/ipv4/ip_unprivileged_port_start"

/* "host:port"; an IPv6 address goes into brackets. */
static void join(const char *host, unsigned port, char *to, size_t size)
{
    bool needs_brackets = strchr(host, ':') && host[0] != '[';
    snprintf(to, size, "%s%s%s:%u", needs_brackets ? "[" : "", host, needs_brackets ? "]" : "", port);
}

static bool is_any_ipv4(const char *addr)
{
    return strcmp(addr, "0.0.0.0") == 0;
}

static bool is_any_ipv6(const char *addr)
{
    return strcmp(addr, "::") == 0 || strcmp(addr, "[::]") == 0;
}

bool place_is_open(const char *addr)
{
    return is_any_ipv4(addr) || is_any_ipv6(addr);
}

void place_url(const char *addr, unsigned port, char *to, size_t size)
{
    char place[512];
    if (is_any_ipv4(addr))
        addr = "127.0.0.1"; /* one of all addresses, which a browser can open */
    else if (is_any_ipv6(addr))
        addr = "::1";
    join(addr, port, place, sizeof place);
    snprintf(to, size, "http://%s/", place);
}

static void say_in_use(const char *addr, unsigned port)
{
    char owner[128];
    bool known = owner_of_port(addr, port, owner, sizeof owner);
    say("port %u of %s is in use%s%s\nTry: another --port, or --port 0 for any free one", port, addr,
        known ? " by " : "", known ? owner : "");
}

static unsigned first_free_port(void)
{
    unsigned port = 1024;
    FILE *f = fopen(FIRST_FREE_PORT, "re");
    if (f && fscanf(f, "%u", &port) != 1)
        port = 1024;
    if (f)
        fclose(f);
    return port;
}

static void explain(const char *addr, unsigned port, int error)
{
    switch (error) {
    case EADDRINUSE:
        say_in_use(addr, port);
        break;
    case EACCES:
        say("this user may not listen on port %u\nTry: --port 8080, or any other from %u on", port, first_free_port());
        break;
    case EADDRNOTAVAIL:
        say("this machine does not have the address %s\nTry: --addr 127.0.0.1 (this machine only), or 0.0.0.0 (all "
            "networks)",
            addr);
        break;
    case ENOENT:
    case EINVAL:
        say("there is no host \"%s\": --addr takes an address of this machine\nTry: --addr 127.0.0.1 (this machine "
            "only), or 0.0.0.0 (all networks)",
            addr);
        break;
    default:
        say("cannot listen on port %u of %s: %s", port, addr, strerror(error));
    }
}

int place_listen(const char *addr, unsigned port)
{
    char place[512];
    int length = (int)strlen(addr);
    if (length > 300 || strncmp(addr, "unix:", 5) == 0) {
        explain(addr, port, EINVAL);
        return -1;
    }
    join(addr, port, place, sizeof place);
    int fd = weft_listen(place);
    if (fd < 0)
        explain(addr, port, -fd);
    return fd < 0 ? -1 : fd;
}
