/*
 * http/methods.h: the methods of a table of routes. Each has a number, and is a bit in a set of methods. A set has a
 * string: the value of the field Allow. Methods are added before the server serves; then any thread may call
 * wh_methods_find and wh_methods_allow.
 */
#ifndef WH_HTTP_METHODS_H
#define WH_HTTP_METHODS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { WH_METHODS = 64 }; /* the most methods; as the number of a method, it stands for none */

/* Numbers that every table has. Those of PATCH and of the other methods of RFC 9110 follow. */
enum { WH_GET_NUMBER, WH_HEAD_NUMBER, WH_OPTIONS_NUMBER };

struct wh_allow; /* a set of methods and its string */

struct wh_methods {
    unsigned count;
    struct {
        const char *text;
        size_t size;
    } of[WH_METHODS];
    _Atomic(struct wh_allow *)
        *allows; /* a list that only grows, while serving too. A pointer, because searches have a const table */
};

/* 0, or -ENOMEM. `m` is all zero, and may be destroyed in any case. */
int wh_methods_init(struct wh_methods *m);
void wh_methods_destroy(struct wh_methods *m);

/* The number of a method; WH_METHODS: the table does not have it. */
unsigned wh_methods_find(const struct wh_methods *m, const char *text, size_t size);

/* Finds or adds a method: its number, -EINVAL there are WH_METHODS already, or -ENOMEM. */
int wh_methods_add(struct wh_methods *m, const char *text, size_t size);

/*
 * The string of a set: "GET, HEAD, OPTIONS". It lives as long as the table. The first call for a set makes its string,
 * on any thread. NULL: no memory.
 */
const char *wh_methods_allow(const struct wh_methods *m, uint64_t set);

static inline uint64_t wh_method_bit(unsigned number)
{
    return (uint64_t)1 << number;
}

#endif
