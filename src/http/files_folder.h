/*
 * http/files_folder.h: opens what lies beneath a folder, and nothing else, whatever the path is, whatever symbolic links
 * there are, and whatever other processes rename meanwhile.
 *
 * The kernel keeps to the folder where it has openat2(2): first with RESOLVE_CACHED, which fails where it would have to read a
 * disk, and then on a helper thread, which may. Without openat2 (before Linux 5.6, or in a sandbox that refuses it) the
 * helper walks from folder to folder by hand. All ways give the same answers.
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
    atomic_int way; /* enum wh_folder_way. Relaxed: a thread that reads an old value finds out for itself */
};

/* 0, or as opening the folder says. May block the thread. */
int wh_folder_init(struct wh_folder *folder, const char *path, int links);
void wh_folder_destroy(struct wh_folder *folder);

/*
 * Whether a path may name something beneath a folder: names that are not empty, with single slashes between them, none of
 * them "." or "..", and, unless `hidden`, none that begins with a dot. The empty path is the folder itself.
 */
bool wh_path_is_plain(const char *path, bool hidden);

/*
 * Opens a regular file or a folder for reading, and tells what it is. It never waits for the other end of a FIFO.
 * wants_folder: only a folder will do, else -ENOTDIR. The caller owns the descriptor.
 *
 * Returns the descriptor, or a negative errno: -ENOENT also for what is neither file nor folder, and for a path that is not
 * plain; -EXDEV a link leads out of the folder, or is absolute; -ELOOP links are not followed, or there are more than 40;
 * -EAGAIN a lease is on the file; -ECANCELED. In a fiber a disk that is slow keeps the fiber waiting, not its worker.
 */
int wh_folder_open(struct wh_folder *folder, const char *path, bool wants_folder, struct stat *st);

#endif
