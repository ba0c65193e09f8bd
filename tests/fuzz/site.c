/*
 * fuzz/site.c: see site.h. fuzz/judge.c knows what some of these handlers answer.
 */
#include "fuzz/site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

char site_large[SITE_LARGE];
enum { LARGE_FILE = 40 * 1024, SHARED_STACKS = 2 };

static weft_stacks *shared; /* with FUZZ_SHARED in the environment: connections run on these */

static char folder[] = "/tmp/weft-fuzz-XXXXXX";
static int log_file = -1;

static const struct {
    const char *name, *text;
} files[] = {
    {"a.txt", "0123456789abcdefghijklmnopqrstuvwxyz"},
    {"a.txt.gz", "gzip"},
    {"b.html", "<p>b</p>"},
    {"large", ""}, /* LARGE_FILE bytes of site_large */
    {".hidden", "hidden"},
};

static int hello(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
}

static int echo(weft_exchange *x, void *arg)
{
    const char *body;
    size_t size;
    (void)arg;
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, NULL, body, size);
}

/* Echoes the body in parts, before it has come as a whole. */
static int parts(weft_exchange *x, void *arg)
{
    char part[7];
    ptrdiff_t n;
    (void)arg;
    int rc = weft_http_begin(x, 200);
    if (rc != 0)
        return rc;
    while ((n = weft_http_read(x, part, sizeof part, WEFT_FOREVER)) > 0) {
        rc = weft_http_write(x, part, (size_t)n);
        if (rc != 0)
            return rc;
    }
    return (int)n;
}

static int chunks(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    rc = rc != 0 ? rc : weft_http_write(x, "one", 3);
    rc = rc != 0 ? rc : weft_http_flush(x);
    weft_yield();
    rc = rc != 0 ? rc : weft_http_write(x, "", 0);
    rc = rc != 0 ? rc : weft_http_write(x, "two", 3);
    return rc != 0 ? rc : weft_http_end(x);
}

/* Fails half-way through a body. */
static int cut(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    rc = rc != 0 ? rc : weft_http_write(x, "part", 4);
    rc = rc != 0 ? rc : weft_http_query(x, "flush") ? weft_http_flush(x) : 0;
    return rc != 0 ? rc : -EIO;
}

/* Its body is shorter than it said. */
static int late(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_add_header(x, "Content-Length", "10");
    rc = rc != 0 ? rc : weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write(x, "part", 4);
}

static int own_length(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_add_header(x, "Content-Length", "4");
    rc = rc != 0 ? rc : weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write(x, "four", 4);
}

/* Fails before its answer. */
static int fails(weft_exchange *x, void *arg)
{
    static const int errors[] = {-ENOENT, -EACCES, -EINVAL, -EOPNOTSUPP, -ETIMEDOUT, -EFBIG, -EAGAIN, -ETIME, -EIO};
    const char *which = weft_http_query(x, "e");
    (void)arg;
    weft_http_add_header(x, "X-Lost", "of another answer");
    return errors[which ? (unsigned char)*which % (sizeof errors / sizeof errors[0]) : 0];
}

static int events(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    rc = rc != 0 ? rc : weft_http_event(x, "name", weft_http_query(x, "data"));
    weft_yield();
    rc = rc != 0 ? rc : weft_http_event(x, NULL, NULL);
    return rc;
}

static int form(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_read_form(x, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    const char *value = weft_http_form(x, "a");
    return weft_http_reply(x, value ? 200 : 400, "text/plain", value, value ? strlen(value) : 0);
}

static int child(void *arg)
{
    (void)arg;
    weft_yield();
    return 0;
}

/* Sends back what it was asked, also as fields: those that would break the head must not get into it. */
static int asks(weft_exchange *x, void *arg)
{
    const char *name, *value, *query = weft_http_query(x, "a"), *cookie = weft_http_cookie(x, "a");
    weft_scope *scope = weft_http_query(x, "scope") ? weft_http_scope(x) : NULL;
    char *text = weft_http_alloc(x, 4096);
    size_t size = 0;
    (void)arg;
    if (scope)
        weft_scope_go(scope, child, NULL);
    for (unsigned i = 0; weft_http_header_at(x, i, &name, &value) == 0; i++)
        size += (size_t)snprintf(text + size, 4096 - size, "%.40s: %.40s\n", name, value);
    size += (size_t)snprintf(text + size, 4096 - size, "%.40s %d", weft_http_host(x), weft_http_version(x));
    if (query && weft_http_add_header(x, "X-Query", query) == 0)
        size += (size_t)snprintf(text + size, 4096 - size, " query");
    if (cookie && weft_http_add_header(x, "X-Cookie", cookie) == 0)
        size += (size_t)snprintf(text + size, 4096 - size, " cookie");
    if (query)
        weft_http_add_header(x, query, "name");
    return weft_http_reply(x, 200, cookie, text, size);
}

static int note(weft_exchange *x, void *arg)
{
    const char *id = weft_http_param(x, "id");
    (void)arg;
    weft_http_add_header(x, "X-Note", id);
    return weft_http_reply(x, 200, NULL, id, strlen(id));
}

static int rest(weft_exchange *x, void *arg)
{
    const char *path = weft_http_param(x, "rest");
    (void)arg;
    return weft_http_reply(x, 200, NULL, path, strlen(path));
}

static int redirect(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_redirect(x, 303, weft_http_query(x, "to"));
}

/* Any status, with a body. */
static int status(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, atoi(weft_http_param(x, "n")), "text/plain", "status", 6);
}

static int large(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, site_large, sizeof site_large);
}

/* Allows a larger body, and reads but its beginning. */
static int some(weft_exchange *x, void *arg)
{
    char part[8];
    (void)arg;
    weft_http_allow_body(x, SITE_BODY * 2);
    ptrdiff_t n = weft_http_read(x, part, sizeof part, WEFT_FOREVER);
    return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, part, (size_t)n);
}

/* Reads the body, and then a field of the head: the body must not lie over it. */
static int after(weft_exchange *x, void *arg)
{
    char part[64];
    ptrdiff_t n;
    (void)arg;
    do
        n = weft_http_read(x, part, sizeof part, WEFT_FOREVER);
    while (n > 0);
    const char *value = weft_http_header(x, "X");
    return n < 0 ? (int)n : weft_http_reply(x, 200, NULL, value, value ? strlen(value) : 0);
}

/* Earlier answers of its batch go out while it waits. */
static int waits(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_yield();
    weft_yield();
    return weft_http_reply(x, 200, "text/plain", "waited", 6);
}

static int nothing(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return 0;
}

static const struct {
    const char *pattern;
    weft_handler *fn;
} routes[] = {
    {"GET /hello", hello},       {"/echo", echo},
    {"POST /parts", parts},      {"GET /chunks", chunks},
    {"GET /cut", cut},           {"GET /late", late},
    {"GET /own", own_length},    {"/fails", fails},
    {"GET /events", events},     {"POST /form", form},
    {"GET /asks", asks},         {"GET /notes/{id}", note},
    {"PUT /notes/{id}", note},   {"GET /rest/{rest...}", rest},
    {"GET /redirect", redirect}, {"GET /status/{n}", status},
    {"GET /large", large},       {"POST /some", some},
    {"/nothing", nothing},       {"GET /waits", waits},
    {"POST /after", after},      {"POST /hello", hello},
};

static void make_folder(void)
{
    if (!mkdtemp(folder))
        fuzz_fail(__FILE__, __LINE__, "no folder %s", folder);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        FILE *file = fopen(path, "w");
        bool is_large = *files[i].text == '\0';
        if (!file ||
            fwrite(is_large ? site_large : files[i].text, is_large ? LARGE_FILE : strlen(files[i].text), 1, file) !=
                1 ||
            fclose(file) != 0)
            fuzz_fail(__FILE__, __LINE__, "%s cannot be written", path);
    }
}

static void remove_folder(void)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        unlink(path);
    }
    rmdir(folder);
}

weft_http *site_new(void)
{
    weft_http_opts opts = {.size = sizeof opts,
                           .server = "fuzz",
                           .head_bytes = SITE_HEAD,
                           .head_fields = SITE_FIELDS,
                           .body_bytes = SITE_BODY,
                           .drain_bytes = SITE_DRAIN};
    if (getenv("FUZZ_SHARED"))
        FUZZ_CHECK_INT(weft_stacks_new(&shared, SHARED_STACKS, 0), 0);
    opts.shared = shared;
    weft_http *h;
    for (size_t i = 0; i < sizeof site_large; i++)
        site_large[i] = (char)('a' + i % 23);
    make_folder();
    log_file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    FUZZ_CHECK_INT(weft_http_new(&h, &opts), 0);
    FUZZ_CHECK_INT(weft_http_log(h, log_file), 0);
    FUZZ_CHECK_INT(weft_http_use(h, weft_http_give_id, NULL), 0);
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        FUZZ_CHECK_INT(weft_http_route(h, routes[i].pattern, routes[i].fn, NULL), 0);
    FUZZ_CHECK_INT(weft_http_files(h, "/files/", folder, &(weft_files_opts){.list = true}), 0);
    return h;
}

void site_free(weft_http *h)
{
    FUZZ_CHECK_INT(weft_http_free(h), 0);
    FUZZ_CHECK_INT(weft_stacks_free(shared), 0);
    close(log_file);
    remove_folder();
}
