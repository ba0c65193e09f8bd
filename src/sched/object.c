/*
 * sched/object.c: see object.h.
 */
#include "sched/object.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/sync.h>

#include "base/atomic.h"
#include "base/own.h"
#include "base/sys.h"

/* For each object whose waits release its lock: the offsets of that lock, and of the word that names the owner. */
static const struct kind {
    const char *what;
    size_t lock_at, owner_at;
} kinds[] = {
    {"mutex", offsetof(weft_mutex, lock), offsetof(weft_mutex, owner)},
    {"rwlock (write)", offsetof(weft_rwlock, lock), offsetof(weft_rwlock, word)},
    {"rwlock (read)", offsetof(weft_rwlock, lock), offsetof(weft_rwlock, word)},
    {"once", offsetof(weft_once, lock), offsetof(weft_once, state)},
    {"semaphore", offsetof(weft_sem, lock), SIZE_MAX},
    {"event", offsetof(weft_event, lock), SIZE_MAX},
    {"waitgroup", offsetof(weft_waitgroup, lock), SIZE_MAX},
    {"barrier", offsetof(weft_barrier, lock), SIZE_MAX},
    {"channel send", WF_CHAN_LOCK_AT, SIZE_MAX},
    {"channel receive", WF_CHAN_LOCK_AT, SIZE_MAX},
};

void wf_window_open(struct wf_window *w)
{
    w->fd = wf_sys_eventfd();
}

void wf_window_close(struct wf_window *w)
{
    if (w->fd >= 0)
        wf_own_close(w->fd);
}

/*
 * Reads a word through an event descriptor, which adds up the words that are written to it. The kernel copies the word,
 * and the write fails if the memory is not there. These are bare system calls, because ThreadSanitizer would report the
 * read as a race.
 */
static bool see(const struct wf_window *w, const void *at, uint64_t *word)
{
    int kept = errno;
    *word = 0;
    bool seen = w->fd >= 0 && syscall(SYS_write, w->fd, at, sizeof *word) == (long)sizeof *word;
    if (seen && syscall(SYS_read, w->fd, word, sizeof *word) != (long)sizeof *word)
        *word = 0; /* nothing was added to the count */
    errno = kept;
    return seen;
}

static void find_holder(const struct wf_window *w, const struct kind *k, struct wf_object *o)
{
    uint64_t word;
    _Static_assert(sizeof(uintptr_t) == sizeof word, "a word of an owner is what the window shows");
    if (k->owner_at == SIZE_MAX || !see(w, (const char *)o->at + k->owner_at, &word) || (word & ~WF_OWNER_BITS) == 0)
        return;
    bool reads = k->lock_at == offsetof(weft_rwlock, lock) && strncmp(k->what, "rwlock", 6) == 0 &&
                 (word & WF_OWNER_READERS);
    o->holder = reads ? WF_HOLDER_READERS : WF_HOLDER_ONE;
    o->by = reads ? word / (WF_OWNER_BITS + 1) : word & ~(uint64_t)WF_OWNER_BITS;
}

struct wf_awaited wf_awaited_by(const weft_fiber *f)
{
    return (struct wf_awaited){wf_load(&f->what), wf_load(&f->commit.arg), wf_load(&f->sleeper.node.data)};
}

struct wf_object wf_object_of(const struct wf_window *w, const struct wf_awaited *a)
{
    struct wf_object o = {0};
    if (!a->what)
        return o;
    if (strcmp(a->what, "join") == 0)
        return (struct wf_object){.at = a->arg, .holder = WF_HOLDER_JOINED, .by = (uintptr_t)a->arg};
    if (strcmp(a->what, "condition") == 0)
        return (struct wf_object){.at = a->data};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].what, a->what) == 0) {
            o.at = (const char *)a->arg - kinds[i].lock_at;
            find_holder(w, &kinds[i], &o);
            break;
        }
    }
    return o;
}
