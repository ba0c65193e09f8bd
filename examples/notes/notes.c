/*
 * notes.c: a JSON API and a page for notes in a database.
 *
 *     notes [--port 8000] [--db notes.db | --postgres CONNINFO] [--pool 4] [--deadline MS]
 *     GET /notes?before=ID          [{"id", "title", "text", "version"}, ...]: the newest 20 of those before ID
 *     POST /notes                   {"title", "text"}: 201, Location and the note
 *     GET, PUT, DELETE /notes/ID    PUT takes {"title", "text", "version"}: 409 and the note if it has another version
 */
#include <error.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/http.h>

#include "database.h"

enum { DB, DEADLINE, POOL, PORT, POSTGRES };
static const char *setting[] = {"notes.db", "5000", "4", "8000", NULL};
static weft_chan *idle; /* the pool: connections (void *) that no query uses; NULL stands for a closed connection */
static sigset_t signals;

/* A route runs a statement. Its parameters come from the path, the query and the note in the body. */
static const char update[] =
    "update notes set title = $1, text = $2, version = version + 1 where id = $3 and version = $4 returning *";
static const struct route {
    const char *pattern, *sql, *takes[5];
    int status;
} routes[] = {
    {"GET /notes", "select * from notes where id < $1 order by id desc limit 20", {"before"}, 200},
    {"POST /notes", "insert into notes (title, text) values ($1, $2) returning *", {"title", "text"}, 201},
    {"GET /notes/{id}", "select * from notes where id = $1", {"id"}, 200},
    {"DELETE /notes/{id}", "delete from notes where id = $1 returning *", {"id"}, 204},
    {"PUT /notes/{id}", update, {"title", "text", "id", "version"}, 200},
};
enum { LIST, CREATE, SHOW, DELETE, UPDATE };

static int run_query(struct query *q)
{
    q->where = setting[setting[POSTGRES] ? POSTGRES : DB];
    int rc = weft_chan_recv(idle, &q->connection, WEFT_FOREVER); /* first come, first served; a cancel ends the wait */
    if (rc == 0) {
        rc = setting[POSTGRES] ? postgres_run(q) : sqlite_run(q);
        weft_chan_send(idle, &q->connection, WEFT_NOW); /* there is room, and a call with WEFT_NOW is never cancelled */
    }
    return rc;
}

static bool is_number(const char *s, long least, long most)
{
    size_t digits = strspn(s, "0123456789");
    return digits > 0 && digits <= 18 && !s[digits] && atol(s) >= least && atol(s) <= most;
}

static int read_note(weft_exchange *x, json_t **note, weft_time deadline)
{
    const char *body;
    size_t bytes;
    int rc = weft_http_read_all(x, &body, &bytes, deadline);
    if (rc == 0)
        *note = json_loadb(body, bytes, JSON_REJECT_DUPLICATES,
                           NULL); /* strict: a string is UTF-8 without a zero byte */
    return rc == 0 && !json_is_object(*note) ? -EBADMSG : rc;
}

/* The value of a parameter; NULL if it is missing or not valid. Lengths are in bytes. */
static const char *value_of(weft_exchange *x, json_t *note, const char *name)
{
    const char *s = json_string_value(json_object_get(note, name));
    if (strcmp(name, "title") == 0)
        return s && *s && strlen(s) <= 600 ? s : NULL;
    if (strcmp(name, "text") == 0)
        return s && strlen(s) <= 30000 ? s : NULL;
    if (strcmp(name, "id") == 0)
        s = weft_http_param(x, name);
    if (strcmp(name, "before") == 0)
        s = weft_http_query(x, name) ? weft_http_query(x, name) : "999999999999999999";
    return s && is_number(s, 0, INT64_MAX) ? s : NULL;
}

static int send_note(weft_exchange *x, int status, json_t *note) /* or a list of notes */
{
    char location[40], *text;
    if (!note || status == 204)
        return note ? 0 : -ENOENT;
    if (status == 201) {
        snprintf(location, sizeof location, "/notes/%s", json_string_value(json_object_get(note, "id")));
        weft_http_add_header(x, "Location", location);
    }
    if (!(text = json_dumps(note, JSON_COMPACT)))
        return -ENOMEM;
    int rc = weft_http_reply(x, status, "application/json", text, strlen(text));
    free(text);
    return rc;
}

/* The server answers for a failure: 404 for -ENOENT, 503 for -EAGAIN, 504 for -ETIME, ... */
static int answer(weft_exchange *x, void *arg)
{
    const struct route *route = arg;
    const char *type = weft_http_header(x, "Content-Type"), *const *name = route->takes;
    struct query q = {.sql = route->sql};
    json_t *note = NULL;
    bool has_note = route->takes[1]; /* the other routes take one value, and no body */
    int status = route->status;
    weft_time deadline = weft_in(atol(setting[DEADLINE]) * WEFT_MS);
    if (has_note && (!type || strncasecmp(type, "application/json", 16) != 0 || !strchr("; ", type[16])))
        return weft_http_reply(x, 415, NULL, NULL, 0); /* because a form on another site could send text/plain */
    int rc = has_note ? read_note(x, &note, deadline) : 0;
    for (int i = 0; rc == 0 && name[i]; i++)
        if (!(q.values[i] = value_of(x, note, name[i])))
            rc = strcmp(name[i], "id") == 0 ? -ENOENT : -EINVAL;
    if (rc == 0) {
        /* The scope's deadline ends the query. So does a client that hangs up: it cancels this fiber. */
        WEFT_SCOPE (request, &(weft_scope_opts){.name = "request", .deadline = deadline}) {
            rc = run_query(&q);
            if (rc == 0 && route == &routes[UPDATE] && json_array_size(q.rows) == 0) {
                json_decref(q.rows);
                q = (struct query){.sql = routes[SHOW].sql, .values = {q.values[2]}}; /* the note as it is, or none */
                rc = run_query(&q);
                status = 409;
            }
            if (rc == -ECANCELED && weft_scope_wait(&request) == -ETIMEDOUT)
                rc = -ETIME;
        }
    }
    if (rc == 0)
        rc = send_note(x, status, route == &routes[LIST] ? q.rows : json_array_get(q.rows, 0));
    json_decref(q.rows);
    json_decref(note);
    return rc;
}

static int open_pool(void)
{
    char sql[200];
    struct query schema = {.sql = sql};
    int rc = weft_chan_new(&idle, sizeof(void *), (size_t)atol(setting[POOL]));
    for (long i = 0; i < atol(setting[POOL]) && rc == 0; i++)
        rc = weft_chan_send(idle, &schema.connection, WEFT_NOW); /* NULL */
    sprintf(sql,
            "create table if not exists notes (id %s, title text not null, text text not null, "
            "version bigint not null default 1)",
            setting[POSTGRES] ? "bigserial primary key" : "integer primary key autoincrement");
    rc = rc == 0 ? run_query(&schema) : rc;
    json_decref(schema.rows);
    return rc;
}

static int stop_at_signal(void *h)
{
    weft_wait_signal(&signals, NULL, WEFT_FOREVER);
    return weft_http_stop(h); /* requests that have begun are answered */
}

static void *serve(void *address)
{
    weft_http *h = NULL;
    int listener = weft_listen(address), rc = listener < 0 ? listener : open_pool();
    weft_http_opts opts = {.body_bytes = 64 * 1024, .stack = 512 * 1024}; /* jansson reads up to 2048 levels deep */
    if (rc == 0 && (rc = weft_http_new(&h, &opts)) == 0)
        rc = weft_http_files(h, "/", NOTES_PAGE, NULL); /* the folder of index.html */
    if (rc != 0)
        error(1, -rc, "cannot serve at %s", (char *)address);
    weft_http_log(h, fileno(stdout));
    weft_http_use(h, weft_http_give_id, NULL);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        weft_http_route(h, routes[i].pattern, answer, (void *)&routes[i]);
    WEFT_SCOPE (server, NULL) { /* its end waits for stop_at_signal, which uses h */
        weft_scope_go(&server, stop_at_signal, h);
        printf("serving at http://127.0.0.1:%d/\n", weft_port(listener));
        weft_http_serve(h, listener, WEFT_FOREVER);
    }
    for (long i = 0; i < atol(setting[POOL]); i++)
        run_query(&(struct query){0}); /* closes the connection that has been idle longest */
    weft_chan_free(idle);
    weft_close(listener);
    weft_http_free(h);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"db", 1, NULL, DB},     {"deadline", 1, NULL, DEADLINE}, {"pool", 1, NULL, POOL},
        {"port", 1, NULL, PORT}, {"postgres", 1, NULL, POSTGRES}, {0}};
    char address[32];
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1 && c != '?')
        setting[c] = optarg;
    if (c == '?' || optind < argc || !is_number(setting[PORT], 0, 65535) || !is_number(setting[POOL], 1, 1000) ||
        !is_number(setting[DEADLINE], 1, 3600000))
        error(2, 0, "usage: notes [--port N] [--db FILE | --postgres CONNINFO] [--pool N] [--deadline MS]");
    snprintf(address, sizeof address, "127.0.0.1:%s", setting[PORT]);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are other threads, which inherit the mask */
    json_object_seed(0); /* else the first fiber that needs the seed reads it, while other fibers spin for it */
    setlinebuf(stdout);
    return weft_run(serve, address, NULL, NULL) < 0;
}
