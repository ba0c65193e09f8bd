/*
 * http/files_walk.c: see files_walk.h.
 *
 * The walk only ever goes down. Each step opens one name in a folder that the walk holds open, with O_NOFOLLOW. So no
 * rename by another process can lead the walk elsewhere. If the name is a link, the link's text replaces the name in
 * the path. A ".." (only links have it) drops the last name that was passed, and the walk starts again at the root:
 * opening ".." itself would leave the root if a folder was moved meanwhile.
 */
#include "http/files_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <weft/http.h>

#include "http/files_folder.h"
#include "http/memory.h"

enum {
    MOST_LINKS = 40,    /* as many as the kernel follows */
    MOST_STEPS = 10000, /* a path of 4 KiB has at most 2,048 names; links with many ".." take more steps */
    REST_ROOM = 2 * PATH_MAX,
};

struct walk {
    const struct wh_folder *folder;
    int at;    /* the folder that the walk has reached; folder->fd at the root */
    int found; /* what the path names; -1 until it is open */
    int flags; /* for opening it */
    unsigned links, steps;
    size_t passed_size;
    char passed[PATH_MAX + 1]; /* the names from the root to `at`, each with a zero byte behind it */
    char *rest;                /* the names that are left to walk, at the end of their room */
    char room[REST_ROOM];
    char link[PATH_MAX];
};

/* The next name of the rest. */
struct step {
    char name[NAME_MAX + 1];
    bool is_last, wants_folder;
};

static int open_name(struct walk *w, const char *name, int flags)
{
    if (w->steps++ == MOST_STEPS)
        return -ELOOP;
    int fd = openat(w->at, name, flags | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void reach(struct walk *w, int fd)
{
    if (w->at != w->folder->fd)
        close(w->at);
    w->at = fd;
}

/* Puts the text of a link before the rest of the path. */
static int put_before_rest(struct walk *w, const char *text, size_t size)
{
    bool needs_slash = *w->rest != '\0';
    if (size + needs_slash > (size_t)(w->rest - w->room))
        return -ENAMETOOLONG;
    if (needs_slash)
        *--w->rest = '/';
    w->rest -= size;
    memcpy(w->rest, text, size);
    return 0;
}

/* Follows a link: its text goes before the rest of the path. Returns `otherwise` if the name is no link. */
static int follow(struct walk *w, const struct step *s, int otherwise)
{
    ssize_t size = readlinkat(w->at, s->name, w->link, sizeof w->link);
    if (size < 0)
        return errno == EINVAL ? otherwise : -errno;
    if (w->folder->links == WEFT_FILES_NO_LINKS || w->links++ == MOST_LINKS)
        return -ELOOP;
    if (size == 0)
        return -ENOENT;
    if (size == sizeof w->link)
        return -ENAMETOOLONG;
    if (w->link[0] == '/')
        return -EXDEV;
    if (s->wants_folder && s->is_last) /* the slash that stood behind the link now stands behind its text */
        w->link[size++] = '/';
    return put_before_rest(w, w->link, (size_t)size);
}

/* Takes the next name from the rest. Returns 1; 0: there is none. */
static int next_step(struct walk *w, struct step *s)
{
    const char *name = w->rest + strspn(w->rest, "/");
    size_t size = strcspn(name, "/");
    const char *end = name + size, *next = end + strspn(end, "/");
    w->rest += next - w->rest;
    if (size > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(s->name, name, size);
    s->name[size] = '\0';
    s->is_last = *next == '\0';
    s->wants_folder = next != end;
    return size > 0;
}

static int go_down(struct walk *w, const char *name)
{
    int fd = open_name(w, name, O_PATH | O_DIRECTORY);
    if (fd >= 0)
        reach(w, fd);
    return fd < 0 ? fd : 0;
}

static int go_up(struct walk *w)
{
    if (w->passed_size == 0)
        return -EXDEV;
    do
        w->passed_size--;
    while (w->passed_size > 0 && w->passed[w->passed_size - 1] != '\0');
    reach(w, w->folder->fd);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->passed_size; i += strlen(w->passed + i) + 1)
        rc = go_down(w, w->passed + i);
    return rc;
}

/* Goes into a folder on the way, or follows a link to it. */
static int pass(struct walk *w, const struct step *s)
{
    int rc = go_down(w, s->name);
    if (rc == -ELOOP || rc == -ENOTDIR)
        return follow(w, s, rc);
    if (rc != 0)
        return rc;
    size_t size = strlen(s->name) + 1;
    if (size > sizeof w->passed - w->passed_size)
        return -ENAMETOOLONG;
    memcpy(w->passed + w->passed_size, s->name, size);
    w->passed_size += size;
    return 0;
}

/* Opens what the path names, or follows a link to it. */
static int arrive(struct walk *w, const struct step *s)
{
    int fd = open_name(w, s->name, w->flags | (s->wants_folder ? O_DIRECTORY : 0));
    if (fd == -ELOOP || fd == -ENOTDIR)
        return follow(w, s, fd);
    w->found = fd;
    return fd < 0 ? fd : 0;
}

static int take(struct walk *w, const struct step *s)
{
    if (strcmp(s->name, ".") == 0)
        return 0;
    if (strcmp(s->name, "..") == 0)
        return go_up(w);
    return s->is_last ? arrive(w, s) : pass(w, s);
}

static int walk(struct walk *w)
{
    struct step s;
    int rc;
    while ((rc = next_step(w, &s)) > 0) {
        rc = take(w, &s);
        if (rc < 0 || w->found >= 0)
            return rc < 0 ? rc : w->found;
    }
    return rc < 0 ? rc : open_name(w, ".", w->flags); /* the path ends in a folder: it is empty, or as "a/.." */
}

int wh_walk(const struct wh_folder *folder, const char *path, int flags)
{
    size_t size = strlen(path);
    if (size >= PATH_MAX)
        return -ENAMETOOLONG;
    if (folder->links == WEFT_FILES_ALL_LINKS) {
        int fd = openat(folder->fd, size > 0 ? path : ".", flags);
        return fd < 0 ? -errno : fd;
    }
    struct walk *w = wh_alloc(sizeof *w);
    if (!w)
        return -ENOMEM;
    w->folder = folder;
    w->flags = flags;
    w->at = folder->fd;
    w->found = -1;
    w->links = w->steps = 0;
    w->passed_size = 0;
    w->rest = w->room + sizeof w->room - 1;
    *w->rest = '\0';
    int rc = put_before_rest(w, path, size);
    if (rc == 0)
        rc = walk(w);
    reach(w, folder->fd);
    wh_free(w);
    return rc;
}
