/*
 * http/refuse.h: clients above max_conns or max_per_address. They get a 503, or only a close (weft_http_opts.busy), and
 * never become a connection. Call these functions in the fiber that weft_serve has started for the client.
 */
#ifndef WH_HTTP_REFUSE_H
#define WH_HTTP_REFUSE_H

#include <weft/net.h>

struct wh_serving;

/* weft_serve_opts.refuse: refuses a client above max_conns. `arg` is a struct wh_serving. */
weft_serve_fn wh_refuse_connection;

/* Refuses a client above max_per_address. */
void wh_refuse_address(int fd, struct wh_serving *s);

#endif
