/*
 * combine/jobs.c: what the tasks of the scene of tasks do, their callbacks, and what others do to them; see jobs.h.
 */
#include "stress/combine/jobs.h"

/* ---- values ---- */

struct token {
    struct job *job;
};

void destroy_token(void *value)
{
    struct token *token = value;
    more(&token->job->destroyed);
    free(token);
}

void take_token(struct job *j)
{
    void *value = NULL;
    int rc = weft_task_take(j->task, &value);
    if (rc != 0) {
        EXPECT(j->play->scene, rc == -EALREADY || rc == -EAGAIN || rc == -EIO || rc == -ECANCELED);
        EXPECT(j->play->scene, value == NULL);
        return;
    }
    struct token *token = value;
    EXPECT(j->play->scene, token && token->job == j);
    EXPECT_INT(j->play->scene, more(&j->taken), ==, 1);
    free(token);
}

/* ---- callbacks ---- */

static void react(struct reaction *r)
{
    struct job *j = r->job;
    struct scene *s = j->play->scene;
    EXPECT_INT(s, more(&r->calls), ==, 1);
    EXPECT_INT(s, __atomic_exchange_n(&j->last, r->index + 1, __ATOMIC_ACQ_REL), <=, r->index);
    if (chance(&r->random, 8))
        take_token(j);
    if (chance(&r->random, 8)) {
        int rc = weft_task_await(j->task, NULL, WEFT_FOREVER); /* at once: it is the caller's own task */
        EXPECT(s, rc == (seen(&j->runs) ? seen(&j->returned) : -ECANCELED) || (rc == -ECANCELED && weft_cancelled()));
    }
    did(s);
}

static void on_success(void *value, void *arg)
{
    struct reaction *r = arg;
    struct job *j = r->job;
    EXPECT(j->play->scene, seen(&j->runs) == 1 && seen(&j->returned) == 0);
    EXPECT(j->play->scene, value ? ((struct token *)value)->job == j : seen(&j->taken) == 1);
    react(r);
}

static void on_failure(const weft_error *error, void *arg)
{
    struct reaction *r = arg;
    struct job *j = r->job;
    EXPECT_INT(j->play->scene, error->code, ==, seen(&j->runs) ? seen(&j->returned) : -ECANCELED);
    EXPECT(j->play->scene, *error->message);
    react(r);
}

static void on_end(void *arg)
{
    react(arg);
}

void add_reaction(struct job *j, uint64_t *random)
{
    struct reaction *r = &j->reactions[j->count];
    *r = (struct reaction){.job = j, .index = j->count, .random = new_random(random)};
    r->when = (int)pick(random, 3);
    j->count++;
    weft_task *t = r->when == THEN       ? weft_task_then(j->task, on_success, r)
                   : r->when == CATCHING ? weft_task_catching(j->task, on_failure, r)
                                         : weft_task_finally(j->task, on_end, r);
    EXPECT(j->play->scene, t == j->task);
}

void check_reactions(const struct job *j, int code)
{
    for (int i = 0; i < j->count; i++) {
        const struct reaction *r = &j->reactions[i];
        bool due = r->when == FINALLY || (r->when == THEN) == (code == 0);
        EXPECT_INT(j->play->scene, seen(&r->calls), ==, due);
    }
}

/* ---- what anybody may do to public jobs ---- */

/* A public job with an index below `below`; NULL: the choice fell on none. */
static struct job *some_job(struct play *p, uint64_t *random, unsigned below)
{
    struct job *j = below ? &p->jobs[pick(random, below)] : NULL;
    return j && j->task && !j->is_private ? j : NULL;
}

static void check_end(const struct job *j, int code)
{
    EXPECT_INT(j->play->scene, seen(&j->runs), ==, 1);
    EXPECT_INT(j->play->scene, seen(&j->returned), ==, code);
    check_reactions(j, code);
}

/* Whether a wait for these jobs may have returned -ECANCELED: the caller is cancelled, or such a job is. */
static void check_cancelled(struct play *p, struct job *const *set, unsigned n)
{
    bool is = weft_cancelled();
    weft_error e;
    for (unsigned i = 0; i < n; i++)
        is |= weft_task_error(set[i]->task, &e) == 0 && e.code == -ECANCELED;
    EXPECT(p->scene, p->rough && is);
}

static int await_job(struct job *j, uint64_t *random)
{
    struct play *p = j->play;
    weft_time deadline = some_deadline(random);
    void *value = p;
    int rc = weft_task_await(j->task, chance(random, 2) ? &value : NULL, deadline);
    if (rc == 0 || rc == -EIO)
        check_end(j, rc);
    else if (rc == -ECANCELED)
        check_cancelled(p, &j, 1);
    else if (!gave_up_rightly(p->scene, rc, deadline))
        WRONG(p->scene, "weft_task_await: %d", rc);
    if (rc != 0)
        EXPECT(p->scene, value == p);
    did(p->scene);
    return rc;
}

static void await_set(struct play *p, uint64_t *random, unsigned below)
{
    struct job *set[MOST_SET];
    weft_task *tasks[MOST_SET];
    unsigned n = 0, how = pick(random, 3);
    for (unsigned i = 0; i < MOST_SET; i++) {
        if ((set[n] = some_job(p, random, below)) != NULL) {
            tasks[n] = set[n]->task;
            n++;
        }
    }
    if (n == 0)
        return;
    weft_time deadline = some_deadline(random);
    int rc = how == 0   ? weft_task_all(tasks, n, deadline)
             : how == 1 ? weft_task_any(tasks, n, deadline)
                        : weft_task_race(tasks, n, deadline);
    weft_error e = {.code = 1};
    if (rc >= 0 && how == 0) {
        EXPECT_INT(p->scene, rc, ==, 0);
        for (unsigned i = 0; i < n; i++)
            check_end(set[i], 0);
    } else if (rc >= 0) {
        EXPECT_INT(p->scene, rc, <, n);
        EXPECT_INT(p->scene, weft_task_error(tasks[rc], &e), ==, 0);
        EXPECT(p->scene, how == 2 || e.code == 0);
    } else if (rc == -ECANCELED) {
        check_cancelled(p, set, n);
    } else if (rc == -EIO) {
        EXPECT(p->scene, how != 2);
    } else if (!gave_up_rightly(p->scene, rc, deadline)) {
        WRONG(p->scene, "a wait for several tasks: %d", rc);
    }
    did(p->scene);
}

static void cancel_job(struct job *j)
{
    int rc = weft_task_cancel(j->task);
    EXPECT(j->play->scene, rc == 0 || rc == -ESRCH);
}

void meddle(struct play *p, uint64_t *random, unsigned below)
{
    struct job *j = some_job(p, random, below);
    struct place *at = &p->places[pick(random, p->places_count)];
    switch (pick(random, 8)) {
    case 0:
    case 1:
        if (j && p->rough)
            cancel_job(j);
        break;
    case 2:
        if (j)
            await_job(j, random);
        break;
    case 3:
        await_set(p, random, below);
        break;
    case 4:
        if (chance(random, 6) && !at->frees_itself)
            close_place(at, !p->may_drop || chance(random, 2));
        break;
    case 5:
        if (!at->frees_itself)
            call_place(at);
        break;
    case 6:
        if (j)
            take_token(j);
        break;
    default:
        nap(p->scene, random, 200);
        break;
    }
}

/* ---- what a task does ---- */

/* A task of a task. It never fails by itself, and its last callback frees this. */
struct sub {
    struct play *play;
    uint64_t random;
    int runs; /* counted */
};

static int runs_sub(void *arg, void **value)
{
    struct sub *sub = arg;
    EXPECT_INT(sub->play->scene, more(&sub->runs), ==, 1);
    nap(sub->play->scene, &sub->random, 200);
    *value = sub->play;
    return 0;
}

static void ends_sub(void *arg)
{
    struct sub *sub = arg;
    struct play *p = sub->play;
    free(sub);
    __atomic_sub_fetch(&p->subs, 1, __ATOMIC_ACQ_REL);
}

static void use_sub(struct job *j)
{
    struct play *p = j->play;
    struct place *at = &p->places[pick(&j->random, p->places_count)];
    weft_task *t = NULL;
    struct sub *sub = malloc(sizeof *sub);
    *sub = (struct sub){.play = p, .random = new_random(&j->random)};
    weft_task_opts o = {.on = at->frees_itself ? NULL : at->x, .scope = j->in_scope ? p->scope : NULL};
    more(&p->subs);
    int rc = weft_task_start(&t, runs_sub, sub, &o);
    if (rc != 0) {
        EXPECT(p->scene, (rc == -ESHUTDOWN && seen(&at->closed)) || (o.scope && (rc == -ECANCELED || rc == -EAGAIN)));
        ends_sub(sub);
        return;
    }
    weft_task_finally(t, ends_sub, sub);
    weft_time deadline = some_deadline(&j->random);
    void *value = NULL;
    rc = weft_task_await(t, &value, deadline);
    if (rc == 0)
        EXPECT(p->scene, value == p);
    else if (rc == -ECANCELED)
        EXPECT(p->scene, p->rough);
    else
        EXPECT(p->scene, gave_up_rightly(p->scene, rc, deadline));
    weft_task_free(t);
}

/* 0, -EIO or -ECANCELED: what the task is to return; 0: it may do more. */
static int act(struct job *j)
{
    struct play *p = j->play;
    struct job *earlier = some_job(p, &j->random, j->index);
    switch (pick(&j->random, 10)) {
    case 0:
        return weft_fail(-EIO, "job %u broke", j->index);
    case 1:
    case 2:
    case 3: {
        int rc = earlier ? await_job(earlier, &j->random) : 0;
        if (rc == -EIO && chance(&j->random, 2)) {
            j->blamed = earlier;
            return rc;
        }
        return rc == -ECANCELED && chance(&j->random, 2) ? rc : 0;
    }
    case 4:
        use_sub(j);
        return 0;
    case 5:
        await_set(p, &j->random, j->index);
        return 0;
    case 6:
        if (earlier && p->rough && chance(&j->random, 3))
            cancel_job(earlier);
        return 0;
    case 7:
        if (j->place->frees_itself && seen(&p->all_started))
            free_place_in_task(j->place);
        return 0;
    default:
        nap(p->scene, &j->random, 300);
        return weft_cancelled() && chance(&j->random, 2) ? -ECANCELED : 0;
    }
}

int run_job(void *arg, void **value)
{
    struct job *j = arg;
    struct scene *s = j->play->scene;
    weft_task *me = weft_task_current();
    EXPECT(s, me != NULL);
    EXPECT_INT(s, more(&j->runs), ==, 1);
    check_place(j->place);
    int rc = 0;
    for (unsigned n = pick(&j->random, 4); n > 0 && rc == 0; n--) {
        rc = act(j);
        check_place(j->place);
        EXPECT(s, weft_task_current() == me);
    }
    *value = j; /* of a task that fails it is not looked at */
    if (rc == 0) {
        struct token *token = malloc(sizeof *token);
        token->job = j;
        more(&j->made);
        *value = token;
    }
    did(s);
    put(&j->returned, rc);
    return rc;
}
