/*
 * tests/hook/lock_plugin_loaded.c: a library whose constructor calls the program.
 */
#include "hook/lock_plugin.h"

__attribute__((constructor)) static void set_up(void)
{
    lock_plugin_is_loaded();
}
