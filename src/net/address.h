/*
 * net/address.h: addresses as text.
 */
#ifndef WF_NET_ADDRESS_H
#define WF_NET_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/un.h>

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

#endif
