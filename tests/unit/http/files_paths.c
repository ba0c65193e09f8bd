/*
 * Paths that try to leave the folder: those that attacks are known to use, and random ones through random trees of files,
 * folders and links, where all ways of opening must agree and nothing outside may be reached.
 */
#include "unit/http/files_ground.h"

static const enum wh_folder_way ways[] = {WH_FOLDER_CACHED, WH_FOLDER_OPENAT2, WH_FOLDER_BY_HAND};
enum { WAYS = 3 };

/* What a path is once it is decoded. */
static const char *const hostile[] = {
    "..",
    "../secret",
    "../../etc/passwd",
    "a/../../secret",
    "a/..",
    "a/../a",
    ".",
    "./file",
    "a/./file",
    "a/.",
    "/",
    "//",
    "/etc/passwd",
    "//etc/passwd",
    "/../secret",
    "a//file",
    "a/",
    "a//",
    "file/",
    "file/..",
    "file/../../secret",
    "..\\secret",
    "..\\..\\etc\\passwd",
    "..%2fsecret",
    "%2e%2e/secret",
    "%2e%2e%2fsecret",
    "..%5csecret",
    "..%c0%afsecret",
    "\xc0\xae\xc0\xae/secret",
    "..\xc0\xafsecret",
    "\xe0\x80\xae\xe0\x80\xae/secret",
    "\xef\xbc\x8e\xef\xbc\x8e/secret",
    "....//secret",
    "..../secret",
    "...",
    ".../secret",
    "..;/secret",
    " ../secret",
    ".. /secret",
    "../",
    "..\n/secret",
    "~/secret",
    "file\\..\\..\\secret",
    "proc/self/root/etc/passwd",
    "C:\\secret",
    "a/b/../../../secret",
};

TEST(paths_of_known_attacks_open_nothing)
{
    struct ground g;
    ground_begin(&g);
    make_text(&g, "file", "text");
    make_folder(&g, "a");
    make_text(&g, "a/file", "text");
    for (int i = 0; i < WAYS * 3; i++) {
        struct wh_folder f = folder_of(&g, i % 3, ways[i / 3]);
        for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++)
            for (int wants_folder = 0; wants_folder < 2; wants_folder++) {
                struct stat st;
                int fd = wh_folder_open(&f, hostile[k], wants_folder, &st);
                if (fd != -ENOENT)
                    test_failed(__FILE__, __LINE__, "%s: %d", hostile[k], fd);
            }
        wh_folder_destroy(&f);
    }
    ground_end(&g);
}

TEST(a_plain_path_has_names_between_single_slashes_and_no_dots)
{
    static const char *const plain[] = {"", "a", "a/b", "a/b.c/d", "a.", "a..", "a/b..", "a\\..\\b", "-", "\x01\xff"};
    static const char *const dotted[] = {".a", "a/.b", "..a", "...", "a/.../b", ".a/b", "a/.git/config", ".\x01"};
    static const char *const others[] = {"/",   "a/",   "/a",  "a//b", ".",      "..",
                                         "a/.", "a/..", "./a", "../a", "a/../b", "a/./b"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(wh_path_is_plain(plain[i], true) && wh_path_is_plain(plain[i], false));
    for (size_t i = 0; i < sizeof dotted / sizeof *dotted; i++)
        CHECK(wh_path_is_plain(dotted[i], true) && !wh_path_is_plain(dotted[i], false));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!wh_path_is_plain(others[i], true) && !wh_path_is_plain(others[i], false));
}

/* ---- random trees ---- */

enum { TREES = 150, ENTRIES = 24, PATHS = 150 };

static unsigned below(uint64_t *seed, unsigned n)
{
    return (unsigned)(test_random(seed) % n);
}

/* Puts up to `most` random parts together, with slashes between them. */
static void random_path(uint64_t *seed, char *out, const char *const *parts, unsigned count, unsigned most)
{
    unsigned n = 1 + below(seed, most);
    *out = '\0';
    for (unsigned i = 0; i < n; i++) {
        strcat(out, i > 0 ? "/" : "");
        strcat(out, parts[below(seed, count)]);
    }
}

static void random_tree(uint64_t *seed, const struct ground *g)
{
    static const char *const names[] = {"a", "b", "c"};
    static const char *const texts[] = {"a", "b", "c", "..", "..", ".", "", "secret", "site"};
    char path[64], text[64];
    for (int i = 0; i < ENTRIES; i++) {
        random_path(seed, path, names, 3, 4);
        unsigned kind = below(seed, 8);
        if (kind < 4) {
            mkdirat(g->fd, path, 0755); /* fails where there is something, or no parent: that is as random */
        } else if (kind == 4) {
            close(openat(g->fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644));
        } else {
            random_path(seed, text, texts, sizeof texts / sizeof *texts, 5);
            if (*text != '\0')
                (void)!symlinkat(text, g->fd, path);
        }
    }
}

struct outcome {
    int rc; /* 0 or a negative errno */
    ino_t inode;
};

static struct outcome open_and_look(struct wh_folder *f, const struct ground *g, const char *path, bool wants_folder)
{
    struct stat st;
    char link[64], where[PATH_MAX] = "";
    int fd = wh_folder_open(f, path, wants_folder, &st);
    if (fd < 0)
        return (struct outcome){fd, 0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK_INT(readlink(link, where, sizeof where - 1), >, 0);
    const char *site = absolute(g, "site");
    if (strncmp(where, site, strlen(site)) != 0)
        test_failed(__FILE__, __LINE__, "%s has led to %s", path, where);
    close(fd);
    return (struct outcome){0, st.st_ino};
}

/* How often something was opened. */
static unsigned compare_ways(uint64_t *seed, const struct ground *g, int links)
{
    static const char *const parts[] = {"a", "a", "b", "b", "c", "c", "..", ".", "", "d"};
    struct wh_folder f[WAYS];
    unsigned opened = 0;
    for (int i = 0; i < WAYS; i++)
        f[i] = folder_of(g, links, ways[i]);
    for (int i = 0; i < PATHS; i++) {
        char path[64];
        struct outcome o[WAYS];
        random_path(seed, path, parts, below(seed, 4) == 0 ? 10 : 6, 5);
        bool wants_folder = below(seed, 2);
        for (int k = 0; k < WAYS; k++) {
            o[k] = open_and_look(&f[k], g, path, wants_folder);
            if (o[k].rc != o[0].rc || o[k].inode != o[0].inode)
                test_failed(__FILE__, __LINE__, "%s%s: %d, by way %d: %d", path, wants_folder ? "/" : "", o[0].rc, k,
                            o[k].rc);
        }
        opened += o[0].rc == 0;
    }
    for (int i = 0; i < WAYS; i++)
        wh_folder_destroy(&f[i]);
    return opened;
}

TEST(all_ways_agree_on_random_paths_and_none_leads_out)
{
    uint64_t seed = test_seed();
    unsigned opened = 0;
    for (int i = 0; i < TREES && !test_has_failed(); i++) {
        struct ground g;
        ground_begin(&g);
        random_tree(&seed, &g);
        opened += compare_ways(&seed, &g, WEFT_FILES_LINKS_BENEATH);
        compare_ways(&seed, &g, WEFT_FILES_NO_LINKS);
        ground_end(&g);
    }
    CHECK_INT(opened, >, TREES); /* the trees are not all too poor to prove anything */
    printf("%u paths of %u were opened\n", opened, TREES * PATHS);
}

TESTS(files_paths, paths_of_known_attacks_open_nothing, a_plain_path_has_names_between_single_slashes_and_no_dots,
      all_ways_agree_on_random_paths_and_none_leads_out)
