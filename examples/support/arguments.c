/*
 * arguments.c: see arguments.h.
 */
#include "arguments.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

static bool set(const struct argument *argument, const char *word)
{
    char *rest = "";
    unsigned long n = word && isdigit((unsigned char)word[0]) ? strtoul(word, &rest, 10) : 0;
    if (!word || !isdigit((unsigned char)word[0]) || *rest || n < argument->least || n > argument->most)
        return false;
    *argument->value = (unsigned)n;
    return true;
}

void arguments_read(char **words, const struct argument *all, const char *usage)
{
    for (; *words; words += 2) {
        const struct argument *argument = all;
        while (argument->name && strcmp(argument->name, words[0]) != 0)
            argument++;
        if (!argument->name || !set(argument, words[1]))
            fail(0, "usage: %s", usage);
    }
}
