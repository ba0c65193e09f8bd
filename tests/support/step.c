/*
 * tests/support/step.c: see step.h.
 */
#include "support/step.h"

#ifdef __x86_64__

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that is stepped. */
struct child {
    pid_t pid;
    uint64_t vdso, vdso_end;
};

static bool is_prefix(uint8_t byte)
{
    static const uint8_t prefixes[] = {0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x66, 0x67};
    return memchr(prefixes, byte, sizeof prefixes) != NULL;
}

static bool is_locked(const uint8_t *code, const uint8_t *end)
{
    for (; code < end && is_prefix(*code); code++) {
        if (*code == 0xf0)
            return true;
    }
    if (code < end && (*code & 0xf0) == 0x40) /* REX */
        code++;
    if (end - code < 3)
        return false;
    bool exchanges = (code[0] == 0x86 || code[0] == 0x87) && code[1] >> 6 != 3;
    bool fences = code[0] == 0x0f && code[1] == 0xae && code[2] == 0xf0;
    return exchanges || fences;
}

/* What an instruction is: bits. */
enum { SEEN = 1, LOCKED = 2, CALLS_SYSTEM = 4, IN_VDSO = 8, MARK = 16 };

/* The code of the child does not change, and to look at it takes longer than a step: what is known, by address. */
static struct known {
    uint64_t at;
    uint8_t is;
} known[1 << 16];

static uint8_t look_at(const struct child *c, uint64_t at)
{
    union {
        long words[2];
        uint8_t bytes[2 * sizeof(long)];
    } code;
    for (size_t i = 0; i < 2; i++)
        code.words[i] = ptrace(PTRACE_PEEKTEXT, c->pid, (void *)(at + i * sizeof(long)), NULL);
    uint8_t is = SEEN;
    is |= is_locked(code.bytes, code.bytes + sizeof code.bytes) ? LOCKED : 0;
    is |= code.bytes[0] == 0x0f && code.bytes[1] == 0x05 ? CALLS_SYSTEM : 0;
    is |= at >= c->vdso && at < c->vdso_end ? IN_VDSO : 0;
    is |= code.bytes[0] == 0xcc ? MARK : 0;
    return is;
}

/* The instruction that the child is about to execute. */
static uint8_t next_is(const struct child *c)
{
    uint64_t at = (uint64_t)ptrace(PTRACE_PEEKUSER, c->pid, (void *)offsetof(struct user_regs_struct, rip), NULL);
    struct known *k = &known[at % (sizeof known / sizeof known[0])];
    if (k->at != at || !(k->is & SEEN))
        *k = (struct known){at, look_at(c, at)};
    return k->is;
}

static void count_one(struct step_piece *p, uint8_t is)
{
    if (is & IN_VDSO)
        p->in_vdso++;
    else
        p->instructions++;
    p->system_calls += (is & CALLS_SYSTEM) != 0;
    p->locked += (is & LOCKED) != 0;
}

/* Lets the child go on until it stops by SIGTRAP; other signals are passed on to it. False: it has ended. */
static bool go_on(const struct child *c, enum __ptrace_request how)
{
    for (int status = 0, signal = 0;; signal = WSTOPSIG(status)) {
        if (ptrace(how, c->pid, NULL, (void *)(intptr_t)signal) != 0)
            return false;
        while (waitpid(c->pid, &status, __WALL) < 0 && errno == EINTR)
            ;
        if (!WIFSTOPPED(status))
            return false;
        if (WSTOPSIG(status) == SIGTRAP)
            return true;
    }
}

/* From a mark to the next one. False: the child has ended before that. */
static bool count_piece(const struct child *c, struct step_piece *p)
{
    uint8_t is;
    do {
        is = next_is(c);
        if (!(is & MARK))
            count_one(p, is);
        if (!go_on(c, PTRACE_SINGLESTEP))
            return false;
    } while (!(is & MARK));
    return true;
}

static void find_vdso(struct child *c)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)c->pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long begin, end;
        if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
            c->vdso = begin;
            c->vdso_end = end;
        }
    }
    if (f)
        fclose(f);
}

bool step_through(void (*fn)(void *arg), void *arg, void (*each)(const struct step_piece *p, void *ctx), void *ctx)
{
    int status = 0;
    fflush(stdout);
    struct child c = {.pid = fork()};
    if (c.pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        fn(arg);
        _exit(0);
    }
    while (waitpid(c.pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(status)) {
        test_skip("the system does not let a process be traced");
        return false;
    }
    ptrace(PTRACE_SETOPTIONS, c.pid, NULL, (void *)PTRACE_O_EXITKILL);
    find_vdso(&c);
    memset(known, 0, sizeof known);
    for (bool at_mark = go_on(&c, PTRACE_CONT); at_mark;) {
        struct step_piece p = {0};
        at_mark = count_piece(&c, &p);
        if (at_mark)
            each(&p, ctx);
    }
    waitpid(c.pid, &status, __WALL);
    return true;
}

#else

bool step_through(void (*fn)(void *arg), void *arg, void (*each)(const struct step_piece *p, void *ctx), void *ctx)
{
    (void)fn, (void)arg, (void)each, (void)ctx;
    test_skip("it counts the instructions of an x86_64");
    return false;
}

#endif
