/*
 * http/files_folder.c: see files_folder.h. A helper thread makes the calls that may read a disk, together with
 * fstat(2), so a worker never waits for a disk. A plain thread makes them itself, and so does a fiber if there is no
 * helper.
 */
#include "http/files_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/http.h>
#include <weft/offload.h>

#include "http/files_walk.h"
#include "http/memory.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

enum {
    MOST_TRIES = 16
}; /* of openat2 while others rename; then comes the walk by hand, which renames do not disturb */

static enum wh_folder_way way_of(struct wh_folder *folder)
{
    return (enum wh_folder_way)atomic_load_explicit(&folder->way, memory_order_relaxed);
}

static int call_openat2(const struct wh_folder *folder, const char *path, int flags, uint64_t more)
{
    static const uint64_t resolve[] = {
        [WEFT_FILES_LINKS_BENEATH] = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        [WEFT_FILES_NO_LINKS] = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
        [WEFT_FILES_ALL_LINKS] = 0,
    };
    struct open_how how = {.flags = (uint64_t)flags, .resolve = resolve[folder->links] | more};
    long fd = syscall(SYS_openat2, folder->fd, *path ? path : ".", &how, sizeof how);
    return fd < 0 ? -errno : (int)fd;
}

/* Whether the kernel, or a filter of system calls, has refused openat2 or one of its flags. */
static bool is_refusal(int rc)
{
    return rc == -ENOSYS || rc == -EPERM || rc == -EINVAL;
}

static int probe(const struct wh_folder *folder, uint64_t more)
{
    int fd = call_openat2(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, more);
    if (fd >= 0)
        close(fd);
    return fd;
}

/* Finds out which way works for the folder. This runs again after each refusal, because some programs install their
 * filters of system calls late. (A refusal may also be about one file; then the way stays.) */
static void find_way(struct wh_folder *folder)
{
    int way = WH_FOLDER_CACHED;
    if (is_refusal(probe(folder, RESOLVE_CACHED)))
        way = is_refusal(probe(folder, 0)) ? WH_FOLDER_BY_HAND : WH_FOLDER_OPENAT2;
    if (way > (int)way_of(folder))
        atomic_store_explicit(&folder->way, way, memory_order_relaxed);
}

int wh_folder_init(struct wh_folder *folder, const char *path, int links)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    folder->fd = fd;
    folder->links = links;
    atomic_init(&folder->way, WH_FOLDER_CACHED);
    find_way(folder);
    return 0;
}

void wh_folder_destroy(struct wh_folder *folder)
{
    close(folder->fd);
}

bool wh_path_is_plain(const char *path, bool hidden)
{
    if (*path == '\0')
        return true;
    for (const char *name = path;; name++) {
        size_t size = strcspn(name, "/");
        if (size == 0 || (name[0] == '.' && (!hidden || size == 1 || (size == 2 && name[1] == '.'))))
            return false;
        name += size;
        if (*name == '\0')
            return true;
    }
}

static int flags_of(bool wants_folder)
{
    return O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (wants_folder ? O_DIRECTORY : 0);
}

/* Returns the descriptor if it is that of a regular file or a folder. Closes any other descriptor, and returns
 * -ENOENT. */
static int inspect(int fd, struct stat *st)
{
    if (fd < 0)
        return fd == -ENXIO || fd == -ENODEV ? -ENOENT : fd; /* a socket, or a device without a driver */
    int rc = fstat(fd, st) != 0 ? -errno : 0;
    if (rc == 0 && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
        rc = -ENOENT;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

/* Opens in a way that may block the thread. */
static int open_blocking(struct wh_folder *folder, const char *path, bool wants_folder, struct stat *st)
{
    int flags = flags_of(wants_folder), fd = -EAGAIN;
    if (way_of(folder) != WH_FOLDER_BY_HAND) {
        for (int i = 0; i < MOST_TRIES && fd == -EAGAIN; i++)
            fd = call_openat2(folder, path, flags, 0);
        if (is_refusal(fd))
            find_way(folder);
        else if (fd != -EAGAIN)
            return inspect(fd, st);
    }
    return inspect(wh_walk(folder, path, flags), st);
}

/* Work of a helper. In the heap, because a fiber's locals may lie on a shared stack. */
struct opening {
    struct wh_folder *folder;
    const char *path;
    bool wants_folder;
    int result;
    struct stat st;
};

static void *open_on_helper(void *arg)
{
    struct opening *o = arg;
    o->result = open_blocking(o->folder, o->path, o->wants_folder, &o->st);
    return NULL;
}

static int open_slow(struct wh_folder *folder, const char *path, bool wants_folder, struct stat *st)
{
    struct opening *o = wh_alloc(sizeof *o);
    if (!o)
        return open_blocking(folder, path, wants_folder, st);
    o->folder = folder;
    o->path = path;
    o->wants_folder = wants_folder;
    weft_offload_opts opts = {.size = sizeof opts, .kind = WEFT_OFFLOAD_FILE, .stays = true};
    int rc = weft_offload_with(&opts, open_on_helper, o, NULL, WEFT_FOREVER);
    if (rc == -EAGAIN || rc == -ENOMEM) {
        open_on_helper(o);
        rc = 0;
    }
    if (rc == 0) {
        rc = o->result;
        *st = o->st;
    }
    wh_free(o);
    return rc;
}

int wh_folder_open(struct wh_folder *folder, const char *path, bool wants_folder, struct stat *st)
{
    if (!wh_path_is_plain(path, true))
        return -ENOENT;
    if (way_of(folder) == WH_FOLDER_CACHED) {
        int fd = call_openat2(folder, path, flags_of(wants_folder), RESOLVE_CACHED);
        if (fd != -EAGAIN && !is_refusal(fd))
            return inspect(fd, st);
    }
    return open_slow(folder, path, wants_folder, st);
}
