/*
 * main.c: the programs that tools/count-instructions runs under callgrind.
 *
 *      PROGRAM --list                  one line for each operation: NAME PER_TURN WHAT
 *      PROGRAM OPERATION TURNS         does it
 */
#include <string.h>

#include "operation.h"

struct task {
    const struct operation *op;
    int turns;
};

static void *first(void *arg)
{
    const struct task *task = arg;
    task->op->run(task->turns);
    return NULL;
}

static int list_all(void)
{
    for (const struct operation *op = operations; op->name; op++)
        printf("%s %d %s\n", op->name, op->per_turn, op->says);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list_all();
    must(argc == 3, "the arguments are OPERATION TURNS");
    struct task task = {.op = operations, .turns = (int)strtol(argv[2], NULL, 10)};
    while (task.op->name && strcmp(task.op->name, argv[1]) != 0)
        task.op++;
    must(task.op->name != NULL, "there is no such operation");
    /* callgrind is slow: a worker that looked around by time would do so all the time. */
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1, .look_every = 3600 * WEFT_SEC};
    must(weft_run(first, &task, NULL, &opts) == 0, "weft_run");
    return 0;
}
