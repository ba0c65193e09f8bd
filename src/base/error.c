/*
 * base/error.c: the meanings of the codes that calls of this library return. Any thread and any signal handler may ask:
 * every text is a constant.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <weft/api.h>

/* By number. A code has one text, so the text names all that the code may mean, the likely meanings first. */
static const char *const meanings[] = {
    [EPERM] =
        "not yours to do: another holds the lock, owns the scope or made the scheduler, or the fiber may not move",
    [ENOENT] = "there is none: no such name, service, watch, file or folder, no child has succeeded, or nothing was "
               "cancelled",
    [ESRCH] = "it has ended, was dropped, or was in the parent of a fork",
    [EIO] = "input or output failed; of a name: the lookup failed",
    [ENXIO] = "no runtime: call weft_run (calls that work in a fiber only: call them in one)",
    [EBADF] = "no descriptor, or it was closed while the call waited",
    [ECHILD] = "no such child process, or another has waited for it",
    [EAGAIN] = "it would have to wait and must not (WEFT_NOW), or the system has no thread to spare",
    [ENOMEM] = "no memory",
    [EACCES] = "this user may not: the permissions of a file, folder or address forbid it",
    [EBUSY] = "in use: a fiber waits on it or runs it, the server is serving, a scope inside it is open, or the thread "
              "is a worker already",
    [EEXIST] = "there is one already: a route of this method and path, or a watch for this descriptor and direction",
    [ENOTDIR] = "a part of the path is no folder",
    [EINVAL] = "an argument that cannot be: NULL, out of range, or an unknown flag or option",
    [ENFILE] = "the system has no descriptor left",
    [EMFILE] = "the process has no descriptor left: raise RLIMIT_NOFILE",
    [EFBIG] = "too long: more body than is allowed, or than the Content-Length says",
    [ERANGE] = "a handler has returned a positive value, which is neither 0 nor an errno",
    [EPIPE] = "the channel is closed, or the other end of the connection is",
    [EDEADLK] = "it would wait for itself: the caller holds the lock, is the fiber, or is what must run it",
    [ENODATA] = "too short: less body than the Content-Length says, or the file has ended before that",
    [ETIME] = "a server that was asked has not answered in time",
    [EBADMSG] = "malformed: the body, or its chunks",
    [EOVERFLOW] = "a count is at its highest: too many locks, permits or members",
    [EOPNOTSUPP] = "it cannot be done here: not on this stack, or not for this kind of descriptor",
    [EISCONN] = "the socket is connected already",
    [ENOTCONN] = "the socket is not connected, or its client has gone",
    [ECONNRESET] = "the other end has reset the connection, or has ended it inside a body",
    [ESHUTDOWN] = "it takes no more work: the scheduler or the server is stopping or has stopped, or the executor is "
                  "closed",
    [ETIMEDOUT] = "the deadline has passed",
    [EALREADY] =
        "it was done before, or another does it: a join, a detach, a start, a stop, a connect, a close, a take or an "
        "answer",
    [ECANCELED] = "cancelled: the calling fiber or task, the scope, or the task that was awaited; clean up and return",
};

const char *weft_strerror(int code)
{
    unsigned number = code < 0 ? 0u - (unsigned)code : (unsigned)code;
    const char *text = number < sizeof meanings / sizeof meanings[0] ? meanings[number] : NULL;
    if (!text && number <= 4095) /* the kernel has no higher ones */
        text = number == 0 ? "success" : strerrordesc_np((int)number);
    return text ? text : "no code of weft or of the system";
}
