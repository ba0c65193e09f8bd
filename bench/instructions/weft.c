/*
 * weft.c: the operations of libweft.so.
 */
#include <unistd.h>

#include "integration/deadline/pingpong.h"
#include "operation.h"
#include <weft/chan.h>
#include <weft/scope.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/timer.h>

/* yield */

static void *yields(void *arg)
{
    for (int i = *(int *)arg; i > 0; i--)
        weft_yield();
    return NULL;
}

static void run_yield(int turns)
{
    weft_fiber *other = spawn(yields, &turns);
    yields(&turns);
    join(other);
}

/* spawn-join */

static void *nothing(void *arg)
{
    return arg;
}

static void run_spawn_join(int turns)
{
    for (int i = 0; i < turns; i++)
        join(spawn(nothing, NULL));
}

/* scope */

/* Children of one scope, so that opening and closing it hardly count. */
enum { CHILDREN_AT_ONCE = 100 };

static int succeeds(void *arg)
{
    (void)arg;
    return 0;
}

static void run_scope_child(int turns)
{
    for (int started = 0; started < turns; started += CHILDREN_AT_ONCE) {
        weft_scope scope = {0};
        must(weft_scope_open(&scope, NULL) == 0, "weft_scope_open");
        for (int i = 0; i < CHILDREN_AT_ONCE; i++)
            must(weft_scope_go(&scope, succeeds, NULL) == 0, "weft_scope_go");
        must(weft_scope_wait(&scope) == 0 && weft_scope_close(&scope) == 0, "weft_scope_close");
    }
}

static void run_scope_open(int turns)
{
    for (int i = 0; i < turns; i++) {
        weft_scope scope = {0};
        must(weft_scope_open(&scope, NULL) == 0 && weft_scope_close(&scope) == 0, "weft_scope");
    }
}

/* task */

static int gives_value(void *arg, void **value)
{
    *value = arg;
    return 0;
}

static void run_task(int turns)
{
    for (int i = 0; i < turns; i++) {
        weft_task *t;
        void *value;
        must(weft_task_start(&t, gives_value, &value, NULL) == 0, "weft_task_start");
        must(weft_task_await(t, &value, WEFT_FOREVER) == 0 && value == &value, "weft_task_await");
        weft_task_free(t);
    }
}

/* chan */

struct flow {
    weft_chan *chan;
    int turns;
};

static void *receives(void *arg)
{
    const struct flow *flow = arg;
    for (int i = 0, value; i < flow->turns; i++)
        must(weft_chan_recv(flow->chan, &value, WEFT_FOREVER) == 0 && value == i, "weft_chan_recv");
    return NULL;
}

static void send_all(int turns, size_t capacity)
{
    struct flow flow = {.turns = turns};
    must(weft_chan_new(&flow.chan, sizeof(int), capacity) == 0, "weft_chan_new");
    weft_fiber *receiver = spawn(receives, &flow);
    for (int i = 0; i < turns; i++)
        must(weft_chan_send(flow.chan, &i, WEFT_FOREVER) == 0, "weft_chan_send");
    join(receiver);
    weft_chan_free(flow.chan);
}

static void run_chan(int turns)
{
    send_all(turns, 0);
}

static int receives_as_child(void *flow)
{
    receives(flow);
    return 0;
}

/* As run_chan, but the sender has a scope with a deadline open, and the receiver is its child. */
static void run_chan_scope(int turns)
{
    struct flow flow = {.turns = turns};
    weft_scope scope = {0};
    must(weft_chan_new(&flow.chan, sizeof(int), 0) == 0, "weft_chan_new");
    must(weft_scope_open(&scope, &(weft_scope_opts){.deadline = weft_in(1000 * WEFT_SEC)}) == 0, "weft_scope_open");
    must(weft_scope_go(&scope, receives_as_child, &flow) == 0, "weft_scope_go");
    for (int i = 0; i < turns; i++)
        must(weft_chan_send(flow.chan, &i, WEFT_FOREVER) == 0, "weft_chan_send");
    must(weft_scope_wait(&scope) == 0 && weft_scope_close(&scope) == 0, "weft_scope_close");
    weft_chan_free(flow.chan);
}

static void run_chan_buffered(int turns)
{
    send_all(turns, 64);
}

static void run_chan_free(int turns)
{
    weft_chan *chan;
    must(weft_chan_new(&chan, sizeof(int), 64) == 0, "weft_chan_new");
    for (int i = 0, value = 0; i < turns; i++)
        must(weft_chan_send(chan, &i, WEFT_FOREVER) == 0 && weft_chan_recv(chan, &value, WEFT_FOREVER) == 0 &&
                 value == i,
             "weft_chan");
    weft_chan_free(chan);
}

/* sem */

struct rally {
    weft_sem mine, yours;
    int turns;
};

static void *answers(void *arg)
{
    struct rally *rally = arg;
    for (int i = 0; i < rally->turns; i++)
        must(weft_sem_wait(&rally->yours, WEFT_FOREVER) == 0 && weft_sem_post(&rally->mine) == 0, "weft_sem");
    return NULL;
}

static void run_sem(int turns)
{
    struct rally rally = {.turns = turns};
    weft_fiber *other = spawn(answers, &rally);
    for (int i = 0; i < turns; i++)
        must(weft_sem_post(&rally.yours) == 0 && weft_sem_wait(&rally.mine, WEFT_FOREVER) == 0, "weft_sem");
    join(other);
}

static void run_sem_free(int turns)
{
    weft_sem sem = {0};
    for (int i = 0; i < turns; i++)
        must(weft_sem_post(&sem) == 0 && weft_sem_wait(&sem, WEFT_FOREVER) == 0, "weft_sem");
}

/* mutex */

struct contest {
    weft_mutex mutex;
    int turns;
};

/* The other one comes to wait while we have the mutex, and we come to wait while it has. */
static void *contends(void *arg)
{
    struct contest *contest = arg;
    for (int i = 0; i < contest->turns; i++) {
        must(weft_mutex_lock(&contest->mutex, WEFT_FOREVER) == 0, "weft_mutex_lock");
        weft_yield();
        must(weft_mutex_unlock(&contest->mutex) == 0, "weft_mutex_unlock");
    }
    return NULL;
}

static void run_mutex(int turns)
{
    struct contest contest = {.turns = turns};
    weft_fiber *other = spawn(contends, &contest);
    contends(&contest);
    join(other);
}

static void run_mutex_free(int turns)
{
    weft_mutex mutex = {0};
    for (int i = 0; i < turns; i++)
        must(weft_mutex_lock(&mutex, WEFT_FOREVER) == 0 && weft_mutex_unlock(&mutex) == 0, "weft_mutex");
}

/* timer */

static void never(void *arg)
{
    (void)arg;
    must(0, "a timer fired");
}

static void run_timer(int turns)
{
    for (int i = 0; i < turns; i++) {
        weft_timer *timer;
        must(weft_timer_new(&timer, 1000 * WEFT_SEC, false, NULL, never, NULL) == 0, "weft_timer_new");
        must(weft_timer_free(timer) == 1, "weft_timer_free");
    }
}

/* read, write */

static void run_read(int turns)
{
    pingpong_first(&(struct pingpong){.turns = turns});
}

static void run_read_deadline(int turns)
{
    pingpong_first(&(struct pingpong){.turns = turns, .has_deadline = true});
}

struct pair {
    int ends[2];
    char bytes[BYTES_AT_ONCE];
};

static void open_pair(struct pair *pair)
{
    *pair = (struct pair){0};
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->ends) == 0, "socketpair");
}

static void close_pair(const struct pair *pair)
{
    weft_close(pair->ends[0]);
    weft_close(pair->ends[1]);
}

static void run_read_free(int turns)
{
    struct pair pair;
    open_pair(&pair);
    for (int i = 0; i < turns; i++) {
        if (i % BYTES_AT_ONCE == 0)
            must(write(pair.ends[1], pair.bytes, BYTES_AT_ONCE) == BYTES_AT_ONCE, "write");
        must(weft_read(pair.ends[0], pair.bytes, 1, WEFT_FOREVER) == 1, "weft_read");
    }
    close_pair(&pair);
}

static void run_write_free(int turns)
{
    struct pair pair;
    open_pair(&pair);
    for (int i = 0; i < turns; i++) {
        must(weft_write(pair.ends[0], pair.bytes, 1, WEFT_FOREVER) == 1, "weft_write");
        if ((i + 1) % 100 == 0)
            must(read(pair.ends[1], pair.bytes, BYTES_AT_ONCE) == 100, "read");
    }
    close_pair(&pair);
}

const struct operation operations[] = {
    {"yield", 2, "weft_yield to another fiber", run_yield},
    {"spawn-join", 1, "weft_go_with, the fiber, weft_join", run_spawn_join},
    {"scope-child", 1, "weft_scope_go, the child, its part of a scope of 100 that is opened, waited for and closed",
     run_scope_child},
    {"scope-open", 1, "weft_scope_open and weft_scope_close of a scope without children", run_scope_open},
    {"task", 1, "weft_task_start on the current scheduler, the task, weft_task_await, weft_task_free", run_task},
    {"chan", 1, "a value through an unbuffered channel, from fiber to fiber", run_chan},
    {"chan-scope", 1, "the same in a scope with a deadline", run_chan_scope},
    {"chan-buffered", 1, "a value through a channel of 64, from fiber to fiber", run_chan_buffered},
    {"chan-free", 1, "weft_chan_send and weft_chan_recv that need not wait", run_chan_free},
    {"sem", 2, "weft_sem_wait that waits, and the weft_sem_post that wakes it", run_sem},
    {"sem-free", 1, "weft_sem_post and weft_sem_wait that need not wait", run_sem_free},
    {"mutex", 2, "weft_mutex_lock that waits, weft_mutex_unlock that hands over, weft_yield", run_mutex},
    {"mutex-free", 1, "weft_mutex_lock and weft_mutex_unlock of a free mutex", run_mutex_free},
    {"timer", 1, "weft_timer_new and weft_timer_free", run_timer},
    {"read", PINGPONG_READS, "weft_read that waits, and the weft_write that wakes it", run_read},
    {"read-deadline", PINGPONG_READS, "the same with a deadline", run_read_deadline},
    {"read-free", 1, "weft_read of a byte that is there", run_read_free},
    {"write-free", 1, "weft_write of a byte that has room", run_write_free},
    {0},
};
