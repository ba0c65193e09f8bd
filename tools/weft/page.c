/*
 * page.c: see page.h.
 */
#include "page.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

extern const char tool_page[], tool_page_end[]; /* page.S */

static const char placeholder[] = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
_Static_assert(sizeof placeholder == PAGE_NONCE + 1, "a nonce takes the room of the placeholder");

size_t page_size(void)
{
    return (size_t)(tool_page_end - tool_page);
}

bool page_nonce(char nonce[PAGE_NONCE + 1])
{
    unsigned char bytes[PAGE_NONCE / 2];
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

void page_write(char *to, const char nonce[PAGE_NONCE + 1])
{
    const char *end = to + page_size();
    memcpy(to, tool_page, page_size());
    while ((to = memmem(to, (size_t)(end - to), placeholder, PAGE_NONCE)) != NULL) {
        memcpy(to, nonce, PAGE_NONCE);
        to += PAGE_NONCE;
    }
}
