/*
 * No memory for the bytes on a shared stack: resume and transfer say -ENOMEM before anything has changed and work once
 * there is memory again; a yield, which could not say it, never needs any.
 */
#include <errno.h>

#include <weft/weft.h>

#include "base/sys.h"
#include "support/locals.h"
#include "support/test.h"

enum { EVERY = 1000000 };

static int shared_new(weft_coro **out, weft_stacks *pool, weft_fn *fn, void *arg)
{
    return weft_coro_new(out, fn, arg, &(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = pool});
}

typedef int switch_to(weft_coro *c, void *in, void **value);

/* Switches with the 1st, the 2nd ... allocation failing, until that many are not made any more. Returns what the switch
 * that went through said; *failed counts those that did not. */
static int insist(switch_to *how, weft_coro *c, void *in, void **value, unsigned *failed)
{
    weft_coro *self = weft_coro_current();
    void *untouched = *value;
    for (*failed = 0;; ++*failed) {
        wf_sys_fail(1u << WF_SYS_MALLOC, *failed + 1, 0);
        int rc = how(c, in, value);
        wf_sys_fail(0, 0, 0);
        if (rc != -ENOMEM)
            return rc;
        CHECK_PTR(*value, ==, untouched);
        CHECK_INT(weft_coro_state(c), ==, WEFT_CORO_READY);
        CHECK_PTR(weft_coro_current(), ==, self);
    }
}

/* Whenever it gets control, the switch went through and there is memory again. */
static void *yields_twice(void *arg)
{
    struct locals mine;
    wf_sys_fail(0, 0, 0);
    locals_fill(&mine, (uintptr_t)arg);
    for (int i = 0; i < 2; i++) {
        weft_coro_yield(arg);
        wf_sys_fail(0, 0, 0);
        CHECK(locals_intact(&mine, (uintptr_t)arg));
    }
    return arg;
}

/* A coroutine that insists on switching to another one. */
struct insistent {
    switch_to *how;
    weft_coro *self, *other;
    unsigned failed;
    int said;
};

static void *insists(void *arg)
{
    struct insistent *i = arg;
    struct locals mine;
    void *value = NULL;
    locals_fill(&mine, 1);
    i->said = insist(i->how, i->other, i, &value, &i->failed);
    CHECK(locals_intact(&mine, 1));
    return i;
}

static void *resumes_the_insistent(void *arg)
{
    struct insistent *i = arg;
    struct locals mine;
    void *value = NULL;
    locals_fill(&mine, 2);
    int rc = weft_coro_resume(i->self, NULL, &value);
    CHECK(locals_intact(&mine, 2));
    if (rc == 1) { /* it has transferred, and the other one has yielded */
        CHECK_PTR(value, ==, &i->other);
        CHECK_INT(weft_coro_resume(i->self, NULL, &value), ==, 0);
        CHECK(locals_intact(&mine, 2));
    }
    CHECK_PTR(value, ==, i);
    return NULL;
}

/* How many allocations a switch makes from a coroutine on `of_self` (NULL: private) to one on `s`, which was used
 * before or begins, under a resumer on s or by the thread. Checks all the rest. */
static unsigned allocations(switch_to *how, weft_stacks *s, bool resumer_on_s, weft_stacks *of_self, bool used_before)
{
    struct insistent i = {.how = how};
    struct wf_sys_held before = wf_sys_held();
    weft_coro *resumer = NULL, *between = NULL;
    void *value = NULL;
    CHECK_INT(shared_new(&i.other, s, yields_twice, &i.other), ==, 0);
    CHECK_INT(shared_new(&i.self, of_self, insists, &i), ==, 0);
    CHECK_INT(shared_new(&resumer, s, resumes_the_insistent, &i), ==, 0);
    CHECK_INT(shared_new(&between, s, yields_twice, &between), ==, 0);
    if (used_before) { /* the other one has bytes, and they are elsewhere */
        CHECK_INT(weft_coro_resume(i.other, NULL, NULL), ==, 1);
        CHECK_INT(weft_coro_resume(between, NULL, NULL), ==, 1);
    }
    if (resumer_on_s) {
        CHECK_INT(weft_coro_resume(resumer, NULL, NULL), ==, 0);
    } else if (weft_coro_resume(i.self, NULL, &value) == 1) {
        CHECK_PTR(value, ==, &i.other);
        CHECK_INT(weft_coro_resume(i.self, NULL, &value), ==, 0);
    }
    CHECK_INT(i.said, ==, 1);
    CHECK_INT(weft_coro_state(i.self), ==, WEFT_CORO_DONE);
    CHECK_INT(weft_coro_resume(i.other, NULL, &value), ==, used_before ? 0 : 1);
    CHECK_PTR(value, ==, &i.other);
    CHECK_INT(weft_coro_free(i.other), ==, 0);
    CHECK_INT(weft_coro_free(i.self), ==, 0);
    CHECK_INT(weft_coro_free(resumer), ==, 0);
    CHECK_INT(weft_coro_free(between), ==, 0);
    CHECK_INT(wf_sys_held().n, ==, before.n);
    CHECK_INT(wf_sys_held().bytes, ==, before.bytes);
    return i.failed;
}

/* The thread's cache is there, so that it is not taken for a leak. */
static void warm_up(void)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, yields_twice, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(resume_without_memory_is_enomem_and_changes_nothing)
{
    weft_stacks *s, *t;
    warm_up();
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0 && weft_stacks_new(&t, 1, 0) == 0);
    for (int used = 0; used < 2; used++) {
        CHECK_INT(allocations(weft_coro_resume, s, false, s, used), ==, 2);       /* itself, and the other's return */
        CHECK_INT(allocations(weft_coro_resume, s, true, s, used), ==, 1);        /* it has its room already */
        CHECK_INT(allocations(weft_coro_resume, s, true, t, used), ==, 2);        /* the resumer, and the other */
        CHECK_INT(allocations(weft_coro_resume, s, true, NULL, used), ==, 2);     /* the same */
        CHECK_INT(allocations(weft_coro_resume, s, false, NULL, used), ==, used); /* the one between, if it is there */
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
    CHECK_INT(weft_stacks_free(t), ==, 0);
}

TEST(transfer_without_memory_is_enomem_and_changes_nothing)
{
    weft_stacks *s, *t;
    warm_up();
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0 && weft_stacks_new(&t, 1, 0) == 0);
    for (int used = 0; used < 2; used++) {
        CHECK_INT(allocations(weft_coro_transfer, s, false, s, used), ==, 1);       /* itself */
        CHECK_INT(allocations(weft_coro_transfer, s, true, s, used), ==, 1);        /* the other, for its yield */
        CHECK_INT(allocations(weft_coro_transfer, s, true, t, used), ==, 2);        /* the resumer, and the other */
        CHECK_INT(allocations(weft_coro_transfer, s, true, NULL, used), ==, 2);     /* the same */
        CHECK_INT(allocations(weft_coro_transfer, s, false, NULL, used), ==, used); /* the one between */
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
    CHECK_INT(weft_stacks_free(t), ==, 0);
}

TEST(resume_by_the_thread_without_memory_leaves_who_is_there)
{
    weft_stacks *s;
    weft_coro *c, *d;
    void *value = NULL;
    unsigned failed;
    warm_up();
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    REQUIRE(shared_new(&c, s, yields_twice, &c) == 0);
    REQUIRE(shared_new(&d, s, yields_twice, &d) == 0);
    CHECK_INT(insist(weft_coro_resume, c, NULL, &value, &failed), ==, 1);
    CHECK_INT(failed, ==, 0); /* the stack is empty */
    CHECK_INT(insist(weft_coro_resume, d, NULL, &value, &failed), ==, 1);
    CHECK_PTR(value, ==, &d);
    CHECK_INT(failed, ==, 1);
    CHECK_INT(insist(weft_coro_resume, c, NULL, &value, &failed), ==, 1);
    CHECK_PTR(value, ==, &c);
    CHECK_INT(failed, ==, 1);
    CHECK_INT(insist(weft_coro_resume, d, NULL, &value, &failed), ==, 1);
    CHECK_INT(failed, ==, 0); /* the room of before does */
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(d), ==, 0);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

/* Three on one stack; the innermost uses most of it, and from then on there is no memory at all. */
struct chain {
    struct chain *next;
    weft_coro *c;
    bool private;
};

__attribute__((noinline)) static void fails_deep_down(unsigned levels)
{
    struct locals mine;
    locals_fill(&mine, levels);
    if (levels > 0) {
        fails_deep_down(levels - 1);
    } else {
        wf_sys_fail(1u << WF_SYS_MALLOC, 1, EVERY);
        weft_coro_yield(NULL);
    }
    CHECK(locals_intact(&mine, levels));
}

static void *goes_deep(void *arg)
{
    struct chain *chain = arg;
    struct locals mine;
    locals_fill(&mine, 5);
    if (chain->next)
        CHECK_INT(weft_coro_resume(chain->next->c, NULL, NULL), ==, 1);
    else
        fails_deep_down(12); /* 104 KiB */
    CHECK(locals_intact(&mine, 5));
    weft_coro_yield(NULL);
    CHECK(locals_intact(&mine, 5));
    return NULL;
}

TEST(yields_need_no_memory)
{
    struct chain chain[4] = {{.next = &chain[1]}, {.next = &chain[2], .private = true}, {.next = &chain[3]}, {0}};
    weft_stacks *s;
    REQUIRE(weft_stacks_new(&s, 1, 256 * 1024) == 0);
    for (int i = 0; i < 4; i++)
        REQUIRE(shared_new(&chain[i].c, chain[i].private ? NULL : s, goes_deep, &chain[i]) == 0);
    CHECK_INT(weft_coro_resume(chain[0].c, NULL, NULL), ==, 1);
    CHECK_INT(wf_sys_calls(), ==, 0); /* four yields, and none asked for memory */
    wf_sys_fail(0, 0, 0);
    CHECK_INT(weft_coro_resume(chain[3].c, NULL, NULL), ==, 1); /* all 104 KiB are there */
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_coro_resume(chain[i].c, NULL, NULL), ==, 0);
        CHECK_INT(weft_coro_free(chain[i].c), ==, 0);
    }
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TESTS(coro_copied_fault, resume_without_memory_is_enomem_and_changes_nothing,
      transfer_without_memory_is_enomem_and_changes_nothing, resume_by_the_thread_without_memory_leaves_who_is_there,
      yields_need_no_memory)
