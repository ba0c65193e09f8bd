/*
 * tests/clients/redis.c: hiredis in fibers. Its socket is O_NONBLOCK only while it connects; after that it reads and writes
 * with blocking calls, under SO_RCVTIMEO and SO_SNDTIMEO.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/fleet.h"

#define PIPELINED 20
#define BIG 300000 /* bytes of an answer that does not come in one piece */

static void *open_link(int who)
{
    struct timeval limit = {.tv_sec = 30};
    int port = atoi(fleet_port());
    /* Every other one without time limits, which is another way through the library and the kernel. */
    redisContext *link = who % 2 ? redisConnect("127.0.0.1", port) : redisConnectWithTimeout("127.0.0.1", port, limit);
    EXPECT(link && link->err == 0, "%d: %s", who, link ? link->errstr : "no memory");
    if (who % 2 == 0)
        CHECK_INT(redisSetTimeout(link, limit), ==, REDIS_OK);
    return link;
}

static void expect_text(redisContext *link, redisReply *reply, int type, const char *text, size_t size)
{
    EXPECT(reply, "%s", link->errstr);
    if (reply)
        EXPECT(reply->type == type && reply->len == size && memcmp(reply->str, text, size) == 0,
               "type %d, %zu bytes: %.100s; not %.100s", reply->type, (size_t)reply->len, reply->str ? reply->str : "",
               text);
    freeReplyObject(reply);
}

static void set_and_get(redisContext *link, int who, int turn, const char *value, size_t size)
{
    expect_text(link, redisCommand(link, "SET %d:%d %b", who, turn, value, size), REDIS_REPLY_STATUS, "OK", 2);
    expect_text(link, redisCommand(link, "GET %d:%d", who, turn), REDIS_REPLY_STRING, value, size);
}

static void ask_big(redisContext *link, int who, int turn)
{
    char *value = malloc(BIG);
    if (!value)
        return;
    memset(value, 'a' + (who + turn) % 26, BIG);
    set_and_get(link, who, turn, value, BIG);
    free(value);
}

/* Many questions before the first answer is read. */
static void ask_pipelined(redisContext *link, int who)
{
    char text[32];
    for (int i = 0; i < PIPELINED; i++)
        CHECK_INT(redisAppendCommand(link, "ECHO %d/%d", who, i), ==, REDIS_OK);
    for (int i = 0; i < PIPELINED; i++) {
        void *reply = NULL;
        CHECK_INT(redisGetReply(link, &reply), ==, REDIS_OK);
        int size = snprintf(text, sizeof text, "%d/%d", who, i);
        expect_text(link, reply, REDIS_REPLY_STRING, text, (size_t)size);
    }
}

static void ask(void *link, int who, int turn)
{
    char value[32];
    int size = snprintf(value, sizeof value, "value %d of %d", turn, who);
    if (turn % 3 == 0)
        set_and_get(link, who, turn, value, (size_t)size);
    else if (turn % 3 == 1)
        ask_pipelined(link, who);
    else
        ask_big(link, who, turn);
}

static const char *wait_long(void *link, int who)
{
    redisReply *reply = redisCommand(link, "BLPOP nothing:%d 0.5", who);
    const char *wrong = !reply ? ((redisContext *)link)->errstr : reply->type != REDIS_REPLY_NIL ? "an answer" : NULL;
    freeReplyObject(reply);
    return wrong;
}

static void close_link(void *link)
{
    redisFree(link);
}

static void late(int who)
{
    redisContext *link = open_link(who);
    CHECK_INT(redisSetTimeout(link, (struct timeval){.tv_usec = 200000}), ==, REDIS_OK);
    errno = 0;
    redisReply *reply = redisCommand(link, "BLPOP nothing:%d 5", who);
    EXPECT(!reply && link->err == REDIS_ERR_IO && errno == EAGAIN, "%d: errno %d, %s", who, errno, link->errstr);
    freeReplyObject(reply);
    redisFree(link);
}

int main(void)
{
    static const struct client client = {"redis",   "WEFT_REDIS_PORT", open_link, ask,
                                         wait_long, close_link,        late,      200 * WEFT_MS};
    return fleet_main(&client, NULL, 0);
}
