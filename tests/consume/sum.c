/*
 * sum.c: an outside program in plain C. A coroutine is fed numbers by resume and yields their running sum.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static void *running_sum(void *first)
{
    intptr_t sum = (intptr_t)first;
    for (;;) {
        intptr_t next = (intptr_t)weft_coro_yield((void *)sum);
        if (next == 0)
            return (void *)sum;
        sum += next;
    }
}

int main(void)
{
    const char *compiled = TEXT(WEFT_VERSION_MAJOR) "." TEXT(WEFT_VERSION_MINOR) "." TEXT(WEFT_VERSION_PATCH);
    if (strcmp(weft_version(), compiled) != 0) {
        printf("headers are %s, the library is %s\n", compiled, weft_version());
        return 1;
    }

    weft_coro *c;
    if (weft_coro_new(&c, running_sum, (void *)(intptr_t)1, NULL) != 0)
        return 2;
    void *sum = NULL;
    for (intptr_t n = 0; n < 100; n++)
        if (weft_coro_resume(c, (void *)(n + 1), &sum) != 1)
            return 3;
    if (weft_coro_resume(c, NULL, &sum) != 0 || weft_coro_resume(c, NULL, NULL) != -ESRCH || weft_coro_free(c) != 0)
        return 4; /* ESRCH: weft.h brings <errno.h> */
    printf("weft %s: sum %ld\n", weft_version(), (long)(intptr_t)sum);
    return (intptr_t)sum == 5050 ? 0 : 5;
}
