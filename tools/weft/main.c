/*
 * main.c: the `weft` command. Its first argument is the command; options.h reads the rest.
 *
 * Exit status: 0, 1 something failed, 2 the command line is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/api.h>

#include "options.h"
#include "say.h"
#include "serve.h"

/* Opens a file in place of each standard stream that the caller has closed. Otherwise a connection would get its
 * number, and this program's messages would go to that connection. The file is read-only, so that writing messages
 * still fails. */
static void hold_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static int end_of_words(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    say("cannot write to the standard output: %s", strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    struct options options;
    hold_standard_streams();
    if (!options_read(&options, argc, argv))
        return 2;
    switch (options.command) {
    case COMMAND_SERVE:
        return serve(&options);
    case COMMAND_SERVE_HELP:
        options_serve_help(stdout);
        break;
    case COMMAND_VERSION:
        printf("weft %s\n", weft_version());
        break;
    case COMMAND_HELP:
        options_help(stdout);
        break;
    }
    return end_of_words();
}
