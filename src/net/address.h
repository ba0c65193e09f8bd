/*
 * net/address.h: addresses as text.
 */
#ifndef WF_NET_ADDRESS_H
#define WF_NET_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/un.h>

#include <weft/time.h>

/* What an address says. */
struct wf_address {
    bool local; /* a UNIX socket: `un` is its address */
    struct sockaddr_un un;
    socklen_t un_size;
    char host[256]; /* "": none */
    char port[64];
};

/* 0, or -EINVAL it is no address. */
int wf_address_read(struct wf_address *out, const char *text);

/* The addresses of a host, for freeaddrinfo; 0 or a negative errno as weft/net.h says. In a fiber its worker goes on. */
int wf_resolve(struct addrinfo **out, const struct wf_address *a, bool passive, weft_time deadline);

#endif
