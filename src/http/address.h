/*
 * http/address.h: counts the connections of each client address. An IPv6 client usually has a /64 to itself, so a /64
 * counts as one address. UNIX sockets have no address. Any fiber may enter and leave: a lock guards the table.
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
 * Counts a connection from this address. *out goes to wh_address_leave; it is NULL for a UNIX socket. Returns 0, -EBUSY
 * the address has `most` connections already, or -ENOMEM.
 */
int wh_address_enter(struct wh_addresses *all, const struct sockaddr *from, socklen_t size, unsigned most,
                     struct wh_address **out);
void wh_address_leave(struct wh_addresses *all, struct wh_address *a);

#endif
