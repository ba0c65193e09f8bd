/*
 * tests/hook/lock_plugin.c: what is called once, and the loader (WEFT_HOOK_LOCKS=1): plugins in C++ that a program in C
 * loads, dlopen and dlerror.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "hook/clock.h"
#include "hook/lock_plugin.h"
#include "hook/peer.h"

static pthread_once_t fresh = PTHREAD_ONCE_INIT;

static void wait_for(const bool *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        usleep(1000);
}

/* ---- a plugin in C++ whose library nobody else sees ---- */

enum { FLOWS = 5, FAILING = 2 };

static int runs; /* of the statement: it may run twice */

struct plugin {
    lock_plugin_call_fn *call;
    bool begun; /* atomic */
    int thrown; /* atomic */
};

static void call_plugin(void *arg)
{
    struct plugin *p = arg;
    if (!p->call(runs, FAILING, &p->begun))
        __atomic_add_fetch(&p->thrown, 1, __ATOMIC_ACQ_REL);
}

STATEMENT(a_call_once_that_throws_in_a_plugin_is_made_by_the_next)
{
    struct plugin p = {0};
    struct flow *flows[FLOWS];
    runs++;
    void *library = dlopen(LOCK_PLUGIN_CXX, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    *(void **)&p.call = dlsym(library, "lock_plugin_call");
    CHECK(p.call != NULL);
    for (int i = 0; i < FLOWS; i++) {
        flows[i] = i == FLOWS - 1 ? begin_thread(call_plugin, &p) : begin(call_plugin, &p);
        wait_for(&p.begun);
    }
    for (int i = 0; i < FLOWS; i++)
        end(flows[i]);
    CHECK_INT(p.thrown, ==, FAILING);
    CHECK(p.call(runs, 0, &p.begun)); /* it is done */
}

/* ---- the loader's lock ---- */

static pthread_once_t slow_once;
static bool slow_begun, loading, may_end; /* atomic */

static void be_slow(void)
{
    __atomic_store_n(&slow_begun, true, __ATOMIC_RELEASE);
    wait_for(&may_end);
    usleep(20000);
}

static void call_slow(void *arg)
{
    (void)arg;
    CHECK_INT(pthread_once(&slow_once, be_slow), ==, 0);
}

void lock_plugin_is_loaded(void)
{
    __atomic_store_n(&loading, true, __ATOMIC_RELEASE);
    call_slow(NULL);
}

static void load(void *arg)
{
    *(void **)arg = dlopen(LOCK_PLUGIN_LOADED, RTLD_NOW);
}

STATEMENT(a_once_is_waited_for_beside_a_constructor_that_waits_for_it)
{
    void *library = NULL;
    slow_once = fresh;
    slow_begun = loading = may_end = false;
    struct flow *first = begin(call_slow, NULL);
    wait_for(&slow_begun);
    struct flow *loads = begin_thread(load, &library);
    wait_for(&loading);
    struct flow *second = begin(call_slow, NULL);
    usleep(10000); /* it waits */
    __atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
    end(second);
    end(first);
    end(loads);
    CHECK(library != NULL);
    dlclose(library);
}

/* ---- dlerror ---- */

static pthread_once_t short_once;
static bool short_begun; /* atomic */

static void be_short(void)
{
    __atomic_store_n(&short_begun, true, __ATOMIC_RELEASE);
    usleep(20000);
}

static void call_short(void *arg)
{
    (void)arg;
    CHECK_INT(pthread_once(&short_once, be_short), ==, 0);
}

STATEMENT(a_once_that_is_waited_for_leaves_dlerror_as_it_was)
{
    for (int i = 0; i < 2; i++) {
        short_once = fresh;
        __atomic_store_n(&short_begun, false, __ATOMIC_RELEASE);
        struct flow *first = begin(call_short, NULL);
        wait_for(&short_begun);
        dlerror();
        if (i == 1)
            CHECK(dlsym(RTLD_DEFAULT, "no_such_thing") == NULL);
        call_short(NULL);
        const char *text = dlerror();
        CHECK((text != NULL) == (i == 1));
        CHECK(!text || strstr(text, "no_such_thing"));
        end(first);
    }
}

STATEMENTS(lock_plugin, a_call_once_that_throws_in_a_plugin_is_made_by_the_next,
           a_once_is_waited_for_beside_a_constructor_that_waits_for_it,
           a_once_that_is_waited_for_leaves_dlerror_as_it_was)
