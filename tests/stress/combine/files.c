/*
 * combine/files.c: several fibers write and read files at their own places, and splice and copy them. Calls run on
 * helper threads: each call runs once or not at all, and its argument is released once.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>
#include <stdio.h>

enum { MOST_CLERKS = 4, PAGE = 5000, SHEETS = 6 };

/* ---- files ---- */

struct clerk {
    struct scene *scene;
    int fd;
    uint64_t random, key;
    unsigned index;
};

static off_t place_of(const struct clerk *c, unsigned sheet)
{
    return (off_t)(sheet * MOST_CLERKS + c->index) * PAGE;
}

/* A call on a file ends at its deadline only if it never began. */
static ptrdiff_t until_done(struct clerk *c, unsigned char *bytes, off_t place, bool writes)
{
    for (;;) {
        weft_time deadline = some_deadline(&c->random);
        ptrdiff_t n = writes ? weft_pwrite(c->fd, bytes, PAGE, place, deadline)
                             : weft_pread(c->fd, bytes, PAGE, place, deadline);
        did(c->scene);
        if (n >= 0)
            return n;
        if (!gave_up_rightly(c->scene, n, deadline))
            return n;
        breathe();
    }
}

static void *keeps_books(void *arg)
{
    struct clerk *c = arg;
    struct scene *s = c->scene;
    unsigned char *bytes = malloc(PAGE);
    for (unsigned i = 0; i < SHEETS; i++) {
        fill(bytes, PAGE, c->key, (uint64_t)place_of(c, i));
        EXPECT_INT(s, until_done(c, bytes, place_of(c, i), true), ==, PAGE);
    }
    if (chance(&c->random, 16))
        EXPECT_INT(s, weft_fsync(c->fd, WEFT_FOREVER), ==, 0);
    for (unsigned i = 0; i < SHEETS; i++) {
        memset(bytes, 0, PAGE);
        EXPECT_INT(s, until_done(c, bytes, place_of(c, i), false), ==, PAGE);
        EXPECT_INT(s, differs_at(bytes, PAGE, c->key, (uint64_t)place_of(c, i)), ==, PAGE);
    }
    free(bytes);
    return NULL;
}

/* Reads one sheet once more: by its position, or through a pipe. */
static void read_otherwise(struct scene *s, const struct clerk *c)
{
    unsigned char *bytes = malloc(PAGE);
    off_t place = place_of(c, pick(&s->random, SHEETS));
    size_t got = 0;
    ptrdiff_t n = 1;
    if (chance(&s->random, 2)) {
        EXPECT_INT(s, lseek(c->fd, place, SEEK_SET), ==, place);
        EXPECT_INT(s, weft_read_full(c->fd, bytes, PAGE, &got, WEFT_FOREVER), ==, PAGE);
    } else {
        struct ends pipe = make_ends(s, PIPE, &s->random);
        off_t *from = malloc(sizeof *from);
        *from = place;
        while (got < PAGE && n > 0) {
            n = weft_splice(c->fd, from, pipe.b, NULL, PAGE - got, 0, WEFT_FOREVER);
            EXPECT_INT(s, n, >, 0);
            for (size_t left = n > 0 ? (size_t)n : 0; left > 0;) {
                ptrdiff_t m = weft_read(pipe.a, bytes + got, left, WEFT_FOREVER);
                EXPECT_INT(s, m, >, 0);
                if (m <= 0)
                    break;
                got += (size_t)m;
                left -= (size_t)m;
            }
            did(s);
        }
        free(from);
        close_ends(s, &pipe);
    }
    EXPECT_INT(s, differs_at(bytes, got, c->key, (uint64_t)place), ==, PAGE);
    free(bytes);
}

/* Opening ends at its deadline, and what is opened after that is closed again. */
static void open_in_time(struct scene *s)
{
    weft_time deadline = some_deadline(&s->random);
    int fd = weft_open("/proc/self/exe", O_RDONLY | O_CLOEXEC, 0, deadline);
    if (fd >= 0)
        EXPECT_INT(s, weft_close(fd), ==, 0);
    else if (!gave_up_rightly(s, fd, deadline))
        WRONG(s, "weft_open: %d", fd);
}

void step_files(struct scene *s)
{
    struct clerk *clerks = calloc(MOST_CLERKS, sizeof *clerks);
    weft_fiber *fibers[MOST_CLERKS];
    char path[64];
    unsigned n = 1 + pick(&s->random, MOST_CLERKS);
    snprintf(path, sizeof path, "/tmp/weft-combine-%d-%d", getpid(), s->numbers);
    int fd = weft_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, WEFT_FOREVER);
    EXPECT_INT(s, fd, >=, 0);
    unlink(path);
    for (unsigned i = 0; i < n; i++) {
        clerks[i] = (struct clerk){s, fd, new_random(&s->random), test_random(&s->random), i};
        start(s, &fibers[i], &s->random, keeps_books, &clerks[i]);
    }
    for (unsigned i = 0; i < n; i++)
        ended(s, fibers[i]);
    read_otherwise(s, &clerks[pick(&s->random, n)]);
    EXPECT_INT(s, weft_close(fd), ==, 0);
    open_in_time(s);
    free(clerks);
}

/* ---- helpers ---- */

enum { MOST_ERRANDS = 12 };

struct errand {
    struct scene *scene;
    int *outstanding; /* errands that are not released. atomic */
    int runs;         /* flag, counted */
    unsigned us;
};

static void *runs_errand(void *arg)
{
    struct errand *e = arg;
    EXPECT_INT(e->scene, more(&e->runs), ==, 1);
    usleep(e->us);
    return e;
}

static void release(struct errand *e)
{
    int *outstanding = e->outstanding;
    free(e);
    __atomic_sub_fetch(outstanding, 1, __ATOMIC_ACQ_REL);
}

static void drop(void *arg, void *value)
{
    struct errand *e = arg;
    EXPECT_INT(e->scene, e->runs, ==, value != NULL);
    EXPECT(e->scene, value == NULL || value == arg);
    release(e);
}

struct runner {
    struct scene *scene;
    int *outstanding;
    uint64_t random;
    int over; /* flag */
};

static void *sends_away(void *arg)
{
    struct runner *r = arg;
    for (unsigned n = pick(&r->random, MOST_ERRANDS); n > 0; n--) {
        struct errand *e = malloc(sizeof *e);
        *e = (struct errand){.scene = r->scene, .outstanding = r->outstanding, .us = pick(&r->random, 300)};
        weft_offload_opts opts = {.size = sizeof opts, .kind = (int)pick(&r->random, 4), .drop = drop};
        weft_time deadline = some_deadline(&r->random);
        void *value = NULL;
        opts.stays = chance(&r->random, 3);
        more(r->outstanding);
        int rc = weft_offload_with(&opts, runs_errand, e, &value, deadline);
        did(r->scene);
        if (rc == 0) {
            EXPECT(r->scene, value == e && e->runs == 1);
            release(e);
        } else if (rc == -EAGAIN) {
            EXPECT_INT(r->scene, e->runs, ==, 0);
            release(e);
        } else if (!gave_up_rightly(r->scene, rc, deadline)) {
            WRONG(r->scene, "weft_offload_with: %d", rc);
        }
    }
    put(&r->over, 1);
    return NULL;
}

void step_offload(struct scene *s)
{
    enum { RUNNERS = 4 };
    struct runner *runners = calloc(RUNNERS, sizeof *runners);
    int *outstanding = calloc(1, sizeof *outstanding);
    weft_fiber *fibers[RUNNERS];
    for (int i = 0; i < RUNNERS; i++) {
        runners[i] = (struct runner){s, outstanding, new_random(&s->random), 0};
        start(s, &fibers[i], &s->random, sends_away, &runners[i]);
    }
    if (chance(&s->random, 2)) {
        nap(s, &s->random, 500);
        weft_cancel(fibers[pick(&s->random, RUNNERS)]);
    }
    for (int i = 0; i < RUNNERS; i++)
        ended(s, fibers[i]);
    AWAIT(seen(outstanding) == 0);
    free(outstanding);
    free(runners);
}
