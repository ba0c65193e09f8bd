/*
 * server.h: what the servers of bench-http share: their command line, what they serve, and the listening sockets.
 *
 * A server is started as
 *
 *      PROGRAM LIBRARY SITE WORKERS
 *
 * and prints the line that ../common/child.h describes. Until it is killed, it answers "GET /" with SERVER_HELLO as
 * text/plain, and serves SERVER_FILE of the folder SITE by the library's own way to serve files. WORKERS is how many
 * threads or processes serve connections; a server has as few others as possible.
 */
#ifndef BENCH_HTTP_SERVER_H
#define BENCH_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_HELLO "hello, world\n"
#define SERVER_SITE "bench-http-site" /* the folder, beside the programs */
#define SERVER_FILE "/16k"
#define SERVER_FILE_BYTES 16384

struct server {
    const char *library; /* which of the program's libraries, or ways to use it */
    const char *site;
    char file[4096]; /* the path of SERVER_FILE in it */
    unsigned workers;
};

/** Reads the command line. */
struct server server_open(int argc, char **argv);

/** The file, open for reading. */
int server_open_file(const struct server *server);

/**
 * Calls `serve` once for each worker, each with a listener of its own; the kernel spreads connections over the
 * listeners. The first worker runs in this thread, the others in threads that this call starts. The call announces the
 * port when all listeners are open. It does not return, and `serve` must not either.
 */
void server_run_threads(const struct server *server, void (*serve)(const struct server *server, int listener));

/** The same with processes, which end with this one. */
void server_run_processes(const struct server *server, void (*serve)(const struct server *server, int listener));

#endif
