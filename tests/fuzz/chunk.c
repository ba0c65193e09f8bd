/*
 * fuzz/chunk.c: the chunk decoder against the reference of reference.h, and against llhttp in strict mode.
 *
 * An input is a byte and a chunked body, perhaps with bytes behind it. The byte says how the body is cut into pieces, and how
 * much room the caller has for data.
 *
 *  - The decoder and the reference find the same data, the same end, and faults in the same bodies.
 *  - In pieces the decoder answers as it does for the whole.
 *  - If a body has ended, llhttp finds the same data and the same end. Extensions that it does not understand are taken
 *    out before. If llhttp finds an end and the decoder refuses the body, then the reference names the fault.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/reference.h"
#include "http/chunk.h"

#if FUZZ_LLHTTP
#include "fuzz/partner.h"
#endif

struct decoded {
    int rc; /* 0: more bytes are needed; -1: the end; -400 */
    size_t used, size;
    char *data;
};

/* Gives the decoder one piece, as often as it asks for it. */
static void decode_piece(struct wh_chunks *c, struct decoded *d, const char *bytes, size_t size, size_t room)
{
    char *copy = fuzz_copy(bytes, size);
    for (size_t at = 0; at < size && d->rc == 0;) {
        const char *data = NULL;
        size_t used = SIZE_MAX;
        ptrdiff_t n = wh_chunks_take(c, copy + at, size - at, room, &data, &used);
        FUZZ_CHECK(used <= size - at && used > 0);
        if (n > 0) {
            FUZZ_CHECK((size_t)n <= room && data >= copy + at && data + n == copy + at + used);
            memcpy(d->data + d->size, data, (size_t)n);
            d->size += (size_t)n;
        } else {
            FUZZ_CHECK(n < 0 || used == size - at);
            d->rc = (int)n;
        }
        at += used;
        d->used += used;
    }
    free(copy);
}

static void decode(struct decoded *d, const char *bytes, size_t size, size_t room, struct dice *dice)
{
    struct wh_chunks c = {0};
    *d = (struct decoded){.data = fuzz_copy(bytes, size)};
    for (size_t at = 0; at < size && d->rc == 0;) {
        size_t piece = dice ? 1 + dice_throw(dice, 16) : size;
        if (piece > size - at)
            piece = size - at;
        decode_piece(&c, d, bytes + at, piece, room);
        at += piece;
    }
}

static void check_alike(const struct decoded *a, const struct decoded *b)
{
    FUZZ_CHECK_INT(a->rc, b->rc);
    FUZZ_CHECK_INT(a->used, b->used);
    FUZZ_CHECK_INT(a->size, b->size);
    FUZZ_CHECK(memcmp(a->data, b->data, a->size) == 0);
}

static void check_reference(const struct decoded *d, const struct reference_body *b, const char *data)
{
    static const int ends[] = {[REFERENCE_MORE] = 0, [REFERENCE_ENDED] = -1, [REFERENCE_REFUSED] = -400};
    if (d->rc != ends[b->end])
        fuzz_fail(__FILE__, __LINE__, "the decoder returns %d, and the reference %d: %s", d->rc, ends[b->end],
                  b->fault ? b->fault : "no fault");
    FUZZ_CHECK_INT(d->size, b->size);
    FUZZ_CHECK(memcmp(d->data, data, b->size) == 0);
    if (d->rc != -400)
        FUZZ_CHECK_INT(d->used, b->used);
}

#if FUZZ_LLHTTP

static void check_partner(const struct reference_body *b, const char *bytes, size_t size, const char *data, char *room)
{
    struct partner_body other;
    partner_read_chunks(&other, bytes, size, room);
    if (b->end != REFERENCE_ENDED) {
        FUZZ_CHECK(!other.has_ended || b->fault);
        return;
    }
    if (!other.has_ended)
        fuzz_fail(__FILE__, __LINE__, "llhttp refuses a body: %s", other.reason ? other.reason : "more");
    FUZZ_CHECK_INT(other.used, size);
    FUZZ_CHECK_INT(other.size, b->size);
    FUZZ_CHECK(memcmp(room, data, b->size) == 0);
}

static void check_partners(const struct reference_body *b, const char *bytes, size_t size, const char *data,
                           const char *plain)
{
    char *room = malloc(size + 1);
    if (!b->has_odd_extension)
        check_partner(b, bytes, b->end == REFERENCE_ENDED ? b->used : size, data, room);
    if (b->end == REFERENCE_ENDED)
        check_partner(b, plain, b->plain_size, data, room);
    free(room);
}

#endif

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    if (input_size == 0)
        return 0;
    const char *bytes = (const char *)input + 1;
    size_t size = input_size - 1, room = input[0] & 1 ? SIZE_MAX : 1u + (input[0] >> 1) % 32;
    struct dice dice = {input[0]};
    struct decoded whole, pieces, tight;
    struct reference_body b;
    char *data = malloc(size + 1), *plain = malloc(size + 1);
    decode(&whole, bytes, size, SIZE_MAX, NULL);
    decode(&pieces, bytes, size, room, &dice);
    decode(&tight, bytes, size, 1, NULL);
    check_alike(&whole, &pieces);
    check_alike(&whole, &tight);
    reference_read(&b, bytes, size, data, plain);
    check_reference(&whole, &b, data);
#if FUZZ_LLHTTP
    check_partners(&b, bytes, size, data, plain);
#endif
    free(whole.data);
    free(pieces.data);
    free(tight.data);
    free(data);
    free(plain);
    return 0;
}
