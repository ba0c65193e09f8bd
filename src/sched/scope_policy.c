/*
 * sched/scope_policy.c: the policies of scopes that come with the library; see weft/scope.h.
 */
#include <errno.h>

#include <weft/scope.h>

static bool any_failed(const weft_scope_policy *self, const weft_scope_tally *so_far)
{
    (void)self;
    return so_far->failed > 0;
}

static int first_error(const weft_scope_policy *self, const weft_scope_tally *all)
{
    (void)self;
    return all->error;
}

const weft_scope_policy weft_until_failure = {sizeof weft_until_failure, "until failure", any_failed, first_error};

static bool any_succeeded(const weft_scope_policy *self, const weft_scope_tally *so_far)
{
    (void)self;
    return so_far->succeeded > 0;
}

static int success_or_error(const weft_scope_policy *self, const weft_scope_tally *all)
{
    (void)self;
    if (all->succeeded > 0)
        return 0;
    return all->error != 0 ? all->error : -ENOENT;
}

const weft_scope_policy weft_until_success = {sizeof weft_until_success, "until success", any_succeeded,
                                              success_or_error};

static bool never(const weft_scope_policy *self, const weft_scope_tally *so_far)
{
    (void)self, (void)so_far;
    return false;
}

static int always_good(const weft_scope_policy *self, const weft_scope_tally *all)
{
    (void)self, (void)all;
    return 0;
}

const weft_scope_policy weft_until_all = {sizeof weft_until_all, "until all", never, always_good};
