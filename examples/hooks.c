/*
 * hooks.c: code that knows nothing of this library. Three fibers of one worker sleep, send and receive by the C library's
 * calls, each of which blocks for 2 s. With the hooks, which this is linked with, only the fibers wait: 2 s in all. With
 * WEFT_HOOK=off in the environment each call holds up the other fibers, and they add up.
 *
 * Prints: 3 calls that block for 2 s each, in three fibers of one worker: 2.0 s in all
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

static int slow[2], quiet[2], done; /* pairs of sockets; calls that did what they should */

static void *read_slowly(void *arg) /* a plain thread: its calls are the system's, hooks or not */
{
    for (char some[5000]; read(slow[1], some, sizeof some) > 0;)
        usleep(80 * 1000);
    return arg;
}

static void *sends(void *arg)
{
    static const char bytes[100 * 1024];
    done += send(slow[0], bytes, sizeof bytes, 0) == sizeof bytes; /* returns when nearly all of it has been read */
    return arg;
}

static void *receives(void *arg)
{
    done += recv(quiet[0], (char[1]){0}, 1, 0) == -1 && errno == EAGAIN; /* nothing comes: SO_RCVTIMEO ends it */
    return arg;
}

static void *sleeps(void *arg)
{
    weft_go(sends, NULL);
    weft_go(receives, NULL);
    done += sleep(2) == 0;
    return arg;
}

int main(void)
{
    weft_time start = weft_now();
    pthread_t reader;
    int small = 4096; /* bytes on their way; send waits until there is room for the rest */
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, slow) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, quiet) != 0 ||
        setsockopt(slow[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) != 0 ||
        setsockopt(quiet[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 2}, sizeof(struct timeval)) != 0 ||
        pthread_create(&reader, NULL, read_slowly, NULL) != 0 ||
        weft_run(sleeps, NULL, NULL, &(weft_sched_opts){.threads = 1}) != 0)
        return 1;
    double took = (double)(weft_now().ns - start.ns) / WEFT_SEC;
    printf("%d calls that block for 2 s each, in three fibers of one worker: %.1f s in all\n", done, took);
    return done != 3;
}
