/*
 * loads.c: an outside program that loads the library it is given, by dlopen, and has the hooks report. A second argument:
 * with RTLD_DEEPBIND.
 */
#include <dlfcn.h>
#include <stdio.h>

#include <weft/hook.h>

int main(int argc, char **argv)
{
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0))) {
        fprintf(stderr, "%s\n", argc < 2 ? "which library?" : dlerror());
        return 2;
    }
    return weft_hook_report(stderr) == 0 ? 0 : 1;
}
