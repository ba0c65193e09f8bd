/*
 * parallel-map.c: a parallel map over an array, a few elements at a time. Each element has a child of one scope. The
 * scope's limit (at_once) makes the loop wait until a child has ended, before it starts the next child.
 *
 * Prints: 20 squares, the last one is 400; never more than 4 at a time
 */
#include <stdatomic.h>
#include <stdio.h>

#include <weft/weft.h>

enum { COUNT = 20, LIMIT = 4 };

struct element {
    int in, out;
};
static atomic_int running, too_many;

/* The map itself: 0 when fn has returned 0 for every element, or the first failure, which cancels the rest. */
static int parallel_map(weft_job *fn, struct element *elements, size_t count, unsigned limit)
{
    WEFT_SCOPE (s, &(weft_scope_opts){.name = "map", .at_once = limit}) {
        int begun = 0;
        for (size_t i = 0; i < count && begun == 0; i++)
            begun = weft_scope_go(&s, fn, &elements[i]); /* waits while `limit` children run */
        int rc = weft_scope_wait(&s);
        return rc != 0 ? rc : begun;
    }
    return 0;
}

static int square(void *arg)
{
    struct element *e = arg;
    if (atomic_fetch_add(&running, 1) >= LIMIT)
        atomic_fetch_add(&too_many, 1);
    weft_sleep(5 * WEFT_MS); /* as if a server did the work */
    e->out = e->in * e->in;
    atomic_fetch_sub(&running, 1);
    return 0;
}

static void *first(void *arg)
{
    struct element elements[COUNT];
    for (int i = 0; i < COUNT; i++)
        elements[i] = (struct element){.in = i + 1};
    int rc = parallel_map(square, elements, COUNT, LIMIT);
    if (rc != 0)
        printf("no squares: %s\n", weft_strerror(rc));
    else
        printf("%d squares, the last one is %d; %s %d at a time\n", COUNT, elements[COUNT - 1].out,
               too_many == 0 ? "never more than" : "sometimes more than", LIMIT);
    return arg;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0;
}
