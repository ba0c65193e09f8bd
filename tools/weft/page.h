/*
 * page.h: the live page, status.html, which lies in the program (page.S).
 *
 * Its elements <script> and <style> have a placeholder. Each answer has a new nonce in place of the placeholder, and
 * names the nonce in its Content-Security-Policy.
 */
#ifndef TOOL_PAGE_H
#define TOOL_PAGE_H

#include <stdbool.h>
#include <stddef.h>

enum { PAGE_NONCE = 32 }; /* letters of a nonce, and of the placeholder */

/** The bytes of the page. */
size_t page_size(void);

/** Makes a nonce that cannot be guessed. Returns false if the kernel has no random bytes. */
bool page_nonce(char nonce[PAGE_NONCE + 1]);

/** Writes the page with this nonce. */
void page_write(char *to, const char nonce[PAGE_NONCE + 1]);

#endif
