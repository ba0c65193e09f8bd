/*
 * http/log_line.c: see log_line.h.
 */
#include "http/log_line.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "http/date.h"

enum {
    TAIL_MOST = sizeof "... HTTP/1.1\" -2147483648 18446744073709551615\n", /* the longest text behind the target */
    ESCAPE_MOST = 4,                                                        /* bytes that one byte may become */
};

static char *put(char *out, const char *text)
{
    return stpcpy(out, text);
}

static char *put_number(char *out, uint64_t number)
{
    char digits[20];
    size_t i = sizeof digits;
    do {
        digits[--i] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return mempcpy(out, digits + i, sizeof digits - i);
}

static char *put_ipv4(char *out, const unsigned char address[4])
{
    for (int i = 0; i < 4; i++) {
        if (i > 0)
            *out++ = '.';
        out = put_number(out, address[i]);
    }
    return out;
}

/* An IPv4 client of an IPv6 socket has a mapped address. It is written as an IPv4 address. */
static char *put_ipv6(char *out, const struct in6_addr *address)
{
    if (IN6_IS_ADDR_V4MAPPED(address))
        return put_ipv4(out, address->s6_addr + 12);
    char text[INET6_ADDRSTRLEN];
    return put(out, inet_ntop(AF_INET6, address, text, sizeof text) ? text : "-");
}

static char *put_peer(char *out, const struct sockaddr *peer, socklen_t size)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    sa_family_t family = AF_UNSPEC;
    if (peer && size >= sizeof family)
        memcpy(&family, peer, sizeof family);
    if (family == AF_INET && size >= sizeof in) {
        memcpy(&in, peer, sizeof in);
        return put_ipv4(out, (const unsigned char *)&in.sin_addr);
    }
    if (family == AF_INET6 && size >= sizeof in6) {
        memcpy(&in6, peer, sizeof in6);
        return put_ipv6(out, &in6.sin6_addr);
    }
    return put(out, family == AF_UNIX ? "unix:" : "-");
}

static char *put_escaped_byte(char *out, unsigned char c)
{
    *out++ = '\\';
    if (c == '"' || c == '\\') {
        *out++ = (char)c;
        return out;
    }
    *out++ = 'x';
    *out++ = "0123456789ABCDEF"[c >> 4];
    *out++ = "0123456789ABCDEF"[c & 15];
    return out;
}

/* Puts text from a client. False: only a part of it has fitted. */
static bool put_escaped(char **out, const char *limit, const char *text)
{
    char *at = *out;
    for (; *text != '\0' && limit - at >= ESCAPE_MOST; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            *at++ = (char)c;
        else
            at = put_escaped_byte(at, c);
    }
    *out = at;
    return *text == '\0';
}

/* Puts "GET /path?query", cut at `limit`. */
static char *put_target(char *out, const char *limit, const struct wh_log_line *line)
{
    bool fits = put_escaped(&out, limit, line->method) && put_escaped(&out, limit, " ") &&
                put_escaped(&out, limit, line->path) &&
                (!line->query || (put_escaped(&out, limit, "?") && put_escaped(&out, limit, line->query)));
    return fits ? out : put(out, "...");
}

size_t wh_log_format(char out[WH_LOG_LINE], const struct wh_log_line *line)
{
    char *at = put_peer(out, line->peer, line->peer_size);
    at = put(at, " - - [");
    wh_date_write_log(at, line->second);
    at = put(at + WH_LOG_DATE_SIZE, "] \"");
    if (line->method) {
        at = put_target(at, out + WH_LOG_LINE - TAIL_MOST, line);
        at = put(at, line->version == 10 ? " HTTP/1.0" : " HTTP/1.1");
    } else {
        *at++ = '-';
    }
    at = put(at, "\" ");
    at = put_number(at, (uint64_t)line->status);
    *at++ = ' ';
    if (line->bytes > 0)
        at = put_number(at, line->bytes);
    else
        *at++ = '-';
    *at++ = '\n';
    return (size_t)(at - out);
}
