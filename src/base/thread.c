/*
 * base/thread.c: the thread-local variable, the list of threads, ids; see thread.h.
 */
#include "base/thread.h"

#include <pthread.h>

#include "base/fork.h"
#include "base/plain.h"
#include "base/sys.h"

#define IDS_AT_ONCE 1024

__thread struct wf_thread wf_thread_self __attribute__((tls_model("initial-exec")));

static struct wf_plain_mutex list_lock;
static struct wf_thread *list; /* guarded by: list_lock */
static int64_t live_of_others; /* atomic: of threads that have ended, or are not on the list */
static uint64_t next_ids = 1;  /* atomic */

uint64_t wf_thread_first_id = 1;

static struct wf_plain_once once;
static pthread_key_t at_exit;
static bool at_exit_works;                   /* const after set_up: the process had a key left */
static void (*on_leave)(struct wf_thread *); /* atomic: every wf_thread_enter writes the same */

struct wf_thread *wf_thread_now(void)
{
    __asm__ volatile(""); /* keeps the compiler from calling this once for two uses */
    return &wf_thread_self;
}

/* The thread ends. Later destructors may still use its state, which is then on no list and keeps nothing. */
static void thread_ends(void *state)
{
    struct wf_thread *t = state;
    __atomic_load_n(&on_leave, __ATOMIC_RELAXED)(t);
    wf_sys_free(t->spare_task);
    wf_plain_lock(&list_lock);
    __atomic_add_fetch(&live_of_others, t->live, __ATOMIC_RELAXED);
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    wf_plain_unlock(&list_lock);
    *t = (struct wf_thread){.next_id = t->next_id, .last_id = t->last_id, .ended = true};
}

static void lock_list(void)
{
    wf_plain_lock(&list_lock);
}

static void unlock_list(void)
{
    wf_plain_unlock(&list_lock);
}

/* In the child of a fork only the calling thread exists; the others' coroutines are still counted, as they are there. */
static void keep_only_self(void)
{
    for (struct wf_thread *t = list; t; t = t->next) {
        if (t != &wf_thread_self)
            __atomic_add_fetch(&live_of_others, t->live, __ATOMIC_RELAXED);
    }
    list = NULL;
    if (wf_thread_self.listed) {
        wf_thread_self.next = NULL;
        wf_thread_self.link = &list;
        list = &wf_thread_self;
    }
    wf_thread_first_id = next_ids;
    wf_thread_self.next_id = wf_thread_self.last_id; /* the rest of what it took is of before */
    unlock_list();
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {lock_list, unlock_list, keep_only_self};
    at_exit_works = pthread_key_create(&at_exit, thread_ends) == 0;
    wf_fork_join(WF_FORK_THREADS, &steps);
}

void wf_thread_enter(struct wf_thread *t, void (*leave)(struct wf_thread *))
{
    if (t->entered)
        return;
    __atomic_store_n(&on_leave, leave, __ATOMIC_RELAXED);
    wf_plain_once(&once, set_up);
    t->entered = true;
    if (t->ended || !at_exit_works || pthread_setspecific(at_exit, t) != 0)
        return; /* nobody would take it off the list */
    lock_list();
    t->next = list;
    t->link = &list;
    if (list)
        list->link = &t->next;
    list = t;
    unlock_list();
    t->listed = true;
}

void wf_thread_count(struct wf_thread *t, int change)
{
    if (t->listed)
        wf_thread_count_listed(t, change);
    else
        __atomic_add_fetch(&live_of_others, change, __ATOMIC_RELAXED);
}

uint64_t wf_thread_more_ids(struct wf_thread *t)
{
    uint64_t first = __atomic_fetch_add(&next_ids, IDS_AT_ONCE, __ATOMIC_RELAXED);
    t->next_id = first + 1;
    t->last_id = first + IDS_AT_ONCE;
    return first;
}

int64_t wf_thread_live(void)
{
    lock_list();
    int64_t sum = __atomic_load_n(&live_of_others, __ATOMIC_RELAXED);
    for (struct wf_thread *t = list; t; t = t->next)
        sum += __atomic_load_n(&t->live, __ATOMIC_RELAXED);
    unlock_list();
    return sum;
}
