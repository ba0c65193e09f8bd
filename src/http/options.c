/*
 * http/options.c: see options.h.
 */
#include "http/options.h"

#include <errno.h>
#include <string.h>

#define FIRST_SIZE sizeof(weft_http_opts)
#define KIB ((uint64_t)1024)

enum { OPTIONS_MOST = 4096 }; /* no struct of this library will be larger, so a larger size was never set: -EINVAL */

int wh_options_read(void *mine, size_t known, const void *theirs, size_t first)
{
    size_t size = 0;
    memset(mine, 0, known);
    memcpy(mine, &known, sizeof known);
    if (!theirs)
        return 0;
    memcpy(&size, theirs, sizeof size);
    size = size == 0 ? first : size;
    if (size < sizeof size || size > OPTIONS_MOST)
        return -EINVAL;
    for (size_t i = known; i < size; i++) {
        if (((const char *)theirs)[i] != 0)
            return -EINVAL;
    }
    memcpy(mine, theirs, size < known ? size : known);
    memcpy(mine, &known, sizeof known);
    return 0;
}

#define DEFAULT(field, value) ((field) = (field) == 0 ? (value) : (field))

int wh_http_opts_read(weft_http_opts *mine, const weft_http_opts *theirs)
{
    int rc = wh_options_read(mine, sizeof *mine, theirs, FIRST_SIZE);
    if (rc != 0)
        return rc;
    DEFAULT(mine->head_bytes, 16 * KIB);
    DEFAULT(mine->head_fields, 100);
    DEFAULT(mine->body_bytes, 1024 * KIB);
    DEFAULT(mine->drain_bytes, 256 * KIB);
    DEFAULT(mine->idle_time, 60 * WEFT_SEC);
    DEFAULT(mine->head_time, 10 * WEFT_SEC);
    DEFAULT(mine->body_rate, 256);
    DEFAULT(mine->write_time, 30 * WEFT_SEC);
    DEFAULT(mine->grace, 10 * WEFT_SEC);
    DEFAULT(mine->max_conns, 16384);
    DEFAULT(mine->max_per_address, 4096);
    bool has_bad_sizes = mine->head_bytes < 256 || mine->head_bytes > 1024 * KIB || mine->head_fields > 10000;
    bool has_bad_times = mine->idle_time < 0 || mine->head_time < 0 || mine->write_time < 0;
    bool has_bad_stack = mine->stack != 0 && (mine->stack < WEFT_STACK_MIN || mine->shared);
    bool has_bad_busy = mine->busy != WEFT_HTTP_BUSY_503 && mine->busy != WEFT_HTTP_BUSY_CLOSE;
    return has_bad_sizes || has_bad_times || has_bad_stack || has_bad_busy ? -EINVAL : 0;
}
