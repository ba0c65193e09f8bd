/*
 * select.c: a choice. One fiber takes from two channels, whichever has something, until an event says that no more will come.
 *
 * Prints: 1000 from the left, 1000 from the right, and the end
 */
#include <stdio.h>

#include <weft/weft.h>

static weft_chan *left, *right;
static weft_event end; /* all zero is a valid one */

static void *talk(void *to)
{
    for (int n = 1; n <= 1000; n++)
        weft_chan_send(to, &n, WEFT_FOREVER); /* without a buffer: returns when it was received */
    return NULL;
}

static void *listen_to_all(void *arg)
{
    int n, from[2] = {0, 0};
    weft_case cases[] = {{.op = WEFT_RECV, .chan = left, .value = &n},
                         {.op = WEFT_RECV, .chan = right, .value = &n},
                         {.op = WEFT_EVENT, .event = &end}};
    for (int i; (i = weft_select(cases, 3, WEFT_FOREVER)) == 0 || i == 1;)
        from[i]++;
    printf("%d from the left, %d from the right, and the end\n", from[0], from[1]);
    return arg;
}

static void *first(void *arg)
{
    weft_fiber *talkers[2];
    if (weft_go(listen_to_all, NULL) < 0 || weft_go_with(&talkers[0], NULL, talk, left) < 0 ||
        weft_go_with(&talkers[1], NULL, talk, right) < 0)
        return NULL;
    weft_join(talkers[0], NULL, WEFT_FOREVER);
    weft_join(talkers[1], NULL, WEFT_FOREVER);
    weft_event_set(&end);
    return arg;
}

int main(void)
{
    if (weft_chan_new(&left, sizeof(int), 0) < 0 || weft_chan_new(&right, sizeof(int), 0) < 0)
        return 1;
    int rc = weft_run(first, NULL, NULL, NULL);
    weft_chan_free(left);
    weft_chan_free(right);
    return rc < 0;
}
