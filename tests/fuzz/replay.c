/*
 * fuzz/replay.c: the main of a harness in builds without libFuzzer. It gives each file of the corpus to the harness: those of
 * the folder FUZZ_CORPUS, or those that the command line names. Each file is a test.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

static char input[512]; /* the file that the harness has now */
static unsigned passed;

#pragma weak LLVMFuzzerInitialize

/* A harness that fails aborts. */
static void name_input(int signal)
{
    static const char before[] = "the input is ", after[] = "\n";
    (void)signal;
    (void)!write(STDERR_FILENO, before, sizeof before - 1);
    (void)!write(STDERR_FILENO, input, strlen(input));
    (void)!write(STDERR_FILENO, after, sizeof after - 1);
}

static void replay(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(MOST);
    snprintf(input, sizeof input, "%s", path);
    if (!file || !bytes)
        fuzz_fail(__FILE__, __LINE__, "%s cannot be read", path);
    size_t size = fread(bytes, 1, MOST, file);
    fclose(file);
    uint8_t *copy = (uint8_t *)fuzz_copy(bytes, size);
    free(bytes);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    passed++;
}

static void replay_folder(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0)
        fuzz_fail(__FILE__, __LINE__, "there is no folder %s", path);
    for (int i = 0; i < count; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            replay(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    signal(SIGABRT, name_input);
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (argc == 1)
        replay_folder(FUZZ_CORPUS);
    printf("fuzz_%s: %u passed, %d failed, 0 skipped\n", FUZZ_NAME, passed, passed == 0);
    return passed == 0;
}
