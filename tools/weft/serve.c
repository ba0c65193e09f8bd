/*
 * serve.c: see serve.h. The first fiber prepares and serves; another one waits for signals, and ends the serving.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/http.h>
#include <weft/weft.h>

#include "place.h"
#include "say.h"
#include "status.h"

struct serving {
    const struct options *options;
    weft_http *http;
    struct status *status;
    int log;
    int listener;
    sigset_t signals;
    bool done; /* it has served, and ended as it should */
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

/* True if the folder can be read. That could be found out later, but then each request would fail. */
static bool check_folder(const char *dir)
{
    struct stat found;
    int error = 0;
    if (stat(dir, &found) != 0)
        error = errno;
    else if (!S_ISDIR(found.st_mode))
        error = ENOTDIR;
    else if (faccessat(AT_FDCWD, dir, R_OK | X_OK, AT_EACCESS) != 0)
        error = errno;
    if (error)
        explain_folder(dir, error);
    return error == 0;
}

static bool open_log(struct serving *s)
{
    const char *name = s->options->log;
    if (!name)
        return true;
    s->log = strcmp(name, "-") == 0 ? dup(STDOUT_FILENO) : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int rc = s->log < 0 ? -errno : weft_http_log(s->http, s->log);
    if (rc != 0)
        say("cannot write the log %s: %s", name, strerror(-rc));
    return rc == 0;
}

static bool make_server(struct serving *s)
{
    const struct options *o = s->options;
    const weft_http_opts http = {.size = sizeof http, .grace = o->grace ? o->grace * WEFT_SEC : -1};
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

/* ---- serving ---- */

static void print_start(const struct serving *s)
{
    const struct options *o = s->options;
    weft_sched_figures sched = {.size = sizeof sched};
    char url[600];
    place_url(o->addr, (unsigned)weft_port(s->listener), url, sizeof url);
    weft_sched_stats(weft_sched_current(), &sched);
    printf("weft: serving %s at %s with %zu worker%s on %s", o->dir, url, sched.workers, sched.workers == 1 ? "" : "s",
           weft_io_backend());
    if (o->status)
        printf("; status at %s_weft", url);
    putchar('\n');
    fflush(stdout);
}

/* The first signal ends gracefully, the second one at once. */
static void *obey(void *arg)
{
    struct serving *s = arg;
    if (weft_wait_signal(&s->signals, NULL, WEFT_FOREVER) < 0)
        return NULL;
    weft_http_stop(s->http);
    if (weft_wait_signal(&s->signals, NULL, WEFT_FOREVER) < 0)
        return NULL;
    say("ended before all requests were answered");
    _exit(1);
}

static void serve_until_signal(struct serving *s)
{
    weft_fiber *obeying;
    int rc = weft_go_with(&obeying, NULL, obey, s);
    if (rc == 0) {
        print_start(s);
        rc = weft_http_serve(s->http, s->listener, WEFT_FOREVER);
        weft_cancel(obeying);
        weft_join(obeying, NULL, WEFT_FOREVER);
    }
    if (rc == 0)
        s->done = true;
    else
        say("cannot serve: %s", strerror(-rc));
}

static void *first(void *arg)
{
    struct serving *s = arg;
    if (make_server(s) && (s->listener = place_listen(s->options->addr, s->options->port)) >= 0) {
        serve_until_signal(s);
        weft_close(s->listener);
    }
    status_end(s->status);
    weft_http_free(s->http);
    if (s->log >= 0)
        close(s->log);
    return NULL;
}

/* Each connection takes a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int serve(const struct options *options)
{
    struct serving s = {.options = options, .log = -1, .listener = -1};
    const weft_sched_opts sched = {.size = sizeof sched, .threads = options->workers, .io = options->io};
    if (!check_folder(options->dir))
        return 1;
    raise_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a log may be a pipe that nobody reads any more */
    sigemptyset(&s.signals);
    sigaddset(&s.signals, SIGINT);
    sigaddset(&s.signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &s.signals, NULL); /* before there are other threads: they inherit it */
    int rc = weft_run(first, &s, NULL, &sched);
    if (rc != 0)
        say("cannot start %s: %s", options->workers ? "so many workers" : "workers", strerror(-rc));
    return s.done && rc == 0 ? 0 : 1;
}
