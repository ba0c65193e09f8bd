/*
 * Large files, and files that change while they are sent: an answer is complete, or it is cut.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "unit/http/files_served.h"

/* More than the sockets between server and client hold, so a client that does not read stops the server inside it. */
enum { LARGE = 12 << 20, SMALL = 16 << 10 };

enum { PERIOD = 23 }; /* of the pattern: no size of a buffer is a multiple of it */

static char byte_at(size_t at)
{
    return (char)('a' + at % PERIOD);
}

/* A file whose bytes tell where they are. */
static void make_pattern(const struct ground *g, const char *path, size_t size)
{
    char *bytes = malloc(size);
    for (size_t i = 0; i < size && i < PERIOD; i++)
        bytes[i] = byte_at(i);
    for (size_t done = PERIOD; done < size; done *= 2)
        memcpy(bytes + done, bytes, done < size - done ? done : size - done);
    int fd = openat(g->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK_INT(write(fd, bytes, size), ==, (long long)size);
    close(fd);
    free(bytes);
}

static bool is_pattern(const char *bytes, size_t size, size_t at)
{
    for (size_t i = 0; i < size && i < PERIOD; i++) {
        if (bytes[i] != byte_at(at + i))
            return false;
    }
    return size <= PERIOD || memcmp(bytes, bytes + PERIOD, size - PERIOD) == 0;
}

static void check_part(const struct site *site, const char *target, size_t first, size_t count)
{
    struct answer a;
    char fields[100];
    snprintf(fields, sizeof fields, "Range: bytes=%zu-%zu\r\n", first, first + count - 1);
    CHECK_PTR(site_ask(site, "GET", target, fields, &a), ==, NULL);
    CHECK_INT(a.status, ==, 206);
    CHECK_INT(a.size, ==, (long long)count);
    CHECK(is_pattern(a.body, a.size, first));
    answer_free(&a);
}

TEST(files_of_all_sizes_come_whole_and_in_parts)
{
    static const size_t sizes[] = {1, SMALL - 1, SMALL, SMALL + 1, 65536, 131072, 131073, 1000000, 3 << 20};
    struct site site;
    site_begin(&site, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct answer a;
        make_pattern(&site.g, "file", sizes[i]);
        CHECK_PTR(site_ask(&site, "GET", "/file", "", &a), ==, NULL);
        CHECK_INT(a.status, ==, 200);
        CHECK_INT(a.size, ==, (long long)sizes[i]);
        CHECK(is_pattern(a.body, a.size, 0));
        answer_free(&a);
        check_part(&site, "/file", sizes[i] / 2, sizes[i] - sizes[i] / 2);
        check_part(&site, "/file", sizes[i] / 3, 1);
    }
    check_part(&site, "/file", 1, SMALL);
    check_part(&site, "/file", 4095, SMALL + 1);
    site_end(&site);
}

TEST(a_sparse_file_above_2_gib_has_ranges_at_its_end)
{
    static const char end[] = "end";
    struct site site;
    site_begin(&site, NULL, NULL, 0);
    make_text(&site.g, "sparse", "begin");
    int fd = openat(site.g.fd, "sparse", O_WRONLY | O_CLOEXEC);
    CHECK_INT(pwrite(fd, end, 3, 5000000000), ==, 3);
    close(fd);
    SAYS(&site, "HEAD", "/sparse", "", "Content-Length", "5000000003");
    GIVES_WITH(&site, "/sparse", "Range: bytes=-3\r\n", 206, end);
    SAYS(&site, "GET", "/sparse", "Range: bytes=-3\r\n", "Content-Range", "bytes 5000000000-5000000002/5000000003");
    GIVES_WITH(&site, "/sparse", "Range: bytes=5000000001-\r\n", 206, "nd");
    GIVES_WITH(&site, "/sparse", "Range: bytes=0-4\r\n", 206, "begin");
    SAYS(&site, "GET", "/sparse", "Range: bytes=2147483646-2147483650\r\n", "Content-Length", "5");
    SAYS(&site, "GET", "/sparse", "Range: bytes=4294967290-4294999999\r\n", "Content-Length", "32710");
    GIVES_WITH(&site, "/sparse", "Range: bytes=5000000003-\r\n", 416, NULL);
    site_end(&site);
}

/* ---- shared stacks ---- */

enum { CLIENTS = 6, TIMES = 5, MEDIUM = 100000 };

static void *asks_for_all(void *arg)
{
    const struct site *site = arg;
    for (int i = 0; i < TIMES; i++) {
        struct answer a;
        GIVES(site, "/small", 200, "small");
        GIVES_WITH(site, "/small", "Accept-Encoding: gzip\r\n", 200, "twin");
        GIVES(site, "/nothing", 404, NULL);
        GIVES(site, "/folder/", 200, NULL);
        CHECK_PTR(site_ask(site, "GET", "/medium", "", &a), ==, NULL);
        CHECK(a.size == MEDIUM && is_pattern(a.body, MEDIUM, 0));
        answer_free(&a);
    }
    return NULL;
}

/* In each way the helpers work for fibers whose stacks others use meanwhile. */
TEST(handlers_on_shared_stacks_send_files_whole)
{
    for (int way = 0; way < SITE_WAYS; way++) {
        struct site site;
        pthread_t threads[CLIENTS];
        weft_stacks *stacks;
        CHECK_INT(weft_stacks_new(&stacks, 2, 64 * 1024), ==, 0);
        weft_http_opts limits = {.size = sizeof limits, .shared = stacks};
        weft_files_opts opts = {.size = sizeof opts, .list = true};
        site_begin_with(&site, NULL, &opts, way, &limits);
        make_text(&site.g, "small", "small");
        make_text(&site.g, "small.gz", "twin");
        make_folder(&site.g, "folder");
        make_pattern(&site.g, "medium", MEDIUM);
        for (int i = 0; i < CLIENTS; i++)
            CHECK_INT(pthread_create(&threads[i], NULL, asks_for_all, &site), ==, 0);
        for (int i = 0; i < CLIENTS; i++)
            pthread_join(threads[i], NULL);
        site_end(&site);
        CHECK_INT(weft_stacks_free(stacks), ==, 0);
    }
}

/* ---- changes while the file is sent ---- */

/* Asks for the file on a connection that takes little, and returns once the answer has begun. */
static void begin_download(const struct site *site, struct client *c)
{
    char byte;
    client_open_small(c, site->s.port, 4096);
    client_say(c, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(recv(c->fd, &byte, 1, MSG_PEEK), ==, 1);
}

/* From now on the client takes much at a time. */
static void speed_up(struct client *c)
{
    int size = 1 << 20;
    CHECK_INT(setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), ==, 0);
}

/* The rest of the answer comes, of the size that the file had at first. */
static void check_complete(struct client *c)
{
    struct answer a;
    speed_up(c);
    CHECK_PTR(client_answer(c, &a, false), ==, NULL);
    CHECK_INT(a.size, ==, LARGE);
    CHECK(is_pattern(a.body, LARGE, 0));
    answer_free(&a);
    client_close(c);
}

TEST(a_file_that_is_removed_or_replaced_meanwhile_is_sent_whole)
{
    struct site site;
    struct client c;
    site_begin(&site, NULL, NULL, 0);
    make_pattern(&site.g, "file", LARGE);
    begin_download(&site, &c);
    make_text(&site.g, "other", "other");
    CHECK_INT(renameat(site.g.fd, "other", site.g.fd, "file"), ==, 0);
    GIVES(&site, "/file", 200, "other");
    CHECK_INT(unlinkat(site.g.fd, "file", 0), ==, 0);
    GIVES(&site, "/file", 404, NULL);
    check_complete(&c);
    CHECK_INT(served_figures(&site.s).cut, ==, 0);
    site_end(&site);
}

TEST(a_file_that_grows_meanwhile_is_sent_with_the_length_that_was_announced)
{
    struct site site;
    struct client c;
    site_begin(&site, NULL, NULL, 0);
    make_pattern(&site.g, "file", LARGE);
    begin_download(&site, &c);
    int fd = openat(site.g.fd, "file", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK_INT(write(fd, "more", 4), ==, 4);
    close(fd);
    check_complete(&c);
    CHECK_INT(served_figures(&site.s).cut, ==, 0);
    site_end(&site);
}

TEST(a_file_that_shrinks_meanwhile_is_cut_and_others_are_served)
{
    struct site site;
    struct client c;
    struct answer a;
    site_begin(&site, NULL, NULL, 0);
    make_pattern(&site.g, "file", LARGE);
    make_text(&site.g, "other", "other");
    begin_download(&site, &c);
    GIVES(&site, "/other", 200, "other"); /* the only worker is free while a client does not read */
    CHECK_INT(truncate(absolute(&site.g, "site/file"), LARGE - 1), ==, 0);
    speed_up(&c);
    CHECK_STR(client_answer(&c, &a, false), "end inside the body");
    answer_free(&a);
    CHECK(client_drain(&c) < LARGE);
    client_close(&c);
    served_wait_connections(&site.s, 0);
    CHECK_INT(served_figures(&site.s).cut, ==, 1);
    GIVES(&site, "/other", 200, "other");
    site_end(&site);
}

struct changer {
    const struct ground *g;
    atomic_bool ends;
};

static void *change(void *arg)
{
    struct changer *c = arg;
    int fd = openat(c->g->fd, "file", O_WRONLY | O_CLOEXEC);
    while (!atomic_load(&c->ends)) {
        CHECK_INT(ftruncate(fd, 3), ==, 0);
        CHECK_INT(pwrite(fd, "123456789", 9, 0), ==, 9);
        usleep(10); /* valgrind runs one thread at a time, and need not be fair */
    }
    close(fd);
    return NULL;
}

TEST(a_small_file_that_changes_all_the_time_is_consistent_or_503)
{
    struct site site;
    pthread_t thread;
    site_begin(&site, NULL, NULL, 0);
    make_text(&site.g, "file", "123456789");
    struct changer c = {.g = &site.g};
    CHECK_INT(pthread_create(&thread, NULL, change, &c), ==, 0);
    for (int i = 0; i < 200; i++) {
        struct answer a;
        CHECK_PTR(site_ask(&site, "GET", "/file", "", &a), ==, NULL);
        CHECK(a.status == 503 || (a.status == 200 && a.size >= 3 && memcmp(a.body, "123456789", a.size) == 0));
        answer_free(&a);
    }
    atomic_store(&c.ends, true);
    pthread_join(thread, NULL);
    site_end(&site);
}

TESTS(files_change, files_of_all_sizes_come_whole_and_in_parts, a_sparse_file_above_2_gib_has_ranges_at_its_end,
      handlers_on_shared_stacks_send_files_whole, a_file_that_is_removed_or_replaced_meanwhile_is_sent_whole,
      a_file_that_grows_meanwhile_is_sent_with_the_length_that_was_announced,
      a_file_that_shrinks_meanwhile_is_cut_and_others_are_served,
      a_small_file_that_changes_all_the_time_is_consistent_or_503)
