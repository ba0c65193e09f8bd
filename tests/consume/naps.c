/*
 * naps.c: an outside program that sleeps by the C library's usleep in one fiber while another runs, both on one worker.
 * Exits with 0 if the other ran meanwhile: the hooks are there.
 */
#include <stdio.h>
#include <unistd.h>

#include <weft/weft.h>

static int other_ran;

static void *runs(void *arg)
{
    other_ran = 1;
    return arg;
}

static void *naps(void *arg)
{
    if (weft_go(runs, NULL) != 0)
        return NULL;
    usleep(20000);
    printf("the other fiber %s during the nap\n", other_ran ? "ran" : "did not run");
    return other_ran ? arg : NULL;
}

int main(void)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    void *value = NULL;
    return weft_run(naps, &other_ran, &value, &opts) == 0 && value ? 0 : 1;
}
