/*
 * Opening beneath a folder: files, folders, symbolic links of all kinds, what is neither file nor folder, and others that
 * rename meanwhile. Each test runs in each way: with RESOLVE_CACHED, with openat2 alone, and by hand.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <weft/offload.h>

#include "http/memory.h"
#include "support/sandbox.h"
#include "unit/http/files_ground.h"

static const enum wh_folder_way ways[] = {WH_FOLDER_CACHED, WH_FOLDER_OPENAT2, WH_FOLDER_BY_HAND};
enum { WAYS = 3 };

static void check_opens(struct wh_folder *f, const char *path, const char *text, int line)
{
    struct stat st;
    char got[64] = "";
    int fd = wh_folder_open(f, path, false, &st);
    if (fd < 0) {
        test_failed(__FILE__, line, "way %d: %.60s: %d", f->way, path, fd);
        return;
    }
    CHECK(S_ISREG(st.st_mode));
    CHECK_INT(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
    CHECK_INT(read(fd, got, sizeof got - 1), ==, (long long)strlen(text));
    if (strcmp(got, text) != 0)
        test_failed(__FILE__, line, "way %d: %.60s: \"%s\"", f->way, path, got);
    close(fd);
}
#define OPENS(f, path, text) check_opens(f, path, text, __LINE__)

static void check_is_folder(struct wh_folder *f, const char *path, int line)
{
    for (int wants = 0; wants < 2; wants++) {
        struct stat st;
        int fd = wh_folder_open(f, path, wants, &st);
        if (fd < 0 || !S_ISDIR(st.st_mode))
            test_failed(__FILE__, line, "way %d: %.60s: %d", f->way, path, fd);
        close(fd);
    }
}
#define IS_FOLDER(f, path) check_is_folder(f, path, __LINE__)

static void check_fails(struct wh_folder *f, const char *path, bool wants_folder, int error, int line)
{
    struct stat st;
    int fd = wh_folder_open(f, path, wants_folder, &st);
    if (fd != -error)
        test_failed(__FILE__, line, "way %d: %.60s: %d instead of %d", f->way, path, fd, -error);
    if (fd >= 0)
        close(fd);
}
#define FAILS(f, path, error) check_fails(f, path, false, error, __LINE__)

/* Runs a test in each way, and looks for descriptors that it has left open. */
static void in_each_way(int links, void (*make)(struct ground *), void (*run)(struct wh_folder *, struct ground *))
{
    struct ground g;
    ground_begin(&g);
    if (make)
        make(&g);
    for (int i = 0; i < WAYS; i++) {
        int before = descriptors();
        struct wh_folder f = folder_of(&g, links, ways[i]);
        int way = f.way;
        run(&f, &g);
        CHECK_INT(f.way, ==, way);
        wh_folder_destroy(&f);
        CHECK_INT(descriptors(), ==, before);
    }
    ground_end(&g);
}

/* ---- files and folders ---- */

static void make_plain(struct ground *g)
{
    make_text(g, "file", "text");
    make_text(g, "empty", "");
    make_folder(g, "a");
    make_folder(g, "a/b");
    make_text(g, "a/b/file", "deep");
    make_text(g, ".hidden", "hidden");
    make_text(g, "..file", "two dots");
    make_text(g, "a\\b", "backslash");
    make_text(g, "%2e%2e", "percent");
    make_text(g, "new\nline", "line");
    make_text(g, "\xc0\xae", "overlong");
}

static void opens_plain(struct wh_folder *f, struct ground *g)
{
    (void)g;
    OPENS(f, "file", "text");
    OPENS(f, "empty", "");
    OPENS(f, "a/b/file", "deep");
    OPENS(f, ".hidden", "hidden");
    OPENS(f, "..file", "two dots");
    OPENS(f, "a\\b", "backslash");
    OPENS(f, "%2e%2e", "percent");
    OPENS(f, "new\nline", "line");
    OPENS(f, "\xc0\xae", "overlong");
    IS_FOLDER(f, "");
    IS_FOLDER(f, "a");
    IS_FOLDER(f, "a/b");
    FAILS(f, "nothing", ENOENT);
    FAILS(f, "nothing/file", ENOENT);
    FAILS(f, "a/nothing", ENOENT);
    FAILS(f, "file/file", ENOTDIR);
    FAILS(f, "file/b/file", ENOTDIR);
    check_fails(f, "file", true, ENOTDIR, __LINE__);
}

TEST(files_and_folders_are_opened)
{
    for (int links = 0; links <= WEFT_FILES_ALL_LINKS; links++)
        in_each_way(links, make_plain, opens_plain);
}

TEST(init_says_why_it_fails)
{
    struct wh_folder f;
    struct ground g;
    ground_begin(&g);
    CHECK_INT(wh_folder_init(&f, absolute(&g, "nothing"), 0), ==, -ENOENT);
    CHECK_INT(wh_folder_init(&f, absolute(&g, "secret"), 0), ==, -ENOTDIR);
    CHECK_INT(wh_folder_init(&f, absolute(&g, "site"), 0), ==, 0);
    wh_folder_destroy(&f);
    ground_end(&g);
}

/* ---- links ---- */

static void make_links(struct ground *g)
{
    make_plain(g);
    make_link(g, "file", "to_file");
    make_link(g, "to_file", "to_link");
    make_link(g, "a/b", "to_folder");
    make_link(g, "a/b/", "to_folder_slash");
    make_link(g, ".", "to_self");
    make_link(g, "./././a/./b/.", "dots");
    make_link(g, "../../file", "a/b/up");
    make_link(g, "..", "a/b/parent");
    make_link(g, "../", "a/b/parent_slash");
    make_link(g, "../b/../b/../../a/b/file", "a/b/about");
    make_link(g, "b/parent/b/parent/../file", "a/winding");
    make_link(g, "file/", "file_slash");
    make_link(g, "nothing", "dangling");
    make_link(g, "a//b///file", "slashes");
    /* Out of the folder. */
    make_link(g, "../secret", "out");
    make_link(g, "..", "root_up");
    make_link(g, "a/../../site/file", "out_and_in");
    make_link(g, "../../../secret", "a/b/out");
    make_link(g, "/etc/passwd", "passwd");
    make_link(g, "/", "slash");
    make_link(g, absolute(g, "site/file"), "absolute_in");
    make_link(g, "a/b/parent/../../secret", "out_by_links");
    make_link(g, "/proc/self/root/etc/passwd", "magic");
    /* Without end. */
    make_link(g, "loop", "loop");
    make_link(g, "pong", "ping");
    make_link(g, "ping", "pong");
    make_link(g, "loop_down/x", "loop_down");
}

static void follows_beneath(struct wh_folder *f, struct ground *g)
{
    (void)g;
    OPENS(f, "to_file", "text");
    OPENS(f, "to_link", "text");
    IS_FOLDER(f, "to_folder");
    OPENS(f, "to_folder/file", "deep");
    OPENS(f, "to_folder_slash/file", "deep");
    IS_FOLDER(f, "to_folder_slash");
    IS_FOLDER(f, "to_self");
    OPENS(f, "to_self/to_self/to_self/file", "text");
    IS_FOLDER(f, "dots");
    OPENS(f, "dots/file", "deep");
    OPENS(f, "a/b/up", "text");
    OPENS(f, "to_folder/up", "text");
    IS_FOLDER(f, "a/b/parent");
    IS_FOLDER(f, "a/b/parent_slash");
    OPENS(f, "a/b/parent/b/parent/b/file", "deep");
    OPENS(f, "a/b/about", "deep");
    OPENS(f, "a/winding", "text");
    OPENS(f, "slashes", "deep");
    FAILS(f, "file_slash", ENOTDIR);
    FAILS(f, "to_file/x", ENOTDIR);
    FAILS(f, "dangling", ENOENT);
    FAILS(f, "dangling/x", ENOENT);
}

static void stays_beneath(struct wh_folder *f, struct ground *g)
{
    (void)g;
    FAILS(f, "out", EXDEV);
    FAILS(f, "root_up", EXDEV);
    FAILS(f, "root_up/site/file", EXDEV);
    FAILS(f, "to_self/root_up", EXDEV);
    FAILS(f, "out_and_in", EXDEV);
    FAILS(f, "a/b/out", EXDEV);
    FAILS(f, "to_folder/out", EXDEV);
    FAILS(f, "passwd", EXDEV);
    FAILS(f, "slash", EXDEV);
    FAILS(f, "slash/etc/passwd", EXDEV);
    FAILS(f, "absolute_in", EXDEV);
    FAILS(f, "out_by_links", EXDEV);
    FAILS(f, "magic", EXDEV);
    FAILS(f, "loop", ELOOP);
    FAILS(f, "loop/file", ELOOP);
    FAILS(f, "ping", ELOOP);
    FAILS(f, "loop_down", ELOOP);
}

TEST(links_that_stay_beneath_are_followed)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_links, follows_beneath);
}

TEST(links_that_leave_and_absolute_ones_and_loops_are_refused)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_links, stays_beneath);
}

static void follows_none(struct wh_folder *f, struct ground *g)
{
    static const char *const links[] = {"to_file",          "to_link",      "to_folder", "to_folder/file", "to_self",
                                        "a/b/up",           "to_self/file", "out",       "root_up/secret", "passwd",
                                        "slash/etc/passwd", "loop",         "dangling",  "absolute_in",    "magic"};
    (void)g;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        FAILS(f, links[i], ELOOP);
    OPENS(f, "a/b/file", "deep");
    IS_FOLDER(f, "a");
}

TEST(with_no_links_no_link_is_followed)
{
    in_each_way(WEFT_FILES_NO_LINKS, make_links, follows_none);
}

static void follows_all(struct wh_folder *f, struct ground *g)
{
    (void)g;
    OPENS(f, "to_link", "text");
    OPENS(f, "out", "secret");
    OPENS(f, "root_up/secret", "secret");
    OPENS(f, "a/b/out", "secret");
    OPENS(f, "absolute_in", "text");
    OPENS(f, "out_and_in", "text");
    IS_FOLDER(f, "slash/etc");
    FAILS(f, "loop", ELOOP);
    FAILS(f, "dangling", ENOENT);
    FAILS(f, "../secret", ENOENT);
    FAILS(f, "/etc/passwd", ENOENT);
    FAILS(f, "a/../file", ENOENT);
}

TEST(with_all_links_every_link_is_followed_but_paths_must_be_plain)
{
    in_each_way(WEFT_FILES_ALL_LINKS, make_links, follows_all);
}

static void make_chain(struct ground *g)
{
    make_text(g, "link0", "end");
    for (int i = 1; i <= 41; i++) {
        char name[16], text[16];
        snprintf(name, sizeof name, "link%d", i);
        snprintf(text, sizeof text, "link%d", i - 1);
        make_link(g, text, name);
    }
}

static void follows_40(struct wh_folder *f, struct ground *g)
{
    (void)g;
    OPENS(f, "link40", "end");
    FAILS(f, "link41", ELOOP);
}

TEST(forty_links_are_followed_and_no_more)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_chain, follows_40);
}

/* ---- other kinds, permissions ---- */

static void make_kinds(struct ground *g)
{
    CHECK_INT(mkfifoat(g->fd, "fifo", 0666), ==, 0);
    make_link(g, "fifo", "to_fifo");
    CHECK_INT(mkdirat(g->fd, "folder", 0755), ==, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%.100s", absolute(g, "site/socket"));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(s, (struct sockaddr *)&name, sizeof name), ==, 0);
    close(s);
    if (mknodat(g->fd, "null", S_IFCHR | 0666, makedev(1, 3)) != 0)
        make_text(g, "fifo_only", "");
}

static void opens_no_kinds(struct wh_folder *f, struct ground *g)
{
    (void)g;
    FAILS(f, "fifo", ENOENT);
    FAILS(f, "to_fifo", f->links == WEFT_FILES_NO_LINKS ? ELOOP : ENOENT);
    FAILS(f, "socket", ENOENT);
    FAILS(f, "null", ENOENT);
    FAILS(f, "fifo/x", ENOTDIR);
    check_fails(f, "fifo", true, ENOTDIR, __LINE__);
}

TEST(fifos_sockets_and_devices_are_not_found_and_do_not_block)
{
    alarm(20);
    for (int links = 0; links <= WEFT_FILES_ALL_LINKS; links++)
        in_each_way(links, make_kinds, opens_no_kinds);
    alarm(0);
}

static void make_unreadable(struct ground *g)
{
    make_text(g, "unreadable", "text");
    CHECK_INT(fchmodat(g->fd, "unreadable", 0, 0), ==, 0);
    make_folder(g, "closed");
    make_text(g, "closed/file", "text");
    CHECK_INT(fchmodat(g->fd, "closed", 0600, 0), ==, 0);
    make_folder(g, "searchable");
    make_text(g, "searchable/file", "text");
    CHECK_INT(fchmodat(g->fd, "searchable", 0711, 0), ==, 0);
    CHECK_INT(chmod(g->base, 0755), ==, 0);
}

static void opens_what_it_may(struct wh_folder *f, struct ground *g)
{
    (void)g;
    FAILS(f, "unreadable", EACCES);
    FAILS(f, "closed/file", EACCES);
    OPENS(f, "searchable/file", "text");
    FAILS(f, "searchable", EACCES);
}

TEST(a_file_that_this_user_may_not_read_is_eacces)
{
    if (geteuid() != 0)
        SKIP("it takes root to become another user");
    struct ground g;
    ground_begin(&g);
    make_unreadable(&g);
    for (int i = 0; i < WAYS; i++) {
        struct wh_folder f = folder_of(&g, 0, ways[i]);
        setfsuid(65534);
        opens_what_it_may(&f, &g);
        setfsuid(0);
        wh_folder_destroy(&f);
    }
    ground_end(&g);
}

/* ---- long ones ---- */

static char long_name[NAME_MAX + 2], deep_path[PATH_MAX];
enum { DEPTH = 900, DEEP_LINK = 60 };

static void make_long(struct ground *g)
{
    memset(long_name, 'n', NAME_MAX);
    make_text(g, long_name, "long");
    make_link(g, long_name, "to_long");
    int at = dup(g->fd);
    size_t size = 0;
    for (int i = 0; i < DEPTH; i++) {
        CHECK_INT(mkdirat(at, "dd", 0755), ==, 0);
        int next = openat(at, "dd", O_PATH | O_DIRECTORY);
        close(at);
        at = next;
        size += (size_t)sprintf(deep_path + size, "dd/");
    }
    sprintf(deep_path + size, "file");
    int fd = openat(at, "file", O_WRONLY | O_CREAT, 0644);
    CHECK_INT(write(fd, "deep", 4), ==, 4);
    close(fd);
    close(at);
    char text[3 * DEEP_LINK * 2 + 8] = "";
    for (int i = 0; i < DEEP_LINK; i++)
        strcat(text, "dd/");
    for (int i = 0; i < DEEP_LINK; i++)
        strcat(text, "../");
    strcat(text, "to_long");
    make_link(g, text, "down_and_up");
}

static void opens_long(struct wh_folder *f, struct ground *g)
{
    static char path[PATH_MAX + 64];
    (void)g;
    OPENS(f, long_name, "long");
    OPENS(f, "to_long", "long");
    OPENS(f, deep_path, "deep");
    OPENS(f, "down_and_up", "long");
    snprintf(path, sizeof path, "%sn", long_name);
    FAILS(f, path, ENAMETOOLONG);
    snprintf(path, sizeof path, "dd/%sn/x", long_name);
    FAILS(f, path, ENAMETOOLONG);
    memset(path, 0, sizeof path);
    for (size_t i = 0; i < PATH_MAX; i++) /* a path of exactly PATH_MAX bytes: one too many, with its zero byte */
        path[i] = i % 2 == 0 ? 'x' : '/';
    path[PATH_MAX - 1] = 'x';
    FAILS(f, path, ENAMETOOLONG);
    path[PATH_MAX - 1] = '\0';
    path[PATH_MAX - 2] = 'x';
    FAILS(f, path, ENOENT);
}

TEST(long_names_and_deep_paths_are_opened_up_to_the_limits_of_the_system)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_long, opens_long);
}

/* ---- others that rename meanwhile ---- */

enum race { SWAPS_A_LINK, SWAPS_A_FOLDER, MOVES_OUT };

struct racer {
    const struct ground *g;
    enum race race;
    atomic_bool ends;
    atomic_uint turns;
};

/* Exchanges two entries of the site, or moves a folder out of it and back, without a pause. */
static void *races(void *arg)
{
    struct racer *r = arg;
    while (!atomic_load(&r->ends)) {
        int rc = 0;
        if (r->race == MOVES_OUT)
            rc = renameat(r->g->fd, "top/mid", r->g->fd, "../mid") || renameat(r->g->fd, "../mid", r->g->fd, "top/mid");
        else
            rc = renameat2(r->g->fd, "one", r->g->fd, "two", RENAME_EXCHANGE);
        CHECK_INT(rc, ==, 0);
        atomic_fetch_add(&r->turns, 1);
    }
    return NULL;
}

static bool is_secret(int fd)
{
    char text[16] = "";
    CHECK_INT(read(fd, text, sizeof text - 1), >=, 0);
    return strcmp(text, "secret") == 0;
}

/* Opens a path while another thread renames, until both outcomes have come, and at least 2,000 times. */
static void opens_in_race(struct wh_folder *f, const struct ground *g, enum race race, const char *path)
{
    struct racer r = {.g = g, .race = race};
    pthread_t thread;
    unsigned opened = 0, failed = 0, secrets = 0;
    weft_time end = weft_in(2 * WEFT_SEC);
    REQUIRE(pthread_create(&thread, NULL, races, &r) == 0);
    while (((opened == 0 || failed == 0) && weft_now().ns < end.ns) || opened + failed < 2000) {
        struct stat st;
        int fd = wh_folder_open(f, path, false, &st);
        opened += fd >= 0;
        failed += fd < 0;
        if (fd >= 0) {
            secrets += is_secret(fd);
            close(fd);
        } else {
            CHECK(fd == -ENOENT || fd == -EXDEV || fd == -ELOOP || fd == -ENOTDIR);
        }
    }
    atomic_store(&r.ends, true);
    pthread_join(thread, NULL);
    CHECK_INT(secrets, ==, 0);
    CHECK(opened > 0 && failed > 0 && r.turns > 0);
}

static void make_swapped_link(struct ground *g)
{
    make_text(g, "one", "text");
    make_link(g, "../secret", "two");
}

static void never_opens_the_swapped_link(struct wh_folder *f, struct ground *g)
{
    opens_in_race(f, g, SWAPS_A_LINK, "one");
}

TEST(a_file_swapped_with_a_link_leads_nowhere_else)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_swapped_link, never_opens_the_swapped_link);
    in_each_way(WEFT_FILES_NO_LINKS, make_swapped_link, never_opens_the_swapped_link);
}

static void make_swapped_folder(struct ground *g)
{
    make_folder(g, "one");
    make_text(g, "one/secret", "text");
    make_link(g, "..", "two");
}

static void never_enters_the_swapped_link(struct wh_folder *f, struct ground *g)
{
    opens_in_race(f, g, SWAPS_A_FOLDER, "one/secret");
}

TEST(a_folder_swapped_with_a_link_leads_nowhere_else)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_swapped_folder, never_enters_the_swapped_link);
    in_each_way(WEFT_FILES_NO_LINKS, make_swapped_folder, never_enters_the_swapped_link);
}

/* While "mid" is outside, ".." of it is the folder with the secret. */
static void make_moved(struct ground *g)
{
    make_folder(g, "top");
    make_folder(g, "top/mid");
    make_text(g, "top/secret", "text");
    make_link(g, "../secret", "top/mid/link");
}

static void never_goes_up_outside(struct wh_folder *f, struct ground *g)
{
    opens_in_race(f, g, MOVES_OUT, "top/mid/link");
}

TEST(a_folder_moved_out_meanwhile_does_not_lead_out)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_moved, never_goes_up_outside);
}

/* ---- the ways themselves ---- */

struct refused {
    const struct ground *g;
    int error;
    bool late;
};

static void opens_in_sandbox(void *arg)
{
    const struct refused *r = arg;
    struct wh_folder f;
    if (!r->late)
        CHECK(refuse(SYS_openat2, SYS_openat2, r->error));
    CHECK_INT(wh_folder_init(&f, absolute(r->g, "site"), 0), ==, 0);
    if (r->late)
        CHECK(refuse(SYS_openat2, SYS_openat2, r->error));
    follows_beneath(&f, NULL);
    stays_beneath(&f, NULL);
    CHECK_INT(f.way, ==, WH_FOLDER_BY_HAND);
    wh_folder_destroy(&f);
}

TEST(if_openat2_is_refused_early_or_late_the_walk_is_by_hand)
{
    bool emulated = TEST_EMULATED;
    if (emulated)
        SKIP("the emulator does not install filters of system calls");
    struct ground g;
    ground_begin(&g);
    make_links(&g);
    static const int errors[] = {ENOSYS, EPERM};
    for (int i = 0; i < 4; i++) {
        struct refused r = {&g, errors[i / 2], i % 2 == 1};
        CHECK_CHILD(opens_in_sandbox, &r, 0, NULL);
    }
    ground_end(&g);
}

static void opens_without_memory(struct wh_folder *f, struct ground *g)
{
    (void)g;
    struct stat st;
    wh_alloc_fail_at(1); /* the work of a helper: it is done here */
    int fd = wh_folder_open(f, "file", false, &st);
    CHECK_INT(fd, >=, 0);
    close(fd);
    wh_alloc_fail_at(2); /* the walk's */
    fd = wh_folder_open(f, "file", false, &st);
    wh_alloc_fail_at(0);
    if (f->way == WH_FOLDER_BY_HAND)
        CHECK_INT(fd, ==, -ENOMEM);
    else
        CHECK_INT(close(fd), ==, 0);
}

TEST(without_memory_an_open_succeeds_or_returns_enomem)
{
    in_each_way(WEFT_FILES_LINKS_BENEATH, make_plain, opens_without_memory);
}

static unsigned helpers(void)
{
    weft_offload_figures figures = {.size = sizeof figures};
    CHECK_INT(weft_offload_stats(&figures), ==, 0);
    return figures.threads;
}

static void *opens_in_a_fiber(void *arg)
{
    struct ground *g = arg;
    struct wh_folder f = folder_of(g, 0, WH_FOLDER_CACHED);
    bool has_cache = f.way == WH_FOLDER_CACHED; /* not in an emulator */
    OPENS(&f, "file", "text");                  /* its name is in the cache, as it was made just now */
    CHECK_INT(helpers() == 0, ==, has_cache);
    wh_folder_destroy(&f);
    for (int i = 1; i < WAYS; i++) {
        f = folder_of(g, 0, ways[i]);
        follows_beneath(&f, g);
        stays_beneath(&f, g);
        CHECK_INT(helpers(), >, 0);
        wh_folder_destroy(&f);
    }
    return NULL;
}

TEST(a_fiber_opens_cached_files_itself_and_others_through_a_helper)
{
    struct ground g;
    ground_begin(&g);
    make_links(&g);
    CHECK_INT(weft_run(opens_in_a_fiber, &g, NULL, NULL), ==, 0);
    ground_end(&g);
}

TESTS(files_folder, files_and_folders_are_opened, init_says_why_it_fails, links_that_stay_beneath_are_followed,
      links_that_leave_and_absolute_ones_and_loops_are_refused, with_no_links_no_link_is_followed,
      with_all_links_every_link_is_followed_but_paths_must_be_plain, forty_links_are_followed_and_no_more,
      fifos_sockets_and_devices_are_not_found_and_do_not_block, a_file_that_this_user_may_not_read_is_eacces,
      long_names_and_deep_paths_are_opened_up_to_the_limits_of_the_system,
      a_file_swapped_with_a_link_leads_nowhere_else, a_folder_swapped_with_a_link_leads_nowhere_else,
      a_folder_moved_out_meanwhile_does_not_lead_out, if_openat2_is_refused_early_or_late_the_walk_is_by_hand,
      without_memory_an_open_succeeds_or_returns_enomem, a_fiber_opens_cached_files_itself_and_others_through_a_helper)
