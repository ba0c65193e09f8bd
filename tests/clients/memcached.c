/*
 * tests/clients/memcached.c: libmemcached in fibers. Its socket is born with SOCK_NONBLOCK, and it waits in poll. The server
 * has no question whose answer takes its time.
 */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/fleet.h"

#define BIG 300000 /* bytes of an answer that does not come in one piece */

static memcached_st *connect_to(const char *port)
{
    memcached_st *link = memcached_create(NULL);
    EXPECT(link && memcached_server_add(link, "127.0.0.1", (in_port_t)atoi(port)) == MEMCACHED_SUCCESS, "no memory");
    return link;
}

static void *open_link(int who)
{
    memcached_st *link = connect_to(fleet_port());
    memcached_return_t rc = memcached_version(link); /* connects */
    EXPECT(rc == MEMCACHED_SUCCESS, "%d: %s", who, memcached_strerror(link, rc));
    return link;
}

static void set_and_get(memcached_st *link, const char *key, const char *value, size_t size)
{
    size_t length = 0;
    uint32_t flags = 0;
    memcached_return_t rc = memcached_set(link, key, strlen(key), value, size, 0, 42);
    EXPECT(rc == MEMCACHED_SUCCESS, "%s: %s", key, memcached_strerror(link, rc));
    char *got = memcached_get(link, key, strlen(key), &length, &flags, &rc);
    EXPECT(rc == MEMCACHED_SUCCESS, "%s: %s", key, memcached_strerror(link, rc));
    EXPECT(got && length == size && flags == 42 && memcmp(got, value, size) == 0, "%s: %zu bytes: %.100s", key, length,
           got ? got : "");
    free(got);
}

static void ask_big(memcached_st *link, const char *key, int letter)
{
    char *value = malloc(BIG);
    if (!value)
        return;
    memset(value, letter, BIG);
    set_and_get(link, key, value, BIG);
    free(value);
}

static void count_up(memcached_st *link, const char *key)
{
    uint64_t value = 0;
    CHECK_INT(memcached_set(link, key, strlen(key), "5", 1, 0, 0), ==, MEMCACHED_SUCCESS);
    CHECK_INT(memcached_increment(link, key, strlen(key), 37, &value), ==, MEMCACHED_SUCCESS);
    CHECK_INT(value, ==, 42);
}

static void ask(void *link, int who, int turn)
{
    char key[32], value[32];
    snprintf(key, sizeof key, "%d:%d", who, turn);
    int size = snprintf(value, sizeof value, "value %d of %d", turn, who);
    if (turn % 3 == 0)
        set_and_get(link, key, value, (size_t)size);
    else if (turn % 3 == 1)
        count_up(link, key);
    else
        ask_big(link, key, 'a' + (who + turn) % 26);
}

static void close_link(void *link)
{
    memcached_free(link);
}

static void late(int who)
{
    memcached_return_t rc;
    memcached_st *link = connect_to(fleet_silent_port());
    CHECK_INT(memcached_behavior_set(link, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, 200), ==, MEMCACHED_SUCCESS);
    char *got = memcached_get(link, "key", 3, NULL, NULL, &rc);
    EXPECT(!got && rc == MEMCACHED_TIMEOUT, "%d: %s", who, memcached_strerror(link, rc));
    memcached_free(link);
}

int main(void)
{
    static const struct client client = {"memcached", "WEFT_MEMCACHED_PORT", open_link, ask, NULL, close_link,
                                         late,        200 * WEFT_MS};
    return fleet_main(&client, NULL, 0);
}
