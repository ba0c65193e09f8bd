/*
 * base/own.h: the descriptors that this library keeps for itself, out of the reach of a program's mistakes.
 *
 * wf_own_take moves a new descriptor to a number that programs seldom reach, and notes that number, so that weft_close
 * and the hooks leave it alone. The kernel gives programs the lowest free numbers. The library's numbers begin above
 * the numbers that select(2) can name (1024), or near the end of a lower RLIMIT_NOFILE. No function here waits or
 * locks. Any thread may call them.
 */
#ifndef WF_BASE_OWN_H
#define WF_BASE_OWN_H

#include <stdbool.h>

/* Takes a new descriptor, and returns its new number. Returns a negative fd (an errno) unchanged. */
int wf_own_take(int fd);

/* The same, for the time of one call. The child of a fork closes it, because the fiber that made the call is lost. */
int wf_own_take_for_call(int fd);

/* A duplicate of any descriptor, taken for the time of one call: its number, or a negative errno. */
int wf_own_dup(int fd);

/* Drops the note: the number is the program's again. Ignores a negative fd. */
void wf_own_forget(int fd);

/* Drops the note and closes fd. If a file of the program has the number by now, that file stays open. */
void wf_own_close(int fd);

/* Whether fd is noted. */
bool wf_own_has(int fd);

/* Whether fd is noted, and the number still belongs to the noted file. Asks the kernel if fd is noted. */
bool wf_own_holds(int fd);

/* Whether another file than the noted file has the number now. Asks the kernel. */
bool wf_own_is_taken(int fd);

/* The lowest noted number from `first` to `last`, or -1. */
int wf_own_next(unsigned first, unsigned last);

/* Whether fd is still a descriptor of this kind ("[eventfd]"); true if the kernel cannot tell. Asks the kernel. */
bool wf_own_is(int fd, const char *kind);

/* In the child of a fork: closes the descriptors taken for one call, as the calling threads and fibers are lost. */
void wf_own_in_child(void);

/* Grows the kernel's table of descriptors while the process has one thread: with more threads it takes milliseconds. */
void wf_own_prepare(void);

#endif
