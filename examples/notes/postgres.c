/*
 * notes/postgres.c: PostgreSQL by libpq's plain blocking calls. The program is linked with libweft-hook, so only the
 * fiber waits where libpq would block. A cancel ends that wait, and libpq's call fails.
 */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>

#include "database.h"

static json_t *read_rows(const PGresult *result)
{
    json_t *rows = json_array();
    for (int i = 0; i < PQntuples(result); i++) {
        json_t *row = json_object();
        for (int j = 0; j < PQnfields(result); j++)
            json_object_set_new(row, PQfname(result, j), json_string(PQgetvalue(result, i, j)));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Asks the server to end the statement, which may hold locks. The server does not notice that libpq has given up. */
static void cancel_statement(PGconn *db)
{
    char why[256];
    PGcancel *cancel = PQgetCancel(db);
    if (weft_shield_begin(weft_in(WEFT_SEC)) == 0) { /* so that PQcancel can wait in a cancelled fiber */
        PQcancel(cancel, why, sizeof why);
        weft_shield_end();
    }
    PQfreeCancel(cancel);
}

int postgres_run(struct query *q)
{
    PGconn *db = q->connection;
    int count = 0, rc = 0;
    if (!q->sql || (db && poll(&(struct pollfd){.fd = PQsocket(db), .events = POLLIN}, 1, 0) != 0)) {
        PQfinish(db); /* bytes on an idle connection mean that the server has ended it */
        db = NULL;
    }
    if (!q->sql)
        return 0;
    db = db ? db : PQconnectdb(q->where);
    while (q->values[count])
        count++;
    bool is_open = PQstatus(db) == CONNECTION_OK;
    PGresult *result = is_open ? PQexecParams(db, q->sql, count, NULL, q->values, NULL, NULL, 0) : NULL;
    if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
        q->rows = read_rows(result);
    else
        rc = weft_cancelled() ? -ECANCELED : PQstatus(db) == CONNECTION_OK ? -EIO : -EAGAIN;
    PQclear(result);
    if (rc == -ECANCELED)
        cancel_statement(db);
    else if (rc != 0)
        fprintf(stderr, "notes: %s", PQerrorMessage(db));
    if (rc != 0)
        PQfinish(db); /* after a cancel, the answer to this statement may still come */
    q->connection = rc == 0 ? db : NULL;
    return rc;
}
