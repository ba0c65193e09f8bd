/*
 * hook/never.h: sockets that were told never to wait, by a negative SO_RCVTIMEO or SO_SNDTIMEO. The kernel does so, and says
 * to who asks that there is no limit: the two cannot be told apart. So this is remembered, of the socket itself and not of
 * its number: the kernel has a cookie for each, which is never used again.
 */
#ifndef WF_HOOK_NEVER_H
#define WF_HOOK_NEVER_H

#include <stdbool.h>

/* The socket's limit for POLLIN or POLLOUT was set: to a negative time, or else. False: that cannot be remembered. */
bool wf_never_note(int fd, int events, bool never);

/* Whether it was told so, by somebody in this process. errno stays. */
bool wf_never_waits(int fd, int events);

#endif
