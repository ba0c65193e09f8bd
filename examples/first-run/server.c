/*
 * server.c: see server.h.
 */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

#include "../support/fail.h"
#include "reply.h"

enum { PORTS = 100, MOST_PORT = 65535, STATUS_ROOM = 256 * 1024 };

#define PATIENCE (10 * WEFT_SEC)
#define LATEST (2 * WEFT_SEC) /* the server takes new figures once a second */

/* Whether a program listens on this port of 127.0.0.1 now. */
static bool is_taken(unsigned port)
{
    struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        fail(errno, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool taken = (bind(fd, (struct sockaddr *)&place, sizeof place) != 0 || listen(fd, 1) != 0) && errno == EADDRINUSE;
    close(fd);
    return taken;
}

/* "weft: serving DIR at http://127.0.0.1:8080/ with 2 workers on epoll; status at ..." */
static void read_start(struct server *server, const char *line)
{
    const char *place = strstr(line, " at http://127.0.0.1:"), *driver = place ? strstr(place, " on ") : NULL;
    if (!place || !driver ||
        sscanf(place, " at http://127.0.0.1:%u/ with %u worker", &server->port, &server->workers) != 2 ||
        sscanf(driver, " on %15[a-z_]", server->backend) != 1)
        fail(0, "the server says: %s", line);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", server->port);
    snprintf(server->url, sizeof server->url, "http://%s/", server->address);
}

/* Returns false if another program has taken the port meanwhile. */
static bool start_at(struct server *server, const char *program, const char *folder, unsigned port)
{
    char digits[16], line[8192];
    const char *const words[] = {program, "serve", folder, "--status", "--addr", "127.0.0.1", "--port", digits, NULL};
    snprintf(digits, sizeof digits, "%u", port);
    child_start(&server->child, words, true);
    if (child_try_line(&server->child, line, sizeof line)) {
        read_start(server, line);
        return true;
    }
    if (port == 0 || !is_taken(port))
        fail(0, "the server does not start");
    child_forget(&server->child);
    return false;
}

void server_start(struct server *server, const char *program, const char *folder, unsigned port)
{
    server->status = -1;
    for (unsigned next = port; next < port + PORTS && next <= MOST_PORT; next++) {
        if ((next == 0 || !is_taken(next)) && start_at(server, program, folder, next)) {
            if (next != port)
                printf("Port %u is in use: this is port %u.\n", port, next);
            return;
        }
    }
    fail(0, "ports %u to %u are in use (--port N chooses others, --port 0 any free one)", port, port + PORTS - 1);
}

/* Asks for the figures on the open connection. Returns 0 or a negative errno. */
static int ask(struct server *server, struct reply *r)
{
    char request[128];
    int length = snprintf(request, sizeof request, "GET /_weft/status.json HTTP/1.1\r\nHost: %s\r\n\r\n",
                          server->address);
    ptrdiff_t rc = weft_write_all(server->status, request, (size_t)length, NULL, weft_in(PATIENCE));
    return rc < 0 ? (int)rc : reply_read(r, server->status, weft_in(PATIENCE));
}

/* Reads the latest figures. Returns false if there are none. */
static bool look(struct server *server, int64_t *time, unsigned *fibers)
{
    static char room[STATUS_ROOM];
    struct reply r = {.room = room, .size = sizeof room};
    if (server->status < 0)
        server->status = weft_dial(server->address, weft_in(PATIENCE));
    if (server->status < 0 || ask(server, &r) != 0 || r.status != 200)
        return false;
    const char *when = strstr(r.body, "\"time\":"), *alive = strstr(r.body, "\"fibers\":{\"alive\":");
    return when && alive && sscanf(when, "\"time\":%" SCNd64, time) == 1 &&
           sscanf(alive, "\"fibers\":{\"alive\":%u", fibers) == 1;
}

unsigned server_fibers(struct server *server)
{
    weft_time until = weft_in(LATEST);
    int64_t time = 0;
    unsigned fibers = 0;
    bool known = look(server, &time, &fibers);
    while (known && time == server->seen && weft_now().ns < until.ns) {
        weft_sleep(20 * WEFT_MS);
        known = look(server, &time, &fibers);
    }
    server->seen = time;
    return known ? fibers : 0;
}

void server_hang_up(struct server *server)
{
    if (server->status >= 0)
        weft_close(server->status);
    server->status = -1;
}
