/*
 * Requests that try to leave the folder that is served: paths in every encoding, symbolic links of all kinds, and links that
 * change meanwhile. Each runs in each way to open a file.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "unit/http/files_served.h"

static void make_plain(struct ground *g)
{
    make_text(g, "file", "text");
    make_folder(g, "a");
    make_text(g, "a/file", "deep");
    make_text(g, "a b", "space");
    make_text(g, "\xc3\xbc", "umlaut");
    make_text(g, "\xff\xfe", "bytes");
    make_text(g, "%41", "percent");
    make_text(g, "a\\b", "backslash");
    make_text(g, "new\nline", "line");
    make_text(g, "q?", "question");
    make_text(g, "..two", "dots");
}

/* Targets that name nothing, with the status that each has. */
static const struct hostile {
    const char *target;
    int status;
} hostile[] = {
    /* Dot segments, in every encoding. */
    {"/..", 400},
    {"/../secret", 400},
    {"/../../../../../../etc/passwd", 400},
    {"/a/../../secret", 400},
    {"/a/../file", 400},
    {"/%2e%2e/secret", 400},
    {"/.%2e/secret", 400},
    {"/%2E./secret", 400},
    {"/a/%2e%2e/%2e%2e/secret", 400},
    {"/./file", 400},
    {"/%2e/file", 400},
    {"/a/.", 400},
    {"/file/..", 400},
    {"http://a/../secret", 400},
    {"http://a/%2e%2e/secret", 400},
    /* Slashes that were encoded. */
    {"/..%2fsecret", 400},
    {"/..%2Fsecret", 400},
    {"/%2e%2e%2fsecret", 400},
    {"/a%2ffile", 400},
    {"/%2fetc/passwd", 400},
    {"/%2f%2e%2e%2fsecret", 400},
    /* Zero bytes, malformed encodings, and bytes that no target has. */
    {"/file%00", 400},
    {"/file%00.html", 400},
    {"/..%00/secret", 400},
    {"/%", 400},
    {"/file%", 400},
    {"/file%4", 400},
    {"/%zz", 400},
    {"/%u002e%u002e/secret", 400},
    {"/%uff0e%uff0e/secret", 400},
    {"/..\\secret", 400},
    {"/\xc0\xae\xc0\xae/secret", 400},
    {"/file#/../secret", 400},
    /* Names that are ordinary after they were decoded once. */
    {"/%252e%252e/secret", 404},
    {"/%252e%252e%252fsecret", 404},
    {"/%25252e%25252e/secret", 404},
    {"/..%255csecret", 404},
    {"/a%252ffile", 404},
    {"/%41%41", 404},
    /* Overlong UTF-8, and other dots and slashes. */
    {"/%c0%ae%c0%ae/secret", 404},
    {"/..%c0%afsecret", 404},
    {"/%c0%ae%c0%ae%c0%afsecret", 404},
    {"/%e0%80%ae%e0%80%ae/secret", 404},
    {"/%f0%80%80%ae%f0%80%80%ae/secret", 404},
    {"/%ef%bc%8e%ef%bc%8e/secret", 404},
    {"/..%ef%bc%8fsecret", 404},
    {"/..%5csecret", 404},
    {"/a%5c..%5c..%5csecret", 404},
    {"/%5c..%5csecret", 404},
    {"/C:%5csecret", 404},
    /* Absolute paths and empty names. */
    {"//", 404},
    {"//file", 404},
    {"//etc/passwd", 404},
    {"///etc/passwd", 404},
    {"/a//file", 404},
    {"/a//", 404},
    {"http://a//etc/passwd", 404},
    {"/proc/self/root/etc/passwd", 404},
    /* Paths that other systems would accept. */
    {"/...", 404},
    {"/.../secret", 404},
    {"/....//secret", 404},
    {"/..;/secret", 404},
    {"/a/..;/..;/secret", 404},
    {"/%20../secret", 404},
    {"/..%20/secret", 404},
    {"/..%09/secret", 404},
    {"/..%0a/secret", 404},
    {"/..%0d%0a/secret", 404},
    {"/~/secret", 404},
    {"/file.", 404},
    {"/file...", 404},
    {"/file%20", 404},
    {"/file::$DATA", 404},
    {"/FILE", 404},
    {"/file/", 404},
    {"/file/file", 404},
};

static void check_hostile(const struct site *site)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        GIVES(site, hostile[i].target, hostile[i].status, NULL);
}

TEST(no_path_leads_out_in_any_encoding)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        weft_files_opts opts = {.size = sizeof opts, .links = way, .hidden = way == 1, .list = way == 2};
        site_begin(&site, make_plain, &opts, way);
        check_hostile(&site);
        site_end(&site);
    }
}

TEST(names_of_any_bytes_are_served_once_decoded)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        weft_files_opts opts = {.size = sizeof opts, .hidden = true};
        site_begin(&site, make_plain, &opts, way);
        GIVES(&site, "/file", 200, "text");
        GIVES(&site, "/%66%69%6c%65", 200, "text");
        GIVES(&site, "http://b/a/file", 200, "deep");
        GIVES(&site, "/file?/../secret", 200, "text");
        GIVES(&site, "/file?%2e%2e%00%", 200, "text");
        GIVES(&site, "/a%20b", 200, "space");
        GIVES(&site, "/a+b", 404, NULL);
        GIVES(&site, "/%c3%bc", 200, "umlaut");
        GIVES(&site, "/%FF%fe", 200, "bytes");
        GIVES(&site, "/%2541", 200, "percent");
        GIVES(&site, "/a%5Cb", 200, "backslash");
        GIVES(&site, "/new%0aline", 200, "line");
        GIVES(&site, "/q%3f", 200, "question");
        GIVES(&site, "/..two", 200, "dots");
        site_end(&site);
    }
}

TEST(very_long_names_and_paths_are_404_or_414)
{
    enum { MOST = 17000 };
    char *target = malloc(MOST + 1);
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_plain, NULL, way);
        for (int size = 200; size <= 12800; size *= 2) {
            memset(target, 'x', MOST);
            target[0] = '/';
            target[size] = '\0';
            GIVES(&site, target, 404, NULL);
            for (int i = 0; i < size; i += 2)
                target[i] = '/';
            GIVES(&site, target, 404, NULL);
            memset(target, 'x', MOST);
        }
        target[0] = '/';
        target[MOST] = '\0';
        GIVES(&site, target, 414, NULL);
        site_end(&site);
    }
    free(target);
}

/* ---- symbolic links ---- */

static void make_links(struct ground *g)
{
    make_plain(g);
    make_link(g, "file", "to_file");
    make_link(g, "a", "to_folder");
    make_link(g, "../file", "a/up");
    make_link(g, "../secret", "out");
    make_link(g, "..", "out_folder");
    make_link(g, "../../secret", "a/out");
    make_link(g, "/etc/passwd", "passwd");
    make_link(g, "/", "root");
    make_link(g, absolute(g, "site/file"), "absolute_in");
    make_link(g, "/proc/self/root/etc/passwd", "magic");
    make_link(g, "loop", "loop");
    make_link(g, "pong", "ping");
    make_link(g, "ping", "pong");
    make_link(g, "nothing", "dangling");
}

/* What a link gives in each mode: NULL is 404. */
static const struct linked {
    const char *target, *beneath, *none, *all;
} linked[] = {
    {"/file", "text", "text", "text"},
    {"/to_file", "text", NULL, "text"},
    {"/to_folder/file", "deep", NULL, "deep"},
    {"/a/up", "text", NULL, "text"},
    {"/to_folder/up", "text", NULL, "text"},
    {"/out", NULL, NULL, "secret"},
    {"/a/out", NULL, NULL, "secret"},
    {"/out_folder/secret", NULL, NULL, "secret"},
    {"/out_folder/site/file", NULL, NULL, "text"},
    {"/absolute_in", NULL, NULL, "text"},
    {"/loop", NULL, NULL, NULL},
    {"/loop/file", NULL, NULL, NULL},
    {"/ping", NULL, NULL, NULL},
    {"/dangling", NULL, NULL, NULL},
};

static void check_links(const struct site *site, int links)
{
    for (size_t i = 0; i < sizeof linked / sizeof *linked; i++) {
        const char *body[] = {linked[i].beneath, linked[i].none, linked[i].all};
        GIVES(site, linked[i].target, body[links] ? 200 : 404, body[links]);
    }
    int outside = links == WEFT_FILES_ALL_LINKS ? 200 : 404;
    GIVES(site, "/passwd", outside, NULL);
    GIVES(site, "/root/etc/passwd", outside, NULL);
    GIVES(site, "/magic", outside, NULL);
    GIVES(site, "/to_folder", links == WEFT_FILES_NO_LINKS ? 404 : 301, NULL);
}

TEST(links_are_followed_as_the_options_say)
{
    for (int links = WEFT_FILES_LINKS_BENEATH; links <= WEFT_FILES_ALL_LINKS; links++) {
        for (int way = 0; way < SITE_WAYS; way++) {
            struct site site;
            weft_files_opts opts = {.size = sizeof opts, .links = links};
            site_begin(&site, make_links, &opts, way);
            check_links(&site, links);
            site_end(&site);
        }
    }
}

/* ---- a name that is a file, and then a link out of the folder, and so on ---- */

struct swapper {
    const struct ground *g;
    atomic_bool ends;
};

static void *swap(void *arg)
{
    struct swapper *s = arg;
    while (!atomic_load(&s->ends)) {
        CHECK_INT(renameat2(s->g->fd, "now", s->g->fd, "other", RENAME_EXCHANGE), ==, 0);
        CHECK_INT(renameat2(s->g->fd, "now_folder", s->g->fd, "other_folder", RENAME_EXCHANGE), ==, 0);
        usleep(10); /* valgrind runs one thread at a time, and need not be fair */
    }
    return NULL;
}

static void make_swapped(struct ground *g)
{
    make_text(g, "now", "inside");
    make_link(g, "../secret", "other");
    make_folder(g, "now_folder");
    make_text(g, "now_folder/secret", "inside");
    make_link(g, "..", "other_folder");
}

static void check_inside(const struct site *site, const char *target)
{
    struct answer a;
    const char *wrong = site_ask(site, "GET", target, "", &a);
    CHECK_STR(wrong ? wrong : "", "");
    if (a.status == 200)
        CHECK_STR(a.body, "inside");
    else
        CHECK_INT(a.status, ==, 404);
    answer_free(&a);
}

TEST(a_link_that_is_swapped_during_requests_leads_nowhere)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        site_begin(&site, make_swapped, NULL, way);
        struct swapper s = {.g = &site.g};
        pthread_t thread;
        CHECK_INT(pthread_create(&thread, NULL, swap, &s), ==, 0);
        for (int i = 0; i < 100; i++) {
            check_inside(&site, "/now");
            check_inside(&site, "/now_folder/secret");
        }
        atomic_store(&s.ends, true);
        pthread_join(thread, NULL);
        site_end(&site);
    }
}

TESTS(files_escape, no_path_leads_out_in_any_encoding, names_of_any_bytes_are_served_once_decoded,
      very_long_names_and_paths_are_404_or_414, links_are_followed_as_the_options_say,
      a_link_that_is_swapped_during_requests_leads_nowhere)
