/*
 * stack/guard.c: guards by advice and by mapping; see guard.h.
 */
#include "stack/guard.h"

#include "base/sys.h"

#define WIDTH ((size_t)16 * 1024)

enum { UNKNOWN, WORKS, FAILS };

static int advice = UNKNOWN;  /* what the probe found */
static size_t mapping_budget; /* guards that may still be made by mapping */
static bool budget_known;
static size_t limit_for_tests; /* 0: the system's */

size_t wf_guard_bytes(void)
{
    size_t page = wf_sys_page();
    return WIDTH > page ? WIDTH : page;
}

/* Guards a page and asks the kernel to bring it in: only a refusal shows a guard. */
static int probe(void)
{
    size_t page = wf_sys_page();
    char *trial = wf_sys_map(page);
    if (!trial)
        return UNKNOWN;
    bool works = wf_sys_guard(trial, page) == 0 && wf_sys_forbidden(trial);
    wf_sys_unmap(trial, page);
    return works ? WORKS : FAILS;
}

bool wf_guard_advise(const struct iovec *ranges, size_t count)
{
    if (advice == UNKNOWN)
        advice = probe();
    return advice == WORKS && wf_sys_guard_many(ranges, count) == 0;
}

bool wf_guard_map(void *base)
{
    if (!budget_known) {
        size_t limit = limit_for_tests ? limit_for_tests : wf_sys_mapping_limit();
        mapping_budget = limit / 4; /* two mappings a guard, and half of all for the rest of the program */
        budget_known = true;
    }
    if (mapping_budget == 0 || wf_sys_forbid(base, wf_guard_bytes()) != 0)
        return false;
    mapping_budget--;
    return true;
}

enum wf_guard wf_guard_any(void *base)
{
    struct iovec range = {base, wf_guard_bytes()};
    if (wf_guard_advise(&range, 1))
        return WF_GUARD_ADVICE;
    return wf_guard_map(base) ? WF_GUARD_MAPPING : WF_GUARD_NONE;
}

void wf_guard_unmapped(size_t count)
{
    mapping_budget += count;
}

#ifdef WF_SEAM
void wf_guard_forget(size_t mapping_limit)
{
    advice = UNKNOWN;
    budget_known = false;
    limit_for_tests = mapping_limit;
}
#endif
