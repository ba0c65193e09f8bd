/*
 * local.c: see local.h.
 */
#include "local.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

static bool local_v4(uint32_t address)
{
    return ntohl(address) >> 24 == 127;
}

static bool local_v6(const struct in6_addr *address)
{
    uint32_t last;
    memcpy(&last, address->s6_addr + 12, sizeof last);
    return IN6_IS_ADDR_LOOPBACK(address) || (IN6_IS_ADDR_V4MAPPED(address) && local_v4(last));
}

bool local_address(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return local_v4(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    if (address->sa_family == AF_INET6)
        return local_v6(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return false;
}

/* Nothing, or a colon and digits. */
static bool is_port(const char *text)
{
    return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

bool local_host(const char *host)
{
    char name[64];
    struct in_addr v4;
    struct in6_addr v6;
    bool has_brackets = host[0] == '[';
    size_t length = strcspn(host, has_brackets ? "]" : ":");
    if (length >= sizeof name || (has_brackets && host[length] != ']') || !is_port(host + length + has_brackets))
        return false;
    memcpy(name, host + has_brackets, length - has_brackets);
    name[length - has_brackets] = '\0';
    if (has_brackets)
        return inet_pton(AF_INET6, name, &v6) == 1 && local_v6(&v6);
    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, "localhost.") == 0 ||
           (inet_pton(AF_INET, name, &v4) == 1 && local_v4(v4.s_addr));
}

static const char foreign_client[] = "The status page answers programs on this machine only.\n";

static const char foreign_name[] =
    "The status page answers only to the names localhost, 127.0.0.1 and [::1]: this request has another Host, or "
    "none.\n"
    "Otherwise a web site whose name points to this machine could read this page.\n";

static const char proxied[] =
    "The status page answers programs on this machine only, and this request came through a proxy.\n";

static bool is_local_client(weft_exchange *x)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    return weft_http_peer(x, (struct sockaddr *)&peer, &size) == 0 && local_address((struct sockaddr *)&peer);
}

/* The host of a target in absolute form replaces the Host field. Both must be local. */
static bool has_local_names(weft_exchange *x)
{
    const char *field = weft_http_header(x, "Host");
    return local_host(weft_http_host(x)) && (!field || local_host(field));
}

static bool is_proxied(weft_exchange *x)
{
    static const char *const fields[] = {"Forwarded", "Via", "X-Forwarded-For", "X-Real-IP"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (weft_http_header(x, fields[i]))
            return true;
    }
    return false;
}

int local_or_refuse(weft_exchange *x)
{
    const char *why = NULL;
    if (!is_local_client(x))
        why = foreign_client;
    else if (!has_local_names(x))
        why = foreign_name;
    else if (is_proxied(x))
        why = proxied;
    if (!why)
        return 0;
    int rc = weft_http_reply(x, 403, "text/plain; charset=utf-8", why, strlen(why));
    return rc < 0 ? rc : 1;
}
