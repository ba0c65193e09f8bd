/*
 * options.c: see options.h.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/sched.h>

#include "nearest.h"
#include "say.h"

enum kind { FLAG, NUMBER, TEXT, DRIVER };

struct option {
    const char *name;
    enum kind kind;
    size_t field;      /* the offset in struct options */
    const char *value; /* what the help calls it; NULL for a flag */
    const char *help;
    unsigned least, most; /* of a number */
};

static const struct option serve_options[] = {
    {"--port", NUMBER, offsetof(struct options, port), "N", "the port; 0: any free one. Default 8080", 0, 65535},
    {"--addr", TEXT, offsetof(struct options, addr), "ADDRESS",
     "the address: 127.0.0.1 (this machine only, the default),\n0.0.0.0 (all networks), ::1, a name", 0, 0},
    {"--workers", NUMBER, offsetof(struct options, workers), "N", "threads that run fibers. Default: one for each CPU",
     1, 1024},
    {"--io", DRIVER, offsetof(struct options, io), "DRIVER", "epoll or uring. Default: WEFT_IO, else epoll", 0, 0},
    {"--log", TEXT, offsetof(struct options, log), "FILE",
     "add a line for each request to FILE; -: to the standard output", 0, 0},
    {"--status", FLAG, offsetof(struct options, status), NULL, "show the live state at /_weft, to this machine only", 0,
     0},
    {"--list", FLAG, offsetof(struct options, list), NULL, "list folders that have no index.html", 0, 0},
    {"--hidden", FLAG, offsetof(struct options, hidden), NULL, "also serve names that begin with a dot", 0, 0},
    {"--grace", NUMBER, offsetof(struct options, grace), "SECONDS",
     "how long requests may go on after SIGINT or SIGTERM.\nDefault 10", 0, 86400},
    {"--help", FLAG, 0, NULL, "print this help", 0, 0},
};
#define SERVE_OPTIONS (sizeof serve_options / sizeof *serve_options)

static const char *const commands[] = {"help", "serve", "version"};
#define COMMANDS (sizeof commands / sizeof *commands)

#define TRY_HELP "\nTry: weft help"
#define TRY_SERVE_HELP "\nTry: weft serve --help"

void options_help(FILE *to)
{
    fputs("weft serves files over HTTP/1.1.\n\n"
          "  weft serve [DIR] [OPTIONS]    serve the files of DIR, by default of the current folder\n"
          "  weft serve --help             print the options\n"
          "  weft version                  print the version\n"
          "  weft help                     print this help\n\n"
          "Example: weft serve public --port 8000 --status\n",
          to);
}

/* Prints an option with its help. Further lines of the help stand below the first one. */
static void print_option(FILE *to, const struct option *option)
{
    char left[32];
    const char *text = option->help, *end;
    snprintf(left, sizeof left, "%s %s", option->name, option->value ? option->value : "");
    do {
        end = text + strcspn(text, "\n");
        fprintf(to, "  %-18s  %.*s\n", text == option->help ? left : "", (int)(end - text), text);
        text = end + 1;
    } while (*end);
}

void options_serve_help(FILE *to)
{
    fputs("weft serve [DIR] [OPTIONS]    serves the files of DIR, by default of the current folder\n\n", to);
    for (size_t i = 0; i < SERVE_OPTIONS; i++)
        print_option(to, &serve_options[i]);
    fputs("\nAfter SIGINT (Ctrl-C) or SIGTERM it finishes its requests, then ends.\n"
          "A second signal ends it at once.\n"
          "The man page weft(1) says more.\n",
          to);
}

static bool unknown_option(const char *word, size_t length)
{
    const char *names[SERVE_OPTIONS];
    for (size_t i = 0; i < SERVE_OPTIONS; i++)
        names[i] = serve_options[i].name;
    const char *meant = nearest(word, length, names, SERVE_OPTIONS);
    if (meant)
        say("there is no option %.*s: did you mean %s?" TRY_SERVE_HELP, (int)length, word, meant);
    else
        say("there is no option %.*s" TRY_SERVE_HELP, (int)length, word);
    return false;
}

static const struct option *find_option(const char *word, size_t length)
{
    if (length == 2 && memcmp(word, "-h", 2) == 0)
        return find_option("--help", 6);
    for (size_t i = 0; i < SERVE_OPTIONS; i++) {
        if (strlen(serve_options[i].name) == length && memcmp(serve_options[i].name, word, length) == 0)
            return &serve_options[i];
    }
    return NULL;
}

static bool set_number(unsigned *field, const struct option *option, const char *value)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end || errno || n < option->least || n > option->most) {
        say("%s takes a number from %u to %u, not \"%s\"", option->name, option->least, option->most, value);
        return false;
    }
    *field = (unsigned)n;
    return true;
}

static bool set_driver(int *field, const struct option *option, const char *value)
{
    if (strcmp(value, "epoll") == 0)
        *field = WEFT_IO_EPOLL;
    else if (strcmp(value, "uring") == 0)
        *field = WEFT_IO_URING;
    else {
        say("%s takes epoll or uring, not \"%s\"", option->name, value);
        return false;
    }
    return true;
}

static bool set(struct options *options, const struct option *option, const char *value)
{
    void *field = (char *)options + option->field;
    switch (option->kind) {
    case NUMBER:
        return set_number(field, option, value);
    case DRIVER:
        return set_driver(field, option, value);
    case TEXT:
        if (!*value) {
            say("%s needs a value that is not empty", option->name);
            return false;
        }
        *(const char **)field = value;
        return true;
    case FLAG:
        *(bool *)field = true;
        return true;
    }
    return false;
}

/* Reads the option at argv[0], in the form "--name", "--name value" or "--name=value". Returns how many words it takes,
 * or 0 if it is wrong. */
static int read_option(struct options *options, char **argv)
{
    size_t length = strcspn(argv[0], "=");
    const struct option *option = find_option(argv[0], length);
    const char *value = argv[0][length] ? argv[0] + length + 1 : NULL;
    int words = 1;
    if (!option)
        return unknown_option(argv[0], length);
    if (option->kind == FLAG && value) {
        say("%s takes no value", option->name);
        return 0;
    }
    if (strcmp(option->name, "--help") == 0) {
        options->command = COMMAND_SERVE_HELP;
        return 1;
    }
    if (option->kind != FLAG && !value) {
        value = argv[1];
        words = 2;
    }
    if (option->kind != FLAG && !value) {
        say("%s needs a value: %s %s" TRY_SERVE_HELP, option->name, option->name, option->value);
        return 0;
    }
    return set(options, option, value) ? words : 0;
}

static bool read_serve(struct options *options, char **argv)
{
    bool only_folders = false; /* after "--" */
    options->command = COMMAND_SERVE;
    while (*argv && options->command != COMMAND_SERVE_HELP) {
        int words = 1;
        if (!only_folders && strcmp(*argv, "--") == 0)
            only_folders = true;
        else if (!only_folders && (*argv)[0] == '-' && (*argv)[1])
            words = read_option(options, argv);
        else if (!options->dir)
            options->dir = *argv;
        else {
            say("weft serve takes one folder, but got two: \"%s\" and \"%s\"" TRY_SERVE_HELP, options->dir, *argv);
            return false;
        }
        if (words == 0)
            return false;
        argv += words;
    }
    if (options->dir && !*options->dir) {
        say("the name of the folder is empty" TRY_SERVE_HELP);
        return false;
    }
    if (!options->dir)
        options->dir = ".";
    return true;
}

static bool unknown_command(const char *word)
{
    const char *meant = nearest(word, strlen(word), commands, COMMANDS);
    if (meant)
        say("there is no command \"%s\": did you mean %s?" TRY_HELP, word, meant);
    else if (find_option(word, strcspn(word, "=")) || access(word, F_OK) == 0) /* the word serve is missing */
        say("there is no command \"%s\": did you mean weft serve %s?" TRY_HELP, word, word);
    else
        say("there is no command \"%s\"" TRY_HELP, word);
    return false;
}

/* Sets the command. True if nothing follows it; else says what is wrong. */
static bool alone(enum command command, struct options *options, char **argv)
{
    options->command = command;
    if (!argv[1])
        return true;
    say("weft %s takes no argument, but got \"%s\"" TRY_HELP, argv[0], argv[1]);
    return false;
}

bool options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){.addr = "127.0.0.1", .port = 8080, .io = WEFT_IO_AUTO, .grace = 10};
    if (argc < 2) {
        options_help(stderr);
        return false;
    }
    const char *word = argv[1];
    if (strcmp(word, "serve") == 0)
        return read_serve(options, argv + 2);
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0)
        return alone(COMMAND_VERSION, options, argv + 1);
    if (strcmp(word, "help") == 0 && argc == 3 && strcmp(argv[2], "serve") == 0)
        return alone(COMMAND_SERVE_HELP, options, argv + 2);
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return alone(COMMAND_HELP, options, argv + 1);
    return unknown_command(word);
}
