/*
 * notes/store.h: the notes, in a database. A store has a fixed number of connections, which all requests share; store.c
 * hands them out. A driver knows one kind of database: store_sqlite.c and store_postgres.c. Calls return 0 or a negative
 * errno; those of a store wait as fibers do, and a cancel, such as that of a scope's deadline, ends them.
 */
#ifndef NOTES_STORE_H
#define NOTES_STORE_H

#include <json-c/json.h>
#include <weft/weft.h>

enum { VALUES_MOST = 4 };

/* A statement, and the rows that it gives. SQLite and PostgreSQL understand the same text. */
struct query {
    const char *sql;                 /* its parameters are $1, $2, ...; they appear in this order */
    const char *values[VALUES_MOST]; /* their values, which are bound and never become text of SQL; NULL ends them */
    weft_time deadline;              /* that of the scope around, for what a cancel does not reach */
    json_object *rows;               /* output, on 0: an array of objects; the caller releases it */
};

/* A kind of database. */
struct driver {
    const char *schema; /* makes the table, if it is not there */
    /*
     * Runs a query. *connection is for this call alone. The driver opens it if it is NULL, and closes it and sets it to
     * NULL if it is of no more use. -EAGAIN: there is no database now; -ETIMEDOUT: the database has taken too long.
     */
    int (*run)(void **connection, const char *where, struct query *q);
    void (*close)(void *connection);
};

extern const struct driver sqlite_driver, postgres_driver;

struct store {
    const struct driver *driver;
    const char *where; /* a file, or a connection string of libpq */
    weft_chan *idle;   /* connections (void *) that no query uses; NULL is a connection that is not open */
};

int store_open(struct store *s, const struct driver *driver, const char *where, unsigned connections);
int store_run(struct store *s, struct query *q);
void store_close(struct store *s);

#endif
