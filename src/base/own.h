/*
 * base/own.h: the descriptors that this library keeps for itself, out of the reach of a program's mistakes.
 *
 * wf_own_take moves a new descriptor to a number that programs seldom reach, and notes that number, so that weft_close and
 * the hooks leave it alone. The kernel gives programs the lowest free numbers. The library's numbers begin above those
 * that select(2) can name (1024), or near the end of a lower RLIMIT_NOFILE. No function here waits or locks. Any thread.
 */
#ifndef WF_BASE_OWN_H
#define WF_BASE_OWN_H

#include <stdbool.h>

/* Takes a new descriptor. Returns its number from now on. A negative fd (an errno) is returned unchanged. */
int wf_own_take(int fd);

/* The same, for the time of one call: in the child of a fork it is closed, as the fiber that made the call is lost. */
int wf_own_take_for_call(int fd);

/* A duplicate of any descriptor, taken for the time of one call: its number, or a negative errno. */
int wf_own_dup(int fd);

/* Its number is the program's again. A negative one is nothing. */
void wf_own_forget(int fd);

/* Forgets and closes it; a file of the program's that has the number by now stays open. */
void wf_own_close(int fd);

/* Whether it is noted. */
bool wf_own_has(int fd);

/* Whether it is noted, and the number is still that of the file that was noted. Asks the kernel if it is noted. */
bool wf_own_holds(int fd);

/* Whether it was noted for another file than the one that has the number now. Asks the kernel. */
bool wf_own_is_taken(int fd);

/* The lowest number from `first` to `last` that is noted, or -1. */
int wf_own_next(unsigned first, unsigned last);

/* Whether the number is still that of a descriptor of this kind ("[eventfd]"); true where nobody can say. Asks the kernel. */
bool wf_own_is(int fd, const char *kind);

/* In the child of a fork: closes what was taken for the time of a call, as the threads and fibers that call are lost. */
void wf_own_in_child(void);

/* Grows the kernel's table of descriptors while this process has one thread: beside others that takes milliseconds. */
void wf_own_prepare(void);

#endif
