/*
 * load.c: see load.h.
 *
 * A message is a piece of one long random text. Each client takes its pieces at places of its own, so that an answer that
 * was meant for another client, or for another message, is not what was sent.
 */
#include "load.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#define PATIENCE (10 * WEFT_SEC) /* so long without an answer: it is lost */
#define PLACES 8191              /* where a message may begin in the text; prime */
#define STEP 4099                /* from one message's place to the next one's */

struct client {
    struct load *load;
    _Atomic uint64_t answered; /* its fiber counts, others look */
    unsigned place;            /* of its message in the text */
};

struct load {
    const char *address;
    weft_waitgroup dialling, running;
    weft_event begun;
    atomic_bool ending;
    weft_once failure; /* makes `why` */
    char why[200];
    unsigned count;
    unsigned char text[PLACES + LOAD_BYTES];
    struct client clients[];
};

/* What went wrong with a client, and a negative errno or 0. */
struct wrong {
    struct client *client;
    const char *what;
    ptrdiff_t rc;
};

static void note(void *arg)
{
    const struct wrong *w = arg;
    struct load *load = w->client->load;
    snprintf(load->why, sizeof load->why, "client %d: %s%s%s", (int)(w->client - load->clients), w->what,
             w->rc < 0 ? ": " : "", w->rc < 0 ? strerror((int)-w->rc) : "");
    atomic_store(&load->ending, true);
}

/* The first one counts. Returns false. */
static bool give_up(struct client *c, const char *what, ptrdiff_t rc)
{
    weft_once_do(&c->load->failure, note, &(struct wrong){c, what, rc}, WEFT_FOREVER);
    return false;
}

/* One message there and back. */
static bool exchange(struct client *c, int fd)
{
    unsigned char answer[LOAD_BYTES];
    const unsigned char *message = c->load->text + c->place;
    weft_time deadline = weft_in(PATIENCE);
    ptrdiff_t n = weft_write_all(fd, message, LOAD_BYTES, NULL, deadline);
    if (n < 0)
        return give_up(c, "cannot send", n);
    n = weft_read_full(fd, answer, LOAD_BYTES, NULL, deadline);
    if (n < LOAD_BYTES)
        return give_up(c, n < 0 ? "no answer" : "the server has hung up", n);
    if (memcmp(answer, message, LOAD_BYTES) != 0)
        return give_up(c, "what came back is not what was sent", 0);
    c->place = (c->place + STEP) % PLACES;
    return true;
}

/* Says that there is no more, and expects nothing but the same. */
static void part(struct client *c, int fd)
{
    char more;
    weft_shutdown(fd, SHUT_WR);
    ptrdiff_t n = weft_read(fd, &more, 1, weft_in(PATIENCE));
    if (n != 0)
        give_up(c, n < 0 ? "the server does not end" : "more came back than was sent", n);
}

static void *run_client(void *arg)
{
    struct client *c = arg;
    struct load *load = c->load;
    int fd = weft_dial(load->address, weft_in(PATIENCE));
    if (fd < 0)
        give_up(c, "cannot connect", fd);
    weft_waitgroup_done(&load->dialling);
    weft_event_wait(&load->begun, WEFT_FOREVER);
    while (!atomic_load_explicit(&load->ending, memory_order_relaxed) && exchange(c, fd))
        atomic_fetch_add_explicit(&c->answered, 1, memory_order_relaxed);
    if (fd >= 0) {
        part(c, fd);
        weft_close(fd);
    }
    weft_waitgroup_done(&load->running);
    return NULL;
}

static void fill(unsigned char *text, size_t bytes)
{
    uint64_t x = 88172645463325252;
    for (size_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        text[i] = (unsigned char)x;
    }
}

struct load *load_new(const char *address, unsigned clients)
{
    struct load *load = calloc(1, sizeof *load + clients * sizeof load->clients[0]);
    if (!load)
        return NULL;
    load->address = address;
    load->count = clients;
    fill(load->text, sizeof load->text);
    weft_waitgroup_add(&load->dialling, (int)clients);
    weft_waitgroup_add(&load->running, (int)clients);
    for (unsigned i = 0; i < clients; i++) {
        struct client *c = &load->clients[i];
        c->load = load;
        c->place = i * 31 % PLACES;
        int rc = weft_go(run_client, c);
        if (rc < 0) {
            give_up(c, "no fiber", rc);
            weft_waitgroup_done(&load->dialling);
            weft_waitgroup_done(&load->running);
        }
    }
    weft_waitgroup_wait(&load->dialling, WEFT_FOREVER);
    return load;
}

void load_begin(struct load *load)
{
    weft_event_set(&load->begun);
}

uint64_t load_answered(const struct load *load)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < load->count; i++)
        sum += atomic_load_explicit(&load->clients[i].answered, memory_order_relaxed);
    return sum;
}

bool load_failed(const struct load *load)
{
    return atomic_load(&load->ending);
}

bool load_end(struct load *load, char *why, unsigned size)
{
    atomic_store(&load->ending, true);
    load_begin(load);
    weft_waitgroup_wait(&load->running, WEFT_FOREVER);
    snprintf(why, size, "%s", load->why);
    free(load);
    return why[0] == '\0';
}
