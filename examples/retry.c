/*
 * retry.c: connects to a server that refuses at first. After each failure the client waits about twice as long
 * (exponential back-off). A random part of the pause (jitter) keeps many clients from coming back at the same moment.
 * One scope has the deadline for all tries and pauses together.
 *
 * Prints: the late server: connected at try 4. The server that never comes: the deadline has passed
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

/* The kernel refuses connections to a bound socket until it listens. This server listens from try `up_at` on. */
struct server {
    int socket, up_at, tries;
};

static int try_once(struct server *server)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", weft_port(server->socket));
    if (++server->tries == server->up_at)
        listen(server->socket, 8);
    return weft_dial(address, WEFT_FOREVER); /* the deadline of the scope ends this call too */
}

/* Returns a connected descriptor, or -ETIMEDOUT. */
static int connect_within(weft_span limit, struct server *server)
{
    int rc = -1;
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "connect", .deadline = weft_in(limit)}) {
        for (weft_span pause = 10 * WEFT_MS; !weft_cancelled(); pause += pause < WEFT_SEC ? pause : 0) {
            if ((rc = try_once(server)) >= 0)
                return rc;
            weft_sleep(pause / 2 + random() % pause);
        }
        rc = weft_scope_wait(&s); /* inside its scope a deadline is a cancel; here it becomes -ETIMEDOUT */
    }
    return rc;
}

static void *first(void *arg)
{
    struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct server late = {socket(AF_INET, SOCK_STREAM, 0), 4, 0}, never = {socket(AF_INET, SOCK_STREAM, 0), 0, 0};
    if (bind(late.socket, (struct sockaddr *)&loopback, sizeof loopback) < 0 || /* to any free port */
        bind(never.socket, (struct sockaddr *)&loopback, sizeof loopback) < 0)
        return NULL;
    srandom((unsigned)weft_now().ns);
    if (connect_within(20 * WEFT_SEC, &late) >= 0)
        printf("the late server: connected at try %d. ", late.tries);
    printf("The server that never comes: %s\n", weft_strerror(connect_within(200 * WEFT_MS, &never)));
    return arg;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0;
}
