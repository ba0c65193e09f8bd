/*
 * combine/places.h: executors for the scene of tasks: one of every kind, how they are closed, freed and checked.
 */
#ifndef TESTS_STRESS_COMBINE_PLACES_H
#define TESTS_STRESS_COMBINE_PLACES_H

#include "stress/combine/combine.h"

enum { MOST_PLACES = 3 };

enum where { NOWHERE, NOOP, THREAD, ASYNC, LOOPER, SCHED, WORKER, PLACES }; /* NOWHERE: tasks name no executor */

struct place {
    struct scene *scene; /* const */
    enum where where;    /* const */
    weft_executor *x;    /* const; NULL: NOWHERE */
    struct home *home;   /* const: of SCHED, WORKER and NOWHERE */
    unsigned worker;     /* const: of WORKER */
    bool frees_itself;   /* const: it is freed inside itself, and nobody else closes or calls it */
    int closed, dropped; /* somebody is about to close it, or to close it without drain. flags */
    int claimed, freed;  /* somebody is to free it inside itself, or has. flags */
    int accepted, ran;   /* plain functions. counted */
    int exits;           /* of a looper: calls of at_exit. counted */
    int thread;          /* of a looper: the kernel's id of its thread; 0: not known yet. atomic */
};

/* Makes an executor of a random kind. */
void make_place(struct scene *s, struct place *at, bool frees_itself);
/* Random attributes for a task there, which the scene's first fiber starts. */
weft_attr attr_of_place(const struct place *at, uint64_t *random);
/* The caller is a task of this place: checks that it runs where it should. */
void check_place(struct place *at);
void close_place(struct place *at, bool drain);
/* Has the place call a plain function. */
void call_place(struct place *at);
/* Frees it inside itself, once: in the calling task of the place, or in a function that it is given. */
void free_place_in_task(struct place *at);
void free_place_in_call(struct place *at);
/* The last act: no task is left, and nobody else uses the place. Checks what it did. */
void end_place(struct place *at);
/* The same for an executor that a task has freed. */
void await_place(struct place *at);

#endif
