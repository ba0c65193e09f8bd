/*
 * Listings of folders: off by default; their order; names that are hostile; what is left out; large folders; and no memory.
 */
#include <errno.h>

#include "http/memory.h"
#include "unit/http/files_served.h"

static const weft_files_opts lists = {.size = sizeof lists, .list = true};

static void make_tree(struct ground *g)
{
    make_text(g, "b", "12345");
    make_text(g, "B", "");
    make_text(g, "a10", "");
    make_text(g, "a2", "");
    make_text(g, ".hidden", "");
    make_folder(g, "z");
    make_folder(g, "y");
    make_text(g, "y/in_y", "");
    make_folder(g, ".git");
    make_folder(g, "with_index");
    make_text(g, "with_index/index.html", "<p>index");
    CHECK_INT(mkfifoat(g->fd, "fifo", 0666), ==, 0);
    make_link(g, "b", "to_file");
    make_link(g, "y", "to_folder");
    make_link(g, "../secret", "to_secret");
    make_link(g, "/", "to_root");
    make_link(g, "loop", "loop");
    make_link(g, "fifo", "to_fifo");
    make_link(g, ".hidden", "to_hidden");
    set_modified(g, "b", 784111777);
}

/* The links of a page, one behind another, with a space after each. */
static void read_links(const char *page, char *out, size_t room)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = page; (at = strstr(at, "<a href=\"")) && used + 300 < room;) {
        at += strlen("<a href=\"");
        size_t size = strcspn(at, "\"");
        memcpy(out + used, at, size);
        used += size;
        out[used++] = ' ';
        out[used] = '\0';
    }
}

static void check_links(const struct site *site, const char *target, const char *links, int line)
{
    struct answer a;
    char found[2000];
    const char *wrong = site_ask(site, "GET", target, "", &a);
    read_links(wrong ? "" : a.body, found, sizeof found);
    if (wrong || a.status != 200 || strcmp(found, links) != 0)
        test_failed(__FILE__, line, "%s: %d, \"%s\"", target, a.status, found);
    answer_free(&a);
}
#define LISTS(target, links) check_links(&site, target, links, __LINE__)

TEST(without_the_option_list_a_folder_is_404)
{
    struct site site;
    site_begin(&site, make_tree, NULL, 0);
    GIVES(&site, "/", 404, NULL);
    GIVES(&site, "/y/", 404, NULL);
    GIVES(&site, "/with_index/", 200, "<p>index");
    site_end(&site);
}

TEST(a_listing_has_folders_first_then_files_by_name_and_nothing_that_is_not_served)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_tree, &lists, way);
        LISTS("/", "to_folder/ with_index/ y/ z/ B a10 a2 b to_file to_hidden ");
        LISTS("/?x", "to_folder/ with_index/ y/ z/ B a10 a2 b to_file to_hidden ");
        LISTS("/y/", "../ in_y ");
        LISTS("/to_folder/", "../ in_y ");
        LISTS("/z/", "../ ");
        GIVES(&site, "/with_index/", 200, "<p>index");
        GIVES(&site, "/y", 301, NULL);
        GIVES(&site, "/b/", 404, NULL);
        GIVES(&site, "/.git/", 404, NULL);
        GIVES(&site, "/to_root/", 404, NULL);
        site_end(&site);
    }
}

TEST(hidden_names_and_links_are_listed_as_the_options_say)
{
    struct site site;
    weft_files_opts opts = {.size = sizeof opts, .list = true, .hidden = true, .links = WEFT_FILES_NO_LINKS};
    site_begin(&site, make_tree, &opts, 0);
    LISTS("/", ".git/ with_index/ y/ z/ .hidden B a10 a2 b ");
    site_end(&site);
    opts.links = WEFT_FILES_ALL_LINKS;
    site_begin(&site, make_tree, &opts, 0);
    LISTS("/", ".git/ to_folder/ to_root/ with_index/ y/ z/ .hidden B a10 a2 b to_file to_hidden to_secret ");
    site_end(&site);
}

TEST(a_listing_says_sizes_and_dates_and_is_a_page_without_scripts)
{
    struct site site;
    struct answer a;
    site_begin(&site, make_tree, &lists, 0);
    CHECK_PTR(site_ask(&site, "GET", "/", "", &a), ==, NULL);
    CHECK_STR(answer_field(&a, "Content-Type"), "text/html; charset=utf-8");
    CHECK_STR(answer_field(&a, "Content-Security-Policy"), "default-src 'none'; style-src 'unsafe-inline'");
    CHECK(strstr(a.body, ">b</a></td><td>5 B</td><td>1994-11-06 08:49</td>") != NULL);
    CHECK(strstr(a.body, "<script") == NULL);
    answer_free(&a);
    CHECK_PTR(site_ask(&site, "HEAD", "/", "", &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK(atoi(answer_field(&a, "Content-Length")) > 500);
    answer_free(&a);
    site_end(&site);
}

/* ---- hostile names ---- */

static const char *const hostile[] = {
    "<script>alert(1)<&script>",
    "\"onmouseover=\"alert(1)",
    "'single'",
    "a&amp;b",
    "javascript:alert(1)",
    "C:",
    "a?b#c",
    "per%41cent",
    "sp ace",
    "new\nline\r",
    "\x1b[31mred",
    "\xc3\xbc",
    "\xff\xfe",
    "..two",
    "back\\slash",
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static void make_hostile(struct ground *g)
{
    for (int i = 0; i < HOSTILE; i++)
        make_text(g, hostile[i], hostile[i]);
}

/* Each link of a page leads to a file that has its name as its text. Returns how many there are. */
static int follow_links(const struct site *site, char *links)
{
    int count = 0;
    for (char *save, *link = strtok_r(links, " ", &save); link; link = strtok_r(NULL, " ", &save)) {
        char target[300];
        struct answer a;
        bool is_known = false;
        snprintf(target, sizeof target, "/%s", link);
        CHECK_PTR(site_ask(site, "GET", target, "", &a), ==, NULL);
        CHECK_INT(a.status, ==, 200);
        for (int i = 0; i < HOSTILE; i++)
            is_known = is_known || strcmp(a.body, hostile[i]) == 0;
        CHECK(is_known);
        count++;
        answer_free(&a);
    }
    return count;
}

TEST(hostile_names_are_escaped_as_text_and_as_links)
{
    struct site site;
    struct answer a;
    char links[2000];
    weft_files_opts opts = {.size = sizeof opts, .list = true, .hidden = true};
    site_begin(&site, make_hostile, &opts, 0);
    CHECK_PTR(site_ask(&site, "GET", "/", "", &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK(strstr(a.body, "<script") == NULL);
    CHECK(strstr(a.body, "\"onmouse") == NULL);
    CHECK(strstr(a.body, "href=\"javascript:") == NULL);
    CHECK(strchr(a.body, '\x1b') == NULL && strchr(a.body, '\r') == NULL);
    CHECK(strstr(a.body, ">&lt;script&gt;alert(1)&lt;&amp;script&gt;</a>") != NULL);
    CHECK(strstr(a.body, ">a&amp;amp;b</a>") != NULL);
    CHECK(strstr(a.body, ">&#39;single&#39;</a>") != NULL);
    read_links(a.body, links, sizeof links);
    CHECK_INT(follow_links(&site, links), ==, HOSTILE);
    answer_free(&a);
    site_end(&site);
}

TEST(the_path_of_a_hostile_folder_is_escaped_too)
{
    struct site site;
    struct answer a;
    site_begin(&site, NULL, &lists, 0);
    make_folder(&site.g, "<script>x<\"&");
    CHECK_PTR(site_ask(&site, "GET", "/%3Cscript%3Ex%3C%22%26/", "", &a), ==, NULL);
    CHECK_INT(a.status, ==, 200);
    CHECK(strstr(a.body, "<h1>/&lt;script&gt;x&lt;&quot;&amp;/</h1>") != NULL);
    CHECK(strstr(a.body, "<title>/&lt;script&gt;x&lt;&quot;&amp;/</title>") != NULL);
    CHECK(strstr(a.body, "<script") == NULL);
    answer_free(&a);
    site_end(&site);
}

/* ---- large folders, little memory ---- */

TEST(only_a_part_of_a_huge_folder_is_listed_and_the_page_says_so)
{
    enum { MOST = 10000 };
    struct site site;
    struct answer a;
    site_begin(&site, NULL, &lists, 0);
    make_text(&site.g, "file", "text");
    for (int i = 1; i <= MOST; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        CHECK_INT(linkat(site.g.fd, "file", site.g.fd, name, 0), ==, 0);
    }
    for (int has_more = 1; has_more >= 0; has_more--) {
        unsigned rows = 0;
        CHECK_PTR(site_ask(&site, "GET", "/", "", &a), ==, NULL);
        for (const char *at = a.body; (at = strstr(at, "<tr><td>")) != NULL; at++)
            rows++;
        CHECK_INT(rows, ==, MOST);
        CHECK((strstr(a.body, "only a part") != NULL) == has_more);
        answer_free(&a);
        CHECK_INT(unlinkat(site.g.fd, "n7", 0), ==, has_more ? 0 : -1);
    }
    site_end(&site);
}

/* Whichever allocation fails: the request is answered by 503, or its connection ends, or there was another way. */
TEST(without_memory_a_listing_is_503)
{
    struct site site;
    unsigned failed = 0;
    site_begin(&site, make_tree, &lists, 0);
    GIVES(&site, "/", 200, NULL);
    for (unsigned nth = 1; nth <= 60; nth++) {
        struct answer a;
        wh_alloc_fail_at(nth);
        const char *wrong = site_ask(&site, "GET", "/", "", &a);
        wh_alloc_fail_at(0);
        if (!wrong)
            CHECK(a.status == 200 || a.status == 503);
        failed += wrong || a.status != 200;
        answer_free(&a);
    }
    CHECK_INT(failed, >, 10);
    GIVES(&site, "/", 200, NULL);
    site_end(&site);
}

static void make_long_names(struct ground *g)
{
    for (int i = 0; i < 2000; i++) {
        char name[160];
        snprintf(name, sizeof name, "%d%0120d", i, 0);
        make_text(g, name, "");
    }
    make_folder(g, "small");
}

/* A client at a UNIX socket, which takes some 200 KiB, that does not read. */
static void ask_and_wait(struct client *c, const char *address)
{
    client_open_at(c, address);
    client_say(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

/* Waits for the beginning of an answer, and leaves it there. */
static void peek(struct client *c)
{
    char first;
    ssize_t n;
    do
        n = recv(c->fd, &first, 1, MSG_PEEK);
    while (n < 0 && errno == EINTR); /* a socket with a time limit is not tried again by the kernel */
    CHECK_INT(n, ==, 1);
}

TEST(long_listings_that_nobody_reads_are_bounded)
{
    struct ground g;
    struct served s;
    struct client slow, refused;
    size_t most = wh_listed_most;
    char address[64];
    snprintf(address, sizeof address, "unix:@weft-listing-%d", getpid());
    wh_listed_most = 1;
    ground_begin(&g);
    make_long_names(&g);
    served_make(&s, NULL, NULL);
    CHECK_INT(weft_http_files(s.h, "/", absolute(&g, "site"), &lists), ==, 0);
    served_start_with(&s, address, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1});
    ask_and_wait(&slow, address);
    peek(&slow);
    ask_and_wait(&refused, address);
    client_expect(&refused, 503);
    client_say(&refused, "GET /small/ HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect(&refused, 200);
    client_expect(&slow, 200);
    client_say(&refused, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect(&refused, 200);
    client_close(&slow);
    client_close(&refused);
    served_end(&s);
    ground_end(&g);
    wh_listed_most = most;
}

TESTS(files_listing, long_listings_that_nobody_reads_are_bounded, without_the_option_list_a_folder_is_404,
      a_listing_has_folders_first_then_files_by_name_and_nothing_that_is_not_served,
      hidden_names_and_links_are_listed_as_the_options_say,
      a_listing_says_sizes_and_dates_and_is_a_page_without_scripts, hostile_names_are_escaped_as_text_and_as_links,
      the_path_of_a_hostile_folder_is_escaped_too, only_a_part_of_a_huge_folder_is_listed_and_the_page_says_so,
      without_memory_a_listing_is_503)
