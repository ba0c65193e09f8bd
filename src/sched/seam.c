/*
 * sched/seam.c: see seam.h. A fiber calls these functions for itself.
 */
#include "sched/seam.h"

#ifdef WF_SEAM

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "base/plain.h"
#include "sched/wait.h"

uint32_t wf_seam_on;

static struct {
    unsigned n;               /* const after the constructor: every fiber is cancelled at this point; 0: none is */
    char name[WF_NAME_BYTES]; /* const after the constructor: only fibers of this name; "": all */
} all;

static weft_local passed; /* const after make_keys: how many points the fiber has passed */
static weft_local ends;   /* const after make_keys: the point at which the fiber is cancelled; 0: none */

/* WEFT_SEAM=cancel:N or cancel:N:NAME. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *asked = getenv("WEFT_SEAM");
    if (!asked || sscanf(asked, "cancel:%u:%31s", &all.n, all.name) < 1 || all.n == 0)
        return;
    wf_store(&wf_seam_on, 1u);
}

static void make_keys(void)
{
    weft_local_new(&passed, NULL);
    weft_local_new(&ends, NULL);
}

static void have_keys(void)
{
    static struct wf_plain_once once;
    wf_plain_once(&once, make_keys);
}

static unsigned get(weft_local key)
{
    return (unsigned)(uintptr_t)weft_local_get(key);
}

static int set(weft_local key, unsigned n)
{
    return weft_local_set(key, (void *)(uintptr_t)n);
}

int wf_seam_cancel_at(unsigned n)
{
    have_keys();
    wf_store(&wf_seam_on, 1u);
    return set(ends, n == 0 ? 0 : get(passed) + n);
}

unsigned wf_seam_points(void)
{
    have_keys();
    return get(passed);
}

static bool is_meant(const weft_fiber *f)
{
    return all.name[0] == '\0' || strcmp(all.name, f->name) == 0;
}

void wf_seam_pass(const weft_fiber *f, weft_time deadline)
{
    if (wf_time_is_now(deadline) || (f->deaf && wf_is_deaf(f)))
        return;
    have_keys();
    unsigned n = get(passed) + 1;
    if (set(passed, n) != 0)
        return; /* no memory: the fiber does not count */
    if (n == get(ends) || (n == all.n && is_meant(f)))
        weft_cancel((weft_fiber *)(uintptr_t)f);
}

#endif
