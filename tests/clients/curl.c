/*
 * tests/clients/curl.c: libcurl's easy interface in fibers; "curl https" goes through OpenSSL. It waits in poll for two
 * descriptors, its socket and one by which it could be woken.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/fleet.h"

#define BIG 300000 /* bytes of a question and its answer that do not go in one piece */

static const char *scheme = "http"; /* const after main has begun */

/* An answer as it comes. */
struct answer {
    size_t size;
    char text[BIG + 1];
};

struct link {
    CURL *curl;
    struct answer answer;
};

static size_t take(char *data, size_t one, size_t size, void *to)
{
    struct answer *answer = to;
    (void)one; /* is 1 */
    if (size > BIG - answer->size)
        return 0;
    memcpy(answer->text + answer->size, data, size);
    answer->size += size;
    return size;
}

static CURLcode ask_for(struct link *link, const char *path, int who, int turn)
{
    char url[200];
    snprintf(url, sizeof url, "%s://127.0.0.1:%s/%s?who=%d.%d", scheme, fleet_port(), path, who, turn);
    memset(&link->answer, 0, sizeof link->answer);
    curl_easy_setopt(link->curl, CURLOPT_URL, url);
    return curl_easy_perform(link->curl);
}

/* NULL, or what is wrong with the answer. */
static const char *ask_small(struct link *link, const char *path, int who, int turn)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d", who, turn);
    curl_easy_setopt(link->curl, CURLOPT_HTTPGET, 1L);
    CURLcode rc = ask_for(link, path, who, turn);
    return rc != CURLE_OK                             ? curl_easy_strerror(rc)
           : strcmp(link->answer.text, expected) != 0 ? "somebody else's answer"
                                                      : NULL;
}

static void ask_and_compare(struct link *link, int who, int turn)
{
    const char *wrong = ask_small(link, "own", who, turn);
    EXPECT(!wrong, "%d: %s", who, wrong);
}

static void *open_link(int who)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->curl = curl_easy_init();
    curl_easy_setopt(link->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(link->curl, CURLOPT_WRITEDATA, &link->answer);
    curl_easy_setopt(link->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(link->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(link->curl, CURLOPT_CAINFO, getenv("WEFT_CERTIFICATE"));
    ask_and_compare(link, who, 0); /* connects; the connection is kept */
    return link;
}

/* Posts a big body, which comes back. */
static void ask_big(struct link *link, int who, int turn)
{
    char *body = malloc(BIG);
    if (!body)
        return;
    memset(body, 'a' + (who + turn) % 26, BIG);
    curl_easy_setopt(link->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(link->curl, CURLOPT_POSTFIELDSIZE, (long)BIG);
    CURLcode rc = ask_for(link, "back", who, turn);
    EXPECT(rc == CURLE_OK, "%d: %s", who, curl_easy_strerror(rc));
    CHECK(link->answer.size == BIG && memcmp(link->answer.text, body, BIG) == 0);
    free(body);
}

static void ask(void *link, int who, int turn)
{
    if (turn % 3 == 2)
        ask_big(link, who, turn);
    else
        ask_and_compare(link, who, turn);
}

static const char *wait_long(void *link, int who)
{
    return ask_small(link, "slow", who, 7);
}

static void close_link(void *arg)
{
    struct link *link = arg;
    curl_easy_cleanup(link->curl);
    free(link);
}

static void late(int who)
{
    struct link *link = open_link(who);
    if (!link)
        return;
    curl_easy_setopt(link->curl, CURLOPT_TIMEOUT_MS, 200L);
    CURLcode rc = ask_for(link, "slow", who, 7);
    EXPECT(rc == CURLE_OPERATION_TIMEDOUT, "%d: %s", who, curl_easy_strerror(rc));
    close_link(link);
}

int main(int argc, char **argv)
{
    static struct client client = {"curl",    "WEFT_HTTP_PORT", open_link, ask,
                                   wait_long, close_link,       late,      200 * WEFT_MS};
    if (argc > 1 && strcmp(argv[1], "https") == 0) {
        scheme = "https";
        client.port = "WEFT_HTTPS_PORT";
    }
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        return 1;
    int status = fleet_main(&client, NULL, 0);
    curl_global_cleanup();
    return status;
}
