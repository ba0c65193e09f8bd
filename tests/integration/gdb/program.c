/*
 * What check.py looks at through gdb: a coroutine three functions deep, inside another one, with switches in and out.
 */
#include <weft/weft.h>

/* Keeps a call from becoming a jump, whose frame no debugger could show. */
#define AFTER_THE_CALL() __asm__ volatile("")

int stops_here; /* counts the visits */

__attribute__((noinline)) static void third(void)
{
    stops_here++;
    weft_coro_yield(NULL);
    AFTER_THE_CALL();
}

__attribute__((noinline)) static void second(void)
{
    third();
    AFTER_THE_CALL();
}

static void *first(void *arg)
{
    second();
    AFTER_THE_CALL();
    return arg;
}

static void *outer(void *inner)
{
    while (weft_coro_resume(inner, NULL, NULL) == 1)
        weft_coro_yield(NULL);
    return NULL;
}

int main(void)
{
    weft_coro *a, *b;
    if (weft_coro_new(&b, first, NULL, NULL) != 0 || weft_coro_new(&a, outer, b, NULL) != 0)
        return 1;
    while (weft_coro_resume(a, NULL, NULL) == 1)
        ;
    return stops_here == 1 && weft_coro_free(a) == 0 && weft_coro_free(b) == 0 ? 0 : 1;
}
