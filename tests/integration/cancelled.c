/*
 * A server's handler that is cancelled at its nth cancellation point, for n = 1 until a run ends uncancelled. Whatever
 * the point is, nothing is lost: no descriptor and no fiber is left, no lock is held, and the client has received
 * exactly the bytes that the handler says it has sent.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <weft/weft.h>

#include "sched/seam.h"
#include "unit/sched/ground.h"

enum { REQUEST = 16, BODY = 1 << 20, FILE_BYTES = 100000, LONG_S = AWAIT_SECONDS };
enum { MOST_KEPT = 8 }; /* descriptors that the library keeps for one worker */

/* The byte of the answer at this place. */
static unsigned char byte_at(size_t place)
{
    return (unsigned char)(place * 7 + place / 251);
}

/* ---- the client: a plain thread with blocking sockets, so that nothing of it is under test ---- */

struct client {
    struct sockaddr_in at;
    size_t got;
    int wrong;
    int over; /* flag */
};

static void *asks(void *arg)
{
    struct client *c = arg;
    static const char request[REQUEST] = "please";
    static __thread unsigned char bytes[65536];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&c->at, sizeof c->at), ==, 0);
    CHECK_INT(send(fd, request, sizeof request, MSG_NOSIGNAL), ==, sizeof request);
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            c->wrong += bytes[i] != byte_at(c->got + (size_t)i);
        c->got += (size_t)n;
    }
    close(fd);
    put(&c->over, 1);
    return NULL;
}

/* ---- the handler ---- */

struct handler {
    int listener, fd;
    size_t sent;      /* bytes that its calls say they have sent */
    int cleaned;      /* how often the handlers of clean-up have run */
    weft_mutex mutex; /* held for a moment */
    weft_chan *log;
    unsigned char *body;
    int file; /* FILE_BYTES of the answer, after the body */
    int rc;
    bool cancelled;
};

static void closes(void *arg)
{
    struct handler *h = arg;
    weft_sleep(WEFT_US); /* clean-up may wait */
    h->cleaned++;
    weft_close(h->fd);
}

static int pipes_a_byte(void *arg)
{
    int ends[2];
    char byte = 'x';
    (void)arg;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -EMFILE;
    ptrdiff_t n = weft_write(ends[1], &byte, 1, WEFT_FOREVER);
    if (n == 1)
        n = weft_read(ends[0], &byte, 1, WEFT_FOREVER);
    weft_close(ends[0]);
    weft_close(ends[1]);
    return n < 0 ? (int)n : 0;
}

static int asks_others(void)
{
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "others", .deadline = weft_in(LONG_S * WEFT_SEC)}) {
        int rc = weft_scope_go(&s, pipes_a_byte, NULL);
        if (rc == 0)
            rc = weft_scope_go(&s, pipes_a_byte, NULL);
        return rc == 0 ? weft_scope_wait(&s) : rc;
    }
    return -EBADE;
}

static void *is_away(void *arg)
{
    return arg;
}

static int send_body(struct handler *h)
{
    size_t done = 0;
    ptrdiff_t n = weft_write_all(h->fd, h->body, BODY, &done, WEFT_FOREVER);
    h->sent += done;
    return n < 0 ? (int)n : 0;
}

static int send_file(struct handler *h)
{
    off_t offset = 0;
    while (offset < FILE_BYTES) {
        off_t before = offset;
        ptrdiff_t n = weft_sendfile(h->fd, h->file, &offset, (size_t)(FILE_BYTES - offset), WEFT_FOREVER);
        h->sent += (size_t)(offset - before);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
    }
    return 0;
}

/* Locks, logs, waits for others and a helper, and answers. 0, or the error of the first call that failed. */
static int answers(struct handler *h)
{
    char request[REQUEST];
    int value = 7, rc;
    ptrdiff_t n = weft_read_full(h->fd, request, sizeof request, NULL, WEFT_FOREVER);
    if (n < 0)
        return (int)n;
    if ((rc = weft_mutex_lock(&h->mutex, WEFT_FOREVER)) != 0)
        return rc;
    rc = weft_chan_send(h->log, &value, WEFT_FOREVER);
    weft_mutex_unlock(&h->mutex);
    if (rc == 0)
        rc = asks_others();
    if (rc == 0)
        rc = weft_offload(is_away, NULL, NULL, WEFT_FOREVER);
    if (rc == 0)
        rc = weft_sleep(WEFT_US);
    if (rc == 0)
        rc = send_body(h);
    return rc == 0 ? send_file(h) : rc;
}

static void *handles(void *arg)
{
    struct handler *h = arg;
    h->fd = weft_accept(h->listener, NULL, NULL, SOCK_CLOEXEC, WEFT_NOW);
    if (h->fd < 0) {
        AWAIT((h->fd = weft_accept(h->listener, NULL, NULL, SOCK_CLOEXEC, WEFT_NOW)) >= 0);
    }
    CHECK_INT(weft_defer(closes, h), ==, 0);
    CHECK_INT(wf_seam_cancel_at((unsigned)h->rc), ==, 0);
    h->rc = answers(h);
    h->cancelled = weft_cancelled();
    return NULL;
}

/* ---- the runs ---- */

/*
 * How many descriptors are open: the library's (an epoll set, an eventfd, a timerfd: workers make them when they first
 * need them, and keep them), and all others.
 */
struct open_fds {
    int library, program;
};

static struct open_fds count_open(void)
{
    static const char of_library[] = "anon_inode:";
    struct open_fds count = {0, 0};
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char target[sizeof of_library] = "";
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1) < 0)
            continue; /* "." and "..", and a descriptor that was closed meanwhile */
        if (strcmp(target, of_library) == 0)
            count.library++;
        else
            count.program++;
    }
    closedir(dir);
    return count;
}

static int64_t fibers_left(void)
{
    weft_sched_figures all = {.size = sizeof all};
    CHECK_INT(weft_sched_stats(weft_sched_current(), &all), ==, 0);
    return (int64_t)(all.spawned - all.ended);
}

static int make_listener(struct sockaddr_in *at)
{
    socklen_t size = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_INT(bind(fd, (struct sockaddr *)at, sizeof *at), ==, 0);
    CHECK_INT(listen(fd, 8), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &size), ==, 0);
    return fd;
}

static int make_file(void)
{
    unsigned char *bytes = malloc(FILE_BYTES);
    int fd = memfd_create("answer", MFD_CLOEXEC);
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = byte_at(BODY + i);
    CHECK_INT(pwrite(fd, bytes, FILE_BYTES, 0), ==, FILE_BYTES);
    free(bytes);
    return fd;
}

/* One connection whose handler is cancelled at point n. False: it ended uncancelled. */
static bool run_cancelled_at(struct handler *h, struct client *c, int n)
{
    int fds = count_open().program, value;
    int64_t fibers = fibers_left();
    h->sent = 0;
    h->cleaned = 0;
    h->rc = n;
    *c = (struct client){.at = c->at};
    pthread_t thread = new_thread(asks, c);
    ended(go(handles, h));
    AWAIT(seen(&c->over) == 1);
    pthread_join(thread, NULL);
    CHECK_INT(h->rc, ==, h->cancelled ? -ECANCELED : 0);
    CHECK_INT(h->cleaned, ==, 1);
    CHECK_INT(c->wrong, ==, 0);
    CHECK_INT(c->got, ==, h->sent);
    if (!h->cancelled)
        CHECK_INT(h->sent, ==, BODY + FILE_BYTES);
    CHECK_INT(weft_mutex_lock(&h->mutex, WEFT_NOW), ==, 0);
    CHECK_INT(weft_mutex_unlock(&h->mutex), ==, 0);
    while (weft_chan_recv(h->log, &value, WEFT_NOW) == 0)
        ;
    AWAIT(fibers_left() == fibers);
    AWAIT(count_open().program == fds);
    return h->cancelled;
}

static void *serves(void *arg)
{
    struct handler h = {.file = make_file(), .body = malloc(BODY)};
    struct client c;
    h.listener = make_listener(&c.at);
    CHECK_INT(weft_chan_new(&h.log, sizeof(int), 4), ==, 0);
    for (size_t i = 0; i < BODY; i++)
        h.body[i] = byte_at(i);
    CHECK(!run_cancelled_at(&h, &c, 0));
    int n = 1;
    while (run_cancelled_at(&h, &c, n) && !test_has_failed())
        n++;
    printf("%d cancellation points\n", n - 1);
    CHECK_INT(n - 1, >=, 8);
    CHECK_INT(count_open().library, <=, (int)(MOST_KEPT * *(unsigned *)arg));
    CHECK_INT(weft_chan_free(h.log), ==, 0);
    CHECK_INT(weft_close(h.listener), ==, 0);
    close(h.file);
    free(h.body);
    return arg;
}

TEST(a_handler_that_is_cancelled_anywhere_loses_nothing)
{
    for (unsigned workers = 1; workers <= 2; workers++)
        in_a_fiber(workers, serves, &workers);
}

TESTS(cancelled, a_handler_that_is_cancelled_anywhere_loses_nothing)
