/*
 * task/executor_looper.c: the executor with one thread and a FIFO.
 *
 * The queue links the works themselves, so queueing a work needs no memory. The thread holds no lock while a function
 * runs.
 */
#include <stdio.h>

#include "base/errno.h"
#include "base/futex.h"
#include "base/sys.h"
#include "sched/slice.h"
#include "task/crew.h"
#include "task/executor.h"

struct looper {
    struct wf_crew crew;     /* first: wf_crew_free releases the looper through it */
    char name[16];           /* const */
    void (*at_exit)(void *); /* const */
    void *arg;               /* const */
    struct wf_lock lock;
    struct wf_work *first, **end; /* guarded by: lock */
    bool closed;                  /* guarded by: lock */
    uint32_t news;                /* atomic: a futex; changes, under the lock, with what is guarded by it */
};

/* Takes the next work out, and waits until there is a work. NULL: the loop is over. */
static struct wf_work *next(struct looper *l)
{
    for (;;) {
        wf_lock(&l->lock);
        struct wf_work *work = l->first;
        bool over = !work && l->closed;
        uint32_t news = wf_load(&l->news);
        if (work) {
            l->first = work->next_queued;
            if (!l->first)
                l->end = &l->first;
        }
        wf_unlock(&l->lock);
        if (work || over)
            return work;
        wf_futex_wait(&l->news, news, INT64_MAX);
    }
}

static void *loop(void *arg)
{
    struct looper *l = arg;
    pthread_setname_np(pthread_self(), l->name);
    wf_crew_enter(&l->crew);
    for (struct wf_work *work; (work = next(l)) != NULL;) {
        work->turn(work);
        wf_crew_check_fork(l->crew.forks);
    }
    if (l->at_exit)
        l->at_exit(l->arg);
    wf_crew_check_fork(l->crew.forks);
    wf_crew_leave(&l->crew);
    return NULL;
}

static int execute(void *self, void (*fn)(void *), void *arg)
{
    struct looper *l = self;
    struct wf_work *work = arg; /* the library's tables are given nothing else */
    work->turn = fn;
    work->next_queued = NULL;
    wf_lock(&l->lock);
    bool was_empty = !l->first;
    *l->end = work;
    l->end = &work->next_queued;
    wf_store(&l->news, wf_load(&l->news) + 1);
    wf_unlock(&l->lock);
    if (was_empty)
        wf_futex_wake(&l->news, 1); /* the looper may be gone by now; the wake does not touch its memory */
    return 0;
}

static void close_looper(void *self)
{
    struct looper *l = self;
    wf_crew_close(&l->crew); /* first: once `closed` is set the loop may end */
    wf_lock(&l->lock);
    l->closed = true;
    wf_store(&l->news, wf_load(&l->news) + 1);
    wf_unlock(&l->lock);
    wf_futex_wake(&l->news, 1);
}

static int join_looper(void *self, weft_time deadline)
{
    return wf_crew_join(&((struct looper *)self)->crew, deadline);
}

static void free_looper(void *self)
{
    wf_crew_free(&((struct looper *)self)->crew);
}

static void release(struct wf_crew *crew)
{
    wf_sys_free(crew);
}

int weft_executor_looper(weft_executor **out, const char *name, void (*at_exit)(void *), void *arg)
{
    static const weft_executor_ops ops = {.size = sizeof ops,
                                          .name = "looper",
                                          .flags = WEFT_EXECUTOR_SERIAL,
                                          .execute = execute,
                                          .close = close_looper,
                                          .join = join_looper,
                                          .free = free_looper};
    wf_slice_here();
    if (!out)
        return -EINVAL;
    struct looper *l = wf_sys_malloc(sizeof *l);
    if (!l)
        return -ENOMEM;
    *l = (struct looper){.at_exit = at_exit, .arg = arg};
    l->end = &l->first;
    snprintf(l->name, sizeof l->name, "%s", name ? name : "weft_looper");
    wf_crew_init(&l->crew, release);
    weft_executor *x;
    int rc = wf_executor_make(&x, &ops, l, true);
    if (rc != 0)
        return rc;
    wf_crew_reserve(&l->crew);
    rc = wf_crew_start(&l->crew, loop, l);
    if (rc != 0) {
        wf_crew_unreserve(&l->crew);
        wf_executor_abandon(x, &(struct wf_later){0}); /* it has no works */
        return rc;
    }
    *out = x;
    return 0;
}
