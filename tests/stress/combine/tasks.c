/*
 * combine/tasks.c: tasks on executors of every kind, that await each other, fail, are cancelled, and are freed before
 * or after their end, while executors are closed and freed around them. A function runs at most once, each callback is
 * called exactly once and in order, each value is destroyed or taken exactly once, no await gives up early, and all
 * that is told of a task's result agrees. A play that is not rough cancels nothing: then every task must run.
 *
 * A task awaits only tasks that were started before it, so there are no rings. The handle of a private job is used only
 * by the fiber that started it, and by its callbacks.
 */
#include <stdio.h>

#include "stress/combine/jobs.h"

/* ---- jobs that nobody else uses ---- */

static void looks(const weft_error *error, void *arg)
{
    (void)error, (void)arg; /* else a debug build says that nobody has looked at the failure */
}

/* The last callback of a private job. */
static void ends_private(void *arg)
{
    struct job *j = arg;
    check_reactions(j, seen(&j->runs) ? seen(&j->returned) : -ECANCELED);
    if (!j->frees_early)
        weft_task_free(j->task);
    put(&j->over, 1);
}

/* ---- a play ---- */

struct meddler {
    struct play *play;
    uint64_t random;
    int over; /* flag */
};

static void *meddles(void *arg)
{
    struct meddler *m = arg;
    for (unsigned n = pick(&m->random, 12); n > 0; n--)
        meddle(m->play, &m->random, m->play->jobs_count);
    put(&m->over, 1);
    return NULL;
}

static void start_job(struct play *p, unsigned i)
{
    struct scene *s = p->scene;
    struct job *j = &p->jobs[i];
    *j = (struct job){.play = p, .index = i, .random = new_random(&s->random), .is_private = chance(&s->random, 4)};
    j->frees_early = chance(&s->random, 2);
    j->place = &p->places[pick(&s->random, p->places_count)];
    j->in_scope = p->scope && chance(&s->random, 2);
    if (chance(&s->random, 2))
        snprintf(j->name, sizeof j->name, "job%u", i);
    bool owns = chance(&s->random, 12);
    if (owns) {
        make_place(s, &j->own, false);
        owns = j->own.x != NULL;
        j->place = &j->own;
    }
    weft_attr attr = attr_of_place(j->place, &s->random);
    weft_task_opts o = {.name = j->name[0] ? j->name : NULL, .on = j->place->x, .owns_executor = owns};
    o.destroy = destroy_token;
    o.scope = j->in_scope ? p->scope : NULL;
    o.attr = chance(&s->random, 3) ? &attr : NULL;
    int rc = weft_task_start(&j->task, run_job, j, &o);
    if (rc != 0) {
        EXPECT(s, (rc == -ESHUTDOWN && seen(&j->place->closed)) || (o.scope && (rc == -ECANCELED || rc == -EAGAIN)));
        EXPECT(s, j->task == NULL);
        if (owns)
            end_place(&j->own);
        return;
    }
    for (unsigned n = pick(&s->random, MOST_REACTIONS); n > 0; n--)
        add_reaction(j, &s->random);
    if (j->is_private) {
        weft_task *t = j->task; /* its last callback may free it in that call */
        weft_task_catching(t, looks, NULL);
        weft_task_finally(t, ends_private, j);
        if (j->frees_early)
            weft_task_free(t);
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void check_message(const struct job *j, const weft_error *e)
{
    struct scene *s = j->play->scene;
    char text[64];
    weft_error cause = {.message = ""};
    if (e->code == 0)
        EXPECT(s, *e->message == '\0');
    if (e->code != -EIO)
        return;
    snprintf(text, sizeof text, "%s%sjob %u broke", j->name, j->name[0] ? ": " : "", j->index);
    if (j->blamed)
        EXPECT_INT(s, weft_task_error(j->blamed->task, &cause), ==, 0);
    if (j->blamed ? !ends_with(e->message, cause.message) : strcmp(e->message, text) != 0)
        WRONG(s, "the message is \"%s\", not \"%s\"", e->message, j->blamed ? cause.message : text);
}

/* Everything about a public job that has ended; nobody else uses it any more. */
static void check_job(struct job *j, uint64_t *random)
{
    struct scene *s = j->play->scene;
    weft_error e = {.code = 1, .message = ""};
    EXPECT_INT(s, weft_task_error(j->task, &e), ==, 0);
    EXPECT_INT(s, e.code, ==, seen(&j->runs) ? seen(&j->returned) : -ECANCELED);
    EXPECT(s, j->play->rough || (seen(&j->runs) == 1 && e.code != -ECANCELED));
    check_message(j, &e);
    while (j->count < MOST_REACTIONS && chance(random, 3))
        add_reaction(j, random); /* called at once */
    check_reactions(j, e.code);
    EXPECT_INT(s, weft_task_cancel(j->task), ==, -ESRCH);
    if (chance(random, 2))
        take_token(j);
}

static void close_scope(struct play *p)
{
    struct scene *s = p->scene;
    weft_error e;
    if (!p->scope)
        return;
    if (chance(&s->random, 2))
        weft_scope_wait(p->scope);
    int rc = weft_scope_free(p->scope);
    EXPECT(s, rc == 0 || rc == -EIO || rc == -ECANCELED || rc == -ETIMEDOUT);
    for (unsigned i = 0; i < p->jobs_count; i++) {
        const struct job *j = &p->jobs[i];
        if (j->in_scope && j->task && !j->is_private)
            EXPECT_INT(s, weft_task_error(j->task, &e), ==, 0);
        else if (j->in_scope && j->task)
            EXPECT(s, seen(&j->over));
    }
}

static void open_scope(struct play *p)
{
    uint64_t *random = &p->scene->random;
    weft_scope_opts o = {.policy = chance(random, 2) ? &weft_until_failure : &weft_until_all};
    o.at_once = chance(random, 3) ? 1 + pick(random, 6) : 0;
    if (chance(random, 3))
        o.deadline = weft_in((weft_span)pick(random, 1500) * WEFT_US);
    EXPECT_INT(p->scene, weft_scope_new(&p->scope, &o), ==, 0);
}

static void await_all(struct play *p)
{
    for (unsigned i = 0; i < p->jobs_count; i++) {
        struct job *j = &p->jobs[i];
        if (j->task && j->is_private)
            AWAIT(seen(&j->over));
        else if (j->task)
            weft_task_await(j->task, NULL, WEFT_FOREVER);
        did(p->scene);
    }
    AWAIT(seen(&p->subs) == 0);
}

static void end_play(struct play *p)
{
    struct scene *s = p->scene;
    for (unsigned i = 0; i < p->jobs_count; i++) {
        if (p->jobs[i].task && !p->jobs[i].is_private)
            check_job(&p->jobs[i], &s->random);
    }
    for (unsigned i = 0; i < p->jobs_count; i++) {
        struct job *j = &p->jobs[i];
        if (j->task && !j->is_private)
            weft_task_free(j->task);
        AWAIT(seen(&j->destroyed) + seen(&j->taken) >= seen(&j->made));
        EXPECT_INT(s, seen(&j->destroyed) + seen(&j->taken), ==, seen(&j->made));
        if (j->own.scene)
            await_place(&j->own);
    }
    for (unsigned i = 0; i < p->places_count; i++)
        end_place(&p->places[i]);
}

void step_tasks(struct scene *s)
{
    struct play *p = calloc(1, sizeof *p);
    struct meddler by_thread = {p, new_random(&s->random), 0}, *by_fiber = malloc(sizeof *by_fiber);
    weft_fiber *f = NULL;
    pthread_t thread = 0;
    p->scene = s;
    p->rough = !chance(&s->random, 3);
    p->places_count = 1 + pick(&s->random, MOST_PLACES);
    if (p->rough && chance(&s->random, 3))
        open_scope(p);
    p->may_drop = p->rough;
    for (unsigned i = 0; i < p->places_count; i++)
        make_place(s, &p->places[i], p->may_drop && chance(&s->random, 4));
    unsigned jobs = 1 + pick(&s->random, MOST_JOBS);
    while (p->jobs_count < jobs) {
        start_job(p, p->jobs_count);
        p->jobs_count++;
        if (chance(&s->random, 4))
            meddle(p, &s->random, p->jobs_count);
    }
    put(&p->all_started, 1);
    bool has_thread = chance(&s->random, 2), has_fiber = chance(&s->random, 2);
    *by_fiber = (struct meddler){p, new_random(&s->random), 0};
    if (has_thread)
        thread = new_thread(s, meddles, &by_thread);
    if (has_fiber)
        start(s, &f, &s->random, meddles, by_fiber);
    for (unsigned n = pick(&s->random, 6); n > 0; n--)
        meddle(p, &s->random, p->jobs_count);
    close_scope(p);
    for (unsigned i = 0; i < p->places_count; i++) {
        if (p->places[i].frees_itself && chance(&s->random, 2))
            free_place_in_call(&p->places[i]);
    }
    await_all(p);
    if (has_thread)
        join_thread(thread, &by_thread.over);
    if (has_fiber)
        ended(s, f);
    free(by_fiber);
    end_play(p);
    free(p);
}
