/*
 * fetch.c: several pages at once, and one deadline for all of them. What comes first is printed first; what takes too long
 * does not hold up the rest.
 *
 *     fetch HOST:PORT...    prints the first line of what each answers, and how long it was; or why there is none
 */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

struct page {
    const char *address;
    char start[128]; /* its first bytes */
    size_t bytes;
    ptrdiff_t error;
};

static weft_chan *pages;
static weft_time deadline;

static void *fetch(void *address)
{
    struct page page = {.address = address};
    char request[300];
    int fd = weft_dial(address, deadline);
    int bytes = snprintf(request, sizeof request, "GET / HTTP/1.0\r\nHost: %.200s\r\n\r\n", page.address);
    ptrdiff_t n = fd < 0 ? fd : weft_write_all(fd, request, (size_t)bytes, NULL, deadline);
    if (n > 0)
        n = weft_read_full(fd, page.start, sizeof page.start - 1, &page.bytes, deadline);
    for (char more[4096]; n > 0; page.bytes += n > 0 ? (size_t)n : 0)
        n = weft_read(fd, more, sizeof more, deadline);
    page.error = n;
    weft_close(fd);
    weft_chan_send(pages, &page, WEFT_FOREVER);
    return NULL;
}

static void *first(void *arg)
{
    int started = 0;
    struct page page;
    deadline = weft_in(2 * WEFT_SEC);
    for (char **address = arg; *address; address++)
        started += weft_go(fetch, *address) == 0;
    for (; started > 0 && weft_chan_recv(pages, &page, WEFT_FOREVER) == 0; started--) {
        if (page.error < 0)
            printf("%s: %s after %zu bytes\n", page.address, strerror((int)-page.error), page.bytes);
        else
            printf("%s: %.*s, %zu bytes\n", page.address, (int)strcspn(page.start, "\r\n"), page.start, page.bytes);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc;
    return weft_chan_new(&pages, sizeof(struct page), 0) < 0 || weft_run(first, argv + 1, NULL, NULL) < 0;
}
