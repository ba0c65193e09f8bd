/*
 * http/options.h: reads structs of options whose version may differ between the caller and this library. Any thread.
 */
#ifndef WH_HTTP_OPTIONS_H
#define WH_HTTP_OPTIONS_H

#include <stddef.h>

#include <weft/http.h>

/*
 * Copies *theirs (NULL: all defaults) into *mine, of `known` bytes. Both begin with their size; 0 means `first`, the
 * size in the first release. Returns 0, or -EINVAL: the size is impossible, or a field of a later version is not 0.
 */
int wh_options_read(void *mine, size_t known, const void *theirs, size_t first);

/* Reads the server's options, and puts in the defaults. 0, or -EINVAL: an option is out of range. */
int wh_http_opts_read(weft_http_opts *mine, const weft_http_opts *theirs);

#endif
