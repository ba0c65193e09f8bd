/*
 * tests/hook/lock_plugin.h: what lock_plugin.c and the libraries that it loads have of each other.
 */
#ifndef TESTS_HOOK_LOCK_PLUGIN_H
#define TESTS_HOOK_LOCK_PLUGIN_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* std::call_once of the nth thing, which takes a while, and throws the first so many times. False: it has thrown in this call. */
typedef bool lock_plugin_call_fn(int nth, int failing, bool *begun);
lock_plugin_call_fn lock_plugin_call;

/* The program's: the constructor of the other library calls it. */
void lock_plugin_is_loaded(void);

#ifdef __cplusplus
}
#endif

#endif
