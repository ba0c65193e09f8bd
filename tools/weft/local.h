/*
 * local.h: whether a request comes from a program on this machine that asks for this machine.
 *
 * The address of the client is not enough. A foreign web site that is open in a browser on this machine can let its own
 * name point to 127.0.0.1 (DNS rebinding), and then read the answers of this server. Such a request has the foreign
 * name in its Host field. And a proxy on this machine passes on requests of others: such a request mostly has a field
 * that says so.
 */
#ifndef TOOL_LOCAL_H
#define TOOL_LOCAL_H

#include <stdbool.h>
#include <sys/socket.h>

#include <weft/http.h>

/**
 * Whether an address is a loopback address: 127.0.0.0/8, the same in IPv6's form, or ::1. False for a UNIX socket,
 * because a server on a UNIX socket is mostly behind a proxy.
 */
bool local_address(const struct sockaddr *address);

/** Whether a host is this machine's loopback by name or address: localhost, 127.0.0.1 or [::1], with any port or none. */
bool local_host(const char *host);

/**
 * Answers 403, with the reason, unless the client is on this machine, names a loopback host, and is no proxy. Returns 0
 * if the request is local, 1 if it was refused, or a negative errno of the answer.
 */
int local_or_refuse(weft_exchange *x);

#endif
