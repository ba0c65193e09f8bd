/*
 * reply.c: see reply.h.
 */
#include "reply.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#define LENGTH "\r\nContent-Length: "

/* Reads more bytes into the room. Returns 0 or a negative errno. */
static int read_more(struct reply *r, size_t *got, int fd, weft_time deadline)
{
    if (*got + 1 >= r->size)
        return -EMSGSIZE;
    ptrdiff_t n = weft_read(fd, r->room + *got, r->size - 1 - *got, deadline);
    if (n <= 0)
        return n == 0 ? -ECONNRESET : (int)n;
    *got += (size_t)n;
    r->room[*got] = '\0';
    return 0;
}

/* Reads the status and the length of a head that is complete. */
static int parse(struct reply *r, const char *head)
{
    const char *length = strstr(head, LENGTH);
    if (strncmp(head, "HTTP/1.1 ", 9) != 0 || !isdigit((unsigned char)head[9]) || !length ||
        strstr(length + strlen(LENGTH), LENGTH))
        return -EBADMSG;
    r->status = atoi(head + 9);
    r->bytes = strtoul(length + strlen(LENGTH), NULL, 10);
    return 0;
}

int reply_read(struct reply *r, int fd, weft_time deadline)
{
    size_t got = 0;
    char *end = NULL;
    r->room[0] = '\0';
    while (!end) {
        int rc = read_more(r, &got, fd, deadline);
        if (rc != 0)
            return rc;
        end = strstr(r->room, "\r\n\r\n");
    }
    end[2] = '\0'; /* ends the head after its last line, so that parse does not read the body */
    r->body = end + 4;
    int rc = parse(r, r->room);
    size_t whole = (size_t)(r->body - r->room) + r->bytes;
    if (rc == 0 && (r->bytes > r->size || whole >= r->size))
        rc = -EMSGSIZE;
    while (rc == 0 && got < whole)
        rc = read_more(r, &got, fd, deadline);
    return rc == 0 && got > whole ? -EBADMSG : rc;
}
