/*
 * fuzz/site.h: the server of fuzz/connection.c: handlers that use each call of weft/http.h, and a folder of files.
 */
#ifndef TESTS_FUZZ_SITE_H
#define TESTS_FUZZ_SITE_H

#include <weft/http.h>

/* The limits of the server: small, so that inputs reach them. */
enum { SITE_HEAD = 2048, SITE_FIELDS = 16, SITE_BODY = 4096, SITE_DRAIN = 512, SITE_LARGE = 300 * 1024 };

/* What /large answers. */
extern char site_large[SITE_LARGE];

/* Makes the server and its folder of files. With FUZZ_SHARED in the environment its connections run on two shared stacks. A
 * failure aborts. */
weft_http *site_new(void);

/* Frees both. */
void site_free(weft_http *h);

#endif
