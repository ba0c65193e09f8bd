/*
 * combine/processes.c: fibers fork while other scenes run, wait for children, and wait for signals. The child of a fork
 * checks that its one fiber goes on, and ends by itself within seconds.
 */
#include "stress/combine/combine.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

/* ---- fork ---- */

static void *writes_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    return ptr(weft_write(fd, "x", 1, weft_in(5 * WEFT_SEC)));
}

/* What must work in the child; its exit status says what did not. */
static int live_in_child(void)
{
    weft_time before = weft_now();
    weft_fiber *f = NULL;
    void *value = NULL;
    char c = 0;
    int fds[2];
    weft_yield();
    if (weft_sleep(WEFT_MS) != 0 || weft_now().ns < before.ns + WEFT_MS)
        return 1;
    if (pipe(fds) != 0 || weft_go_with(&f, NULL, writes_one, ptr(fds[1])) != 0)
        return 2;
    if (weft_read(fds[0], &c, 1, weft_in(5 * WEFT_SEC)) != 1 || c != 'x')
        return 3;
    return weft_join(f, &value, weft_in(5 * WEFT_SEC)) == 0 && value == ptr(1) ? 0 : 4;
}

/* Waits with deadlines until the child has ended: its status as waitpid gives it. */
static int wait_for(struct scene *s, uint64_t *random, pid_t pid)
{
    int *status = malloc(sizeof *status), rc;
    for (;;) {
        weft_time deadline = some_deadline(random);
        rc = weft_wait_child(pid, status, deadline);
        did(s);
        if (rc == 0)
            break;
        if (!gave_up_rightly(s, rc, deadline)) {
            WRONG(s, "weft_wait_child: %d", rc);
            *status = 0;
            break;
        }
        if (rc == -EAGAIN)
            breathe();
    }
    rc = *status;
    free(status);
    return rc;
}

static void *forks(void *arg)
{
    struct scene *s = arg;
    uint64_t random = new_random(&s->random);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20); /* whatever hangs, it ends */
        _exit(live_in_child());
    }
    if (pid < 0) {
        WRONG(s, "fork: %s", strerror(errno));
        return NULL;
    }
    int status = wait_for(s, &random, pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        WRONG(s, "the child of a fork ended with status %x", (unsigned)status);
    return NULL;
}

void step_fork(struct scene *s)
{
    weft_fiber *f = NULL;
    if (COMBINE_ASAN || COMBINE_TSAN || !chance(&s->random, 4)) {
        breathe(); /* the locks of a sanitizer do not survive a fork beside other threads */
        return;
    }
    start(s, &f, &s->random, forks, s);
    ended(s, f);
}

/* ---- children ---- */

struct parent {
    struct scene *scene;
    uint64_t random;
    pid_t pid;
    int code; /* const: what the child exits with */
    int had;  /* flag, counted: who got it */
};

static void *waits_for_child(void *arg)
{
    struct parent *p = arg;
    struct scene *s = p->scene;
    int *status = malloc(sizeof *status);
    int rc = weft_wait_child(p->pid, status, WEFT_FOREVER);
    if (rc == 0) {
        EXPECT(s, WIFEXITED(*status) && WEXITSTATUS(*status) == p->code);
        EXPECT_INT(s, more(&p->had), ==, 1);
    } else {
        EXPECT_INT(s, rc, ==, -ECHILD);
    }
    did(s);
    free(status);
    return NULL;
}

static void raise_child(struct scene *s)
{
    struct parent *p = calloc(1, sizeof *p);
    weft_fiber *fibers[2];
    char command[32];
    char *argv[] = {(char *)"sh", (char *)"-c", command, NULL}, *env[] = {NULL};
    p->scene = s;
    p->code = (int)pick(&s->random, 100);
    snprintf(command, sizeof command, "exit %d", p->code);
    int rc = posix_spawn(&p->pid, "/bin/sh", NULL, NULL, argv, env);
    EXPECT_INT(s, rc, ==, 0);
    for (int i = 0; rc == 0 && i < 2; i++)
        start(s, &fibers[i], &s->random, waits_for_child, p);
    for (int i = 0; rc == 0 && i < 2; i++)
        ended(s, fibers[i]);
    EXPECT_INT(s, p->had, ==, 1);
    free(p);
}

/* ---- signals ---- */

struct listener {
    struct scene *scene;
    uint64_t random;
    int *sum, *count; /* of the values that came, and of the signals. atomic */
};

static void *waits_for_signal(void *arg)
{
    struct listener *l = arg;
    struct signalfd_siginfo *info = malloc(sizeof *info);
    sigset_t set;
    int rc;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    for (;;) {
        weft_time deadline = some_deadline(&l->random);
        rc = weft_wait_signal(&set, info, deadline);
        did(l->scene);
        if (rc >= 0)
            break;
        if (!gave_up_rightly(l->scene, rc, deadline)) {
            WRONG(l->scene, "weft_wait_signal: %d", rc);
            break;
        }
        if (rc == -EAGAIN)
            breathe();
    }
    EXPECT_INT(l->scene, rc, ==, SIGRTMIN + 1);
    __atomic_add_fetch(l->sum, info->ssi_int, __ATOMIC_ACQ_REL);
    more(l->count);
    free(info);
    return NULL;
}

static void send_signals(struct scene *s)
{
    enum { MOST = 6 };
    struct listener *listeners = calloc(MOST, sizeof *listeners);
    weft_fiber *fibers[MOST];
    int *sums = calloc(2, sizeof *sums), sent = 0;
    unsigned n = 1 + pick(&s->random, MOST);
    for (unsigned i = 0; i < n; i++) {
        listeners[i] = (struct listener){s, new_random(&s->random), &sums[0], &sums[1]};
        start(s, &fibers[i], &s->random, waits_for_signal, &listeners[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        union sigval value = {.sival_int = 1 + (int)pick(&s->random, 1000)};
        sent += value.sival_int;
        nap(s, &s->random, 300);
        EXPECT_INT(s, sigqueue(getpid(), SIGRTMIN + 1, value), ==, 0);
    }
    for (unsigned i = 0; i < n; i++)
        ended(s, fibers[i]);
    EXPECT_INT(s, sums[1], ==, n);
    EXPECT_INT(s, sums[0], ==, sent);
    free(sums);
    free(listeners);
}

void step_children(struct scene *s)
{
    if (chance(&s->random, 4))
        raise_child(s);
    send_signals(s);
}
