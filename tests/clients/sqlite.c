/*
 * tests/clients/sqlite.c: SQLite in fibers, without WEFT_HOOK_LOCKS. It reads /dev/urandom under one mutex of its own,
 * and files under others: all of that the kernel answers at once. If the hooks let a fiber wait there, the next fiber
 * of that worker blocks on the mutex, and the program hangs.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/fleet.h"

enum { FIBERS = 8, ROWS = 30 };

static char folder[] = "/tmp/weft-sqlite-XXXXXX";

/* Runs fn(number) in so many fibers on so many workers, which end before this does. */
struct crew {
    void (*fn)(int who);
    int next; /* atomic */
};

static void *one(void *arg)
{
    struct crew *c = arg;
    c->fn(__atomic_fetch_add(&c->next, 1, __ATOMIC_RELAXED));
    return NULL;
}

static void *all(void *arg)
{
    weft_fiber *fibers[FIBERS];
    for (int i = 0; i < FIBERS; i++)
        CHECK_INT(weft_go_with(&fibers[i], NULL, one, arg), ==, 0);
    for (int i = 0; i < FIBERS; i++)
        CHECK_INT(weft_join(fibers[i], NULL, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void run_crew(unsigned workers, void (*fn)(int who))
{
    struct crew crew = {.fn = fn};
    weft_sched_opts opts = {.size = sizeof opts, .threads = workers};
    CHECK_INT(weft_run(all, &crew, NULL, &opts), ==, 0);
}

static void draw(int who)
{
    unsigned char bytes[64], none[64] = {0};
    for (int i = 0; i < 50; i++) {
        sqlite3_randomness(who % 2 ? 0 : -1, NULL); /* the next reads /dev/urandom, as the first does */
        memset(bytes, 0, sizeof bytes);
        sqlite3_randomness(sizeof bytes, bytes);
        CHECK(memcmp(bytes, none, sizeof bytes) != 0);
        weft_yield();
    }
}

TEST(random_bytes_are_drawn_by_fibers_of_one_worker)
{
    CHECK_INT(sqlite3_threadsafe(), ==, 1);
    run_crew(1, draw);
}

TEST(random_bytes_are_drawn_by_fibers_of_several_workers)
{
    run_crew(4, draw);
}

static void ask(sqlite3 *db, const char *sql)
{
    char *wrong = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &wrong);
    EXPECT(rc == SQLITE_OK, "%s: %s", sql, wrong);
    sqlite3_free(wrong);
}

static int number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    CHECK_INT(sqlite3_prepare_v2(db, sql, -1, &s, NULL), ==, SQLITE_OK);
    CHECK_INT(sqlite3_step(s), ==, SQLITE_ROW);
    int n = sqlite3_column_int(s, 0);
    CHECK_INT(sqlite3_finalize(s), ==, SQLITE_OK);
    return n;
}

static sqlite3 *open_file(const char *name)
{
    char path[100];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_INT(sqlite3_open(path, &db), ==, SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 60000), ==, SQLITE_OK);
    return db;
}

static void insert(sqlite3 *db, int who, int turn)
{
    char sql[200];
    snprintf(sql, sizeof sql, "insert into t values (%d, %d, hex(randomblob(2000)))", who, turn);
    ask(db, sql);
}

/* A file of its own for each fiber. */
static void use_own_file(int who)
{
    char name[20];
    snprintf(name, sizeof name, "own-%d", who);
    sqlite3 *db = open_file(name);
    ask(db, "drop table if exists t; create table t (who integer, turn integer, text)");
    for (int i = 0; i < ROWS; i++) {
        insert(db, who, i);
        weft_yield();
    }
    CHECK_INT(number(db, "select count(*) from t"), ==, ROWS);
    CHECK_INT(number(db, "select sum(turn) from t"), ==, ROWS * (ROWS - 1) / 2);
    CHECK_INT(sqlite3_close(db), ==, SQLITE_OK);
}

/* One file for all: who finds it locked sleeps, and tries again. */
static void share_file(int who)
{
    sqlite3 *db = open_file("shared");
    for (int i = 0; i < ROWS; i++) {
        ask(db, "begin immediate");
        insert(db, who, i);
        weft_yield();
        ask(db, "commit");
        weft_yield();
    }
    CHECK_INT(number(db, "select count(*) from t") >= ROWS, ==, true);
    CHECK_INT(sqlite3_close(db), ==, SQLITE_OK);
}

static void check_files(unsigned workers)
{
    sqlite3 *db = open_file("shared");
    ask(db, "drop table if exists t; create table t (who integer, turn integer, text)");
    run_crew(workers, use_own_file);
    run_crew(workers, share_file);
    CHECK_INT(number(db, "select count(*) from t"), ==, FIBERS * ROWS);
    CHECK_INT(number(db, "select count(distinct who) from t"), ==, FIBERS);
    CHECK_INT(sqlite3_close(db), ==, SQLITE_OK);
}

TEST(files_are_used_by_fibers_of_one_worker)
{
    check_files(1);
}

TEST(files_are_used_by_fibers_of_several_workers)
{
    check_files(4);
}

static void remove_files(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK_INT(system(command), ==, 0);
}

int main(void)
{
    static const struct test tests[] = {
        {"random_bytes_are_drawn_by_fibers_of_one_worker", random_bytes_are_drawn_by_fibers_of_one_worker},
        {"random_bytes_are_drawn_by_fibers_of_several_workers", random_bytes_are_drawn_by_fibers_of_several_workers},
        {"files_are_used_by_fibers_of_one_worker", files_are_used_by_fibers_of_one_worker},
        {"files_are_used_by_fibers_of_several_workers", files_are_used_by_fibers_of_several_workers},
    };
    if (!mkdtemp(folder))
        return 1;
    int status = test_main("sqlite", tests, sizeof tests / sizeof tests[0]);
    remove_files();
    return status;
}
