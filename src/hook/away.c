/*
 * hook/away.c: see away.h.
 */
#include "hook/away.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

#include <weft/offload.h>

#include "hook/real.h"

static void *makes(void *arg)
{
    struct wf_away *call = arg;
    errno = 0;
    call->make(call);
    call->error = errno;
    call->made = true;
    call->resolver_error = h_errno;
    return arg;
}

static void drop(void *arg, void *value)
{
    struct wf_away *call = arg;
    (void)value;
    if (call->discard)
        call->discard(call);
    free(call);
}

static bool make(struct wf_away *call, int kind, bool stays)
{
    int kept = errno;
    weft_offload_opts opts = {.size = sizeof opts, .kind = kind, .drop = drop, .stays = stays};
    int rc = weft_offload_with(&opts, makes, call, NULL, WEFT_FOREVER);
    if (rc == 0) {
        errno = call->error ? call->error : kept;
        h_errno = call->resolver_error;
        return true;
    }
    if (rc != -ECANCELED)
        drop(call, NULL);
    errno = -rc;
    return false;
}

bool wf_away(struct wf_away *call, int kind)
{
    return make(call, kind, false);
}

bool wf_away_to_its_end(struct wf_away *call, int kind)
{
    return make(call, kind, true);
}
