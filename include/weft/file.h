/*
 * weft/file.h: files on disks. Descriptors of files are always ready, so there is nothing to wait for, and yet a call may
 * take as long as the disk does. With io_uring the kernel makes the call while the fiber waits; with epoll it is made at
 * once if all it needs is in memory, and else on a helper thread (weft/offload.h, WEFT_OFFLOAD_FILE). weft_read, weft_write
 * and their kin (weft/io.h) do the same for files.
 *
 * A call on a descriptor that has begun cannot be taken back. So its end is waited for, also past the deadline and by one
 * who was cancelled; -ETIMEDOUT and -ECANCELED say that it never began. With WEFT_NOW, or a deadline that has passed, it is
 * made all the same, on the caller's thread, and so it is on plain threads and where there is no helper to be had. Only
 * weft_open, which has no descriptor yet, has rules of its own.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <fcntl.h>
#include <sys/types.h>

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/**
 * open(2); `mode` counts with O_CREAT and O_TMPFILE. Of a FIFO it waits for the other end, as that does. Unlike the
 * other calls it ends at its deadline: what is opened after that is closed again (a file may have been created).
 *
 * If all helpers are busy, the call waits for a helper until the deadline. If no helper can be made (no thread, no
 * memory), the call opens the file on the caller's thread, and only then may a slow disk keep the caller past the
 * deadline. To open a FIFO or a character device could take for ever: without a helper the call opens it only with
 * O_NONBLOCK.
 *
 * Returns: the new descriptor, or a negative errno; with WEFT_NOW -EAGAIN, and with a deadline that has passed -ETIMEDOUT:
 *          opening cannot be tried without waiting; -EAGAIN or -ENOMEM there is no helper to open a FIFO or a device
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller owns the new descriptor
 */
WEFT_API int weft_open(const char *path, int flags, mode_t mode, weft_time deadline);

/**
 * pread(2). Fewer bytes than asked for only at the end of the file.
 *
 * Returns: the bytes read, 0 at the end, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_pread(int fd, void *buffer, size_t bytes, off_t offset, weft_time deadline);

/**
 * pwrite(2).
 *
 * Returns: the bytes written, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset, weft_time deadline);

/**
 * fsync(2).
 *
 * Returns: 0, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_fsync(int fd, weft_time deadline);

WEFT_END_DECLS

#endif
