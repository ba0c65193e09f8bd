/*
 * http/files_fields.c: the fields of a request that matter to files, found in one pass over all fields.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "http/field.h"
#include "http/files.h"

static const struct known {
    const char *name; /* in lower case */
    size_t size;
    size_t at; /* of its value in struct wh_file_fields */
    bool is_list;
} known[] = {
#define KNOWN(name, member, is_list)                                                                                   \
    {                                                                                                                  \
        name, sizeof name - 1, offsetof(struct wh_file_fields, member), is_list                                        \
    }
    KNOWN("accept-encoding", accept_encoding, true),
    KNOWN("if-none-match", conditions.if_none_match, true),
    KNOWN("if-modified-since", conditions.if_modified_since, false),
    KNOWN("range", conditions.range, false),
    KNOWN("if-range", conditions.if_range, false),
    KNOWN("if-match", conditions.if_match, true),
    KNOWN("if-unmodified-since", conditions.if_unmodified_since, false),
};

static const struct known *find(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (size == known[i].size && wh_is_word(name, size, known[i].name, size))
            return &known[i];
    return NULL;
}

/* Puts the values of all fields of a list behind one another, with commas: they are one list. */
static void put_all(weft_exchange *x, const struct known *k, char *to)
{
    const char *name, *value;
    for (unsigned i = 0; weft_http_header_at(x, i, &name, &value) == 0; i++) {
        if (find(name) != k)
            continue;
        to = stpcpy(to, value);
        *to++ = ',';
    }
    to[-1] = '\0';
}

/* The room for the joined values, zero byte included. The values are joined once, not field by field: else many fields
 * would take many times the memory of their head. */
static size_t size_of_all(weft_exchange *x, const struct known *k)
{
    const char *name, *value;
    size_t size = 0;
    for (unsigned i = 0; weft_http_header_at(x, i, &name, &value) == 0; i++)
        size += find(name) == k ? strlen(value) + 1 : 0;
    return size;
}

static int join(weft_exchange *x, const struct known *k, const char **value)
{
    char *all = weft_http_alloc(x, size_of_all(x, k));
    if (!all)
        return -ENOMEM;
    put_all(x, k, all);
    *value = all;
    return 0;
}

int wh_file_fields_read(weft_exchange *x, struct wh_file_fields *out)
{
    const char *name, *value;
    unsigned joined = 0; /* a bit for each of `known` */
    int rc = 0;
    *out = (struct wh_file_fields){0};
    for (unsigned i = 0; rc == 0 && weft_http_header_at(x, i, &name, &value) == 0; i++) {
        const struct known *k = find(name);
        if (!k || joined & 1u << (k - known))
            continue;
        const char **place = (const char **)((char *)out + k->at);
        if (*place && k->is_list) {
            rc = join(x, k, place);
            joined |= 1u << (k - known);
        } else {
            *place = *place ? "" : value; /* a field that is no list must not be repeated: "" is malformed */
        }
    }
    return rc;
}
