/*
 * program.c forever|deadline TURNS: what the script beside it counts.
 */
#include <string.h>

#include "integration/deadline/pingpong.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct pingpong p = {.has_deadline = strcmp(argv[1], "deadline") == 0, .turns = (int)strtol(argv[2], NULL, 10)};
    pingpong(&p);
    return 0;
}
