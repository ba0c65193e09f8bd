/*
 * tests/unit/http/files_ground.h: a folder to serve, with a secret beside it, and calls that make and open what is in it.
 *
 *      /tmp/weft-files-XXXXXX/secret         must never be reached, except where links lead anywhere
 *      /tmp/weft-files-XXXXXX/site/          the folder
 */
#ifndef TESTS_UNIT_HTTP_FILES_GROUND_H
#define TESTS_UNIT_HTTP_FILES_GROUND_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/http.h>

#include "http/files_folder.h"
#include "support/test.h"

struct ground {
    char base[32]; /* the absolute path of the folder of this test */
    int fd;        /* of the site */
};

static inline void make_text(const struct ground *g, const char *path, const char *text)
{
    int fd = openat(g->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        test_failed(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    close(fd);
}

static inline void make_folder(const struct ground *g, const char *path)
{
    CHECK_INT(mkdirat(g->fd, path, 0755), ==, 0);
}

static inline void make_link(const struct ground *g, const char *text, const char *path)
{
    CHECK_INT(symlinkat(text, g->fd, path), ==, 0);
}

static inline const char *absolute(const struct ground *g, const char *path)
{
    static _Thread_local char out[128];
    snprintf(out, sizeof out, "%s/%s", g->base, path);
    return out;
}

static inline void ground_begin(struct ground *g)
{
    snprintf(g->base, sizeof g->base, "/tmp/weft-files-XXXXXX");
    CHECK(mkdtemp(g->base) != NULL);
    CHECK_INT(chmod(g->base, 0755), ==, 0);
    CHECK_INT(mkdir(absolute(g, "site"), 0755), ==, 0);
    g->fd = open(absolute(g, "site"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(g->fd, >=, 0);
    make_text(g, "../secret", "secret");
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static inline void ground_end(struct ground *g)
{
    close(g->fd);
    CHECK_INT(nftw(g->base, remove_entry, 20, FTW_DEPTH | FTW_PHYS), ==, 0);
}

static inline struct wh_folder folder_of(const struct ground *g, int links, enum wh_folder_way way)
{
    struct wh_folder f;
    CHECK_INT(wh_folder_init(&f, absolute(g, "site"), links), ==, 0);
    if ((int)way > atomic_load(&f.way)) /* an emulator, or an old kernel, may have the last ways alone */
        atomic_store(&f.way, (int)way);
    return f;
}

/* How many descriptors this process has. */
static inline int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

#endif
