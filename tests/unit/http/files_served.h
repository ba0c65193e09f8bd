/*
 * unit/http/files_served.h: a folder (files_ground.h) that a server (served.h) serves under "/", and requests for its files.
 *
 *      struct site site;
 *      site_begin(&site, make, NULL, WH_FOLDER_CACHED);
 *      GIVES(&site, "/file", 200, "text");
 *      site_end(&site);
 */
#ifndef TESTS_UNIT_HTTP_FILES_SERVED_H
#define TESTS_UNIT_HTTP_FILES_SERVED_H

#include "http/files.h"
#include "http/server.h"
#include "unit/http/client.h"
#include "unit/http/files_ground.h"
#include "unit/http/served.h"

struct site {
    struct ground g;
    struct served s;
};

/* The ways to open a file, each of which a test can ask for. */
enum { SITE_WAYS = WH_FOLDER_BY_HAND + 1 };

/* `make` (may be NULL) fills the folder. `way`: how its files are opened at best. `limits`: of the server; NULL: defaults. */
static inline void site_begin_with(struct site *site, void (*make)(struct ground *), const weft_files_opts *opts,
                                   int way, const weft_http_opts *limits)
{
    ground_begin(&site->g);
    if (make)
        make(&site->g);
    served_make(&site->s, limits, NULL);
    CHECK_INT(weft_http_files(site->s.h, "/", absolute(&site->g, "site"), opts), ==, 0);
    struct wh_files *files = site->s.h->owned->arg;
    if (way > atomic_load(&files->folder.way)) /* an emulator, or an old kernel, may have the last ways alone */
        atomic_store(&files->folder.way, way);
    served_start(&site->s, 1);
}

static inline void site_begin(struct site *site, void (*make)(struct ground *), const weft_files_opts *opts, int way)
{
    site_begin_with(site, make, opts, way, NULL);
}

static inline void site_end(struct site *site)
{
    served_end(&site->s);
    ground_end(&site->g);
}

/* Asks for a target with more fields ("A: b\r\n"), on a connection of its own. NULL, or what is wrong. */
static inline const char *site_ask(const struct site *site, const char *method, const char *target, const char *fields,
                                   struct answer *a)
{
    size_t size = strlen(method) + strlen(target) + strlen(fields) + 64;
    char *request = malloc(size);
    snprintf(request, size, "%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n", method, target, fields);
    const char *wrong = ask(site->s.port, request, a);
    free(request);
    return wrong;
}

/* Checks the status of an answer to GET, and its body unless that is NULL. */
static inline void check_gives(const struct site *site, const char *target, const char *fields, int status,
                               const char *body, int line)
{
    struct answer a;
    const char *wrong = site_ask(site, "GET", target, fields, &a);
    if (wrong)
        test_failed(__FILE__, line, "%.80s: %s", target, wrong);
    else if (a.status != status)
        test_failed(__FILE__, line, "%.80s: %d instead of %d", target, a.status, status);
    else if (body && strcmp(a.body, body) != 0)
        test_failed(__FILE__, line, "%.80s: \"%.80s\" instead of \"%.80s\"", target, a.body, body);
    answer_free(&a);
}
#define GIVES(site, target, status, body) check_gives(site, target, "", status, body, __LINE__)
#define GIVES_WITH(site, target, fields, status, body) check_gives(site, target, fields, status, body, __LINE__)

/* Checks a field of an answer; NULL: there is none. */
static inline void check_says(const struct site *site, const char *method, const char *target, const char *fields,
                              const char *name, const char *value, int line)
{
    struct answer a;
    const char *wrong = site_ask(site, method, target, fields, &a);
    const char *said = wrong ? wrong : answer_field(&a, name);
    bool is_as_said = value ? said && strcmp(said, value) == 0 : !said;
    if (wrong || !is_as_said)
        test_failed(__FILE__, line, "%s %.80s: %s: %s instead of %s", method, target, name, said ? said : "(none)",
                    value ? value : "(none)");
    answer_free(&a);
}
#define SAYS(site, method, target, fields, name, value) check_says(site, method, target, fields, name, value, __LINE__)

/* Gives a file a time of modification, in seconds since 1970. */
static inline void set_modified(const struct ground *g, const char *path, long second)
{
    struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};
    CHECK_INT(utimensat(g->fd, path, times, 0), ==, 0);
}

#endif
