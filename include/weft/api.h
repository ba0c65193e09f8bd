/*
 * weft/api.h: what every other header needs: visibility, linkage for C++, the entry function's type, the version, and
 * the meaning of codes.
 */
#ifndef WEFT_API_H
#define WEFT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

WEFT_BEGIN_DECLS

/** What a coroutine, a fiber and everything else that runs starts with; its value goes to whoever waits for it. */
typedef void *weft_fn(void *arg);

/**
 * The version of the library that is running, as "MAJOR.MINOR.PATCH".
 *
 * WEFT_VERSION_MAJOR and its kin say what the program was compiled against.
 *
 * Returns: a string that lives for ever
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_version(void);

/**
 * The meaning of a code that a call of this library returned: for -ENXIO "no runtime: call weft_run ...", and so on.
 * The header of each call says more exactly what a code means there. If no header names a code, the string is the
 * system's, the English text of strerror(3).
 *
 * Returns: an English string that lives for ever. The sign does not matter: n and -n have the same string. 0 is
 *          "success"; a number that is no code has a string that says so
 * Context: any thread, also a signal handler
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_strerror(int code);

WEFT_END_DECLS

#endif
