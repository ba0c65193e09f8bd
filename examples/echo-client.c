/*
 * echo-client.c: many clients at once, a fiber each. One deadline is for all that a client does.
 *
 *     echo-client [ADDRESS [CLIENTS]]    by default 100 clients of 127.0.0.1:7000
 *
 * Prints: 100 of 100 clients were answered
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { MESSAGES = 10 };

/* Returns the address if every message came back as it was sent, else NULL. */
static void *client(void *address)
{
    char message[64] = "", answer[64];
    weft_time deadline = weft_in(10 * WEFT_SEC);
    int right = 0, fd = weft_dial(address, deadline);
    if (fd < 0) {
        fprintf(stderr, "cannot connect to %s: %s\n", (char *)address, strerror(-fd));
        return NULL;
    }
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(message, sizeof message, "message %d of descriptor %d", i, fd);
        right += weft_write_all(fd, message, sizeof message, NULL, deadline) == sizeof message &&
                 weft_read_full(fd, answer, sizeof answer, NULL, deadline) == sizeof answer &&
                 memcmp(message, answer, sizeof answer) == 0;
    }
    weft_close(fd);
    return right == MESSAGES ? address : NULL;
}

static void *first(void *arg)
{
    char **args = arg, *address = args[1] ? args[1] : "127.0.0.1:7000";
    int count = args[1] && args[2] ? atoi(args[2]) : 100, started = 0, answered = 0;
    weft_fiber **clients = calloc((size_t)count, sizeof(weft_fiber *));
    while (clients && started < count && weft_go_with(&clients[started], NULL, client, address) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *value;
        weft_join(clients[i], &value, WEFT_FOREVER);
        answered += value != NULL;
    }
    free(clients);
    printf("%d of %d clients were answered\n", answered, count);
    return answered == count ? arg : NULL;
}

int main(int argc, char **argv)
{
    void *all_answered = NULL;
    (void)argc;
    return weft_run(first, argv, &all_answered, NULL) < 0 || !all_answered;
}
