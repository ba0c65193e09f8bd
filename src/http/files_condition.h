/*
 * http/files_condition.h: which answer the conditions of a request ask for (RFC 9110, sections 13 and 14), and whether
 * its client takes gzip (section 12.5.3). Pure functions, for any thread: they take the values of the fields.
 */
#ifndef WH_HTTP_FILES_CONDITION_H
#define WH_HTTP_FILES_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

/* The values of the fields of a GET or HEAD; NULL: there is no such field. If a list comes in several fields, the
 * caller joins them by commas. For a field that must not be repeated but was, the caller gives "", which is never
 * valid. For HEAD `range` is NULL. */
struct wh_conditions {
    const char *if_match, *if_none_match, *if_modified_since, *if_unmodified_since, *if_range, *range;
};

/* The file that would be sent without conditions. */
struct wh_representation {
    const char *etag;  /* strong, with its quotes */
    int64_t modified;  /* Last-Modified, in seconds since 1970 */
    bool has_modified; /* false: no date of HTTP can name that time */
    uint64_t size;
};

/* A part of the file. */
struct wh_part {
    uint64_t first, count;
};

/*
 * Returns the status of the answer: 200; 206, with *part set; 304; 412; or 416. The order of evaluation is that of RFC
 * 9110, section 13.2.2. `now` is the time in seconds.
 */
int wh_conditions_check(const struct wh_conditions *c, const struct wh_representation *r, int64_t now,
                        struct wh_part *part);

/*
 * Reads the value of Range. Returns 206 for one range, with *part set; 416 for a range outside of the file; 200 for
 * several ranges, another unit, or a malformed value: these are ignored.
 */
int wh_range_read(const char *value, uint64_t size, struct wh_part *part);

/* Whether a list of entity tags has this strong tag, or is "*". With `weak`, W/"x" matches "x" (If-None-Match). The
 * members after a malformed one do not count. */
bool wh_etag_is_listed(const char *list, const char *etag, bool weak);

/* Whether the value of Accept-Encoding takes gzip, and does not prefer the plain file. NULL: no. */
bool wh_accepts_gzip(const char *value);

#endif
