/*
 * first-answer.c: asks three servers and takes the first answer. The scope's policy is weft_until_success: the first
 * child that succeeds cancels the others, and they close their sockets. So the slow servers see that the client left.
 *
 * Prints: server 1: the client left. server 2: the first answer. server 3: the client left.
 */
#include <stdio.h>

#include <weft/weft.h>

static weft_barrier connected; /* the delays begin when every server has its client: so each run prints the same */
static struct server {
    int listener, left; /* left: the client has closed the connection before the answer */
    weft_span delay;
    char answer[17]; /* what the client has read */
} servers[] = {{.delay = 30 * WEFT_SEC}, {.delay = 10 * WEFT_MS}, {.delay = 20 * WEFT_SEC}};

static int serve(void *arg)
{
    struct server *server = arg;
    int fd = weft_accept(server->listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
    weft_barrier_wait(&connected, WEFT_FOREVER);
    server->left = weft_wait_fd(fd, POLLIN, weft_in(server->delay)) > 0; /* -ETIMEDOUT: now the server answers */
    weft_write_all(fd, "the first answer", server->left ? 0 : 16, NULL, WEFT_FOREVER);
    return weft_close(fd);
}

static int ask(void *arg)
{
    struct server *server = arg;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", weft_port(server->listener));
    int fd = weft_dial(address, WEFT_FOREVER);
    ptrdiff_t n = fd < 0 ? fd : weft_read_full(fd, server->answer, 16, NULL, WEFT_FOREVER);
    weft_close(fd); /* a cancelled child comes here too: its read has returned -ECANCELED */
    return n == 16 ? 0 : n < 0 ? (int)n : -EPIPE;
}

static void *first(void *arg)
{
    WEFT_SCOPE (serving, NULL) {
        WEFT_SCOPE (asking, &(weft_scope_opts){.policy = &weft_until_success}) {
            for (int i = 0; i < 3; i++) {
                servers[i].listener = weft_listen("127.0.0.1:0");
                weft_scope_go(&serving, serve, &servers[i]);
                weft_scope_go(&asking, ask, &servers[i]);
            }
            weft_scope_wait(&asking);
        }
        weft_scope_wait(&serving);
    }
    for (int i = 0; i < 3; i++)
        printf("server %d: %s.\n", i + 1, servers[i].left ? "the client left" : servers[i].answer);
    return arg;
}

int main(void)
{
    return weft_barrier_init(&connected, 3) < 0 || weft_run(first, NULL, NULL, NULL) < 0;
}
