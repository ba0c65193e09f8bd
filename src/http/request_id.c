/*
 * http/request_id.c: middleware that gives each request an id. A new id has 128 bits: two numbers, each made from a
 * counter and random keys of the process. Each number is different for each count, so a process never gives an id
 * twice. Other processes have other keys, except a child that fork(2) has made after the first id. Ids are names and
 * not secrets: do not use them as keys or passwords.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <weft/http.h>

#include "http/exchange.h"

enum { ID_SIZE = 32, SENT_MOST = 64 };

static uint64_t keys[4]; /* const once `keys_made` has run */
static pthread_once_t keys_made = PTHREAD_ONCE_INIT;
static _Atomic uint64_t count; /* ids so far */

/* If the system has no random bytes, the keys are not random, but differ from those of other processes. */
static void make_keys(void)
{
    if (getrandom(keys, sizeof keys, 0) == (ssize_t)sizeof keys)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    keys[0] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    keys[1] = (uint64_t)getpid();
    keys[2] = (uint64_t)(uintptr_t)&now;
    keys[3] = ~keys[0];
}

/* Returns another number for each n, because each of its steps can be undone. */
static uint64_t scramble(uint64_t n)
{
    n ^= n >> 32;
    n *= 0x9e3779b97f4a7c15u;
    n ^= n >> 29;
    n *= 0xd6e8feb86659fd93u;
    return n ^ n >> 32;
}

static char *put_hex(char *out, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[number >> shift & 15];
    return out;
}

/* Makes a new id. NULL: no memory. */
static const char *make_id(weft_exchange *x)
{
    char *id = weft_http_alloc(x, ID_SIZE + 1);
    if (!id)
        return NULL;
    pthread_once(&keys_made, make_keys);
    uint64_t n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    char *end = put_hex(id, scramble(scramble(n ^ keys[0]) ^ keys[1]));
    end = put_hex(end, scramble(scramble(n ^ keys[2]) ^ keys[3]));
    *end = '\0';
    return id;
}

/* Whether the id that the client has sent is used. */
static bool is_good(const char *id)
{
    size_t size = strlen(id);
    return size >= 1 && size <= SENT_MOST &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == size;
}

int weft_http_give_id(weft_exchange *x, void *arg)
{
    (void)arg;
    const char *sent = weft_http_header(x, "X-Request-Id");
    const char *id = sent && is_good(sent) ? sent : make_id(x);
    int rc = id ? weft_http_add_header(x, "X-Request-Id", id) : -ENOMEM;
    if (rc != 0)
        return rc;
    wh_exchange_set_id(x, id);
    return weft_http_next(x);
}
