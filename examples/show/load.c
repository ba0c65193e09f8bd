/*
 * load.c: see load.h.
 *
 * A message is a piece of one long random text. Each client takes its pieces at places of its own, so that an answer that
 * was meant for another client, or for another message, is not what was sent.
 */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#define PLACES 8191 /* where a message may begin in the text; prime */
#define STEP 4099   /* from one message's place to the next one's */

static unsigned char text[PLACES + LOAD_BYTES];
static unsigned *places; /* of each client's message in the text. owner: the client */

/* One message there and back. */
static bool exchange(void *arg, unsigned client, int fd, struct crowd_wrong *wrong)
{
    unsigned char answer[LOAD_BYTES];
    const unsigned char *message = text + places[client];
    weft_time deadline = weft_in(CROWD_PATIENCE);
    ptrdiff_t n = weft_write_all(fd, message, LOAD_BYTES, NULL, deadline);
    (void)arg;
    *wrong = (struct crowd_wrong){"cannot send", n};
    if (n < 0)
        return false;
    n = weft_read_full(fd, answer, LOAD_BYTES, NULL, deadline);
    *wrong = (struct crowd_wrong){n < 0 ? "no answer" : "the server has hung up", n};
    if (n < LOAD_BYTES)
        return false;
    *wrong = (struct crowd_wrong){"what came back is not what was sent", 0};
    places[client] = (places[client] + STEP) % PLACES;
    return memcmp(answer, message, LOAD_BYTES) == 0;
}

static void fill(void)
{
    uint64_t x = 88172645463325252;
    for (size_t i = 0; i < sizeof text; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        text[i] = (unsigned char)x;
    }
}

struct crowd *load_new(const char *address, unsigned clients)
{
    places = malloc(clients * sizeof places[0]);
    if (!places)
        return NULL;
    fill();
    for (unsigned i = 0; i < clients; i++)
        places[i] = i * 31 % PLACES;
    return crowd_new(address, clients, exchange, NULL);
}

void load_free(void)
{
    free(places);
}
