/*
 * http/files_send.c: answers with an open file: the fields, the result of the conditions, and the bytes.
 *
 * A small file is read into memory and goes out in one write with its head. If the page cache does not have it,
 * weft_pread makes only the fiber wait. A large file goes out by sendfile(2), behind its head.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include <weft/file.h>

#include "http/date.h"
#include "http/files.h"
#include "http/output.h"

enum {
    SMALL = 16 * 1024, /* bytes that are cheaper to read than to hand to sendfile */
    ETAG_SIZE = 64,
};

#define YEAR_0 (-62167219200) /* the first second that a date can name */

/* The file that is sent, and the values of its fields. */
struct sending {
    const struct wh_file *file;
    const char *type;
    char etag[ETAG_SIZE];
    struct wh_representation as;
    struct wh_part part;
};

/*
 * A strong tag: the time of the last change in nanoseconds, the size and the inode. Before Linux 6.13, two changes
 * within a tick of the clock that keep the size give the same tag. Since then, a change after a read of the time has
 * another time.
 */
static void write_etag(char out[ETAG_SIZE], const struct wh_file *f)
{
    char *to = out;
    *to++ = '"';
    to = wh_put_hex(to, (uint64_t)f->st.st_mtim.tv_sec * 1000000000 + (uint64_t)f->st.st_mtim.tv_nsec);
    *to++ = '-';
    to = wh_put_hex(to, (uint64_t)f->st.st_size);
    *to++ = '-';
    to = wh_put_hex(to, f->st.st_ino);
    if (f->is_gzip)
        to = wh_append(to, "-gz", 3);
    memcpy(to, "\"", 2);
}

/* RFC 9110, section 8.8.2.1: Last-Modified must not be in the future, so the date is at most `now`. */
static void describe(struct sending *s, const struct wh_file *f, const char *type, int64_t now)
{
    int64_t modified = f->st.st_mtim.tv_sec;
    s->file = f;
    s->type = type;
    write_etag(s->etag, f);
    s->as = (struct wh_representation){.etag = s->etag,
                                       .modified = modified < now ? modified : now,
                                       .has_modified = modified >= YEAR_0,
                                       .size = (uint64_t)f->st.st_size};
    s->part = (struct wh_part){0, s->as.size};
}

/*
 * Vary is sent also if the file has no twin: a twin may come later, and looking for the twin when the client does not
 * take gzip would cost a system call.
 */
static int add_validators(weft_exchange *x, const struct wh_files *files, const struct sending *s)
{
    int rc = weft_http_add_header(x, "ETag", s->etag);
    if (rc == 0 && s->as.has_modified) {
        char date[WH_DATE_SIZE + 1];
        wh_date_write(date, s->as.modified);
        date[WH_DATE_SIZE] = '\0';
        rc = weft_http_add_header(x, "Last-Modified", date);
    }
    if (rc == 0)
        rc = weft_http_add_header(x, "Vary", "Accept-Encoding");
    if (rc == 0 && files->cache_control[0] != '\0')
        rc = weft_http_add_header(x, "Cache-Control", files->cache_control);
    return rc;
}

static int add_content_range(weft_exchange *x, const struct sending *s, int status)
{
    char value[80];
    if (status == 416)
        snprintf(value, sizeof value, "bytes */%llu", (unsigned long long)s->as.size);
    else
        snprintf(value, sizeof value, "bytes %llu-%llu/%llu", (unsigned long long)s->part.first,
                 (unsigned long long)(s->part.first + s->part.count - 1), (unsigned long long)s->as.size);
    return weft_http_add_header(x, "Content-Range", value);
}

/* Answers 412 or 416, with the reason as text. */
static int refuse(weft_exchange *x, const struct sending *s, int status)
{
    char text[64];
    int rc = status == 416 ? add_content_range(x, s, status) : 0;
    int size = snprintf(text, sizeof text, "%s\n", weft_http_reason(status));
    return rc != 0 ? rc : weft_http_reply(x, status, "text/plain; charset=utf-8", text, (size_t)size);
}

/* Reads bytes that are cached at once. For the rest the fiber waits, and not its worker. */
static ptrdiff_t read_part(int fd, char *bytes, const struct wh_part *part)
{
    size_t count = (size_t)part->count;
    struct iovec all = {bytes, count};
    ssize_t n = preadv2(fd, &all, 1, (off_t)part->first, RWF_NOWAIT);
    size_t done = n > 0 ? (size_t)n : 0;
    if (done == count)
        return n;
    ptrdiff_t rest = weft_pread(fd, bytes + done, count - done, (off_t)(part->first + done), WEFT_FOREVER);
    return rest < 0 ? rest : (ptrdiff_t)done + rest;
}

/* If the file has become shorter, somebody is writing it: the answer is 503, so that the client tries again. */
static int send_small(weft_exchange *x, const struct sending *s, int status)
{
    char *bytes = weft_http_alloc(x, (size_t)s->part.count);
    if (!bytes)
        return -EAGAIN;
    ptrdiff_t n = s->part.count > 0 ? read_part(s->file->fd, bytes, &s->part) : 0;
    if (n != (ptrdiff_t)s->part.count)
        return n < 0 ? (int)n : -EAGAIN;
    return weft_http_reply(x, status, s->type, bytes, (size_t)n);
}

/* For HEAD no byte of the file is read: weft_http_write_file sends nothing. */
static int send_large(weft_exchange *x, const struct sending *s, int status)
{
    char length[24];
    *wh_put_decimal(length, s->part.count) = '\0';
    int rc = weft_http_add_header(x, "Content-Type", s->type);
    if (rc == 0)
        rc = weft_http_add_header(x, "Content-Length", length);
    if (rc == 0)
        rc = weft_http_begin(x, status);
    if (rc == 0)
        rc = weft_http_write_file(x, s->file->fd, (int64_t)s->part.first, s->part.count);
    return rc != 0 ? rc : weft_http_end(x);
}

int wh_file_send(weft_exchange *x, const struct wh_files *files, const struct wh_file *f, const char *type,
                 const struct wh_conditions *conditions)
{
    bool is_head = strcmp(weft_http_method(x), "HEAD") == 0;
    struct wh_conditions c = *conditions;
    struct sending s;
    int64_t now = time(NULL);
    if (is_head)
        c.range = NULL;
    describe(&s, f, type, now);
    int status = wh_conditions_check(&c, &s.as, now, &s.part);
    if (status == 412 || status == 416)
        return refuse(x, &s, status);
    int rc = add_validators(x, files, &s);
    if (rc == 0 && status == 304)
        return weft_http_reply(x, 304, NULL, NULL, 0);
    if (rc == 0)
        rc = status == 206 ? add_content_range(x, &s, status) : weft_http_add_header(x, "Accept-Ranges", "bytes");
    if (rc == 0 && f->is_gzip)
        rc = weft_http_add_header(x, "Content-Encoding", "gzip");
    if (rc != 0)
        return rc;
    return s.part.count <= SMALL && !is_head ? send_small(x, &s, status) : send_large(x, &s, status);
}
