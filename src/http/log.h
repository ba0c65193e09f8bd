/*
 * http/log.h: the access log. Any thread adds lines; a fiber, the writer, writes them to the file.
 *
 * Adding a line never waits: it copies the line to a buffer under a short lock. The writer writes the lines once a
 * second, or as soon as a quarter of the buffer is full. It writes one buffer while new lines go to the other. Lines
 * that find no room, or that the file does not take, are dropped and counted. A line of the log says how many were
 * dropped.
 */
#ifndef WH_HTTP_LOG_H
#define WH_HTTP_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/http.h>

struct wh_log;

enum { WH_LOG_BUFFER = 256 * 1024 }; /* bytes of each of the two buffers */

/* 0, or -ENOMEM. */
int wh_log_new(struct wh_log **out, int fd);
/* Writes the lines that are left, for some seconds at most, and frees the log. No writer runs. NULL does nothing. */
void wh_log_free(struct wh_log *log);

/*
 * The first wh_log_start starts the writer, as a fiber of `sched`, which must outlive it. It returns 0, or a negative
 * errno. Each start that returned 0 needs a wh_log_stop. The last stop waits, also in a cancelled fiber, until the
 * writer has ended. The writer first writes the lines that are left, but gives up after some seconds if the file does
 * not take them. Call both functions in a fiber.
 */
int wh_log_start(struct wh_log *log, weft_sched *sched);
void wh_log_stop(struct wh_log *log);

/* Adds lines that end with '\n', of at most WH_LOG_BUFFER bytes. Any thread. */
void wh_log_add(struct wh_log *log, const char *text, size_t size);

/* Adds the line of a request that was parsed. In the fiber of its exchange. */
void wh_log_request(struct wh_log *log, weft_exchange *x, int status, uint64_t bytes);

/* Adds the line of a request that was malformed. */
void wh_log_refused(struct wh_log *log, const struct sockaddr *peer, socklen_t size, int status, uint64_t bytes);

#endif
