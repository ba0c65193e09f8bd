/*
 * server.c: see server.h.
 */
#include "server.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../common/case.h"
#include "../common/listener.h"

struct server server_open(int argc, char **argv)
{
    struct server server = {0};
    size_t bytes;

    if (argc != 3 && argc != 5)
        case_fail("usage: %s LIBRARY BYTES [WORKERS HANDLER]", argv[0]);
    signal(SIGPIPE, SIG_IGN);
    bytes = strtoul(argv[2], NULL, 10);
    server.library = argv[1];
    server.room = bytes < SERVER_SMALL ? SERVER_ROOM_SMALL : 2 * bytes;
    server.listener = listener_open();
    server.spread = argc == 5;
    server.workers = argc == 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    if (argc == 5 && !strncmp(argv[4], "cpu", 3))
        server.work_us = (unsigned)strtoul(argv[4] + 3, NULL, 10);
    else if (argc == 5 && !strcmp(argv[4], "sleep"))
        server.sleeps = true;
    return server;
}

void server_announce(const struct server *server)
{
    listener_announce(listener_port(server->listener), 0);
}

bool server_is(const struct server *server, const char *library)
{
    return !strcmp(server->library, library);
}

/* A round is six instructions, of a cycle each, of which each needs the one before. */
#define ROUNDS_A_US (3000 / 6)

void server_work(unsigned us)
{
    uint64_t x = 88172645463325252;

    for (uint64_t left = (uint64_t)us * ROUNDS_A_US; left > 0; left--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
}

void *server_alloc(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        case_fail("no memory");
    return memory;
}
