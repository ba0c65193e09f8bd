/*
 * serve.c: see serve.h. The first fiber prepares and serves. Another fiber waits for signals, and ends the serving.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>

#include <weft/http.h>
#include <weft/weft.h>

#include "descriptors.h"
#include "place.h"
#include "say.h"
#include "status.h"

struct serving {
    const struct options *options;
    weft_http *http;
    struct status *status;
    int log;
    int listener;
    unsigned connections; /* the most at a time; 0: the server's default */
    sigset_t signals;
    bool failed;          /* waiting for signals has failed */
    atomic_bool stopping; /* a signal has come */
    bool done;            /* it has served, and has ended gracefully */
};

/* ---- what is served ---- */

static void explain_folder(const char *dir, int error)
{
    switch (error) {
    case ENOENT:
        say("there is no folder %s", dir);
        break;
    case ENOTDIR:
        say("%s is not a folder: weft serve takes the folder whose files it serves", dir);
        break;
    case EACCES:
    case EPERM:
        say("this user may not read the folder %s", dir);
        break;
    default:
        say("cannot serve the folder %s: %s", dir, strerror(error));
    }
}

/* Why a folder cannot be served; 0: it can. Without this check each request would fail later. */
static int folder_error(const char *dir)
{
    struct stat found;
    if (stat(dir, &found) != 0)
        return errno;
    if (!S_ISDIR(found.st_mode))
        return ENOTDIR;
    return faccessat(AT_FDCWD, dir, R_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static bool check_folder(const char *dir)
{
    int error = folder_error(dir);
    if (error)
        explain_folder(dir, error);
    return error == 0;
}

/* A copy of the standard output, if it can be written to; -1: errno says why not. */
static int own_output(void)
{
    int mode = fcntl(STDOUT_FILENO, F_GETFL);
    if (mode >= 0 && (mode & O_ACCMODE) != O_RDONLY)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    errno = EBADF;
    return -1;
}

static void explain_log(const char *name, int error)
{
    if (strcmp(name, "-") == 0)
        say("cannot write the log to the standard output: %s", error == EBADF ? "it is closed" : strerror(error));
    else if (error == EISDIR)
        say("cannot write the log %s: it is a folder, and --log takes a file", name);
    else if (error == ENOENT)
        say("cannot write the log %s: there is no such folder", name);
    else if (error == EACCES || error == EPERM)
        say("cannot write the log %s: this user may not write to it", name);
    else
        say("cannot write the log %s: %s", name, strerror(error));
}

static bool open_log(struct serving *s)
{
    const char *name = s->options->log;
    if (!name)
        return true;
    s->log = strcmp(name, "-") == 0 ? own_output() : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int rc = s->log < 0 ? -errno : weft_http_log(s->http, s->log);
    if (rc != 0)
        explain_log(name, -rc);
    return rc == 0;
}

static bool make_server(struct serving *s)
{
    const struct options *o = s->options;
    const weft_http_opts http = {
        .size = sizeof http, .grace = o->grace ? o->grace * WEFT_SEC : -1, .max_conns = s->connections};
    const weft_files_opts files = {.size = sizeof files, .list = o->list, .hidden = o->hidden};
    int rc = weft_http_new(&s->http, &http);
    if (rc != 0) {
        say("cannot make a server: %s", strerror(-rc));
        return false;
    }
    if (!open_log(s))
        return false;
    if (o->status && (rc = status_start(&s->status, s->http)) != 0) {
        say("cannot make the status page: %s", strerror(-rc));
        return false;
    }
    rc = weft_http_files(s->http, "/", o->dir, &files);
    if (rc != 0)
        explain_folder(o->dir, -rc);
    return rc == 0;
}

/* ---- the driver ---- */

/* The library falls back to epoll, but --io uring must not. So this function asks the kernel first. */
static bool may_have_driver(const struct options *o)
{
    struct io_uring_params params = {0};
    if (o->io != WEFT_IO_URING)
        return true;
    int ring = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring >= 0)
        return close(ring) == 0;
    say("--io uring: %s (%s)\nTry: --io epoll",
        errno == ENOSYS ? "this kernel has no io_uring" : "the system does not let this process have io_uring",
        strerror(errno));
    return false;
}

/* Whether the scheduler uses io_uring, if --io asks for it. The library may need more of io_uring than the kernel has,
 * or be built without it. */
static bool has_driver(const struct serving *s)
{
    if (s->options->io != WEFT_IO_URING || strcmp(weft_io_backend(), "io_uring") == 0)
        return true;
    say("--io uring: this program cannot use the io_uring of this system\nTry: --io epoll");
    return false;
}

/* ---- serving ---- */

static bool has_index(const char *dir)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/index.html", dir);
    return length >= (int)sizeof path || access(path, F_OK) == 0;
}

static void print_start(const struct serving *s)
{
    const struct options *o = s->options;
    weft_sched_figures sched = {.size = sizeof sched};
    char url[600];
    place_url(o->addr, (unsigned)weft_port(s->listener), url, sizeof url);
    weft_sched_stats(weft_sched_current(), &sched);
    printf("weft: serving %s at %s with %zu worker%s on %s", o->dir, url, sched.workers, sched.workers == 1 ? "" : "s",
           weft_io_backend());
    if (place_is_open(o->addr))
        printf("; open to all networks");
    if (o->status)
        printf("; status at %s_weft", url);
    putchar('\n');
    fflush(stdout);
    if (!o->list && !has_index(o->dir))
        say("%s has no index.html, so the address above answers 404\nTry: --list, which lists folders", o->dir);
}

/* weft_http_stop leaves the listener open. Once it is closed, the kernel refuses clients that come meanwhile. */
static void close_listener(struct serving *s)
{
    if (s->listener >= 0)
        weft_close(s->listener);
    s->listener = -1;
}

/* Waits for a signal. False: serving has ended. If the wait fails, no signal could end the server, so this call
 * does. */
static bool wait_signal(struct serving *s)
{
    int rc = weft_wait_signal(&s->signals, NULL, WEFT_FOREVER);
    if (rc < 0 && rc != -ECANCELED) {
        say("cannot wait for signals: %s", strerror(-rc));
        s->failed = true;
        weft_http_stop(s->http);
    }
    return rc >= 0;
}

/* The first signal ends gracefully, the second one at once. */
static void *obey(void *arg)
{
    struct serving *s = arg;
    if (!wait_signal(s))
        return NULL;
    atomic_store(&s->stopping, true);
    weft_http_stop(s->http);
    close_listener(s);
    if (!wait_signal(s))
        return NULL;
    say("ended before all requests were answered");
    _exit(1);
}

static void serve_until_signal(struct serving *s)
{
    weft_fiber *obeying;
    int listener = s->listener; /* obey may change the field */
    print_start(s);
    int rc = weft_go_with(&obeying, NULL, obey, s);
    if (rc == 0) {
        rc = weft_http_serve(s->http, listener, WEFT_FOREVER);
        weft_cancel(obeying);
        weft_join(obeying, NULL, WEFT_FOREVER);
    }
    if (atomic_load(&s->stopping))
        rc = 0; /* the signal may have come before weft_http_serve, which then fails */
    s->done = rc == 0 && !s->failed;
    if (rc != 0)
        say("cannot serve: %s", strerror(-rc));
}

static void *first(void *arg)
{
    struct serving *s = arg;
    if (has_driver(s) && make_server(s) && (s->listener = place_listen(s->options->addr, s->options->port)) >= 0) {
        serve_until_signal(s);
        close_listener(s);
    }
    status_end(s->status);
    weft_http_free(s->http);
    if (s->log >= 0)
        close(s->log);
    return NULL;
}

int serve(const struct options *options)
{
    struct serving s = {.options = options, .log = -1, .listener = -1};
    const weft_sched_opts sched = {.size = sizeof sched, .threads = options->workers, .io = options->io};
    if (!check_folder(options->dir) || !may_have_driver(options) ||
        !descriptors_prepare(options->workers, &s.connections))
        return 1;
    signal(SIGPIPE, SIG_IGN); /* the log may be a pipe whose reader has ended */
    sigemptyset(&s.signals);
    sigaddset(&s.signals, SIGINT);
    sigaddset(&s.signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &s.signals, NULL); /* before there are other threads: they inherit it */
    int rc = weft_run(first, &s, NULL, &sched);
    if (rc != 0)
        say("cannot start %s: %s", options->workers ? "so many workers" : "workers", strerror(-rc));
    return s.done && rc == 0 ? 0 : 1;
}
