/*
 * unit/http/client.h: a client for tests of the server: a blocking socket, and a strict reader of answers. All waits end
 * after a minute, so that a test fails rather than hangs.
 */
#ifndef TESTS_UNIT_HTTP_CLIENT_H
#define TESTS_UNIT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct client {
    int fd;
    char *bytes; /* what was read; `at` is what was not taken from it */
    size_t at, end, room;
    unsigned reads; /* calls of recv that have brought bytes */
    int error;      /* errno of the read that failed; 0: none did */
    bool has_ended; /* the server has ended, or a read has failed */
};

enum { ANSWER_FIELDS = 64 };

struct answer {
    int status;
    char *head; /* its lines as strings */
    struct {
        const char *name, *value;
    } fields[ANSWER_FIELDS];
    unsigned count;
    char *body; /* without chunks' frames; a zero byte follows */
    size_t size;
    bool is_chunked;
    bool ends_with_close; /* the body has no length */
};

/* Connects to a port of 127.0.0.1. */
void client_open(struct client *c, int port);
/* The same; false, and nothing is left to close: nobody listens there any more. */
bool client_try_open(struct client *c, int port);
/* The same with a small receive buffer (as set by SO_RCVBUF), for clients that read slowly. */
void client_open_small(struct client *c, int port, int buffer);
/* The same from another address of this machine: "127.0.0.2". */
void client_open_from(struct client *c, int port, const char *address);
/* The same at any address: "[::1]:80", "unix:path". */
void client_open_at(struct client *c, const char *address);
void client_close(struct client *c);
/* Closes with a reset. */
void client_abort(struct client *c);

/* Sends all, at once: false: the connection has failed. */
bool client_send(struct client *c, const void *bytes, size_t size);
bool client_say(struct client *c, const char *text);
/* Ends the sending half. */
void client_end(struct client *c);

/*
 * Reads one whole answer. `is_head`: to HEAD, so it has no body. A status 1xx is an answer of its own. Returns NULL, or what is
 * wrong with it: "end" if the server has ended instead. answer_free releases it in any case.
 */
const char *client_answer(struct client *c, struct answer *a, bool is_head);
void answer_free(struct answer *a);

/* How many segments with data have come from the server; 0: the system does not say. Small answers that the server writes in
 * one call come in one segment. */
unsigned client_segments(const struct client *c);

/* The value of a field, by its name in any case. NULL: none. */
const char *answer_field(const struct answer *a, const char *name);
/* How many fields have the name. */
unsigned answer_field_count(const struct answer *a, const char *name);

/* Reads one whole answer and checks its status. */
void client_expect(struct client *c, int status);
/* The same, and checks its body. */
void client_expect_body(struct client *c, int status, const char *body);

/* Reads until the server ends: how many bytes came before. c->error tells how it has ended. */
size_t client_drain(struct client *c);
/* True if the server ends now, orderly and without another byte. */
bool client_sees_end(struct client *c);

/* Sends a request on a connection of its own, reads the answer, and closes. NULL, or what is wrong. */
const char *ask(int port, const char *request, struct answer *a);
/* The same for the status alone; 0: no answer. */
int ask_status(int port, const char *request);

#endif
