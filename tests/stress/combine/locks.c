/*
 * combine/locks.c: mutexes, read-write locks and semaphores between threads and fibers of several schedulers. Each lock
 * guards plain memory, so ThreadSanitizer reports any access without the lock.
 */
#include "stress/combine/combine.h"

enum { MOST_PARTIES = 6, MOST_PERMITS = 3 };

struct guarded {
    uint64_t inside; /* who is in there; 0: nobody */
    uint64_t count;  /* how often it was entered */
};

/* One step's. */
struct room {
    struct scene *scene;
    weft_mutex mutex;
    struct guarded by_mutex;
    weft_rmutex rmutex;
    struct guarded by_rmutex;
    weft_rwlock rwlock;
    struct guarded by_rwlock;
    int readers; /* atomic */
    weft_sem sem;
    int permits, holders; /* const; atomic */
    int left;             /* threads that are not over. flag, counted */
};

struct party {
    struct room *room;
    uint64_t random, id;
    unsigned rounds;
    uint64_t entered[3]; /* by mutex, rmutex, rwlock */
    int over;            /* flag */
};

static void stay_inside(struct party *p, struct guarded *g, uint64_t *entered)
{
    struct scene *s = p->room->scene;
    if (g->inside != 0)
        WRONG(s, "party %llu is in there with %llu", (unsigned long long)p->id, (unsigned long long)g->inside);
    g->inside = p->id;
    g->count++;
    (*entered)++;
    if (chance(&p->random, 4))
        nap(s, &p->random, 100);
    else if (chance(&p->random, 2))
        weft_yield();
    if (g->inside != p->id)
        WRONG(s, "party %llu came to party %llu", (unsigned long long)g->inside, (unsigned long long)p->id);
    g->inside = 0;
}

/* Whether a lock was taken; giving up must be right. */
static bool is_taken(struct party *p, int rc, weft_time deadline)
{
    struct scene *s = p->room->scene;
    did(s);
    if (rc != 0 && !gave_up_rightly(s, rc, deadline))
        WRONG(s, "a lock: %d", rc);
    return rc == 0;
}

static void use_mutex(struct party *p, weft_time deadline)
{
    struct room *r = p->room;
    if (!is_taken(p, weft_mutex_lock(&r->mutex, deadline), deadline))
        return;
    if (chance(&p->random, 8)) {
        int rc = weft_mutex_lock(&r->mutex, WEFT_FOREVER);
        EXPECT(r->scene, rc == -EDEADLK || (rc == -ECANCELED && weft_cancelled()));
    }
    stay_inside(p, &r->by_mutex, &p->entered[0]);
    EXPECT_INT(r->scene, weft_mutex_unlock(&r->mutex), ==, 0);
}

static void use_rmutex(struct party *p, weft_time deadline)
{
    struct room *r = p->room;
    unsigned depth = 1 + pick(&p->random, 3);
    if (!is_taken(p, weft_rmutex_lock(&r->rmutex, deadline), deadline))
        return;
    for (unsigned i = 1; i < depth; i++)
        EXPECT_INT(r->scene, weft_rmutex_lock(&r->rmutex, WEFT_NOW), ==, 0);
    stay_inside(p, &r->by_rmutex, &p->entered[1]);
    for (unsigned i = 0; i < depth; i++)
        EXPECT_INT(r->scene, weft_rmutex_unlock(&r->rmutex), ==, 0);
}

static void write_locked(struct party *p, weft_time deadline)
{
    struct room *r = p->room;
    if (!is_taken(p, weft_rwlock_write_lock(&r->rwlock, deadline), deadline))
        return;
    EXPECT_INT(r->scene, seen(&r->readers), ==, 0);
    stay_inside(p, &r->by_rwlock, &p->entered[2]);
    EXPECT_INT(r->scene, seen(&r->readers), ==, 0);
    EXPECT_INT(r->scene, weft_rwlock_unlock(&r->rwlock), ==, 0);
}

static void read_locked(struct party *p, weft_time deadline)
{
    struct room *r = p->room;
    if (!is_taken(p, weft_rwlock_read_lock(&r->rwlock, deadline), deadline))
        return;
    more(&r->readers);
    EXPECT_INT(r->scene, r->by_rwlock.inside, ==, 0);
    if (chance(&p->random, 3))
        nap(r->scene, &p->random, 100);
    EXPECT_INT(r->scene, r->by_rwlock.inside, ==, 0);
    __atomic_sub_fetch(&r->readers, 1, __ATOMIC_ACQ_REL);
    EXPECT_INT(r->scene, weft_rwlock_unlock(&r->rwlock), ==, 0);
}

static void use_sem(struct party *p, weft_time deadline)
{
    struct room *r = p->room;
    if (!is_taken(p, weft_sem_wait(&r->sem, deadline), deadline))
        return;
    EXPECT_INT(r->scene, more(&r->holders), <=, r->permits);
    if (chance(&p->random, 3))
        nap(r->scene, &p->random, 100);
    __atomic_sub_fetch(&r->holders, 1, __ATOMIC_ACQ_REL);
    EXPECT_INT(r->scene, weft_sem_post(&r->sem), ==, 0);
}

static void *takes_part(void *arg)
{
    struct party *p = arg;
    for (unsigned i = 0; i < p->rounds; i++) {
        weft_time deadline = some_deadline(&p->random);
        switch (pick(&p->random, 5)) {
        case 0:
            use_mutex(p, deadline);
            break;
        case 1:
            use_rmutex(p, deadline);
            break;
        case 2:
            write_locked(p, deadline);
            break;
        case 3:
            read_locked(p, deadline);
            break;
        default:
            use_sem(p, deadline);
        }
    }
    put(&p->over, 1);
    return NULL;
}

static void check_room(struct room *r, const struct party *parties, unsigned n)
{
    struct scene *s = r->scene;
    uint64_t entered[3] = {0};
    for (unsigned i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++)
            entered[k] += parties[i].entered[k];
    }
    EXPECT_INT(s, r->by_mutex.count, ==, entered[0]);
    EXPECT_INT(s, r->by_rmutex.count, ==, entered[1]);
    EXPECT_INT(s, r->by_rwlock.count, ==, entered[2]);
    EXPECT_INT(s, weft_mutex_lock(&r->mutex, WEFT_NOW), ==, 0); /* nobody has kept anything */
    EXPECT_INT(s, weft_mutex_unlock(&r->mutex), ==, 0);
    EXPECT_INT(s, weft_rwlock_write_lock(&r->rwlock, WEFT_NOW), ==, 0);
    EXPECT_INT(s, weft_rwlock_unlock(&r->rwlock), ==, 0);
    for (int i = 0; i < r->permits; i++)
        EXPECT_INT(s, weft_sem_wait(&r->sem, WEFT_NOW), ==, 0);
    EXPECT_INT(s, weft_sem_wait(&r->sem, WEFT_NOW), ==, -EAGAIN);
}

void step_locks(struct scene *s)
{
    struct room *r = calloc(1, sizeof *r);
    struct party *parties = calloc(MOST_PARTIES, sizeof *parties);
    weft_fiber *fibers[MOST_PARTIES] = {NULL};
    pthread_t thread = {0};
    unsigned n = 2 + pick(&s->random, MOST_PARTIES - 1);
    bool has_thread = chance(&s->random, 3);
    r->scene = s;
    r->permits = 1 + (int)pick(&s->random, MOST_PERMITS);
    r->sem = (weft_sem)WEFT_SEM((uint32_t)r->permits);
    for (unsigned i = 0; i < n; i++) {
        parties[i] = (struct party){.room = r, .random = new_random(&s->random), .id = i + 1};
        parties[i].rounds = pick(&s->random, 60);
        if (i == 0 && has_thread)
            thread = new_thread(s, takes_part, &parties[i]);
        else
            start(s, &fibers[i], &s->random, takes_part, &parties[i]);
    }
    for (unsigned k = pick(&s->random, 3); k > 0; k--) {
        unsigned i = pick(&s->random, n);
        nap(s, &s->random, 1000);
        if (fibers[i])
            weft_cancel(fibers[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        if (fibers[i])
            ended(s, fibers[i]);
        else
            join_thread(thread, &parties[i].over);
    }
    check_room(r, parties, n);
    free(parties);
    free(r);
}
