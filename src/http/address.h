/*
 * http/address.h: how many connections each address has. An IPv6 client usually has a /64 to itself, so that counts as
 * one address. UNIX sockets have none.
 */
#ifndef WH_HTTP_ADDRESS_H
#define WH_HTTP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct wh_addresses;
struct wh_address;

/* NULL: no memory. */
struct wh_addresses *wh_addresses_new(void);
void wh_addresses_free(struct wh_addresses *all);

/*
 * Counts a connection from this address. *out: what wh_address_leave takes, NULL for a UNIX socket. Returns 0, -EBUSY it has
 * `most` already, or -ENOMEM.
 */
int wh_address_enter(struct wh_addresses *all, const struct sockaddr *from, socklen_t size, unsigned most,
                     struct wh_address **out);
void wh_address_leave(struct wh_addresses *all, struct wh_address *a);

#endif
