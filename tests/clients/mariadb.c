/*
 * tests/clients/mariadb.c: libmariadb in fibers. It sets O_NONBLOCK by fcntl without asking what was there, and reads with
 * MSG_DONTWAIT before it waits in poll. What it keeps for a thread is the same for a fiber, which stays on its worker.
 */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/fleet.h"

#define BIG 200000       /* bytes of an answer that does not come in one piece */
#define SERVER_LOST 2013 /* CR_SERVER_LOST of errmsg.h */

static MYSQL *connect_with(unsigned limit, int who)
{
    MYSQL *link = mysql_init(NULL);
    if (!link)
        return NULL;
    mysql_options(link, MYSQL_OPT_READ_TIMEOUT, &limit);
    mysql_options(link, MYSQL_OPT_CONNECT_TIMEOUT, &(unsigned){30});
    EXPECT(mysql_real_connect(link, "127.0.0.1", "root", "", NULL, (unsigned)atoi(fleet_port()), NULL, 0), "%d: %s",
           who, mysql_error(link));
    return link;
}

static void *open_link(int who)
{
    return connect_with(30, who);
}

/* The one value that a query answers with, to be freed; NULL: there is none, and the link knows why. */
static char *ask_for(MYSQL *link, const char *query)
{
    MYSQL_RES *result = mysql_query(link, query) == 0 ? mysql_store_result(link) : NULL;
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    char *value = row && row[0] ? strdup(row[0]) : NULL;
    if (result)
        mysql_free_result(result);
    return value;
}

/* NULL, or what is wrong with the answer. */
static const char *ask_small(MYSQL *link, const char *from, int who, int turn)
{
    char query[100];
    snprintf(query, sizeof query, "select %d * 1000 + %d %s", who, turn, from);
    char *value = ask_for(link, query);
    const char *wrong = !value ? mysql_error(link) : atoi(value) != who * 1000 + turn ? "somebody else's answer" : NULL;
    free(value);
    return wrong;
}

static void ask_big(MYSQL *link, int who, int turn)
{
    char query[100], letter[2] = {(char)('a' + (who + turn) % 26), 0};
    snprintf(query, sizeof query, "select repeat('%s', %d)", letter, BIG);
    char *value = ask_for(link, query);
    EXPECT(value && strlen(value) == BIG && strspn(value, letter) == BIG, "%d: %s", who, mysql_error(link));
    free(value);
}

static void ask(void *link, int who, int turn)
{
    if (turn % 3 == 2) {
        ask_big(link, who, turn);
        return;
    }
    const char *wrong = ask_small(link, "", who, turn);
    EXPECT(!wrong, "%d: %s", who, wrong);
}

static const char *wait_long(void *link, int who)
{
    return ask_small(link, "+ sleep(0.5)", who, 7); /* which is 0 */
}

static void close_link(void *link)
{
    mysql_close(link);
}

static void late(int who)
{
    MYSQL *link = connect_with(1, who);
    if (!link)
        return;
    EXPECT(mysql_query(link, "select sleep(5)") != 0 && mysql_errno(link) == SERVER_LOST, "%d: %s", who,
           mysql_error(link));
    mysql_close(link);
}

int main(void)
{
    static const struct client client = {"mariadb", "WEFT_MARIADB_PORT", open_link, ask,
                                         wait_long, close_link,          late,      WEFT_SEC};
    if (mysql_library_init(0, NULL, NULL) != 0)
        return 1;
    int status = fleet_main(&client, NULL, 0);
    mysql_library_end();
    return status;
}
