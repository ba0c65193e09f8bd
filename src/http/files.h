/*
 * http/files.h: the interface between the parts of the file server: files.c finds the file that a path names,
 * files_send.c sends it, files_list.c lists a folder. All calls are for the fiber of the exchange.
 */
#ifndef WH_HTTP_FILES_H
#define WH_HTTP_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include <weft/http.h>

#include "http/files_condition.h"
#include "http/files_folder.h"

/* A folder that is served. const while serving, except folder.way and `listed`. */
struct wh_files {
    struct wh_folder folder;
    char *prefix;           /* of the paths, with a slash at both ends */
    char *index;            /* the name of the file that answers for a folder */
    bool lists;             /* a folder without an index is listed */
    bool hidden;            /* names that begin with a dot are served */
    char cache_control[40]; /* the value of the field; "": there is none */
    atomic_size_t listed;   /* bytes of listings that clients have not read */
};

/* A regular file that is open. */
struct wh_file {
    int fd;
    bool is_gzip; /* it is the twin: its bytes are compressed by gzip */
    struct stat st;
};

/* The fields of a request that matter here; NULL: there is no such field. */
struct wh_file_fields {
    const char *accept_encoding;
    struct wh_conditions conditions;
};

/* 0, or -ENOMEM. */
int wh_file_fields_read(weft_exchange *x, struct wh_file_fields *out);

/* Sends a file, or the answer that the conditions ask for. Returns as a handler does. The caller closes the file. */
int wh_file_send(weft_exchange *x, const struct wh_files *files, const struct wh_file *f, const char *type,
                 const struct wh_conditions *conditions);

/* While listings of one folder with so many bytes wait for their clients, a further listing gets 503 unless it is
 * small. Const; a test may set it. */
extern size_t wh_listed_most;

/* Answers with a listing of a folder. `path` is as wh_folder_open takes it; `shown` is the path that the page shows. */
int wh_files_list(weft_exchange *x, struct wh_files *files, const char *path, const char *shown);

#endif
