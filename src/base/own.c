/*
 * base/own.c: see own.h. The notes are in pages. A page is made once and never freed; the first page is static. A note
 * is a bit, and a mark that says which file the note is for. The bit is set before any other thread can know the
 * number, and cleared before the number is closed: a program that gets the number next finds the bit clear.
 *
 * A program may close a descriptor of the library without the hooks, and get the number for a file of its own. The note
 * stays then, because the descriptor's owner in the library still has the number and will check it later. The mark no
 * longer matches the file, so the program may close that file.
 */
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define IS_ALONE __libc_single_threaded
#else
#define IS_ALONE 0
#endif
#include <unistd.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/raw.h"
#include "base/sanitizer.h"
#include "base/sys.h"

enum { WORD = 64, WORDS = 512, PAGE = WORD * WORDS, PAGES = (1 << 26) / PAGE };

struct page {
    uint64_t bits[WORDS]; /* atomic: a bit for each number */
    uint32_t marks[PAGE]; /* atomic: the mark of each number's file, with LASTS or without; 0: not known */
};

enum { LASTS = 1, MARK = 2 }; /* in a mark: LASTS: not for one call alone; MARK: set in every mark */

static struct page first_page;
static struct page *pages[PAGES]; /* atomic: the pages of higher numbers, each made once and never freed */

static struct page *page_of(int fd)
{
    if (wf_likely(fd >= 0 && fd < PAGE))
        return &first_page;
    return fd >= 0 && fd < PAGE * PAGES ? wf_load_acquire(&pages[fd / PAGE]) : NULL; /* pairs with make_page */
}

static struct page *make_page(int index)
{
    struct page *made = wf_sys_malloc(sizeof *made), *there = NULL;
    if (!made)
        return NULL;
    memset(made, 0, sizeof *made);
    if (wf_cas(&pages[index], &there, made)) /* pairs with page_of */
        return made;
    wf_sys_free(made);
    return there;
}

static uint64_t bit(int fd)
{
    return (uint64_t)1 << fd % WORD;
}

/*
 * The mark of the file that has the number now, without LASTS; 0: there is no file. errno does not change. Not by
 * fstat(3): ThreadSanitizer takes that for a use of the descriptor, but another thread may just close it.
 */
static uint32_t mark_of(int fd)
{
    struct stat st;
    int kept = errno;
    bool known = syscall(SYS_fstat, fd, &st) == 0;
    errno = kept;
    uint64_t hash = known ? (st.st_ino ^ (uint64_t)st.st_dev << 32) * 0x9e3779b97f4a7c15 : 0;
    return known ? ((uint32_t)(hash >> 32) & ~(uint32_t)LASTS) | MARK : 0;
}

/* False: fd is noted already. If there is no memory for a page, fd is not noted, and works all the same. */
static bool note(int fd)
{
    struct page *page = page_of(fd);
    if (!page && fd < PAGE * PAGES)
        page = make_page(fd / PAGE);
    return !page || !(wf_or(&page->bits[fd % PAGE / WORD], bit(fd)) & bit(fd));
}

/* Call after note(). A note without a mark counts as the library's, whichever file has the number. */
static int mark(int fd, uint32_t lasts)
{
    struct page *page = page_of(fd);
    if (fd >= 0 && page)
        wf_store(&page->marks[fd % PAGE], mark_of(fd) | lasts);
    return fd;
}

void wf_own_forget(int fd)
{
    struct page *page = page_of(fd);
    if (!page)
        return;
    wf_store(&page->marks[fd % PAGE], 0);
    wf_and(&page->bits[fd % PAGE / WORD], ~bit(fd)); /* after the mark: the next note begins without one */
}

bool wf_own_has(int fd)
{
    const struct page *page = page_of(fd);
    return page && wf_load(&page->bits[fd % PAGE / WORD]) & bit(fd);
}

/* The mark of fd's note, without LASTS; 0: there is none. */
static uint32_t noted_mark(int fd)
{
    const struct page *page = page_of(fd);
    return page ? wf_load(&page->marks[fd % PAGE]) & ~(uint32_t)LASTS : 0;
}

WF_COLD static bool is_same_file(int fd)
{
    uint32_t noted = noted_mark(fd);
    return noted == 0 || noted == mark_of(fd);
}

bool wf_own_holds(int fd)
{
    return wf_own_has(fd) && is_same_file(fd);
}

bool wf_own_is_taken(int fd)
{
    uint32_t now = noted_mark(fd) != 0 ? mark_of(fd) : 0;
    return now != 0 && now != noted_mark(fd);
}

int wf_own_next(unsigned first, unsigned last)
{
    for (uint64_t n = first; n <= last && n < (uint64_t)PAGE * PAGES;) {
        const struct page *page = page_of((int)n);
        if (!page) {
            n = (n / PAGE + 1) * PAGE;
            continue;
        }
        uint64_t word = wf_load(&page->bits[n % PAGE / WORD]) >> n % WORD;
        if (word == 0) {
            n = (n / WORD + 1) * WORD;
            continue;
        }
        n += (unsigned)__builtin_ctzll(word);
        return n <= last ? (int)n : -1;
    }
    return -1;
}

enum { ABOVE_SELECT = 1024 };

static bool
    is_limit_high; /* atomic: the limit was at least 2 * ABOVE_SELECT. If it is lower now, fcntl fails with EINVAL */

/*
 * The first number for the library's descriptors. It is just above the numbers that select(2) can name, so that the
 * kernel's table, which has 8 bytes for each number up to the highest, stays small. If the limit is lower, it is in the
 * last eighth of the limit. A limit may change at any time.
 */
static int lowest(void)
{
    struct rlimit limit;
    if (wf_load(&is_limit_high))
        return ABOVE_SELECT;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return ABOVE_SELECT;
    if (limit.rlim_cur < 2 * ABOVE_SELECT)
        return (int)(limit.rlim_cur - limit.rlim_cur / 8);
    wf_store(&is_limit_high, true);
    return ABOVE_SELECT;
}

/*
 * Duplicates fd and notes the new number; -1 on failure. Skips a free number that still has a note: the program has
 * closed that descriptor, and its owner in the library, which does not know yet, would use the duplicate as its own.
 */
static int duplicate(int fd)
{
    int made = fcntl(fd, F_DUPFD_CLOEXEC, lowest());
    if (wf_unlikely(made < 0 && errno == EINVAL)) {
        wf_store(&is_limit_high, false);
        made = fcntl(fd, F_DUPFD_CLOEXEC, lowest());
    }
    while (made >= 0 && !note(made)) {
        int next = fcntl(fd, F_DUPFD_CLOEXEC, made + 1);
        wf_raw_close(made);
        made = next;
    }
    if (WF_TSAN && made >= 0)
        dup3(fd, made, O_CLOEXEC); /* TSan knows no other way to duplicate, and would miss what is handed over by it */
    return made;
}

static int take(int fd, uint32_t lasts)
{
    if (fd < 0)
        return fd;
    int kept = errno;
    note(fd); /* for the moment */
    int high = duplicate(fd);
    if (high >= 0) {
        wf_own_close(fd);
        fd = high;
    }
    errno = kept;
    return mark(fd, lasts);
}

int wf_own_take(int fd)
{
    return take(fd, LASTS);
}

int wf_own_take_for_call(int fd)
{
    return take(fd, 0);
}

int wf_own_dup(int fd)
{
    int kept = errno, made = duplicate(fd);
    if (made < 0) {
        made = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (made >= 0)
            note(made);
    }
    int error = errno;
    errno = kept;
    return made >= 0 ? mark(made, 0) : -error;
}

void wf_own_close(int fd)
{
    int kept = errno;
    bool closes = !wf_own_is_taken(fd);
    wf_own_forget(fd);
    if (closes)
        wf_raw_close(fd);
    errno = kept;
}

void wf_own_in_child(void)
{
    for (int fd = -1; (fd = wf_own_next((unsigned)fd + 1, INT_MAX)) >= 0;) {
        if (!(wf_load(&page_of(fd)->marks[fd % PAGE]) & LASTS))
            wf_own_close(fd);
    }
}

bool wf_own_is(int fd, const char *kind)
{
    char path[32], to[64] = "";
    int kept = errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool is = readlink(path, to, sizeof to - 1) < 0 ? errno != EBADF && access("/proc/self/fd", F_OK) != 0
                                                    : strstr(to, kind) != NULL;
    errno = kept;
    return is;
}

void wf_own_prepare(void)
{
    static uint32_t done; /* atomic */
    if (!IS_ALONE || wf_exchange(&done, 1) != 0)
        return;
    int kept = errno, fd = wf_own_take(eventfd(0, EFD_CLOEXEC));
    if (fd >= 0)
        wf_own_close(fd);
    errno = kept;
}
