/*
 * crowd.c: see crowd.h.
 */
#include "crowd.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

struct member {
    struct crowd *crowd;
    _Atomic uint64_t turns; /* its fiber writes, other threads read */
};

struct crowd {
    const char *address;
    crowd_turn *turn;
    void *arg;
    weft_waitgroup dialling, running;
    weft_event begun;
    atomic_bool ending;
    weft_once failure; /* makes `why` */
    char why[200];
    unsigned count;
    struct member members[];
};

/* What went wrong with a member. */
struct trouble {
    struct member *member;
    struct crowd_wrong wrong;
};

static void note(void *arg)
{
    const struct trouble *t = arg;
    struct crowd *crowd = t->member->crowd;
    ptrdiff_t rc = t->wrong.rc;
    snprintf(crowd->why, sizeof crowd->why, "client %d: %s%s%s", (int)(t->member - crowd->members), t->wrong.what,
             rc < 0 ? ": " : "", rc < 0 ? strerror((int)-rc) : "");
    atomic_store(&crowd->ending, true);
}

/* Reports what went wrong. Only the first report counts. */
static void give_up(struct member *m, struct crowd_wrong wrong)
{
    weft_once_do(&m->crowd->failure, note, &(struct trouble){m, wrong}, WEFT_FOREVER);
}

/* Ends the sending half, and checks that the server sends nothing more and closes. */
static void part(struct member *m, int fd)
{
    char more;
    weft_shutdown(fd, SHUT_WR);
    ptrdiff_t n = weft_read(fd, &more, 1, weft_in(CROWD_PATIENCE));
    if (n != 0)
        give_up(m, (struct crowd_wrong){n < 0 ? "the server does not end" : "more came back than was asked for", n});
}

static void take_turns(struct member *m, int fd)
{
    struct crowd *crowd = m->crowd;
    unsigned number = (unsigned)(m - crowd->members);
    struct crowd_wrong wrong;
    while (!atomic_load_explicit(&crowd->ending, memory_order_relaxed)) {
        if (!crowd->turn(crowd->arg, number, fd, &wrong)) {
            give_up(m, wrong);
            return;
        }
        atomic_fetch_add_explicit(&m->turns, 1, memory_order_relaxed);
    }
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    struct crowd *crowd = m->crowd;
    int fd = weft_dial(crowd->address, weft_in(CROWD_PATIENCE));
    if (fd < 0)
        give_up(m, (struct crowd_wrong){"cannot connect", fd});
    weft_waitgroup_done(&crowd->dialling);
    weft_event_wait(&crowd->begun, WEFT_FOREVER);
    if (fd >= 0) {
        take_turns(m, fd);
        part(m, fd);
        weft_close(fd);
    }
    weft_waitgroup_done(&crowd->running);
    return NULL;
}

struct crowd *crowd_new(const char *address, unsigned clients, crowd_turn *turn, void *arg)
{
    struct crowd *crowd = calloc(1, sizeof *crowd + clients * sizeof crowd->members[0]);
    if (!crowd)
        return NULL;
    crowd->address = address;
    crowd->turn = turn;
    crowd->arg = arg;
    crowd->count = clients;
    weft_waitgroup_add(&crowd->dialling, (int)clients);
    weft_waitgroup_add(&crowd->running, (int)clients);
    for (unsigned i = 0; i < clients; i++) {
        struct member *m = &crowd->members[i];
        m->crowd = crowd;
        int rc = weft_go(run_member, m);
        if (rc < 0) {
            give_up(m, (struct crowd_wrong){"no fiber", rc});
            weft_waitgroup_done(&crowd->dialling);
            weft_waitgroup_done(&crowd->running);
        }
    }
    weft_waitgroup_wait(&crowd->dialling, WEFT_FOREVER);
    return crowd;
}

void crowd_begin(struct crowd *crowd)
{
    weft_event_set(&crowd->begun);
}

uint64_t crowd_turns(const struct crowd *crowd)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < crowd->count; i++)
        sum += atomic_load_explicit(&crowd->members[i].turns, memory_order_relaxed);
    return sum;
}

bool crowd_failed(const struct crowd *crowd)
{
    return atomic_load(&crowd->ending);
}

bool crowd_end(struct crowd *crowd, char *why, unsigned size)
{
    atomic_store(&crowd->ending, true);
    crowd_begin(crowd);
    weft_waitgroup_wait(&crowd->running, WEFT_FOREVER);
    snprintf(why, size, "%s", crowd->why);
    free(crowd);
    return why[0] == '\0';
}
