/*
 * fuzz/parse.c: the head parser against the rules of rules.h, and against llhttp in strict mode.
 *
 * An input is a byte and a head. The byte says how the head is cut into pieces (its low four bits) and which limits count.
 *
 *  - The parser gives the same result for the whole head, for pieces and byte by byte, and reads no byte that it was not
 *    given.
 *  - It accepts a complete head exactly if the head breaks no rule, and then with the meaning that the rules give it. The
 *    status of a refusal is that of a broken rule.
 *  - What it accepts, llhttp accepts with the same meaning. Known differences are first taken out of the head (translate
 *    in meaning.c).
 *  - A head that llhttp accepts and the parser refuses breaks a rule.
 */
#include <string.h>

#include "fuzz/meaning.h"

enum { SMALL_HEAD = 96, FEW_FIELDS = 3, BYTE_BY_BYTE = 256 };

/* ---- in pieces ---- */

static void check_alike(const struct parsed *whole, const struct parsed *parts)
{
    FUZZ_CHECK_INT(whole->rc, parts->rc);
    FUZZ_CHECK(ended_alike(whole, parts));
}

static void parse_pieces(const struct parsed *whole, const char *bytes, size_t size, struct meaning_limits limits,
                         unsigned seed)
{
    struct dice dice = {seed};
    struct parsed p;
    size_t given = 0, most = seed % 4 == 3 ? size + 1 : 24;
    parsed_init(&p, limits.bytes, limits.fields);
    do {
        given += dice_throw(&dice, (unsigned)(most < size - given + 1 ? most : size - given + 1));
        given += given < size;
        parse_part(&p, bytes, given);
    } while (p.rc == 0 && given < size);
    check_alike(whole, &p);
}

static void parse_bytewise(const struct parsed *whole, const char *bytes, size_t size, struct meaning_limits limits)
{
    struct parsed p;
    parsed_init(&p, limits.bytes, limits.fields);
    for (size_t n = 0; n <= size && p.rc == 0; n++)
        parse_part(&p, bytes, n);
    check_alike(whole, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    if (input_size == 0)
        return 0;
    const char *bytes = (const char *)input + 1;
    size_t size = input_size - 1;
    struct meaning_limits limits = {input[0] & 0x10 ? SMALL_HEAD : MEANING_HEAD,
                                    input[0] & 0x20 ? FEW_FIELDS : HEAD_FIELDS};
    struct parsed whole;
    parsed_init(&whole, limits.bytes, limits.fields);
    parse_part(&whole, bytes, size);
    whole.bytes = bytes;
    parse_pieces(&whole, bytes, size, limits, input[0] & 15);
    if (size <= BYTE_BY_BYTE)
        parse_bytewise(&whole, bytes, size, limits);
    check_meaning(&whole, bytes, size, limits);
    return 0;
}
