/* A fiber with 1 MiB of locals on its stack of 236 KiB: must end in the guard, with a line that names the fiber. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static char *volatile seen;

static void *has_a_large_local(void *arg)
{
    char large[1 << 20];
    seen = large;
    large[0] = 1; /* its far end only: not a byte of the guard */
    puts("nothing faulted");
    return large[0] ? arg : NULL;
}

static void *first(void *arg)
{
    weft_attr attr;
    weft_fiber *f = NULL;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.name = "large";
    if (weft_go_with(&f, &attr, has_a_large_local, arg) != 0)
        return NULL;
    weft_join(f, NULL, WEFT_FOREVER);
    return NULL;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0;
}
