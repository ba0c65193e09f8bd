/*
 * notes/sqlite.c: SQLite. Its calls wait for the disk, so they run on helper threads (weft_offload) while the worker
 * serves other requests. If another connection holds a lock for long, the fiber tries again until it is cancelled.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "database.h"

static int run_statement(sqlite3 *db, struct query *q)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(db, q->sql, -1, &s, NULL);
    for (int i = 0; q->values[i] && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_text(s, i + 1, q->values[i], -1, SQLITE_STATIC);
    for (q->rows = json_array(); rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW; rc = SQLITE_OK) {
        json_t *row = json_object();
        for (int i = 0; i < sqlite3_column_count(s); i++)
            json_object_set_new(row, sqlite3_column_name(s, i), json_string((const char *)sqlite3_column_text(s, i)));
        json_array_append_new(q->rows, row);
    }
    sqlite3_finalize(s);
    return rc;
}

static void *call_sqlite(void *query) /* on a helper thread */
{
    struct query *q = query;
    sqlite3 *db = q->connection;
    intptr_t result = db ? SQLITE_OK : sqlite3_open(q->where, &db);
    sqlite3_busy_timeout(db, 20);
    if (result == SQLITE_OK)
        result = run_statement(db, q);
    if (result != SQLITE_DONE) {
        json_decref(q->rows);
        q->rows = NULL;
    }
    if (result != SQLITE_DONE && result != SQLITE_BUSY) {
        fprintf(stderr, "notes: %s\n", sqlite3_errmsg(db));
        sqlite3_close(db);
        db = NULL;
    }
    q->connection = db;
    return (void *)result;
}

int sqlite_run(struct query *q)
{
    void *result = NULL;
    int rc;
    if (!q->sql)
        return sqlite3_close(q->connection);
    do /* because this is in a scope, a cancel waits for the helper, which uses q */
        rc = weft_offload(call_sqlite, q, &result, WEFT_FOREVER);
    while (rc == 0 && (intptr_t)result == SQLITE_BUSY);
    return rc != 0 || (intptr_t)result == SQLITE_DONE ? rc : (intptr_t)result == SQLITE_ERROR ? -EIO : -EAGAIN;
}
