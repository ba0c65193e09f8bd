/*
 * tests/hook/lock_plugin_cxx.cpp: a plugin that brings its own C++ library into a program in C.
 */
#include <mutex>
#include <stdexcept>

#include <unistd.h>

#include "hook/lock_plugin.h"

enum { THINGS = 4 };

static std::once_flag flags[THINGS];
static int calls[THINGS]; /* guarded by: the flag */

bool lock_plugin_call(int nth, int failing, bool *begun)
{
    try {
        std::call_once(flags[nth], [=] {
            calls[nth]++;
            __atomic_store_n(begun, true, __ATOMIC_RELEASE);
            usleep(30000);
            if (calls[nth] <= failing)
                throw std::runtime_error("not yet");
        });
    } catch (const std::runtime_error &) {
        return false;
    }
    return true;
}
