/*
 * http/log_line.h: a line of the access log, in the common format:
 *
 *      127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET /a?b HTTP/1.1" 200 2326
 *
 * No client can break a line: see wh_log_format, a pure function for any thread.
 */
#ifndef WH_HTTP_LOG_LINE_H
#define WH_HTTP_LOG_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { WH_LOG_LINE = 2048 }; /* the longest line */

struct wh_log_line {
    const struct sockaddr *peer; /* IPv4, IPv6 or UNIX; else the host is "-" */
    socklen_t peer_size;
    int64_t second;     /* of the date, since 1970 */
    const char *method; /* NULL: the request was malformed, and "-" is written */
    const char *path;
    const char *query; /* NULL: there is none */
    int version;       /* 10 or 11 */
    int status;
    uint64_t bytes; /* of body; "-" is written for 0 */
};

/*
 * Writes a line with its line end, without a zero byte. In method, path and query, a backslash is put before each quote
 * and backslash, and bytes that are not printable ASCII are written as \xHH. If the three are too long for the line,
 * the text is cut, and "..." follows. Returns the size.
 */
size_t wh_log_format(char out[WH_LOG_LINE], const struct wh_log_line *line);

#endif
