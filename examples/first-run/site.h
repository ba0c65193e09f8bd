/*
 * site.h: the files of a folder, as a server should serve them.
 */
#ifndef FIRST_RUN_SITE_H
#define FIRST_RUN_SITE_H

#include <stddef.h>

enum {
    SITE_PAGES = 64,        /* files beyond these are left out */
    SITE_LARGEST = 1 << 20, /* bytes; larger files are left out */
};

struct page {
    char *path; /* "/" for the index, else "/name" */
    char *body;
    size_t bytes;
};

struct site {
    struct page pages[SITE_PAGES];
    unsigned count;
    size_t largest; /* bytes of the largest body */
};

/** Reads the files of a folder, without those in folders below it. Ends the program if there are none (support/fail.h). */
void site_read(struct site *site, const char *folder);

#endif
