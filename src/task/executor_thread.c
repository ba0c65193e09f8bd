/*
 * task/executor_thread.c: the executor that makes a thread for each function, and the executor of tasks that name none.
 */
#include "base/errno.h"
#include "base/plain.h"
#include "base/sys.h"
#include "sched/slice.h"
#include "task/crew.h"
#include "task/executor.h"

/* References of the default executor. In a child, tasks from before the fork let go of it too, though it is new. */
enum { FOR_EVER = 1 << 30 };

static void *run(void *arg)
{
    struct wf_work *work = arg;
    struct wf_crew *crew = work->on->self; /* the work, and its executor, may be gone after its turn */
    uint32_t forks = wf_forks;             /* not the crew's: the default one is made anew in a child */
    pthread_setname_np(pthread_self(), "weft_thread");
    wf_crew_enter(crew);
    work->turn(work);
    wf_crew_check_fork(forks);
    wf_crew_leave(crew);
    return NULL;
}

static int execute(void *self, void (*fn)(void *), void *arg)
{
    struct wf_work *work = arg; /* the library's tables are given nothing else */
    work->turn = fn;
    wf_crew_reserve(self);
    int rc = wf_crew_start(self, run, work);
    if (rc != 0)
        wf_crew_unreserve(self); /* the work, which nobody has called, keeps the crew */
    return rc;
}

static void close_crew(void *self)
{
    wf_crew_close(self);
}

static int join_crew(void *self, weft_time deadline)
{
    return wf_crew_join(self, deadline);
}

static void free_crew(void *self)
{
    wf_crew_free(self);
}

static void release(struct wf_crew *crew)
{
    wf_sys_free(crew);
}

static const weft_executor_ops table = {.size = sizeof table,
                                        .name = "thread",
                                        .execute = execute,
                                        .close = close_crew,
                                        .join = join_crew,
                                        .free = free_crew};

int weft_executor_thread(weft_executor **out)
{
    wf_slice_here();
    if (!out)
        return -EINVAL;
    struct wf_crew *crew = wf_sys_malloc(sizeof *crew);
    if (!crew)
        return -ENOMEM;
    wf_crew_init(crew, release);
    return wf_executor_make(out, &table, crew, true);
}

weft_executor *wf_executor_default(void)
{
    static struct wf_crew crew = {.detached = true};
    static weft_executor x;
    static struct wf_plain_mutex making;
    wf_plain_lock(&making);
    if (!x.self || x.forks != wf_forks) { /* its threads were in the parent of a fork: none of its tasks is here */
        crew = (struct wf_crew){.detached = true, .forks = wf_forks};
        x = (weft_executor){.ops = table, .self = &crew, .has_threads = true, .refs = FOR_EVER, .forks = wf_forks};
    }
    wf_plain_unlock(&making);
    return &x;
}
