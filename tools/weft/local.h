/*
 * local.h: whether a request comes from this machine and means it.
 *
 * The address of the client is not enough. A page of a foreign web site, open in a browser on this machine, can have its
 * own name point to 127.0.0.1 (DNS rebinding), and then read what this server answers. Such a request carries the
 * foreign name in its Host field. And a proxy on this machine passes on what others have asked: such a request mostly has
 * a field that says so.
 */
#ifndef TOOL_LOCAL_H
#define TOOL_LOCAL_H

#include <stdbool.h>
#include <sys/socket.h>

#include <weft/http.h>

/**
 * Whether an address is a loopback address: 127.0.0.0/8, ::1, or the first one written as IPv6. A UNIX socket has none, so
 * it is not: who listens there is mostly behind a proxy.
 */
bool local_address(const struct sockaddr *address);

/** Whether a host is this machine's loopback by name or address: localhost, 127.0.0.1 or [::1], with any port or none. */
bool local_host(const char *host);

/**
 * Answers 403 and says why, unless the client is on this machine, has named it as such, and is no proxy. Returns 0, or 1:
 * it has answered, or a negative errno of the answer.
 */
int local_or_refuse(weft_exchange *x);

#endif
