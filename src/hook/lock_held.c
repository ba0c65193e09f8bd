/*
 * hook/lock_held.c: where a fiber may not wait for a lock, and, without WEFT_HOOK_LOCKS, where it waits with one.
 *
 * A fiber that holds a mutex and waits leaves it locked for all fibers of its worker: the next that locks it blocks the
 * thread that would have to unlock it. So its mutexes are counted, and it is told once for each place that waits. Where
 * there is no other fiber nothing is told, unless one is spawned during the wait and locks something.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "hook/lock.h"
#include "hook/wait.h"

/* ---- allocators ---- */

/* The code of an allocator that is not the C library's. It does not expect another flow of its thread in the middle. */
static uintptr_t allocator_begin, allocator_end; /* const after the constructor */

static int find_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t at = (uintptr_t)arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || at < begin || at >= end)
            continue;
        if (info->dlpi_name[0] != '\0') { /* of the program itself it is not known which part that is */
            allocator_begin = begin;
            allocator_end = end;
        }
        return 1;
    }
    return 0;
}

static void find_allocator(void)
{
    Dl_info allocator, libc;
    const void *at = dlsym(RTLD_DEFAULT, "malloc");
    if (!at || !dladdr(at, &allocator) || !dladdr((const void *)wf_real.pthread_mutex_lock, &libc) ||
        allocator.dli_fbase == libc.dli_fbase || dlsym(RTLD_DEFAULT, "__asan_init"))
        return; /* a sanitizer's library calls us for everybody */
    dl_iterate_phdr(find_object, (void *)at);
}

bool wf_lock_may_wait(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    return weft_hooked() && wf_may_wait() && !(at >= allocator_begin && at < allocator_end);
}

/* ---- the mutexes of a fiber ---- */

enum { PLACES = 64 };

static uintptr_t told[PLACES]; /* atomic: the places that were told of; after that many it is enough */

/*
 * Where the wait began: the first frame that is in neither of the two libraries. If they are in the program (weft-hook.o)
 * its own frames cannot be told from theirs, and it is none: then the place is where the fiber was started. No lock is
 * taken: what the fiber waits for is locked, maybe, and the loader's may be held by one who wants that.
 */
struct place {
    const void *ours, *wefts;
    uintptr_t at;
};

static const void *object_of(uintptr_t at)
{
    struct dl_find_object found;
    return _dl_find_object((void *)at, &found) == 0 ? found.dlfo_map_start : NULL;
}

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *frame, void *arg)
{
    struct place *p = arg;
    uintptr_t at = _Unwind_GetIP(frame);
    if (at == 0)
        return _URC_END_OF_STACK;
    const void *object = object_of(at - 1);
    if (object == p->ours || object == p->wefts)
        return _URC_NO_REASON;
    p->at = at;
    return _URC_END_OF_STACK;
}

static weft_hook_wait_fn tell;

static uintptr_t find_place(void)
{
    struct place p = {object_of((uintptr_t)tell), object_of((uintptr_t)weft_hook_self), 0};
    _Unwind_Backtrace(look_at_frame, &p);
    return p.at;
}

/* True: nobody has told of it. */
static bool is_new(uintptr_t key)
{
    for (int i = 0; i < PLACES; i++) {
        uintptr_t there = 0;
        if (__atomic_compare_exchange_n(&told[i], &there, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
        if (there == key)
            return false;
    }
    return false;
}

/* As addr2line(1) takes it. */
static void describe(uintptr_t at, char *text, size_t room)
{
    struct dl_find_object found;
    if (at == 0 || _dl_find_object((void *)(at - 1), &found) != 0) {
        snprintf(text, room, "the program");
        return;
    }
    const struct link_map *map = found.dlfo_link_map;
    const char *name = map->l_name[0] ? map->l_name : program_invocation_name, *slash = strrchr(name, '/');
    snprintf(text, room, "%s+0x%llx", slash ? slash + 1 : name, (unsigned long long)(at - 1 - map->l_addr));
}

static void write_report(const weft_hook_wait *wait, uintptr_t at)
{
    char text[512], place[192];
    int kept = errno;
    if (is_new(at != 0 ? at : (uintptr_t)wait->site)) {
        describe(at, place, sizeof place);
        const char *quote = wait->name[0] ? "\"" : "";
        int n = snprintf(
            text, sizeof text,
            "weft-hook: fiber %llu%s%s%s%s, started at %s, waits at %s (%s) while it holds a pthread mutex: "
            "other fibers of its worker block on it, or are let in if it is recursive; set "
            "WEFT_HOOK_LOCKS=1, or unlock before\n",
            (unsigned long long)wait->id, wait->name[0] ? " " : "", quote, wait->name, quote, wait->site, place,
            wait->what);
        if (n >= (int)sizeof text)
            text[n = sizeof text - 1] = '\n';
        syscall(SYS_write, STDERR_FILENO, text, n);
    }
    errno = kept;
}

/*
 * The wait of a fiber that was alone: no other fiber could block on its mutex. It is kept until the fiber goes on, which
 * is when it locks or unlocks something: a fiber that another thread, or a timer, has spawned meanwhile may lock that mutex.
 */
static struct {
    uint32_t lock;       /* atomic: held for a few steps, or not at all: nobody waits for it */
    uint64_t fiber;      /* atomic; guarded by: the lock. Whose it is; 0: there is none */
    weft_hook_wait wait; /* guarded by: the lock. Its name is the copy below */
    char name[32];
    uintptr_t at;
} lone;

bool wf_held_alone;

static bool try_lock(void)
{
    return __atomic_exchange_n(&lone.lock, 1, __ATOMIC_ACQUIRE) == 0; /* pairs with unlock() */
}

static void unlock(void)
{
    __atomic_store_n(&wf_held_alone, lone.fiber != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lone.lock, 0, __ATOMIC_RELEASE); /* pairs with try_lock() */
}

static void keep(const weft_hook_wait *wait, uintptr_t at)
{
    if (!try_lock())
        return;
    lone.fiber = wait->id;
    lone.wait = *wait;
    lone.at = at;
    snprintf(lone.name, sizeof lone.name, "%s", wait->name);
    lone.wait.name = lone.name;
    unlock();
}

void wf_held_look(bool locks)
{
    if (!try_lock())
        return;
    uint64_t me = weft_hook_self();
    if (lone.fiber != 0 && lone.fiber != me && locks)
        write_report(&lone.wait, lone.at);
    if (lone.fiber == me || locks)
        lone.fiber = 0;
    unlock();
}

static void tell(const weft_hook_wait *wait)
{
    int kept = errno;
    uintptr_t at = find_place();
    if (wait->alone)
        keep(wait, at);
    else
        write_report(wait, at);
    errno = kept;
}

__attribute__((constructor(103))) static void set_up(void)
{
    if (wf_locks_on)
        find_allocator();
    if (wf_hooks_on)
        weft_hook_on_wait(wf_locks_on ? NULL : tell);
}
