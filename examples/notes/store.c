/*
 * notes/store.c: the pool of connections. A channel holds those that are idle: a query that finds none waits in the
 * channel, first come, first served, and no more than that many run at a time.
 */
#include "store.h"

int store_run(struct store *s, struct query *q)
{
    void *connection;
    int rc = weft_chan_recv(s->idle, &connection, WEFT_FOREVER); /* the deadline of the scope ends this wait, too */
    if (rc != 0)
        return rc;
    rc = s->driver->run(&connection, s->where, q);
    weft_chan_send(s->idle, &connection, WEFT_NOW); /* there is room; with WEFT_NOW it works in a cancelled fiber, too */
    return rc;
}

int store_open(struct store *s, const struct driver *driver, const char *where, unsigned connections)
{
    struct query schema = {.sql = driver->schema, .deadline = weft_in(10 * WEFT_SEC)};
    *s = (struct store){.driver = driver, .where = where};
    int rc = weft_chan_new(&s->idle, sizeof(void *), connections);
    for (unsigned i = 0; i < connections && rc == 0; i++)
        rc = weft_chan_send(s->idle, &(void *){NULL}, WEFT_NOW);
    if (rc == 0) {
        WEFT_SCOPE (start, &(weft_scope_opts){.name = "schema", .deadline = schema.deadline})
            rc = store_run(s, &schema);
    }
    json_object_put(schema.rows);
    return rc;
}

void store_close(struct store *s)
{
    for (void *connection; s->idle && weft_chan_recv(s->idle, &connection, WEFT_NOW) == 0;)
        s->driver->close(connection);
    weft_chan_free(s->idle);
}
