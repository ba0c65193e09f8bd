/*
 * combine/scopes.c: scopes whose children wait for everything there is, while they fail, are cancelled, stopped and
 * timed out. No child outlives the close, no deadline comes early, every handler runs once, a cancelled read takes no
 * byte, and the result of a scope is the cause of its end.
 */
#include "stress/combine/combine.h"

enum { MOST_CHILDREN = 12, DEEPEST = 3 };

struct nest {
    struct scene *scene;
    weft_scope *scope;
    int64_t due;     /* const: its deadline; INT64_MAX: none */
    uint64_t random; /* owner: the fiber that opened it, until children are started */
    unsigned depth;
    int alive;             /* children that have begun and not ended. counted */
    int failed;            /* a child has failed. flag */
    int told;              /* somebody has called weft_scope_cancel or weft_scope_stop. flag */
    int deferred, cleaned; /* counted */
    uint64_t seeds[MOST_CHILDREN];
    unsigned next; /* counted: which seed is next */
};

static int open_nest(struct scene *s, uint64_t *random, unsigned depth);

static void clean(void *arg)
{
    more(&((struct nest *)arg)->cleaned);
}

/* A read of a byte that is there, or not: a cancelled one takes nothing. */
static int read_byte(struct scene *s, uint64_t *random)
{
    struct ends e = make_ends(s, chance(random, 2) ? PIPE : UNIX_STREAM, random);
    bool there = chance(random, 2);
    char byte = 'x';
    if (there)
        EXPECT_INT(s, weft_write(e.b, &byte, 1, WEFT_NOW), ==, 1);
    ptrdiff_t n = weft_read(e.a, &byte, 1, there ? WEFT_FOREVER : weft_in(500 * WEFT_US));
    EXPECT(s, n == 1 || n == -ECANCELED || (!there && n == -ETIMEDOUT));
    if (n == -ECANCELED && there)
        EXPECT_INT(s, weft_read(e.a, &byte, 1, WEFT_NOW), ==, 1);
    close_ends(s, &e);
    return n == -ECANCELED ? -ECANCELED : 0;
}

static void *helped(void *arg)
{
    return arg;
}

/* What a child does: 0, -ECANCELED or an error of its own. */
static int act(struct nest *n, uint64_t *random)
{
    struct scene *s = n->scene;
    int rc = 0;
    switch (pick(random, 10)) {
    case 0:
        put(&n->failed, 1);
        return -EIO;
    case 1:
        put(&n->told, 1);
        EXPECT_INT(s, weft_scope_cancel(n->scope, -EINTR, "by a child"), ==, 0);
        return 0;
    case 2:
        put(&n->told, 1);
        EXPECT_INT(s, weft_scope_stop(n->scope, (weft_span)pick(random, 500) * WEFT_US), ==, 0);
        return 0;
    case 3:
        return read_byte(s, random);
    case 4:
        rc = weft_offload(helped, NULL, NULL, WEFT_FOREVER);
        return rc == -EAGAIN ? 0 : rc;
    case 5:
        if (weft_defer(clean, n) == 0)
            more(&n->deferred);
        return weft_sleep((weft_span)pick(random, 300) * WEFT_US);
    case 6:
        return weft_event_wait(weft_stop_event(), weft_in(300 * WEFT_US)) == -ECANCELED ? -ECANCELED : 0;
    case 7:
        return n->depth < DEEPEST ? open_nest(s, random, n->depth + 1) : 0;
    default:
        nap(s, random, weft_cancelled() ? 1 : 200);
        return 0;
    }
}

static int child(void *arg)
{
    struct nest *n = arg;
    unsigned i = __atomic_fetch_add(&n->next, 1, __ATOMIC_ACQ_REL);
    uint64_t random = n->seeds[i];
    more(&n->alive);
    int rc = act(n, &random);
    if (rc < 0 && rc != -ECANCELED)
        put(&n->failed, 1);
    did(n->scene);
    __atomic_sub_fetch(&n->alive, 1, __ATOMIC_ACQ_REL);
    return rc;
}

static void check_result(struct nest *n, int rc)
{
    struct scene *s = n->scene;
    if (rc == -ETIMEDOUT)
        EXPECT_INT(s, weft_now().ns, >=, n->due);
    else if (rc == -ECANCELED)
        EXPECT(s, seen(&n->told) || weft_cancelled() || seen(&n->failed));
    else if (rc < 0 && rc != -ENOENT)
        EXPECT(s, seen(&n->failed));
}

/* Opens a scope with random options, starts children in it, and closes it. Its result, for the scope around it. */
static int open_nest(struct scene *s, uint64_t *random, unsigned depth) // NOLINT(misc-no-recursion)
{
    static const weft_scope_policy *const policies[] = {&weft_until_failure, &weft_until_success, &weft_until_all};
    struct nest *n = calloc(1, sizeof *n);
    weft_scope_opts o = {.name = "combine", .policy = policies[pick(random, 3)], .at_once = pick(random, 4)};
    *n = (struct nest){.scene = s, .due = INT64_MAX, .depth = depth};
    for (unsigned i = 0; i < MOST_CHILDREN; i++)
        n->seeds[i] = new_random(random);
    if (chance(random, 2)) {
        o.deadline = weft_in((weft_span)pick(random, 1500) * WEFT_US);
        n->due = o.deadline.ns;
    }
    EXPECT_INT(s, weft_scope_new(&n->scope, &o), ==, 0); /* the fiber may be on a shared stack */
    for (unsigned i = 1 + pick(random, MOST_CHILDREN - 1); i > 0; i--) {
        int rc = weft_scope_go(n->scope, child, n);
        EXPECT(s, rc == 0 || rc == -ECANCELED);
        if (rc != 0)
            break;
    }
    int rc = 0;
    if (!chance(random, 4)) {
        rc = weft_scope_wait(n->scope);
        check_result(n, rc);
    }
    rc = weft_scope_free(n->scope);
    EXPECT_INT(s, seen(&n->alive), ==, 0);
    EXPECT_INT(s, seen(&n->deferred), ==, seen(&n->cleaned));
    check_result(n, rc);
    free(n);
    did(s);
    return weft_cancelled() ? -ECANCELED : rc == -ECANCELED ? 0 : rc < 0 ? -EIO : 0;
}

struct opener {
    struct scene *scene;
    uint64_t random;
};

static void *opens(void *arg)
{
    struct opener *o = arg;
    open_nest(o->scene, &o->random, 0);
    return NULL;
}

void step_scopes(struct scene *s)
{
    struct opener *o = malloc(sizeof *o);
    weft_fiber *f = NULL;
    *o = (struct opener){s, new_random(&s->random)};
    start(s, &f, &s->random, opens, o);
    if (chance(&s->random, 3)) {
        nap(s, &s->random, 500);
        int rc = weft_cancel(f);
        EXPECT(s, rc == 0 || rc == -ESRCH);
    }
    ended(s, f);
    free(o);
}
