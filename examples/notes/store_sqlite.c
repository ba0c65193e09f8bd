/*
 * notes/store_sqlite.c: SQLite. Its calls wait for the disk, and for locks of its own, so they run on helper threads
 * (weft_offload) while the worker serves other requests.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "store.h"

struct call {
    void **connection;
    const char *where;
    struct query *q;
    int result; /* of SQLite */
};

static int connect_to(sqlite3 **db, const char *where)
{
    int rc = sqlite3_open(where, db);
    return rc == SQLITE_OK ? sqlite3_exec(*db, "pragma journal_mode = wal", NULL, NULL, NULL) : rc;
}

static json_object *read_row(sqlite3_stmt *s)
{
    json_object *row = json_object_new_object();
    for (int i = 0; i < sqlite3_column_count(s); i++) {
        json_object *value = NULL; /* null */
        if (sqlite3_column_type(s, i) == SQLITE_INTEGER)
            value = json_object_new_int64(sqlite3_column_int64(s, i));
        else if (sqlite3_column_type(s, i) == SQLITE_TEXT)
            value = json_object_new_string((const char *)sqlite3_column_text(s, i));
        json_object_object_add(row, sqlite3_column_name(s, i), value);
    }
    return row;
}

static int run_statement(sqlite3 *db, struct query *q)
{
    sqlite3_stmt *s = NULL;
    weft_span left = q->deadline.ns - weft_now().ns;
    sqlite3_busy_timeout(db, left > 0 ? (int)(left / WEFT_MS) : 0); /* no cancel interrupts what SQLite waits for */
    int rc = sqlite3_prepare_v2(db, q->sql, -1, &s, NULL);
    for (int i = 0; i < VALUES_MOST && q->values[i] && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_text(s, i + 1, q->values[i], -1, SQLITE_STATIC);
    for (q->rows = json_object_new_array(); rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW; rc = SQLITE_OK)
        json_object_array_add(q->rows, read_row(s));
    sqlite3_finalize(s);
    return rc;
}

static void *call_sqlite(void *arg) /* on a helper thread */
{
    struct call *c = arg;
    sqlite3 *db = *c->connection;
    c->result = db ? SQLITE_OK : connect_to(&db, c->where);
    if (c->result == SQLITE_OK)
        c->result = run_statement(db, c->q);
    if (c->result != SQLITE_DONE)
        fprintf(stderr, "notes: %s: %s\n", c->where, sqlite3_errmsg(db));
    *c->connection = db;
    return NULL;
}

static int run(void **connection, const char *where, struct query *q)
{
    struct call c = {connection, where, q, SQLITE_ERROR};
    /* In a scope a cancel does not leave the call behind: it returns when call_sqlite has ended, so `c` lives on. */
    int rc = weft_offload(call_sqlite, &c, NULL, WEFT_FOREVER);
    if (rc != 0 || c.result == SQLITE_DONE)
        return rc;
    return c.result == SQLITE_BUSY ? -ETIMEDOUT : c.result == SQLITE_CANTOPEN ? -EAGAIN : -EIO;
}

static void close_connection(void *connection)
{
    sqlite3_close(connection); /* NULL does nothing */
}

const struct driver sqlite_driver = {
    .schema = "create table if not exists notes (id integer primary key autoincrement, title text not null, "
              "text text not null, version integer not null default 1)",
    .run = run,
    .close = close_connection,
};
