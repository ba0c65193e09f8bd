/*
 * http/files_folder.h: opens files and folders beneath a folder, and no others, whatever the path is, whatever symbolic
 * links there are, and whatever other processes rename meanwhile. For fibers and plain threads.
 *
 * It uses openat2(2), first with RESOLVE_CACHED, which fails if the kernel would have to read a disk. If that fails, a
 * helper thread tries without RESOLVE_CACHED, and may wait for the disk. Without openat2 (before Linux 5.6, or in a
 * sandbox that refuses it) the helper walks from folder to folder by hand. All ways give the same results.
 */
#ifndef WH_HTTP_FILES_FOLDER_H
#define WH_HTTP_FILES_FOLDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

enum wh_folder_way {
    WH_FOLDER_CACHED,  /* openat2, and RESOLVE_CACHED first */
    WH_FOLDER_OPENAT2, /* openat2 without RESOLVE_CACHED: Linux 5.6 to 5.11 */
    WH_FOLDER_BY_HAND,
};

struct wh_folder {
    int fd;         /* const: opened with O_PATH */
    int links;      /* const: WEFT_FILES_NO_LINKS, ... */
    atomic_int way; /* enum wh_folder_way. Relaxed: a thread that reads an old value finds the new one by itself */
};

/* Opens the folder: 0, or a negative errno. The call may block the thread. */
int wh_folder_init(struct wh_folder *folder, const char *path, int links);
void wh_folder_destroy(struct wh_folder *folder);

/*
 * Whether a path is plain: it has names that are not empty, with single slashes between them. No name is "." or "..",
 * and, unless `hidden`, no name begins with a dot. The empty path is plain, and is the folder itself.
 */
bool wh_path_is_plain(const char *path, bool hidden);

/*
 * Opens a regular file or a folder for reading, and fills *st. It never waits for the other end of a FIFO. With
 * wants_folder, a file is -ENOTDIR. The caller owns the descriptor.
 *
 * Returns the descriptor, or a negative errno: -ENOENT also if the path is not plain, or names neither a file nor a
 * folder; -EXDEV a link leads out of the folder, or is absolute; -ELOOP links are not followed, or there are more than
 * 40; -EAGAIN a lease is on the file; -ECANCELED. In a fiber, a slow disk blocks the fiber and not its worker.
 */
int wh_folder_open(struct wh_folder *folder, const char *path, bool wants_folder, struct stat *st);

#endif
