/*
 * listener.h: the listening socket of a server, and its word to the load generator (child.h).
 */
#ifndef BENCH_LISTENER_H
#define BENCH_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** A socket that listens on a port of the kernel's choice of 127.0.0.1, non-blocking, TCP_NODELAY. */
int listener_open(void);

/**
 * The same on a given port (0: of the kernel's choice), with SO_REUSEPORT: others may listen on it as well, and the kernel
 * spreads connections over them.
 */
int listener_open_shared(uint16_t port);

/** A socket that keeps a port of the kernel's choice for those of this user that share it, and does not listen. */
int listener_reserve(void);

/** The port of a socket. */
uint16_t listener_port(int listener);

/** Says that the server can be connected to. `serving` is the process that serves, 0: the one that says so. */
void listener_announce(uint16_t port, pid_t serving);

#endif
