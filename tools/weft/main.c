/*
 * main.c: the `weft` command. Its first argument says what to do; options.h reads the rest.
 *
 * Exit status: 0, 1 something failed, 2 the command line is wrong.
 */
#include <stdio.h>

#include <weft/api.h>

#include "options.h"
#include "serve.h"

int main(int argc, char **argv)
{
    struct options options;
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
    return fflush(stdout) ? 1 : 0;
}
