/*
 * child.h: a server as the program that measures it sees it: a child process that is told by signals and speaks through a
 * pipe.
 *
 * What can go wrong ends the program (fail.h), unless a call says otherwise. All calls but child_start and the reads are
 * for fibers.
 */
#ifndef SUPPORT_CHILD_H
#define SUPPORT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weft/time.h>

#define CHILD_PATIENCE (30 * WEFT_SEC) /* so long without a word, or without its end: something is wrong */

struct child {
    pid_t pid;
    int words; /* its standard output */
};

/**
 * Starts words[0] with these words; NULL ends them. It dies with this process. In a process group of its own (`apart`) a
 * Ctrl-C at the terminal reaches this process alone, which then ends the child.
 */
void child_start(struct child *child, const char *const words[], bool apart);

/** Reads its next line, without the newline. False: it has ended. */
bool child_try_line(const struct child *child, char *line, size_t size);

/** The same, and to have ended is a failure. */
void child_read_line(const struct child *child, char *line, size_t size);

/** Bytes of its memory, page tables included. */
double child_memory(const struct child *child);

/** Takes back what child_start has given, of a child that ends by itself. Any thread may call it. */
void child_forget(const struct child *child);

/** Waits for its end. Returns whether it has ended well. Fails if it has not ended at the deadline. */
bool child_wait(const struct child *child, weft_time deadline);

/** Ends it as a user would, by SIGTERM. Fails if it does not end well. */
void child_end(const struct child *child);

/** Raises this process's limit of descriptors, which a child gets too, and fails if it is too low for so many connections. */
void child_allow_connections(unsigned count);

#endif
