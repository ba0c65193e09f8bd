/*
 * hook/process.c: the names that wait for children. One child that ends can be waited for by a descriptor; for any of
 * several, and for one that stops, a helper waits, and takes nothing: the caller takes what there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/offload.h>

#include "hook/away.h"
#include "hook/interrupt.h"
#include "hook/real.h"
#include "hook/wait.h"

struct watching {
    struct wf_away away;
    idtype_t type;
    id_t id;
    int flags;
};

static void watch(struct wf_away *call)
{
    struct watching *w = (struct watching *)call;
    siginfo_t info;
    while (wf_real.waitid(w->type, w->id, &info, w->flags | WNOWAIT) != 0 && errno == EINTR)
        ;
    errno = 0;
}

/* Waits until one of them may have something to tell: false, and errno says why not. */
static bool wait_for_any(idtype_t type, id_t id, int flags)
{
    struct watching *w = malloc(sizeof *w);
    if (!w)
        return false;
    *w = (struct watching){.away.make = watch, .type = type, .id = id, .flags = flags};
    if (!wf_away(&w->away, WEFT_OFFLOAD_CALL))
        return false;
    free(w);
    return true;
}

#define LONGEST_PAUSE (100 * WEFT_MS)

/*
 * The same, if a signal may interrupt it: a helper cannot be called back from waitid(2), and would be one more for each
 * signal. So the caller looks again, after a while.
 */
static bool wait_a_while(struct wf_section *s, weft_span *pause)
{
    enum { LONGEST_MS = 10 };
    *pause = *pause == 0 ? WEFT_MS / 4 : *pause < LONGEST_MS * WEFT_MS ? 2 * *pause : *pause;
    int rc = wf_sleep_until(s, WF_ENDS_RESTART, weft_in(*pause));
    if (rc < 0)
        errno = -rc;
    return rc == 0;
}

/* By either way. */
static bool wait_for_some(struct wf_section *s, idtype_t type, id_t id, int flags, weft_span *pause)
{
    return wf_is_interruptible() ? wait_a_while(s, pause) : wait_for_any(type, id, flags);
}

/*
 * Waits until it may have ended. Of one that is traced, or will be, the descriptor does not tell that it has stopped: *pause is
 * when to look again, later and later.
 */
static bool wait_for_end(struct wf_section *s, idtype_t type, id_t id, weft_span *pause)
{
    bool is_open = type == P_PIDFD;
    int fd = is_open ? (int)id : weft_own_take((int)syscall(SYS_pidfd_open, (pid_t)id, 0));
    if (fd < 0)
        return wait_for_some(s, type, id, WEXITED, pause);
    *pause = *pause == 0 ? WEFT_MS : *pause < LONGEST_PAUSE ? 2 * *pause : *pause;
    int rc = wf_wait_fd(s, fd, POLLIN, WF_ENDS_RESTART, weft_in(*pause));
    if (wf_cannot_be_told(rc))
        rc = wf_sleep_until(s, WF_ENDS_RESTART, weft_in(*pause));
    if (rc == -ETIMEDOUT)
        rc = 0;
    if (!is_open)
        weft_own_close(fd);
    if (rc < 0)
        errno = -rc;
    return rc >= 0;
}

HOOK pid_t wait4(pid_t pid, int *state, int flags, struct rusage *usage)
{
    if (likely(!wf_hooked_here()) || flags & WNOHANG || !wf_may_wait())
        return wf_real.wait4(pid, state, flags, usage);
    if (wf_cancelled())
        return -1;
    int kept = errno;
    weft_span pause = 0;
    struct wf_section s = {0};
    for (;;) {
        pid_t n = wf_real.wait4(pid, state, flags | WNOHANG, usage);
        if (n != 0)
            return n;
        int what = WEXITED | (flags & (WUNTRACED | WCONTINUED)) | (flags & (int)(__WALL | __WCLONE));
        bool there = pid > 0 && what == WEXITED ? wait_for_end(&s, P_PID, (id_t)pid, &pause)
                     : pid > 0                  ? wait_for_some(&s, P_PID, (id_t)pid, what, &pause)
                     : pid == -1                ? wait_for_some(&s, P_ALL, 0, what, &pause)
                                 : wait_for_some(&s, P_PGID, pid == 0 ? (id_t)getpgrp() : (id_t)-pid, what, &pause);
        if (!there)
            return -1;
        errno = kept;
    }
}

HOOK pid_t waitpid(pid_t pid, int *state, int flags)
{
    return wait4(pid, state, flags, NULL);
}

HOOK pid_t wait(int *state)
{
    return wait4(-1, state, 0, NULL);
}

HOOK pid_t wait3(int *state, int flags, struct rusage *usage)
{
    return wait4(-1, state, flags, usage);
}

static bool waits(int fd)
{
    int kept = errno, flags = fcntl(fd, F_GETFL);
    errno = kept;
    return flags >= 0 && !(flags & O_NONBLOCK);
}

HOOK int waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
    if (likely(!wf_hooked_here()) || flags & WNOHANG || (type == P_PIDFD && !waits((int)id)) || !wf_may_wait())
        return wf_real.waitid(type, id, info, flags);
    if (wf_cancelled())
        return -1;
    int kept = errno;
    weft_span pause = 0;
    struct wf_section s = {0};
    for (;;) {
        siginfo_t found = {0};
        int rc = wf_real.waitid(type, id, &found, flags | WNOHANG);
        if (rc != 0 || found.si_pid != 0) {
            if (info) /* also if it fails */
                *info = found;
            return rc;
        }
        bool ends = (flags & (WEXITED | WSTOPPED | WCONTINUED)) == WEXITED && (type == P_PID || type == P_PIDFD);
        if (!(ends ? wait_for_end(&s, type, id, &pause)
                   : wait_for_some(&s, type, id, flags & ~(WNOWAIT | (int)__WNOTHREAD), &pause)))
            return -1;
        errno = kept;
    }
}

/* ---- commands ---- */

struct command {
    struct wf_away away;
    int rc;
    FILE *stream;
    sigset_t mask; /* the caller's: the command begins with it */
    char text[];
};

/* A helper blocks all signals, and the command would inherit that. */
static void run(struct wf_away *call)
{
    struct command *c = (struct command *)call;
    sigset_t own;
    pthread_sigmask(SIG_SETMASK, &c->mask, &own);
    c->rc = wf_real.system(c->text);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
}

HOOK int system(const char *text)
{
    if (likely(!wf_hooked_here()) || !text || !wf_may_wait())
        return wf_real.system(text);
    size_t bytes = strlen(text) + 1;
    struct command *c = malloc(sizeof *c + bytes);
    if (!c)
        return -1;
    c->away = (struct wf_away){.make = run};
    pthread_sigmask(SIG_SETMASK, NULL, &c->mask);
    memcpy(c->text, text, bytes);
    if (!wf_away(&c->away, WEFT_OFFLOAD_CALL))
        return -1;
    int rc = c->rc;
    free(c);
    return rc;
}

static void end(struct wf_away *call)
{
    struct command *c = (struct command *)call;
    c->rc = wf_real.pclose(c->stream);
}

HOOK int pclose(FILE *stream)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.pclose(stream);
    struct command *c = malloc(sizeof *c);
    if (!c)
        return wf_real.pclose(stream);
    *c = (struct command){.away.make = end, .stream = stream};
    if (!wf_away(&c->away, WEFT_OFFLOAD_CALL))
        return -1;
    int rc = c->rc;
    free(c);
    return rc;
}
