/*
 * child.h: a server that is a child process of the program that measures it. The program sends it signals, and reads
 * its standard output through a pipe.
 *
 * A failure ends the program (fail.h), unless a call says otherwise. All calls but child_start and the reads are for
 * fibers.
 */
#ifndef SUPPORT_CHILD_H
#define SUPPORT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weft/time.h>

#define CHILD_PATIENCE (30 * WEFT_SEC) /* a child that takes longer to print or to end has failed */

struct child {
    pid_t pid;
    int words; /* its standard output */
};

/**
 * Starts words[0] with these words; NULL ends them. The child dies with this process. With `apart`, the child has a
 * process group of its own: Ctrl-C at the terminal then reaches only this process, which ends the child.
 */
void child_start(struct child *child, const char *const words[], bool apart);

/** Reads the child's next line, without the newline. False: the child has ended. */
bool child_try_line(const struct child *child, char *line, size_t size);

/** The same, but fails if the child has ended. */
void child_read_line(const struct child *child, char *line, size_t size);

/** Bytes of the child's memory, page tables included. */
double child_memory(const struct child *child);

/** Releases what child_start has made for a child that ends by itself. Any thread may call it. */
void child_forget(const struct child *child);

/** Waits for the child's end. Returns whether its exit status is 0. Fails if it has not ended at the deadline. */
bool child_wait(const struct child *child, weft_time deadline);

/** Ends the child by SIGTERM, as a user would. Fails if its exit status is not 0. */
void child_end(const struct child *child);

/** Raises this process's limit of descriptors, which a child gets too, and fails if it is too low for so many connections. */
void child_allow_connections(unsigned count);

#endif
