/*
 * tests/http/server.c: the server of the tests of conformance and of odd requests. It serves a free port of 127.0.0.1,
 * prints "port N", and ends gracefully when its standard input ends.
 *
 *      server FOLDER    the files of FOLDER are at /files/
 *
 * Most of its routes are what a row of tests/http/requirements/ needs: a handler that answers in one way. The comment of each
 * handler says which.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/http.h>
#include <weft/weft.h>

#define PLAIN "text/plain"

static void check(const char *what, int rc)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-rc));
        exit(1);
    }
}

static int say(weft_exchange *x, int status, const char *text)
{
    return weft_http_reply(x, status, PLAIN, text, strlen(text));
}

/* Answers 200 and the text `arg`. */
static int says(weft_exchange *x, void *arg)
{
    return say(x, 200, arg);
}

/* Answers with the body of the request. */
static int echo(weft_exchange *x, void *arg)
{
    const char *body;
    size_t size;
    (void)arg;
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    return rc != 0 ? rc : weft_http_reply(x, 200, PLAIN, body, size);
}

static int write_text(weft_exchange *x, const char *text)
{
    return weft_http_write(x, text, strlen(text));
}

static int write_line(weft_exchange *x, const char *name, const char *between, const char *value)
{
    int rc = write_text(x, name);
    if (rc == 0)
        rc = write_text(x, between);
    if (rc == 0)
        rc = write_text(x, value);
    return rc != 0 ? rc : weft_http_write(x, "\n", 1);
}

/* Reads once without waiting, and answers without the rest of the body. A 100, if the read causes one, comes first. */
static int tries(weft_exchange *x, void *arg)
{
    char byte;
    (void)arg;
    weft_http_read(x, &byte, 1, WEFT_NOW);
    return say(x, 200, "tried\n");
}

/* Answers with what a handler sees of the request, a line each: method, path, query, host, version, then each field. */
static int show(weft_exchange *x, void *arg)
{
    const char *name, *value, *query = weft_http_query_text(x);
    (void)arg;
    int rc = weft_http_add_header(x, "Content-Type", PLAIN);
    if (rc == 0)
        rc = weft_http_begin(x, 200);
    if (rc == 0)
        rc = write_line(x, weft_http_method(x), "\n", weft_http_path(x));
    if (rc == 0)
        rc = write_line(x, query ? query : "", "\n", weft_http_host(x));
    if (rc == 0)
        rc = write_line(x, weft_http_version(x) == 11 ? "1.1" : "1.0", "", "");
    for (unsigned i = 0; rc == 0 && weft_http_header_at(x, i, &name, &value) == 0; i++)
        rc = write_line(x, name, ": ", value);
    return rc;
}

/* Answers in parts, without a length. */
static int parts(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    if (rc == 0)
        rc = weft_http_write(x, "one ", 4);
    if (rc == 0)
        rc = weft_http_flush(x);
    return rc != 0 ? rc : weft_http_write(x, "two\n", 4);
}

/* Answers in parts, with a length. */
static int sized(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_add_header(x, "Content-Length", "8");
    if (rc == 0)
        rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write(x, "one two\n", 8);
}

/* Answers with the status that the path names. Without a query: in one piece; with "parts": in parts; with "length": in
 * parts, with a length. */
static int status(weft_exchange *x, void *arg)
{
    int code = atoi(weft_http_param(x, "code"));
    const char *how = weft_http_query_text(x);
    (void)arg;
    if (!how) {
        int rc = say(x, code, "body\n");
        return rc == -EINVAL ? say(x, 200, "refused\n") : rc;
    }
    int rc = strcmp(how, "length") == 0 ? weft_http_add_header(x, "Content-Length", "5") : 0;
    if (rc == 0)
        rc = weft_http_begin(x, code);
    return rc != 0 ? rc : weft_http_write(x, "body\n", 5);
}

/* Adds the field that the query names, and answers with what weft_http_add_header says: 0 or a name of an error. */
static int field(weft_exchange *x, void *arg)
{
    const char *name = weft_http_query(x, "name"), *value = weft_http_query(x, "value");
    (void)arg;
    int rc = weft_http_add_header(x, name ? name : "", value ? value : "");
    return say(x, 200, rc == 0 ? "0\n" : rc == -EINVAL ? "EINVAL\n" : "another\n");
}

/* Answers with the status in `arg`, and with a field that this status must have. */
static int demands(weft_exchange *x, void *arg)
{
    const char *const *a = arg;
    int rc = weft_http_add_header(x, a[1], a[2]);
    return rc != 0 ? rc : say(x, atoi(a[0]), "no\n");
}

static int moved(weft_exchange *x, void *arg)
{
    return weft_http_redirect(x, 302, arg);
}

/* Returns the negative errno in `arg`, and does not answer. */
static int fails(weft_exchange *x, void *arg)
{
    (void)x;
    return *(const int *)arg;
}

/* Fails after a part of its body was sent. With a query the answer has a length. */
static int breaks(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_query_text(x) ? weft_http_add_header(x, "Content-Length", "100") : 0;
    if (rc == 0)
        rc = weft_http_begin(x, 200);
    if (rc == 0)
        rc = weft_http_write(x, "half", 4);
    if (rc == 0)
        rc = weft_http_flush(x);
    return rc != 0 ? rc : -EIO;
}

/* ---- a resource that changes: its number of changes is its entity tag ---- */

static atomic_int changes;

static int item_get(weft_exchange *x, void *arg)
{
    char text[32];
    (void)arg;
    int size = snprintf(text, sizeof text, "\"%d\"", atomic_load(&changes));
    int rc = weft_http_add_header(x, "ETag", text);
    return rc != 0 ? rc : weft_http_reply(x, 200, PLAIN, text, (size_t)size);
}

/* What RFC 9110 asks of PUT: 204, or 412 if the condition fails. */
static int item_put(weft_exchange *x, void *arg)
{
    char tag[32];
    const char *body, *wanted = weft_http_header(x, "If-Match");
    size_t size;
    (void)arg;
    snprintf(tag, sizeof tag, "\"%d\"", atomic_load(&changes));
    if (wanted && strcmp(wanted, tag) != 0)
        return say(x, 412, "changed\n");
    int rc = weft_http_read_all(x, &body, &size, WEFT_FOREVER);
    if (rc != 0)
        return rc;
    atomic_fetch_add(&changes, 1);
    return weft_http_reply(x, 204, NULL, NULL, 0);
}

static int created(weft_exchange *x, void *arg)
{
    (void)arg;
    return say(x, 201, "new\n");
}

/* ---- the program ---- */

static const char *const challenge[] = {"401", "WWW-Authenticate", "Basic realm=\"rows\""};
static const char *const allowed[] = {"405", "Allow", "POST"};
static const int refused = -EOPNOTSUPP;

static void add_routes(weft_http *h, const char *folder)
{
    const struct {
        const char *pattern;
        weft_handler *fn;
        const void *arg;
    } routes[] = {
        {"GET /", says, "hello\n"},           {"GET /probe", says, "probe\n"},     {"POST /echo", echo, NULL},
        {"POST /unread", says, "unread\n"},   {"POST /try", tries, NULL},          {"/show", show, NULL},
        {"/show/{rest...}", show, NULL},      {"GET /parts", parts, NULL},         {"GET /sized", sized, NULL},
        {"GET /status/{code}", status, NULL}, {"GET /field", field, NULL},         {"GET /moved", moved, "/probe"},
        {"GET /breaks", breaks, NULL},        {"GET /secret", demands, challenge}, {"GET /own-405", demands, allowed},
        {"GET /refused", fails, &refused},    {"GET /item", item_get, NULL},       {"PUT /item", item_put, NULL},
        {"PUT /new", created, NULL},
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        check(routes[i].pattern, weft_http_route(h, routes[i].pattern, routes[i].fn, (void *)routes[i].arg));
    check(folder, weft_http_files(h, "/files/", folder, NULL));
}

/* Waits for the end of standard input. */
static void *watch_input(void *h)
{
    char waste[64];
    while (weft_read(STDIN_FILENO, waste, sizeof waste, WEFT_FOREVER) > 0)
        ;
    weft_http_stop(h);
    return NULL;
}

static void *serve(void *folder)
{
    weft_http *h;
    int listener = weft_listen("127.0.0.1:0");
    check("weft_listen", listener);
    check("weft_http_new", weft_http_new(&h, &(weft_http_opts){.size = sizeof(weft_http_opts), .max_conns = 1000}));
    add_routes(h, folder);
    check("weft_go", weft_go(watch_input, h));
    printf("port %d\n", weft_port(listener));
    fflush(stdout);
    check("weft_http_serve", weft_http_serve(h, listener, WEFT_FOREVER));
    check("weft_close", weft_close(listener));
    check("weft_http_free", weft_http_free(h));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    check("weft_run", weft_run(serve, argv[1], NULL, NULL));
    return 0;
}
