/*
 * combine/jobs.h: the tasks of the scene of tasks. A job is a task and all that is known of it. A play is a set of jobs
 * and of places (places.h).
 */
#ifndef TESTS_STRESS_COMBINE_JOBS_H
#define TESTS_STRESS_COMBINE_JOBS_H

#include "stress/combine/combine.h"
#include "stress/combine/places.h"

enum { MOST_JOBS = 14, MOST_REACTIONS = 5, MOST_SET = 3 };

/* A callback of a job. */
struct reaction {
    struct job *job;
    enum { THEN, CATCHING, FINALLY } when;
    int index, calls; /* calls: counted */
    uint64_t random;  /* owner: the callback */
};

struct job {
    struct play *play;
    struct place *place, own; /* const. own: an executor that the task owns */
    unsigned index;
    uint64_t random;                  /* owner: the task */
    char name[16];                    /* const; empty: it has none */
    weft_task *task;                  /* const after its start; NULL: it was refused */
    bool is_private;                  /* const */
    bool frees_early;                 /* const: of a private job: its maker frees it, and not its last callback */
    bool in_scope;                    /* const */
    int runs, made, destroyed, taken; /* counted */
    int returned;                     /* what its function returned. atomic */
    const struct job *blamed;         /* whose failure it passed on. owner: the task, until its end */
    struct reaction reactions[MOST_REACTIONS];
    int count; /* of them. owner: the first fiber; const while others can look */
    int last;  /* index + 1 of the reaction that was called last. atomic */
    int over;  /* the last callback of a private job has done its work. flag */
};

struct play {
    struct scene *scene;
    bool rough;    /* const: tasks may be cancelled */
    bool may_drop; /* const: executors may be closed without drain while tasks run */
    struct place places[MOST_PLACES];
    unsigned places_count;
    struct job jobs[MOST_JOBS];
    unsigned jobs_count; /* owner: the first fiber; const once all are started */
    weft_scope *scope;   /* NULL: there is none */
    int all_started;     /* flag */
    int subs;            /* tasks of tasks that have not ended. counted */
};

/* The function of a job's task, and what destroys its value. */
int run_job(void *arg, void **value);
void destroy_token(void *value);
/* Takes the value if it is there to be taken: only of a job whose handle the caller may use. */
void take_token(struct job *j);
/* Adds a random callback. */
void add_reaction(struct job *j, uint64_t *random);
/* Checks the callbacks. The task has ended with this code, and the caller knows it by a call that orders the two. */
void check_reactions(const struct job *j, int code);
/* Does one random thing to the play's places or to its public jobs below an index. Any fiber or thread. */
void meddle(struct play *p, uint64_t *random, unsigned below);

#endif
