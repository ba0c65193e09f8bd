/*
 * http/options.h: reading structs of options that the caller may know in another version.
 */
#ifndef WH_HTTP_OPTIONS_H
#define WH_HTTP_OPTIONS_H

#include <stddef.h>

#include <weft/http.h>

/*
 * Copies *theirs (NULL: all defaults) into *mine, of `known` bytes. Both begin with their size; 0 means `first`, that of the
 * first release. 0, or -EINVAL: an impossible size, or fields of a later version that ask for something.
 */
int wh_options_read(void *mine, size_t known, const void *theirs, size_t first);

/* The server's: with the defaults in place. 0, or -EINVAL: out of range. */
int wh_http_opts_read(weft_http_opts *mine, const weft_http_opts *theirs);

#endif
