/*
 * notes/store_postgres.c: PostgreSQL by libpq's plain blocking calls. The program is linked with libweft-hook, so the
 * fiber waits where libpq would block, and the deadline of its scope ends that wait: libpq's call then fails.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "store.h"

static void ignore_notice(void *arg, const char *text) /* the table is there already */
{
    (void)arg, (void)text;
}

static PGconn *connect_to(const char *where)
{
    const char *names[] = {"dbname", "client_encoding", "fallback_application_name", NULL};
    PGconn *db = PQconnectdbParams(names, (const char *[]){where, "UTF8", "notes", NULL}, 1);
    PQsetNoticeProcessor(db, ignore_notice, NULL);
    return db;
}

/* The server says nothing to an idle connection, unless it shuts down. */
static bool has_ended(PGconn *db)
{
    return poll(&(struct pollfd){.fd = PQsocket(db), .events = POLLIN}, 1, 0) != 0;
}

/* The server does not see that libpq has given up, and the statement may hold locks: asks the server to end it. */
static void cancel_statement(PGconn *db)
{
    char why[256];
    PGcancel *cancel = PQgetCancel(db);
    if (weft_shield_begin(weft_in(WEFT_SEC)) == 0) { /* the fiber is cancelled, and PQcancel waits */
        PQcancel(cancel, why, sizeof why);
        weft_shield_end();
    }
    PQfreeCancel(cancel);
}

static json_object *read_rows(const PGresult *result)
{
    enum { INT8 = 20 }; /* the OID of the type bigint */
    json_object *rows = json_object_new_array();
    for (int i = 0; i < PQntuples(result); i++) {
        json_object *row = json_object_new_object();
        for (int j = 0; j < PQnfields(result); j++) {
            const char *value = PQgetvalue(result, i, j);
            json_object_object_add(row, PQfname(result, j),
                                   PQgetisnull(result, i, j)    ? NULL
                                   : PQftype(result, j) == INT8 ? json_object_new_int64(strtoll(value, NULL, 10))
                                                                : json_object_new_string(value));
        }
        json_object_array_add(rows, row);
    }
    return rows;
}

static int run_statement(PGconn *db, struct query *q)
{
    int count = 0, rc = 0;
    while (count < VALUES_MOST && q->values[count])
        count++;
    PGresult *result = PQexecParams(db, q->sql, count, NULL, q->values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        q->rows = read_rows(result);
    else
        rc = state && strcmp(state, "57014") == 0 ? -ETIMEDOUT : -EIO; /* 57014: the server's statement_timeout */
    if (state && strncmp(state, "57P", 3) == 0) /* it is shutting down */
        rc = -EAGAIN;
    PQclear(result);
    return rc;
}

static int run(void **connection, const char *where, struct query *q)
{
    PGconn *db = *connection;
    if (db && has_ended(db)) {
        PQfinish(db);
        db = NULL;
    }
    db = db ? db : connect_to(where);
    int rc = PQstatus(db) == CONNECTION_OK ? run_statement(db, q) : -EAGAIN;
    if (weft_cancelled()) {
        cancel_statement(db); /* and the connection goes: the answer to this statement may still come */
        rc = rc == 0 ? 0 : -ECANCELED;
    } else if (rc != 0) {
        fprintf(stderr, "notes: %s", PQerrorMessage(db));
        rc = PQstatus(db) == CONNECTION_OK ? rc : -EAGAIN;
    }
    if (weft_cancelled() || rc == -EAGAIN) {
        PQfinish(db);
        db = NULL;
    }
    *connection = db;
    return rc;
}

static void close_connection(void *connection)
{
    PQfinish(connection); /* NULL does nothing */
}

const struct driver postgres_driver = {
    .schema = "create table if not exists notes (id bigint generated always as identity primary key, "
              "title text not null, text text not null, version bigint not null default 1)",
    .run = run,
    .close = close_connection,
};
