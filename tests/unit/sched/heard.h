/*
 * tests/unit/sched/heard.h: what is written to standard error meanwhile.
 */
#ifndef TESTS_UNIT_SCHED_HEARD_H
#define TESTS_UNIT_SCHED_HEARD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* hear() begins, heard() ends and fills `text`; so_far() fills it in between. */
struct heard {
    int before, file;
    char text[8192];
};

static inline void hear(struct heard *h)
{
    char path[] = "/tmp/weft-heard-XXXXXX";
    fflush(stderr);
    h->before = dup(STDERR_FILENO);
    h->file = mkstemp(path);
    unlink(path);
    dup2(h->file, STDERR_FILENO);
}

static inline const char *so_far(struct heard *h)
{
    ssize_t n = pread(h->file, h->text, sizeof h->text - 1, 0);
    h->text[n > 0 ? n : 0] = '\0';
    return h->text;
}

static inline void heard(struct heard *h)
{
    fflush(stderr);
    dup2(h->before, STDERR_FILENO);
    close(h->before);
    so_far(h);
    close(h->file);
}

static inline size_t how_often(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

#endif
