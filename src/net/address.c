/*
 * net/address.c: see address.h.
 */
#include "net/address.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"

#define UNIX "unix:"

static int read_local(struct wf_address *out, const char *path)
{
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof out->un.sun_path)
        return -EINVAL;
    out->local = true;
    out->un.sun_family = AF_UNIX;
    memcpy(out->un.sun_path, path, length);
    out->un_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (path[0] == '@')
        out->un.sun_path[0] = '\0'; /* a name, and no file */
    else
        out->un_size++;
    return 0;
}

static int copy(char *to, size_t room, const char *from, size_t length)
{
    if (length >= room)
        return -EINVAL;
    memcpy(to, from, length);
    to[length] = '\0';
    return 0;
}

/* A number that a port can have, or what may be a service's name: getaddrinfo would take more, and less of it. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (text[digits] == '\0')
        return digits <= 5 && atoi(text) <= 65535;
    return (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') || digits > 0;
}

int wf_address_read(struct wf_address *out, const char *text)
{
    *out = (struct wf_address){0};
    if (!text)
        return -EINVAL;
    if (strncmp(text, UNIX, strlen(UNIX)) == 0)
        return read_local(out, text + strlen(UNIX));
    const char *colon = strrchr(text, ':'), *host = text;
    if (!colon || colon[1] == '\0')
        return -EINVAL;
    size_t length = (size_t)(colon - text);
    if (text[0] == '[') { /* an IPv6 address has colons of its own */
        if (length < 2 || colon[-1] != ']')
            return -EINVAL;
        host++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return -EINVAL;
    }
    if (!is_port(colon + 1))
        return -EINVAL;
    return copy(out->host, sizeof out->host, host, length) != 0
               ? -EINVAL
               : copy(out->port, sizeof out->port, colon + 1, strlen(colon + 1));
}
