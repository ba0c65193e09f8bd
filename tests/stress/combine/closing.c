/*
 * combine/closing.c: weft_close of a descriptor that other fibers and threads read, write and wait for. The number is
 * used again at once. Each of the others gets the bytes that were there, or -EBADF. None of them touches the descriptor
 * that has the number next.
 *
 * As in any correct program, no call begins on the number after it was closed: the closer sets a flag, and then waits
 * until each of the others is inside a call, or must check the flag before its next call.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>

enum { USERS = 3, BAITS = 2, BAIT_BYTES = 64 };

struct target;

struct user {
    struct target *target;
    struct call call;
    uint64_t place;
    weft_fiber *fiber;
};

struct target {
    struct scene *scene;
    struct ends ends;
    uint64_t key;
    int closed;               /* flag: the number is used by nobody who comes */
    struct user users[USERS]; /* one reads, one writes, one waits */
    int feeder_over;          /* flag */
};

/* Before each call: a read-modify-write, as the closer looks at our state after it has set the flag. */
static bool is_closed(struct target *t)
{
    return __atomic_fetch_or(&t->closed, 0, __ATOMIC_SEQ_CST);
}

/* Whether a user goes on after a call that failed. */
static bool goes_on(struct user *u, ptrdiff_t n, weft_time deadline)
{
    struct target *t = u->target;
    if (n == -EBADF) {
        EXPECT(t->scene, is_closed(t));
        return false;
    }
    if (!gave_up_rightly(t->scene, n, deadline)) {
        WRONG(t->scene, "%s of a %s that is closed meanwhile: %td (%s)", u->call.name, kind_names[t->ends.kind], n,
              strerror((int)-n));
        return false;
    }
    if (n == -EAGAIN)
        breathe();
    return true;
}

static void *reads(void *arg)
{
    struct user *u = arg;
    struct target *t = u->target;
    unsigned char *bytes = malloc(MOST_BYTES);
    while (!is_closed(t)) {
        size_t moved, room = some_room(&u->call, &u->call.random);
        weft_time deadline = chance(&u->call.random, 3) ? some_deadline(&u->call.random) : WEFT_FOREVER;
        ptrdiff_t n = read_somehow(&u->call, bytes, room, &moved, deadline, t->key, u->place);
        did(t->scene);
        if (differs_at(bytes, moved, t->key, u->place) != moved)
            WRONG(t->scene, "%s of a %s: a wrong byte", u->call.name, kind_names[t->ends.kind]);
        u->place += moved;
        if (n == 0)
            WRONG(t->scene, "%s of a %s: an end, and nobody has ended it", u->call.name, kind_names[t->ends.kind]);
        if (n == 0 || (n < 0 && !goes_on(u, n, deadline)))
            break;
    }
    free(bytes);
    return NULL;
}

/* Nobody reads what it writes, so it has to wait soon. */
static void *writes(void *arg)
{
    struct user *u = arg;
    struct target *t = u->target;
    unsigned char *bytes = calloc(1, MOST_BYTES);
    while (!is_closed(t)) {
        size_t moved, n = some_length(&u->call, &u->call.random);
        weft_time deadline = chance(&u->call.random, 3) ? some_deadline(&u->call.random) : WEFT_FOREVER;
        ptrdiff_t sent = write_somehow(&u->call, bytes, n, &moved, deadline, u->place);
        did(t->scene);
        if (sent < 0 && !goes_on(u, sent, deadline))
            break;
    }
    free(bytes);
    return NULL;
}

/* Waits for an event that does not come. */
static void *waits(void *arg)
{
    struct user *u = arg;
    struct target *t = u->target;
    while (!is_closed(t)) {
        weft_time deadline = some_deadline(&u->call.random);
        u->call.name = "weft_wait_fd for POLLPRI";
        int rc = weft_wait_fd(u->call.fd, POLLPRI, deadline);
        did(t->scene);
        if (rc > 0)
            WRONG(t->scene, "%s: %x", u->call.name, (unsigned)rc);
        if (rc >= 0 || !goes_on(u, rc, deadline))
            break;
    }
    return NULL;
}

/* Writes the stream to the other end, by the system's call. */
static void feed(struct target *t, uint64_t *place)
{
    struct scene *s = t->scene;
    unsigned char bytes[256];
    size_t n = 1 + pick(&s->random, sizeof bytes);
    fill(bytes, n, t->key, *place);
    ssize_t sent = write(t->ends.b, bytes, n);
    if (sent > 0)
        *place += (uint64_t)sent;
}

static bool is_out_of_the_way(const struct user *u)
{
    enum weft_fiber_state state = u->fiber ? weft_fiber_state(u->fiber) : WEFT_FIBER_DONE;
    return state == WEFT_FIBER_PARKED || state == WEFT_FIBER_DONE;
}

/* Descriptors that are likely to have the number next, with something in them. */
static void lay_bait(struct scene *s, struct ends *baits, unsigned char *bytes)
{
    for (int i = 0; i < BAITS; i++) {
        baits[i] = make_ends(s, (enum kind)pick(&s->random, STREAMS_END), &s->random);
        EXPECT_INT(s, write(baits[i].b, bytes, BAIT_BYTES), ==, BAIT_BYTES);
    }
}

/* Nobody has read from them, or written to them. */
static void check_bait(struct scene *s, struct ends *baits, const unsigned char *bytes)
{
    for (int i = 0; i < BAITS; i++) {
        unsigned char got[2 * BAIT_BYTES];
        ssize_t n = read(baits[i].a, got, sizeof got);
        if (n != BAIT_BYTES || memcmp(got, bytes, BAIT_BYTES) != 0)
            WRONG(s, "of %d bytes in the next %s of a number %zd are left", BAIT_BYTES, kind_names[baits[i].kind], n);
        if (is_socket(baits[i].kind) && recv(baits[i].b, got, sizeof got, MSG_DONTWAIT) >= 0)
            WRONG(s, "somebody wrote to the next %s of a number", kind_names[baits[i].kind]);
        close_ends(s, &baits[i]);
    }
}

static void start_users(struct target *t)
{
    struct scene *s = t->scene;
    weft_fn *const parts[USERS] = {reads, writes, waits};
    for (int i = 0; i < USERS; i++) {
        struct user *u = &t->users[i];
        *u = (struct user){.target = t, .call = {s, t->ends.kind, t->ends.a, new_random(&s->random), "", -1}};
        bool can = i == 0 || (i == 1 && is_socket(t->ends.kind)) || (i == 2 && t->ends.kind == TCP);
        if (can && (i == 0 || chance(&s->random, 2)))
            start(s, &u->fiber, &s->random, parts[i], u);
    }
}

void step_closing(struct scene *s)
{
    struct target *t = calloc(1, sizeof *t);
    struct ends baits[BAITS];
    unsigned char bytes[BAIT_BYTES];
    uint64_t fed = 0;
    t->scene = s;
    t->key = test_random(&s->random);
    t->ends = make_ends(s, (enum kind)pick(&s->random, STREAMS_END), &s->random);
    fcntl(t->ends.b, F_SETFL, O_NONBLOCK); /* we feed it from a worker */
    fill(bytes, sizeof bytes, test_random(&s->random), 0);
    start_users(t);
    for (unsigned n = pick(&s->random, 12); n > 0; n--) {
        feed(t, &fed);
        if (chance(&s->random, 2))
            nap(s, &s->random, 200);
    }
    __atomic_store_n(&t->closed, 1, __ATOMIC_SEQ_CST);
    AWAIT(is_out_of_the_way(&t->users[0]) && is_out_of_the_way(&t->users[1]) && is_out_of_the_way(&t->users[2]));
    if (chance(&s->random, 2))
        feed(t, &fed); /* it may be woken while it is closed */
    EXPECT_INT(s, weft_close(t->ends.a), ==, 0);
    lay_bait(s, baits, bytes);
    t->ends.a = -1;
    for (int i = 0; i < USERS; i++) {
        if (t->users[i].fiber)
            ended(s, t->users[i].fiber);
    }
    EXPECT_INT(s, t->users[0].place, <=, fed);
    check_bait(s, baits, bytes);
    close_ends(s, &t->ends);
    free(t);
}
