/*
 * Everything in basics.c once more, with every coroutine on one and the same shared stack.
 */
#include <weft/weft.h>

/* weft_coro_new, but on the shared stack; the pool lives as long as the program. */
static int new_on_the_shared_stack(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts)
{
    static weft_stacks *pool;
    weft_coro_opts o = opts ? *opts : (weft_coro_opts){0};
    int rc = pool ? 0 : weft_stacks_new(&pool, 1, 0);
    o.size = sizeof o;
    o.shared = pool;
    return rc != 0 ? rc : weft_coro_new(out, fn, arg, &o);
}

#define weft_coro_new new_on_the_shared_stack
#include "basics.c" /* NOLINT(bugprone-suspicious-include): the same tests, by another weft_coro_new */
