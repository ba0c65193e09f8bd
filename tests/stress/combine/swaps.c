/*
 * combine/swaps.c: descriptors of different kinds follow each other under one number. Each is closed by weft_close, or
 * by close(2) or dup2(2), which the test announces (weft_closing) or does not announce. What the library knows about
 * one descriptor must not count for the next: the bytes of the next are right, and a write to a socket whose other end
 * has gone raises no signal. If the close was by weft_close or was announced, bytes that arrive are not read late.
 *
 * The test judges "late" with care, because any machine may be slow. It repeats a late read ten times with the same
 * choices, and ten times with a fresh number. It fails only if nearly all of the first ten are late, and almost none of
 * the second ten.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>
#include <stdio.h>

#define LATE (25 * WEFT_MS) /* a wait that missed its event is verified after 50 ms */

enum { TRIES = 10, PIECE = 64 };

enum leave { BY_WEFT_CLOSE, BY_CLOSE_ANNOUNCED, BY_CLOSE, BY_DUP_ANNOUNCED, BY_DUP, LEAVES };

/* Who sits on the number. */
struct seat {
    struct scene *scene;
    int number;
    struct ends ends;
    bool reads; /* end a is on the number, else b */
    uint64_t random;
    char what[256]; /* who sat there, and how they left */
};

static void note(struct seat *t, const char *a, const char *b, const char *c)
{
    size_t n = strlen(t->what);
    snprintf(t->what + n, sizeof t->what - n, "%s%s%s", a, b, c);
}

/* EXPECT_INT, with who sat there before. */
#define RIGHT(t, a, op, b)                                                                                             \
    do {                                                                                                               \
        long long right_a = (long long)(a), right_b = (long long)(b);                                                  \
        if (!(right_a op right_b))                                                                                     \
            WRONG((t)->scene, "%s %s %s: %lld, %lld;%s", #a, #op, #b, right_a, right_b, (t)->what);                    \
    } while (0)

/* ---- a fiber that waits ---- */

struct waiter {
    struct scene *scene;
    int fd;
    enum kind kind;
    bool writes;
    unsigned char *bytes;
    size_t room;
    ptrdiff_t n;
    int64_t at; /* when it was over */
    int over;   /* flag */
    weft_fiber *fiber;
};

static void *waits(void *arg)
{
    struct waiter *w = arg;
    if (w->writes)
        w->n = weft_write_all(w->fd, w->bytes, w->room, NULL, WEFT_FOREVER);
    else
        w->n = weft_read(w->fd, w->bytes, w->room, WEFT_FOREVER);
    w->at = weft_now().ns;
    did(w->scene);
    put(&w->over, 1);
    return NULL;
}

static struct waiter *begin_wait(struct seat *t, int fd, bool writes, size_t room)
{
    struct waiter *w = calloc(1, sizeof *w);
    *w = (struct waiter){.scene = t->scene, .fd = fd, .kind = t->ends.kind, .writes = writes, .room = room};
    w->bytes = calloc(1, room);
    start(t->scene, &w->fiber, &t->random, waits, w);
    AWAIT(is_parked(w->fiber) || seen(&w->over));
    return w;
}

/* How long after `since` it was over. */
static weft_span end_wait(struct waiter *w, int64_t since)
{
    ended(w->scene, w->fiber);
    weft_span late = w->at - since;
    free(w->bytes);
    free(w);
    return late;
}

/* ---- what is done with each kind ---- */

/* Reads what comes: at once, or after a wait. Returns how late it was. */
static weft_span read_from(struct seat *t)
{
    struct scene *s = t->scene;
    unsigned char bytes[PIECE], got[PIECE];
    size_t n = t->ends.kind == EVENT ? 8 : 1 + pick(&t->random, PIECE);
    int other = t->ends.kind == EVENT ? t->number : t->ends.b;
    uint64_t value = 1 + pick(&t->random, 1000);
    fill(bytes, n, t->random, 0);
    if (t->ends.kind == EVENT)
        memcpy(bytes, &value, 8);
    if (chance(&t->random, 3)) {
        EXPECT_INT(s, write(other, bytes, n), ==, n);
        ptrdiff_t rc = weft_read(t->number, got, sizeof got, WEFT_FOREVER);
        if (rc != (ptrdiff_t)n || memcmp(got, bytes, n) != 0)
            WRONG(s, "a read of %zu bytes that are there: %td;%s", n, rc, t->what);
        return 0;
    }
    struct waiter *w = begin_wait(t, t->number, false, PIECE);
    int64_t since = weft_now().ns;
    EXPECT_INT(s, write(other, bytes, n), ==, n);
    AWAIT(seen(&w->over));
    if (w->n != (ptrdiff_t)n || memcmp(w->bytes, bytes, n) != 0)
        WRONG(s, "a read of %zu bytes that came: %td;%s", n, w->n, t->what);
    return end_wait(w, since);
}

/* Writes until there is no room, and then waits for some. */
static weft_span write_to(struct seat *t)
{
    struct scene *s = t->scene;
    unsigned char bytes[PIECE] = {1}, got[16384] = {0};
    size_t size = keeps_records(t->ends.kind) ? PIECE : sizeof got;
    fcntl(t->ends.a, F_SETFL, O_NONBLOCK);
    if (chance(&t->random, 3)) {
        RIGHT(t, weft_write(t->number, bytes, PIECE, WEFT_FOREVER), ==, PIECE);
        AWAIT(read(t->ends.a, got, sizeof got) == PIECE);
        return 0;
    }
    ptrdiff_t n;
    do {
        while ((n = weft_write(t->number, got, size, WEFT_NOW)) > 0)
            did(s);
        RIGHT(t, n, ==, -EAGAIN);
        n = weft_write(t->number, got, size, weft_in(200 * WEFT_US));
    } while (n > 0);
    RIGHT(t, n, ==, -ETIMEDOUT);
    struct waiter *w = begin_wait(t, t->number, true, PIECE);
    int64_t since = weft_now().ns;
    while (!seen(&w->over)) {
        if (read(t->ends.a, got, sizeof got) > 0)
            since = weft_now().ns; /* there is room from the last of them at the latest */
        else
            breathe();
    }
    RIGHT(t, w->n, ==, PIECE);
    weft_span late = end_wait(w, since);
    return t->ends.kind == TCP ? 0 : late; /* a window that was closed may take the kernel 200 ms to open */
}

static void use_file(struct seat *t)
{
    unsigned char bytes[PIECE], got[PIECE + 1] = {0};
    fill(bytes, PIECE, t->random, 0);
    RIGHT(t, weft_write(t->number, bytes, PIECE, WEFT_FOREVER), ==, PIECE);
    RIGHT(t, weft_read(t->number, got, sizeof got, WEFT_FOREVER), ==, 0);
    RIGHT(t, lseek(t->number, 0, SEEK_SET), ==, 0);
    RIGHT(t, weft_read(t->number, got, sizeof got, WEFT_FOREVER), ==, PIECE);
    RIGHT(t, memcmp(got, bytes, PIECE), ==, 0);
    RIGHT(t, weft_wait_fd(t->number, POLLIN, WEFT_FOREVER), ==, -EPERM);
}

static void use_listener(struct seat *t)
{
    struct scene *s = t->scene;
    weft_time deadline = weft_in((weft_span)pick(&t->random, 500) * WEFT_US);
    int rc = weft_accept(t->number, NULL, NULL, SOCK_CLOEXEC, deadline);
    EXPECT(s, gave_up_rightly(s, rc, deadline));
    RIGHT(t, weft_wait_fd(t->number, POLLIN, WEFT_NOW), ==, -EAGAIN);
}

static void use_null(struct seat *t)
{
    unsigned char bytes[PIECE] = {0};
    RIGHT(t, weft_read(t->number, bytes, PIECE, WEFT_FOREVER), ==, 0);
    RIGHT(t, weft_write(t->number, bytes, PIECE, WEFT_FOREVER), ==, PIECE);
}

/* Writes to a socket whose other end has gone. */
static void write_to_nobody(struct seat *t)
{
    struct scene *s = t->scene;
    unsigned char bytes[PIECE] = {0};
    int *other = t->reads ? &t->ends.b : &t->ends.a;
    int signals = signals_of_pipes();
    EXPECT_INT(s, weft_close(*other), ==, 0);
    *other = -1;
    for (unsigned i = 2 + pick(&t->random, 2); i > 0; i--) {
        weft_time deadline = weft_in(2 * WEFT_MS); /* a child of the process may have the other end still */
        ptrdiff_t n = weft_write(t->number, bytes, PIECE, deadline);
        bool gone = n == -EPIPE || n == -ECONNRESET || n == -ECONNREFUSED || n == -ENOTCONN;
        if (n <= 0 && !gone && !gave_up_rightly(s, n, deadline))
            WRONG(s, "a write to a socket whose other end has gone: %td;%s", n, t->what);
    }
    if (signals_of_pipes() != signals)
        WRONG(s, "SIGPIPE, and a socket was written to:%s", t->what);
}

static weft_span use(struct seat *t)
{
    weft_span late = 0;
    switch (t->ends.kind) {
    case REGULAR:
        use_file(t);
        break;
    case LISTENER:
        use_listener(t);
        break;
    case NULL_DEVICE:
        use_null(t);
        break;
    default:
        late = t->reads ? read_from(t) : write_to(t);
    }
    did(t->scene);
    return late;
}

/* ---- coming and going ---- */

/* The next one comes: to the number, which is free, or from the hands of the one before by dup2. */
static void take_seat(struct seat *t, enum kind k, bool replaces, bool announced)
{
    struct ends next = make_ends(t->scene, k, &t->random);
    bool reads = next.b < 0 || chance(&t->random, 2);
    int *fd = reads ? &next.a : &next.b;
    if (replaces) {
        bool known = announced && weft_closing((unsigned)t->number, (unsigned)t->number);
        EXPECT_INT(t->scene, dup3(*fd, t->number, O_CLOEXEC), ==, t->number);
        if (known)
            weft_closed((unsigned)t->number, (unsigned)t->number);
        EXPECT_INT(t->scene, weft_close(*fd), ==, 0);
        *fd = t->number;
    } else {
        move_to(t->scene, fd, t->number);
    }
    int other = t->reads ? t->ends.b : t->ends.a;
    if (replaces && other >= 0) /* of the one before */
        EXPECT_INT(t->scene, weft_close(other), ==, 0);
    t->ends = next;
    t->reads = reads;
    note(t, " a ", kind_names[k], reads ? " to read," : " to write,");
}

static void leave_seat(struct seat *t, enum leave how)
{
    struct scene *s = t->scene;
    unsigned number = (unsigned)t->number;
    struct waiter *w = NULL;
    if (how == BY_DUP || how == BY_DUP_ANNOUNCED)
        return; /* the next one pushes it out */
    if (how == BY_WEFT_CLOSE) {
        EXPECT_INT(s, weft_close(t->number), ==, 0);
        if (chance(&t->random, 2))
            EXPECT_INT(s, weft_close(t->number), ==, -EBADF); /* nobody else can have got it */
    } else if (how == BY_CLOSE) {
        EXPECT_INT(s, close(t->number), ==, 0);
    } else {
        if (t->reads && t->ends.b >= 0 && chance(&t->random, 3))
            w = begin_wait(t, t->number, false, PIECE);
        bool known = weft_closing(number, number);
        EXPECT_INT(s, close(t->number), ==, 0);
        if (known)
            weft_closed(number, number);
        if (w) {
            AWAIT(seen(&w->over));
            RIGHT(t, w->n, ==, -EBADF);
            end_wait(w, 0);
        }
    }
    *(t->reads ? &t->ends.a : &t->ends.b) = -1;
    close_ends(s, &t->ends);
}

/*
 * Some sit on the number one after another; the last is measured, on the number or, as a control, on a fresh one. All choices
 * come from `random`. Returns how late the last one was; 0 if that says nothing.
 */
static weft_span swap(struct scene *s, uint64_t random, bool control, char *what)
{
    static const char *const ways[LEAVES] = {"weft_close", "close, announced", "close", "dup2, announced", "dup2"};
    struct seat t = {.scene = s, .number = s->numbers + (int)pick(&random, PRIVATE_NUMBERS), .random = random};
    enum leave how = BY_WEFT_CLOSE;
    weft_span late = 0;
    for (unsigned left = 2 + pick(&t.random, 3); left > 0; left--) {
        enum kind k = (enum kind)pick(&t.random, KINDS);
        bool told = how != BY_CLOSE && how != BY_DUP;
        if (control && left == 1) {
            if (how == BY_DUP || how == BY_DUP_ANNOUNCED)
                leave_seat(&t, BY_WEFT_CLOSE);
            else if (weft_closing((unsigned)t.number, (unsigned)t.number))
                weft_closed((unsigned)t.number, (unsigned)t.number); /* forgotten, as if weft_close had closed it */
            t.number = s->numbers + PRIVATE_NUMBERS - 1 - (t.number - s->numbers);
            how = BY_WEFT_CLOSE;
        }
        take_seat(&t, k, how == BY_DUP || how == BY_DUP_ANNOUNCED, how == BY_DUP_ANNOUNCED);
        late = use(&t);
        if (!told) /* of a number that was left without a word a wait may be verified late */
            late = 0;
        if (is_socket(k) && k != LISTENER && chance(&t.random, 3))
            write_to_nobody(&t);
        how = left == 1 ? BY_WEFT_CLOSE : (enum leave)pick(&t.random, LEAVES);
        note(&t, " (", ways[how], ")");
        leave_seat(&t, how);
    }
    memcpy(what, t.what, sizeof t.what);
    return late;
}

void step_swap(struct scene *s)
{
    char what[sizeof((struct seat *)NULL)->what];
    uint64_t random = new_random(&s->random);
    if (swap(s, random, false, what) < LATE)
        return;
    int late = 0, control = 0;
    for (int i = 0; i < TRIES; i++) {
        late += swap(s, random, false, what) >= LATE;
        control += swap(s, random, true, what) >= LATE;
    }
    if (late >= TRIES - 1 && control <= 1)
        WRONG(s, "late %d times of %d, and %d times under a fresh number:%s", late, TRIES, control, what);
}
