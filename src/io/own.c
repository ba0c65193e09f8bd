/*
 * io/own.c: see own.h; and what libweft-hook needs to have descriptors of its own (weft/io.h). Any thread.
 */
#include "io/own.h"

#include <weft/io.h>

#include "base/errno.h"
#include "base/own.h"
#include "io/fd.h"

void wf_close_own(int fd)
{
    struct wf_fd *e = wf_fd_look(fd);
    if (e)
        wf_fd_close(e);
    wf_own_close(fd);
    if (e)
        wf_fd_closed(e);
}

int weft_own_take(int fd)
{
    return fd < 0 ? -EBADF : wf_own_take_for_call(fd);
}

int weft_own_dup(int fd)
{
    return wf_own_dup(fd);
}

int weft_own_close(int fd)
{
    if (!wf_own_has(fd))
        return -EBADF;
    if (wf_own_is_taken(fd))
        wf_own_forget(fd); /* the number, and who waits on it, are the program's */
    else
        wf_close_own(fd);
    return 0;
}

int weft_own_next(unsigned first, unsigned last)
{
    int fd = wf_own_next(first, last);
    while (wf_unlikely(fd >= 0 && !wf_own_holds(fd)))
        fd = (unsigned)fd < last ? wf_own_next((unsigned)fd + 1, last) : -1;
    return fd;
}
