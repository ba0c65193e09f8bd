/*
 * case_pool.c: a ticker beside 1,000 fibers that share 50 connections to a PostgreSQL server, by libpq, and ask it to wait for
 * 0.2 s each: 4 s in all. Without WEFT_POSTGRES_PORT it is run with a server of its own (tests/clients/servers).
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../common/case.h"
#include "ticker.h"
#include <weft/chan.h>

enum { CONNECTIONS = 50 };

static weft_chan *pool; /* of those that nobody uses */

static void connect_all(void)
{
    char where[100];

    snprintf(where, sizeof where, "host=127.0.0.1 port=%s user=weft dbname=postgres sslmode=disable",
             getenv("WEFT_POSTGRES_PORT"));
    if (weft_chan_new(&pool, sizeof(PGconn *), CONNECTIONS) != 0)
        case_fail("weft_chan_new");
    for (int i = 0; i < CONNECTIONS; i++) {
        PGconn *link = PQconnectdb(where);
        if (PQstatus(link) != CONNECTION_OK)
            case_fail("%s", PQerrorMessage(link));
        weft_chan_send(pool, &link, WEFT_FOREVER);
    }
}

static void sleep_there(void)
{
    PGconn *link;

    weft_chan_recv(pool, &link, WEFT_FOREVER);
    PGresult *r = PQexec(link, "select pg_sleep(0.2)");
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        case_fail("%s", PQerrorMessage(link));
    PQclear(r);
    weft_chan_send(pool, &link, WEFT_FOREVER);
}

static void disconnect_all(void)
{
    PGconn *link;

    while (weft_chan_recv(pool, &link, WEFT_NOW) == 0)
        PQfinish(link);
    weft_chan_free(pool);
}

static void run(double budget_ms)
{
    (void)budget_ms;
    ticker_run(&(struct ticker){connect_all, sleep_there, disconnect_all, WEFT_QUEUE});
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {{"ticker", "pg_sleep", run}};

    if (argc == 4 && !getenv("WEFT_POSTGRES_PORT") && !getenv("WEFT_SERVERS")) {
        execl(SERVERS, SERVERS, "--only", "postgres", argv[0], argv[1], argv[2], argv[3], (char *)NULL);
        case_fail("%s cannot be run", SERVERS);
    }
    if (!getenv("WEFT_POSTGRES_PORT"))
        case_na("needs postgresql-15");
    return case_main(argc, argv, entries, 1);
}
