/*
 * unit/http/served.c: see served.h.
 */
#include "unit/http/served.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "support/test.h"

enum { PATIENCE = 60 }; /* seconds; only a test that fails waits for so long */

int count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int count = -1; /* the folder's own */
    for (struct dirent *e; d && (e = readdir(d));)
        count += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

int says_hello(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

int echoes(weft_exchange *x, void *arg)
{
    const char *body;
    size_t size;
    (void)arg;
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, "text/plain", body, size);
}

void served_make(struct served *s, const weft_http_opts *opts, const struct served_route *routes)
{
    *s = (struct served){.descriptors = count_descriptors()};
    CHECK_INT(weft_http_new(&s->h, opts), ==, 0);
    for (; routes && routes->pattern; routes++)
        CHECK_INT(weft_http_route(s->h, routes->pattern, routes->fn, routes->arg), ==, 0);
}

static void *serves(void *arg)
{
    struct served *s = arg;
    return (void *)(intptr_t)weft_http_serve(s->h, s->listener, WEFT_FOREVER);
}

void served_start_with(struct served *s, const char *address, const weft_sched_opts *opts)
{
    s->listener = weft_listen(address ? address : "127.0.0.1:0");
    s->port = weft_port(s->listener);
    CHECK_INT(s->listener, >=, 0);
    CHECK_INT(weft_sched_new(&s->sched, opts), ==, 0);
    CHECK_INT(weft_sched_start(s->sched), ==, 0);
    CHECK_INT(weft_sched_go(s->sched, &s->server, NULL, serves, s), ==, 0);
}

void served_start(struct served *s, unsigned workers)
{
    served_start_with(s, NULL, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = workers});
}

void served_begin(struct served *s, const weft_http_opts *opts, const struct served_route *routes)
{
    served_make(s, opts, routes);
    served_start(s, 1);
}

weft_http_figures served_figures(const struct served *s)
{
    weft_http_figures f = {.size = sizeof f};
    CHECK_INT(weft_http_stats(s->h, &f), ==, 0);
    return f;
}

void served_wait_connections(const struct served *s, unsigned count)
{
    weft_time end = weft_in(PATIENCE * WEFT_SEC);
    while (served_figures(s).connections != count && weft_now().ns < end.ns)
        usleep(1000);
    CHECK_INT(served_figures(s).connections, ==, count);
}

void served_wait_read(const struct served *s, uint64_t bytes)
{
    weft_time end = weft_in(PATIENCE * WEFT_SEC);
    for (unsigned looks = 0; served_figures(s).bytes_in < bytes && weft_now().ns < end.ns; looks++) {
        if (looks < 100)
            sched_yield();
        else
            usleep(100);
    }
    CHECK_INT(served_figures(s).bytes_in, >=, bytes);
}

void wait_for_flag(const int *flag, int value)
{
    weft_time end = weft_in(PATIENCE * WEFT_SEC);
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < value && weft_now().ns < end.ns)
        usleep(200);
    CHECK_INT(__atomic_load_n(flag, __ATOMIC_ACQUIRE), >=, value);
}

/* The scheduler's figures are taken one after another, so they are looked at until they say that all has ended. */
static void check_fibers(weft_sched *sched)
{
    weft_sched_figures f = {.size = sizeof f};
    weft_time end = weft_in(PATIENCE * WEFT_SEC);
    do
        CHECK_INT(weft_sched_stats(sched, &f), ==, 0);
    while (f.spawned != f.ended && weft_now().ns < end.ns);
    CHECK_INT(f.spawned, ==, f.ended);
}

static void end_scheduler(weft_sched *sched)
{
    CHECK_INT(weft_sched_stop(sched, weft_in(PATIENCE * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(sched), ==, 0);
}

void served_end(struct served *s)
{
    void *rc = NULL;
    CHECK_INT(weft_http_stop(s->h), ==, 0);
    CHECK_INT(weft_join(s->server, &rc, weft_in(PATIENCE * WEFT_SEC)), ==, 0);
    CHECK_INT((intptr_t)rc, ==, 0);
    CHECK_INT(served_figures(s).connections, ==, 0);
    CHECK_INT(served_figures(s).idle, ==, 0);
    CHECK_INT(served_figures(s).streams, ==, 0);
    check_fibers(s->sched);
    if (s->on)
        check_fibers(s->on);
    CHECK_INT(weft_close(s->listener), ==, 0);
    end_scheduler(s->sched);
    if (s->on)
        end_scheduler(s->on);
    CHECK_INT(weft_http_free(s->h), ==, 0);
    CHECK_INT(count_descriptors(), ==, s->descriptors);
}
