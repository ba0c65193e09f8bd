/*
 * tests/clients/postgres.c: libpq in fibers. It sets its socket to O_NONBLOCK by fcntl and waits in poll.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/fleet.h"

#define POOL 50    /* connections that are shared */
#define USERS 1000 /* fibers that share them */
#define BIG 200000 /* bytes of an answer that does not come in one piece */

static PGconn *connect_to(const char *port, int limit)
{
    char where[200];
    snprintf(
        where, sizeof where,
        "hostaddr=127.0.0.1 port=%s user=weft dbname=postgres sslmode=disable gssencmode=disable connect_timeout=%d",
        port, limit);
    return PQconnectdb(where);
}

static void *open_link(int who)
{
    PGconn *link = connect_to(fleet_port(), 30);
    EXPECT(PQstatus(link) == CONNECTION_OK, "%d: %s", who, PQerrorMessage(link));
    return link;
}

static PGresult *ask_for(PGconn *link, const char *query, int who, int turn)
{
    char a[16], b[16];
    const char *values[] = {a, b};
    snprintf(a, sizeof a, "%d", who);
    snprintf(b, sizeof b, "%d", turn);
    return PQexecParams(link, query, 2, NULL, values, NULL, NULL, 0);
}

static bool has_one_value(const PGresult *result)
{
    return PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
}

/* NULL, or what is wrong with the answer. */
static const char *ask_small(PGconn *link, const char *query, int who, int turn)
{
    PGresult *result = ask_for(link, query, who, turn);
    bool came = has_one_value(result), right = came && atoi(PQgetvalue(result, 0, 0)) == who * 1000 + turn;
    PQclear(result);
    return right ? NULL : came ? "somebody else's answer" : PQerrorMessage(link);
}

static void ask_big(PGconn *link, int who, int turn)
{
    PGresult *result = ask_for(link, "select repeat(chr(97 + ($1::int + $2::int) % 26), 200000)", who, turn);
    char letter[2] = {(char)('a' + (who + turn) % 26), 0};
    EXPECT(has_one_value(result) && PQgetlength(result, 0, 0) == BIG && strspn(PQgetvalue(result, 0, 0), letter) == BIG,
           "%d: %s", who, PQerrorMessage(link));
    PQclear(result);
}

static void ask(void *link, int who, int turn)
{
    if (turn % 3 == 2) {
        ask_big(link, who, turn);
        return;
    }
    const char *wrong = ask_small(link, "select $1::int * 1000 + $2::int", who, turn);
    EXPECT(!wrong, "%d: %s", who, wrong);
}

static const char *wait_long(void *link, int who)
{
    return ask_small(link, "select $1::int * 1000 + $2::int from pg_sleep(0.5)", who, 7);
}

static void close_link(void *link)
{
    PQfinish(link);
}

static void late(int who)
{
    PGconn *link = connect_to(fleet_silent_port(), 2);
    EXPECT(PQstatus(link) == CONNECTION_BAD && strstr(PQerrorMessage(link), "timeout expired"), "%d: %s", who,
           PQerrorMessage(link));
    PQfinish(link);
}

static weft_chan *pool; /* of connections that nobody uses; const while the fibers run */

static void use_pool(const char *query, int who)
{
    PGconn *link = NULL;
    CHECK_INT(weft_chan_recv(pool, &link, WEFT_FOREVER), ==, 0);
    const char *wrong = ask_small(link, query, who, 3);
    EXPECT(!wrong, "%d: %s", who, wrong);
    CHECK_INT(weft_chan_send(pool, &link, WEFT_FOREVER), ==, 0);
}

static void use_pool_long(void *none, int who)
{
    (void)none;
    use_pool("select $1::int * 1000 + $2::int from pg_sleep(0.2)", who);
}

static void use_pool_often(void *none, int who)
{
    (void)none;
    for (int i = 0; i < 5; i++)
        use_pool("select $1::int * 1000 + $2::int from pg_sleep(0.001)", who);
}

/* Fills the pool, lets the users have it and empties it; returns how long they took. */
static weft_span with_pool(unsigned workers, void (*use)(void *none, int who), int *ticks)
{
    PGconn *link;
    CHECK_INT(weft_chan_new(&pool, sizeof link, POOL), ==, 0);
    for (int i = 0; i < POOL; i++) {
        link = open_link(i);
        CHECK_INT(weft_chan_send(pool, &link, WEFT_NOW), ==, 0);
    }
    weft_span took = fleet_run(&(struct fleet){workers, USERS, NULL, use, NULL}, ticks);
    while (weft_chan_recv(pool, &link, WEFT_NOW) == 0)
        PQfinish(link);
    CHECK_INT(weft_chan_free(pool), ==, 0);
    return took;
}

TEST(a_thousand_fibers_share_fifty_connections)
{
    int ticks = 0;
    if (!fleet_port()[0])
        SKIP("there is no server");
    weft_span took = with_pool(1, use_pool_long, &ticks);
    if (took > 6 * WEFT_SEC) /* the machine may be busy otherwise */
        took = with_pool(1, use_pool_long, &ticks);
    CHECK_INT(took, >=, USERS / POOL * (200 * WEFT_MS));
    CHECK_INT(took, <=, 6 * WEFT_SEC);
    CHECK_INT(ticks, >=, 400);
}

TEST(connections_pass_from_worker_to_worker)
{
    if (!fleet_port()[0])
        SKIP("there is no server");
    with_pool(2, use_pool_often, NULL);
}

int main(void)
{
    static const struct client client = {"postgres", "WEFT_POSTGRES_PORT", open_link, ask,
                                         wait_long,  close_link,           late,      2 * WEFT_SEC};
    static const struct test own[] = {
        {"connections_pass_from_worker_to_worker", connections_pass_from_worker_to_worker},

        {"a_thousand_fibers_share_fifty_connections", a_thousand_fibers_share_fifty_connections}};
    return fleet_main(&client, own, sizeof own / sizeof own[0]);
}
