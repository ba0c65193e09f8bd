/*
 * tools.h: other load generators against the same server: wrk and ab, each as a child process on this process' CPU.
 *
 * If a tool counts an error, the bench fails. If a tool is not installed, it has no figure.
 */
#ifndef BENCH_HTTP_TOOLS_H
#define BENCH_HTTP_TOOLS_H

#include <stddef.h>

#include "../common/child.h"

struct tool_result {
    double rate;    /* requests per second, as the tool says */
    double us_each; /* the server's CPU time for a request */
};

/** `wrk -t1`, keep-alive, for this time or a second, whichever is longer. */
struct tool_result tool_wrk(const struct child *server, size_t connections, double ms);

/** `ab -k`: HTTP/1.0 with "Connection: keep-alive", for the same time. */
struct tool_result tool_ab(const struct child *server, size_t connections, double ms);

#endif
