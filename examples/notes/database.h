/* notes/database.h: queries of the two databases, which understand the same statements. */
#include <jansson.h>
#include <weft/weft.h>

struct query {
    const char *sql;       /* its parameters are $1, $2, ..., and appear in this order; NULL closes the connection */
    const char *values[5]; /* their values, which are bound and never become text of SQL; NULL ends them */
    json_t *rows;          /* output, on 0: an array of objects, whose values are all strings; the caller releases it */
    void *connection;      /* no other query uses it; NULL: the call opens it. After a failure the call closes it */
    const char *where;     /* a file, or a connection string of libpq */
};

/* Run a query. Call them in a scope. They return 0, -EAGAIN the database cannot be reached, -ECANCELED, or -EIO. */
int sqlite_run(struct query *q);
int postgres_run(struct query *q);
