/*
 * chat.c: what one guest says, all hear, and all in the same order. A fiber for each reads lines; a lock lets one speak at a
 * time. A guest who does not listen is sent away, so that nobody waits for long.
 *
 *     chat [ADDRESS]    serves, by default at 127.0.0.1:7000; to talk: nc 127.0.0.1 7000
 */
#include <error.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static weft_mutex lock;     /* all zero is a valid one */
static bool is_guest[1024]; /* by descriptor; guarded by the lock */

static void say(int fd, bool stays, const char *text)
{
    weft_mutex_lock(&lock, WEFT_FOREVER);
    is_guest[fd] = stays;
    for (int i = 0; i < (int)sizeof is_guest; i++) {
        if (is_guest[i] && weft_write_all(i, text, strlen(text), NULL, weft_in(WEFT_SEC)) < 0)
            weft_shutdown(i, SHUT_RDWR); /* its own fiber reads the end, and leaves */
    }
    weft_mutex_unlock(&lock);
}

static void talk(int fd, void *arg)
{
    char text[1024] = "a guest comes\n";
    size_t used = 0;
    (void)arg;
    if (fd >= (int)sizeof is_guest)
        return;
    say(fd, true, text);
    for (ptrdiff_t n; (n = weft_read(fd, text + used, sizeof text - 1 - used, WEFT_FOREVER)) > 0;) {
        text[used += (size_t)n] = '\0';
        if (text[used - 1] == '\n' || used == sizeof text - 1) { /* whole lines, if they are not too long */
            say(fd, true, text);
            used = 0;
        }
    }
    say(fd, false, "a guest goes\n");
}

static void *serve(void *address)
{
    int rc = weft_listen(address);
    if (rc >= 0) {
        printf("serving at %s, port %d\n", (char *)address, weft_port(rc));
        rc = weft_serve(rc, talk, NULL, NULL, WEFT_FOREVER);
    }
    error(1, -rc, "cannot serve at %s", (char *)address);
    return NULL;
}

int main(int argc, char **argv)
{
    setlinebuf(stdout);
    return weft_run(serve, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
