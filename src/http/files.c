/*
 * http/files.c: the handler of static files: from the path of a request to the file that answers it.
 *
 *      path ──▶ plain? ──▶ open it ──┬── a file ──▶ its twin? ──▶ send (files_send.c)
 *                │ no: 404           ├── a folder, without a slash at the end ──▶ 301
 *                                    └── a folder ──▶ its index, or a listing (files_list.c)
 *
 * A request for a small file takes few system calls: openat2, fstat, a read and close; and one more openat2, which
 * mostly finds no twin, if the client takes gzip.
 */
#include "http/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/io.h>

#include "http/memory.h"
#include "http/options.h"
#include "http/server.h"

/* ---- the handler ---- */

/* Turns the errno of a failed open into the handler's result. A path that leads nowhere, or out of the folder, counts
 * as missing (404). A lack of descriptors or memory is 503. */
static int for_client(int rc)
{
    switch (rc) {
    case -ENOTDIR:
    case -ELOOP:
    case -EXDEV:
    case -ENAMETOOLONG:
        return -ENOENT;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
        return -EAGAIN;
    case -EPERM:
        return -EACCES;
    default:
        return rc;
    }
}

/* Joins three strings in memory of the exchange. NULL: no memory. */
static char *join(weft_exchange *x, const char *a, const char *b, const char *c)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char *all = weft_http_alloc(x, size);
    if (all)
        snprintf(all, size, "%s%s%s", a, b, c);
    return all;
}

/* Redirects to the same path with a slash at its end. A path that begins with "//" is not found: browsers would read
 * the location "//host/" as another server. */
static int redirect(weft_exchange *x)
{
    const char *path = weft_http_path(x), *query = weft_http_query_text(x);
    if (path[0] != '/' || path[1] == '/' || path[1] == '\\')
        return -ENOENT;
    char *location = join(x, path, query ? "/?" : "/", query ? query : "");
    if (!location)
        return -EAGAIN;
    return weft_http_redirect(x, 301, location);
}

/*
 * Replaces the file by its twin, for a client that accepts gzip. The file stays if the twin is older, or cannot be
 * opened, whatever the error.
 */
static void prefer_twin(weft_exchange *x, struct wh_files *files, const char *path, struct wh_file *f)
{
    struct wh_file twin = {.is_gzip = true};
    char *name = join(x, path, ".gz", "");
    if (!name)
        return;
    twin.fd = wh_folder_open(&files->folder, name, false, &twin.st);
    if (twin.fd < 0)
        return;
    struct timespec a = twin.st.st_mtim, b = f->st.st_mtim;
    bool is_older = a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
    if (is_older || !S_ISREG(twin.st.st_mode)) {
        weft_close(twin.fd);
        return;
    }
    weft_close(f->fd);
    *f = twin;
}

/* Sends the regular file that was opened at `path`, and closes it. */
static int send_opened(weft_exchange *x, struct wh_files *files, const char *path, struct wh_file *f)
{
    struct wh_file_fields fields;
    int rc = for_client(wh_file_fields_read(x, &fields));
    if (rc == 0 && wh_accepts_gzip(fields.accept_encoding))
        prefer_twin(x, files, path, f);
    if (rc == 0)
        rc = wh_file_send(x, files, f, weft_http_type(path), &fields.conditions);
    weft_close(f->fd);
    return rc;
}

static int serve_path(weft_exchange *x, struct wh_files *files, const char *path)
{
    struct wh_file f = {0};
    f.fd = wh_folder_open(&files->folder, path, false, &f.st);
    if (f.fd < 0)
        return for_client(f.fd);
    if (S_ISREG(f.st.st_mode))
        return send_opened(x, files, path, &f);
    weft_close(f.fd);
    return redirect(x);
}

static int list(weft_exchange *x, struct wh_files *files, const char *path)
{
    char *shown = join(x, files->prefix, path, *path ? "/" : "");
    return shown ? for_client(wh_files_list(x, files, path, shown)) : -EAGAIN;
}

/* `path` is without the slash at its end. */
static int serve_folder(weft_exchange *x, struct wh_files *files, const char *path)
{
    struct wh_file f = {0};
    char *index = join(x, path, *path ? "/" : "", files->index);
    if (!index)
        return -EAGAIN;
    f.fd = wh_folder_open(&files->folder, index, false, &f.st);
    if (f.fd >= 0 && S_ISREG(f.st.st_mode))
        return send_opened(x, files, index, &f);
    if (f.fd >= 0)
        weft_close(f.fd);
    else if (f.fd != -ENOENT)
        return for_client(f.fd);
    return files->lists ? list(x, files, path) : -ENOENT;
}

static int serve(weft_exchange *x, void *arg)
{
    struct wh_files *files = arg;
    const char *path = weft_http_param(x, "path");
    if (!path)
        return -ENOENT;
    size_t size = strlen(path);
    bool is_folder = size == 0 || path[size - 1] == '/';
    if (size > 0 && is_folder) {
        char *copy = weft_http_alloc(x, size);
        if (!copy)
            return -EAGAIN;
        memcpy(copy, path, size - 1);
        copy[size - 1] = '\0';
        path = copy;
    }
    if (!wh_path_is_plain(path, files->hidden) || (size == 1 && is_folder)) /* a slash alone is an empty name */
        return -ENOENT;
    return is_folder ? serve_folder(x, files, path) : serve_path(x, files, path);
}

/* ---- weft_http_files ---- */

static void files_free(void *arg)
{
    struct wh_files *files = arg;
    if (files->folder.fd >= 0)
        wh_folder_destroy(&files->folder);
    wh_free(files->prefix);
    wh_free(files->index);
    wh_free(files);
}

static bool is_valid(const weft_files_opts *o)
{
    return o->links >= WEFT_FILES_LINKS_BENEATH && o->links <= WEFT_FILES_ALL_LINKS && o->max_age >= 0 &&
           (!o->index || (*o->index != '\0' && !strchr(o->index, '/') && wh_path_is_plain(o->index, true)));
}

static int files_new(struct wh_files **out, const char *prefix, const char *dir, const weft_files_opts *o)
{
    struct wh_files *files = wh_alloc_zero(sizeof *files);
    if (!files)
        return -ENOMEM;
    files->folder.fd = -1;
    files->lists = o->list;
    files->hidden = o->hidden;
    if (o->max_age > 0)
        snprintf(files->cache_control, sizeof files->cache_control, "max-age=%lld", (long long)(o->max_age / WEFT_SEC));
    files->prefix = wh_copy(prefix);
    files->index = wh_copy(o->index ? o->index : "index.html");
    int rc = files->prefix && files->index ? wh_folder_init(&files->folder, dir, o->links) : -ENOMEM;
    if (rc == 0)
        *out = files;
    else
        files_free(files);
    return rc;
}

static int add_route(weft_http *h, const char *prefix, struct wh_files *files)
{
    size_t size = sizeof "GET {path...}" + strlen(prefix);
    char *pattern = wh_alloc(size);
    if (!pattern)
        return -ENOMEM;
    snprintf(pattern, size, "GET %s{path...}", prefix);
    int rc = weft_http_route(h, pattern, serve, files);
    wh_free(pattern);
    return rc;
}

int weft_http_files(weft_http *h, const char *prefix, const char *dir, const weft_files_opts *opts)
{
    weft_files_opts o;
    if (wh_options_read(&o, sizeof o, opts, sizeof o) != 0)
        return -EINVAL;
    if (!h || !dir || !prefix || prefix[0] != '/' || prefix[strlen(prefix) - 1] != '/' || strchr(prefix, '{') ||
        !is_valid(&o))
        return -EINVAL;
    if (wh_server_is_serving(h))
        return -EBUSY;
    struct wh_files *files = NULL;
    int rc = files_new(&files, prefix, dir, &o);
    if (rc != 0)
        return rc;
    rc = wh_server_own(h, files_free, files);
    if (rc != 0) {
        files_free(files);
        return rc;
    }
    rc = add_route(h, prefix, files);
    if (rc != 0) { /* the rest is freed with the server */
        wh_folder_destroy(&files->folder);
        files->folder.fd = -1;
    }
    return rc;
}
