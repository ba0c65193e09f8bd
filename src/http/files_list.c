/*
 * http/files_list.c: a folder's listing: a page of HTML with the names, sizes and dates of the entries that are served.
 *
 * A helper thread makes the page, because each entry may have to be read from a disk. Names come from the disk and are
 * not trusted: in links all but harmless bytes are percent-encoded, and texts are escaped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/offload.h>

#include "http/files.h"
#include "http/memory.h"

enum {
    MOST_ENTRIES = 10000,
    FIRST_ROOM = 4096,
    SMALL_PAGE = 64 * 1024, /* bytes of a listing that is always sent */
};

size_t wh_listed_most = (size_t)64 * 1024 * 1024;

/* Text that grows. */
struct text {
    char *bytes;
    size_t size, room;
    bool has_failed; /* there was no memory: appending does nothing */
};

struct entry {
    char *name;
    bool is_folder;
    int64_t size, modified;
};

/* Work of a helper; it lies in the heap. */
struct listing {
    struct wh_files *files;
    const char *path;  /* beneath the folder */
    const char *shown; /* the path that the client asked for, decoded */
    struct entry *entries;
    size_t count, room;
    bool has_more; /* the folder has more than MOST_ENTRIES */
    struct text page;
    int result;
};

/* ---- text ---- */

/* Moves `used` bytes to a larger place. NULL: no memory, and the old place stays. */
static void *grow(void *old, size_t used, size_t room)
{
    void *new = wh_alloc(room);
    if (!new)
        return NULL;
    if (used > 0)
        memcpy(new, old, used);
    wh_free(old);
    return new;
}

static void put_bytes(struct text *t, const char *bytes, size_t size)
{
    if (size > t->room - t->size && !t->has_failed) {
        size_t room = t->room * 2 > t->size + size ? t->room * 2 : t->size + size + FIRST_ROOM;
        char *new = grow(t->bytes, t->size, room);
        t->has_failed = !new;
        t->bytes = new ? new : t->bytes;
        t->room = new ? room : t->room;
    }
    if (t->has_failed)
        return;
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

static void put(struct text *t, const char *s)
{
    put_bytes(t, s, strlen(s));
}

/* A name as HTML text. A control character shows as a replacement character. */
static void put_escaped(struct text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            put(t, "&amp;");
        else if (*s == '<')
            put(t, "&lt;");
        else if (*s == '>')
            put(t, "&gt;");
        else if (*s == '"')
            put(t, "&quot;");
        else if (*s == '\'')
            put(t, "&#39;");
        else if ((unsigned char)*s < ' ' || *s == 0x7f)
            put(t, "&#xFFFD;");
        else
            put_bytes(t, s, 1);
    }
}

/* A name as a relative link. */
static void put_link(struct text *t, const char *s)
{
    for (; *s; s++) {
        char hex[4];
        bool is_letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
        if (is_letter || strchr("-._~", *s)) {
            put_bytes(t, s, 1);
        } else {
            snprintf(hex, sizeof hex, "%%%02X", (unsigned char)*s);
            put_bytes(t, hex, 3);
        }
    }
}

static void put_size(struct text *t, int64_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char out[40];
    double n = (double)size;
    unsigned i = 0;
    for (; n >= 1024 && i < 6; i++)
        n /= 1024;
    snprintf(out, sizeof out, i == 0 ? "%.0f %s" : "%.1f %s", n, units[i]);
    put(t, out);
}

static void put_date(struct text *t, int64_t seconds)
{
    char out[40];
    struct tm tm;
    time_t at = seconds;
    if (gmtime_r(&at, &tm) && strftime(out, sizeof out, "%Y-%m-%d %H:%M", &tm) > 0)
        put(t, out);
}

/* ---- entries ---- */

static int add_entry(struct listing *l, const char *name, const struct stat *st)
{
    if (l->count == l->room) {
        size_t room = l->room > 0 ? l->room * 2 : 64;
        struct entry *new = grow(l->entries, l->count * sizeof *new, room * sizeof *new);
        if (!new)
            return -ENOMEM;
        l->entries = new;
        l->room = room;
    }
    char *copy = wh_copy(name);
    if (!copy)
        return -ENOMEM;
    l->entries[l->count++] = (struct entry){copy, S_ISDIR(st->st_mode), st->st_size, st->st_mtim.tv_sec};
    return 0;
}

/* Inspects the target of a link, under the folder's rule for links. False: the target would not be served. */
static bool look_behind_link(const struct listing *l, const char *name, struct stat *st)
{
    size_t size = strlen(l->path) + strlen(name) + 2;
    char *path = wh_alloc(size);
    if (!path)
        return false;
    snprintf(path, size, "%s%s%s", l->path, *l->path ? "/" : "", name);
    int fd = wh_folder_open(&l->files->folder, path, false, st);
    wh_free(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool is_served(const struct listing *l, int folder, const char *name, struct stat *st)
{
    if (!wh_path_is_plain(name, l->files->hidden) || fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISLNK(st->st_mode))
        return look_behind_link(l, name, st);
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

static int read_entries(struct listing *l, DIR *folder)
{
    struct dirent *e;
    struct stat st;
    int rc = 0;
    while (rc == 0 && !l->has_more && (errno = 0, e = readdir(folder)) != NULL) {
        if (!is_served(l, dirfd(folder), e->d_name, &st))
            continue;
        if (l->count == MOST_ENTRIES)
            l->has_more = true;
        else
            rc = add_entry(l, e->d_name, &st);
    }
    return rc != 0 || l->has_more ? rc : -errno;
}

/* Folders first, each by name. */
static int order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->is_folder != y->is_folder ? (x->is_folder ? -1 : 1) : strcmp(x->name, y->name);
}

/* ---- the page ---- */

static const char page_begin[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }\n"
    "h1 { font-size: 1.25rem; overflow-wrap: anywhere; }\n"
    "table { border-collapse: collapse; width: 100%; }\n"
    "th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; }\n"
    "td:first-child { overflow-wrap: anywhere; }\n"
    "th + th, td + td { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }\n"
    "a { text-decoration: none; }\na:hover { text-decoration: underline; }\n"
    "</style>\n<title>";

static void put_entry(struct text *t, const struct entry *e)
{
    const char *slash = e->is_folder ? "/" : "";
    put(t, "<tr><td><a href=\"");
    put_link(t, e->name);
    put(t, slash);
    put(t, "\">");
    put_escaped(t, e->name);
    put(t, slash);
    put(t, "</a></td><td>");
    if (!e->is_folder)
        put_size(t, e->size);
    put(t, "</td><td>");
    put_date(t, e->modified);
    put(t, "</td></tr>\n");
}

static void put_page(struct listing *l)
{
    struct text *t = &l->page;
    put(t, page_begin);
    put_escaped(t, l->shown);
    put(t, "</title>\n</head>\n<body>\n<h1>");
    put_escaped(t, l->shown);
    put(t, "</h1>\n<table>\n<thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr></thead>\n<tbody>\n");
    if (*l->path)
        put(t, "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    for (size_t i = 0; i < l->count; i++)
        put_entry(t, &l->entries[i]);
    put(t, "</tbody>\n</table>\n");
    if (l->has_more)
        put(t, "<p>There is more: only a part of this folder is shown.</p>\n");
    put(t, "</body>\n</html>\n");
}

static int list(struct listing *l)
{
    struct stat st;
    int fd = wh_folder_open(&l->files->folder, l->path, true, &st);
    if (fd < 0)
        return fd;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return -ENOMEM;
    }
    int rc = read_entries(l, folder);
    closedir(folder);
    if (rc != 0)
        return rc;
    if (l->count > 0)
        qsort(l->entries, l->count, sizeof *l->entries, order);
    put_page(l);
    return l->page.has_failed ? -ENOMEM : 0;
}

static void free_entries(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        wh_free(l->entries[i].name);
    wh_free(l->entries);
}

/* Makes the page. The page may wait long for its client, so the entries are freed before. */
static void *list_on_helper(void *arg)
{
    struct listing *l = arg;
    l->result = list(l);
    free_entries(l);
    return NULL;
}

/* Sends the page, which takes memory until its client has read it. Many slow clients must not fill the memory, so a
 * long page is refused if too many bytes wait already. */
static int send_page(weft_exchange *x, struct wh_files *files, const struct text *page)
{
    size_t before = atomic_fetch_add_explicit(&files->listed, page->size, memory_order_relaxed);
    int rc = page->size <= SMALL_PAGE || before < wh_listed_most ? 0 : -EAGAIN;
    /* The page may run no scripts, in case escaping a name ever fails. */
    if (rc == 0)
        rc = weft_http_add_header(x, "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    if (rc == 0)
        rc = weft_http_reply(x, 200, "text/html; charset=utf-8", page->bytes, page->size);
    atomic_fetch_sub_explicit(&files->listed, page->size, memory_order_relaxed);
    return rc;
}

int wh_files_list(weft_exchange *x, struct wh_files *files, const char *path, const char *shown)
{
    struct listing *l = wh_alloc_zero(sizeof *l);
    if (!l)
        return -ENOMEM;
    l->files = files;
    l->path = path;
    l->shown = shown;
    weft_offload_opts opts = {.size = sizeof opts, .kind = WEFT_OFFLOAD_FILE, .stays = true};
    int rc = weft_offload_with(&opts, list_on_helper, l, NULL, WEFT_FOREVER);
    if (rc == 0)
        rc = l->result;
    if (rc == 0)
        rc = send_page(x, files, &l->page);
    wh_free(l->page.bytes);
    wh_free(l);
    return rc;
}
