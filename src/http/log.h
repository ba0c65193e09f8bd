/*
 * http/log.h: the access log: collects lines, and has a fiber write them.
 *
 * Adding a line never waits: it copies the line to a buffer under a short lock. While lines are there, the writer writes
 * them once a second, or as soon as a part of the buffer is full. It writes one buffer while lines go to the other. If
 * both are full, lines are dropped and counted; so are lines that the file did not take. A line of the log says how many
 * were dropped.
 */
#ifndef WH_HTTP_LOG_H
#define WH_HTTP_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/http.h>

struct wh_log;

enum { WH_LOG_BUFFER = 256 * 1024 }; /* bytes of lines that wait, at most; as many are being written */

/* 0, or -ENOMEM. */
int wh_log_new(struct wh_log **out, int fd);
/* Writes what is left (for some seconds at most, if the file does not take it), and frees the log. No writer runs. NULL does nothing. */
void wh_log_free(struct wh_log *log);

/*
 * Starts the writer, as a fiber of the caller's scheduler: 0, or a negative errno. Each start that returned 0 needs its
 * stop; the first starts, and the last stops. A stop returns when the writer has written what was there and has ended,
 * also in a fiber that was cancelled. In a fiber only.
 */
int wh_log_start(struct wh_log *log);
void wh_log_stop(struct wh_log *log);

/* Adds lines that end with '\n', of at most WH_LOG_BUFFER bytes. Any thread. */
void wh_log_add(struct wh_log *log, const char *text, size_t size);

/* Adds the line of a request that was parsed. In the fiber of its exchange. */
void wh_log_request(struct wh_log *log, weft_exchange *x, int status, uint64_t bytes);

/* Adds the line of a request that was malformed. */
void wh_log_refused(struct wh_log *log, const struct sockaddr *peer, socklen_t size, int status, uint64_t bytes);

#endif
