/*
 * The rwlock: many readers or one writer, in the order they came.
 */
#include <errno.h>

#include "unit/sync/crew.h"

static void *reads_now(void *arg)
{
    CHECK_INT(weft_rwlock_read_lock(arg, WEFT_NOW), ==, 0);
    CHECK_INT(weft_rwlock_write_lock(arg, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_rwlock_unlock(arg), ==, 0);
    return NULL;
}

static void *gets_nothing(void *arg)
{
    CHECK_INT(weft_rwlock_read_lock(arg, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_rwlock_write_lock(arg, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_rwlock_unlock(arg), ==, -EPERM); /* another writes */
    return NULL;
}

static void elsewhere(weft_fn *fn, void *arg)
{
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, fn, arg), ==, 0);
    pthread_join(thread, NULL);
    if (weft_fiber_current())
        ended(go(fn, arg));
}

static void *uses_it(void *arg)
{
    weft_rwlock l = {0};
    CHECK_INT(weft_rwlock_unlock(&l), ==, -EPERM); /* nobody has it */
    CHECK_INT(weft_rwlock_read_lock(&l, WEFT_NOW), ==, 0);
    CHECK_INT(weft_rwlock_read_lock(&l, WEFT_NOW), ==, 0);
    elsewhere(reads_now, &l);
    CHECK_INT(weft_rwlock_unlock(&l), ==, 0);
    CHECK_INT(weft_rwlock_write_lock(&l, WEFT_NOW), ==, -EAGAIN); /* one still reads */
    CHECK_INT(weft_rwlock_unlock(&l), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&l), ==, -EPERM);
    CHECK_INT(weft_rwlock_write_lock(&l, WEFT_NOW), ==, 0);
    CHECK_INT(weft_rwlock_write_lock(&l, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_rwlock_read_lock(&l, WEFT_FOREVER), ==, -EDEADLK);
    elsewhere(gets_nothing, &l);
    CHECK_INT(weft_rwlock_unlock(&l), ==, 0);
    CHECK_INT(weft_rwlock_unlock(&l), ==, -EPERM);
    CHECK_INT(l.word, ==, 0);
    return arg;
}

TEST(many_read_or_one_writes)
{
    CHECK_INT(sizeof(weft_rwlock), <=, 32);
    uses_it(NULL);
    in_a_fiber(1, uses_it, NULL);
    in_a_fiber(2, uses_it, NULL);
}

/* A script: those that come, in order, and who has the lock. */
struct script {
    weft_rwlock lock;
    weft_event leave[8]; /* the nth may leave */
    int in[8];           /* the nth is in there. atomic */
};

struct part {
    struct script *script;
    unsigned number;
    bool writes;
    int rc;
    pthread_t thread;
    weft_fiber *fiber;
};

static void *plays(void *arg)
{
    struct part *p = arg;
    struct script *s = p->script;
    p->rc = p->writes ? weft_rwlock_write_lock(&s->lock, WEFT_FOREVER) : weft_rwlock_read_lock(&s->lock, WEFT_FOREVER);
    if (p->rc < 0)
        return NULL;
    __atomic_store_n(&s->in[p->number], 1, __ATOMIC_RELEASE);
    CHECK_INT(weft_event_wait(&s->leave[p->number], WEFT_FOREVER), ==, 0);
    __atomic_store_n(&s->in[p->number], 0, __ATOMIC_RELEASE);
    CHECK_INT(weft_rwlock_unlock(&s->lock), ==, 0);
    return NULL;
}

/* Every second is a plain thread. */
static void enter(struct script *s, struct part *p, unsigned number, bool writes)
{
    *p = (struct part){.script = s, .number = number, .writes = writes, .rc = -1};
    if (number % 2)
        CHECK_INT(pthread_create(&p->thread, NULL, plays, p), ==, 0);
    else
        p->fiber = go(plays, p);
}

static void leave(struct script *s, struct part *p)
{
    weft_event_set(&s->leave[p->number]);
    if (p->number % 2)
        pthread_join(p->thread, NULL);
    else
        ended(p->fiber);
}

static bool is_in(struct script *s, unsigned number)
{
    return __atomic_load_n(&s->in[number], __ATOMIC_ACQUIRE);
}

static void await_in(struct script *s, unsigned number)
{
    while (!is_in(s, number))
        linger();
}

/* r0 | w1 r2 r3 w4 r5: they enter in this order, r2 and r3 together. */
static void *plays_in_order(void *arg)
{
    struct script s = {0};
    struct part p[6];
    static const bool writes[6] = {false, true, false, false, true, false};
    for (unsigned i = 0; i < 6; i++) {
        enter(&s, &p[i], i, writes[i]);
        if (i == 0)
            await_in(&s, 0);
        else
            AWAIT_WAITERS(&s.lock, i);
    }
    CHECK_INT(weft_rwlock_read_lock(&s.lock, WEFT_NOW), ==, -EAGAIN); /* a writer waits */
    leave(&s, &p[0]);
    await_in(&s, 1);
    AWAIT_WAITERS(&s.lock, 4);
    leave(&s, &p[1]);
    await_in(&s, 2);
    await_in(&s, 3);
    AWAIT_WAITERS(&s.lock, 2);
    CHECK_INT(weft_rwlock_read_lock(&s.lock, WEFT_NOW), ==, -EAGAIN); /* readers read, but w4 waits */
    leave(&s, &p[2]);
    CHECK(!is_in(&s, 4));
    leave(&s, &p[3]);
    await_in(&s, 4);
    AWAIT_WAITERS(&s.lock, 1);
    leave(&s, &p[4]);
    await_in(&s, 5);
    CHECK_INT(weft_rwlock_read_lock(&s.lock, WEFT_NOW), ==, 0); /* nobody waits any more */
    CHECK_INT(weft_rwlock_unlock(&s.lock), ==, 0);
    leave(&s, &p[5]);
    CHECK_INT(s.lock.word, ==, 0);
    return arg;
}

TEST(they_enter_in_the_order_of_coming_and_readers_together)
{
    in_a_fiber(1, plays_in_order, NULL);
    in_a_fiber(4, plays_in_order, NULL);
}

/* r0 | w2 (gives up) r1 r3 w4: r1 and r3 join r0. */
static void *gives_up_ahead(void *arg)
{
    struct script s = {0};
    struct part p[5];
    enter(&s, &p[0], 0, false);
    await_in(&s, 0);
    enter(&s, &p[2], 2, true);
    AWAIT_WAITERS(&s.lock, 1);
    enter(&s, &p[1], 1, false);
    AWAIT_WAITERS(&s.lock, 2);
    enter(&s, &p[3], 3, false);
    AWAIT_WAITERS(&s.lock, 3);
    enter(&s, &p[4], 4, true);
    AWAIT_WAITERS(&s.lock, 4);
    CHECK_INT(weft_cancel(p[2].fiber), ==, 0);
    leave(&s, &p[2]);
    CHECK_INT(p[2].rc, ==, -ECANCELED);
    CHECK_INT(waiting(&s.lock.lock, &s.lock.waiters), ==, 1);
    await_in(&s, 1);
    await_in(&s, 3);
    CHECK(is_in(&s, 0));
    leave(&s, &p[0]);
    leave(&s, &p[1]);
    CHECK(!is_in(&s, 4));
    leave(&s, &p[3]);
    await_in(&s, 4);
    leave(&s, &p[4]);
    CHECK_INT(s.lock.word, ==, 0);
    return arg;
}

TEST(readers_behind_a_writer_that_gives_up_get_in)
{
    in_a_fiber(1, gives_up_ahead, NULL);
    in_a_fiber(2, gives_up_ahead, NULL);
}

/* Readers that overlap without end; a writer has to wait for those that were there, and for no other. */
struct crowd {
    weft_rwlock lock;
    unsigned entered; /* how many readers got in; one worker */
    bool done;
    bool written;
};

static void *reads_on_and_on(void *arg)
{
    struct crowd *c = arg;
    while (!c->done) {
        CHECK_INT(weft_rwlock_read_lock(&c->lock, WEFT_FOREVER), ==, 0);
        c->entered++;
        weft_yield();
        weft_yield();
        CHECK_INT(weft_rwlock_unlock(&c->lock), ==, 0);
    }
    return NULL;
}

enum { READERS = 8 };

static void *writes_now_and_then(void *arg)
{
    struct crowd c = {0};
    weft_fiber *readers[READERS];
    for (int i = 0; i < READERS; i++) {
        readers[i] = go(reads_on_and_on, &c);
        weft_yield(); /* so that they overlap */
    }
    for (int i = 0; i < 50 && !test_has_failed(); i++) {
        unsigned before = c.entered;
        int rc = weft_rwlock_write_lock(&c.lock, weft_in(5 * WEFT_SEC));
        CHECK_INT(rc, ==, 0);
        CHECK_INT(c.entered - before, ==, 0); /* none passed the waiting writer */
        if (rc == 0)
            CHECK_INT(weft_rwlock_unlock(&c.lock), ==, 0);
        weft_yield();
    }
    c.done = true;
    for (int i = 0; i < READERS; i++)
        ended(readers[i]);
    return arg;
}

TEST(a_writer_waits_for_no_reader_that_comes_later)
{
    in_a_fiber(1, writes_now_and_then, NULL);
}

/* A reader in a crowd of writers: all that are ahead at most once. */
static void *writes_on_and_on(void *arg)
{
    struct crowd *c = arg;
    while (!c->done) {
        CHECK_INT(weft_rwlock_write_lock(&c->lock, WEFT_FOREVER), ==, 0);
        c->entered++;
        CHECK(!c->written);
        c->written = true;
        weft_yield();
        c->written = false;
        CHECK_INT(weft_rwlock_unlock(&c->lock), ==, 0);
    }
    return NULL;
}

static void *reads_now_and_then(void *arg)
{
    struct crowd c = {0};
    weft_fiber *writers[READERS];
    for (int i = 0; i < READERS; i++)
        writers[i] = go(writes_on_and_on, &c);
    for (int i = 0; i < 50; i++) {
        unsigned before = c.entered;
        CHECK_INT(weft_rwlock_read_lock(&c.lock, WEFT_FOREVER), ==, 0);
        CHECK_INT(c.entered - before, <=, READERS);
        CHECK_INT(weft_rwlock_unlock(&c.lock), ==, 0);
        weft_yield();
    }
    c.done = true;
    for (int i = 0; i < READERS; i++)
        ended(writers[i]);
    return arg;
}

TEST(a_reader_waits_for_the_writers_ahead_only)
{
    in_a_fiber(1, reads_now_and_then, NULL);
}

struct page {
    weft_rwlock lock;
    long a, b;    /* guarded by: lock; always the same */
    int readers;  /* atomic */
    bool writing; /* guarded by: lock */
};

enum { ROUNDS = 200 };

static void uses_the_page(struct hand *h)
{
    struct page *p = h->arg;
    for (int i = 0; i < ROUNDS; i++) {
        weft_time deadline = i % 5 == 0 ? weft_in((i % 50) * WEFT_US) : WEFT_FOREVER;
        bool writes = (i + (int)h->index) % 3 == 0;
        int rc = writes ? weft_rwlock_write_lock(&p->lock, deadline) : weft_rwlock_read_lock(&p->lock, deadline);
        CHECK(rc == 0 || (rc == -ETIMEDOUT && i % 5 == 0));
        if (rc < 0)
            continue;
        CHECK(!p->writing);
        if (writes) {
            CHECK_INT(__atomic_load_n(&p->readers, __ATOMIC_RELAXED), ==, 0);
            p->writing = true;
            p->a++;
            if (i % 7 == 0)
                weft_yield();
            p->b++;
            p->writing = false;
        } else {
            __atomic_add_fetch(&p->readers, 1, __ATOMIC_RELAXED);
            long a = p->a;
            if (i % 7 == 0)
                weft_yield();
            CHECK_INT(a, ==, p->b);
            __atomic_sub_fetch(&p->readers, 1, __ATOMIC_RELAXED);
        }
        CHECK_INT(weft_rwlock_unlock(&p->lock), ==, 0);
    }
}

TEST(readers_xor_a_writer_are_in_there)
{
    for (int i = 0; i < CREWS; i++) {
        struct page p = {0};
        crew_work(&crews[i], uses_the_page, &p);
        CHECK_INT(p.lock.word, ==, 0);
        CHECK_INT(waiting(&p.lock.lock, &p.lock.waiters), ==, 0);
    }
}

TESTS(sync_rwlock, many_read_or_one_writes, they_enter_in_the_order_of_coming_and_readers_together,
      readers_behind_a_writer_that_gives_up_get_in, a_writer_waits_for_no_reader_that_comes_later,
      a_reader_waits_for_the_writers_ahead_only, readers_xor_a_writer_are_in_there)
