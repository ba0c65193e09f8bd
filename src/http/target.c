/*
 * http/target.c: the forms of a target, and the check of a host. parse.c has already checked the bytes of the target.
 *
 * A host is a name, an IPv4 address or an IPv6 address in brackets. Percent-encoding in a host is refused, though RFC
 * 3986 allows it: no real name has it, and a host that is decoded later would not be the host that was checked.
 */
#include "http/target.h"

#include <arpa/inet.h>
#include <string.h>

#include "http/field.h"

enum { BAD = -400, MISDIRECTED = -421, PORT_DIGITS = 5 };

/* True for an IPv6 address, without its brackets. */
static bool is_ipv6(const char *text, size_t size)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (size >= sizeof copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = 0;
    return inet_pton(AF_INET6, copy, &address) == 1;
}

/* The end of the host at p; NULL: it is empty or malformed. */
static const char *host_end(const char *p, const char *end)
{
    if (p < end && *p == '[') {
        const char *close = memchr(p, ']', (size_t)(end - p));
        return close && is_ipv6(p + 1, (size_t)(close - p - 1)) ? close + 1 : NULL;
    }
    const char *stop = wh_skip(p, end, WH_HOST_BYTE);
    return stop > p ? stop : NULL;
}

bool wh_is_host(const char *p, const char *end, int *port)
{
    int number = -1;
    p = host_end(p, end);
    if (!p || (p < end && *p++ != ':') || end - p > PORT_DIGITS)
        return false;
    if (p < end)
        number = 0;
    for (; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (digit > 9)
            return false;
        number = number * 10 + (int)digit;
    }
    *port = number;
    return number <= 65535;
}

/* Absolute form: http, an authority without user information, and perhaps a path. */
static int split_absolute_form(struct wh_head *head, const char *bytes, const char *p, const char *path_end)
{
    const char *colon = wh_skip(p, path_end, WH_TOKEN);
    size_t scheme = (size_t)(colon - p);
    bool is_secure = WH_IS_WORD(p, scheme, "https");
    if (!is_secure && !WH_IS_WORD(p, scheme, "http"))
        return BAD;
    if (path_end - colon < 3 || memcmp(colon, "://", 3) != 0)
        return BAD;
    const char *host = colon + 3;
    const char *slash = memchr(host, '/', (size_t)(path_end - host));
    if (!slash)
        slash = path_end;
    int port;
    if (!wh_is_host(host, slash, &port))
        return BAD;
    if (is_secure)
        return MISDIRECTED;
    head->form = WH_ABSOLUTE_FORM;
    head->host = wh_slice_of(bytes, host, slash);
    head->path = wh_slice_of(bytes, slash, path_end);
    return 1;
}

int wh_split_other_form(struct wh_head *head, const char *bytes, const char *p, const char *path_end, const char *end)
{
    int port;
    if (head->method == WH_CONNECT) {
        if (path_end != end || !wh_is_host(p, end, &port) || port <= 0)
            return BAD;
        head->form = WH_AUTHORITY_FORM;
        head->host = wh_slice_of(bytes, p, end);
        head->path = wh_slice_of(bytes, end, end);
        return 1;
    }
    if (end - p == 1 && *p == '*') {
        head->form = WH_ASTERISK_FORM;
        head->path = wh_slice_of(bytes, p, end);
        return head->method == WH_OPTIONS ? 1 : BAD;
    }
    return split_absolute_form(head, bytes, p, path_end);
}
