/*
 * io/set.c: which kind of set a worker gets; see set.h.
 */
#include "io/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "base/thread.h"
#include "io/fd.h"
#include "sched/sched.h"

static uint32_t last_id; /* atomic */

static enum wf_backend wanted(int option)
{
    const char *named = option == WEFT_IO_AUTO ? getenv("WEFT_IO") : NULL;
    return option == WEFT_IO_URING || (named && strcmp(named, "uring") == 0) ? WF_URING : WF_EPOLL;
}

int wf_set_here(struct wf_set **out)
{
    struct wf_worker *w = wf_thread_now()->worker;
    if (wf_likely(w->driver.io != NULL)) {
        *out = (struct wf_set *)w->driver.io;
        return 0;
    }
    struct wf_set *made;
    int rc = wf_epoll_new(&made, w);
    if (rc != 0)
        return rc;
    made->id = wf_add(&last_id, 1) + 1;
    w->driver.io = &made->io;
    *out = made;
    return 0;
}

int wf_set_register(struct wf_set *set, struct wf_fd *e, int fd, uint32_t generation)
{
    (void)e;
    return wf_epoll_register(set, fd, generation);
}

int wf_set_arm(struct wf_set *set, struct wf_fd *e, int fd, uint32_t generation, uint32_t events)
{
    return wf_epoll_arm(set, fd, generation, events, wf_fd_is_at(e, set->id));
}

const char *weft_io_backend(void)
{
    const struct wf_thread *t = wf_thread_now();
    (void)t;
    (void)wanted;
    return "epoll";
}
