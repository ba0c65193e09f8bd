/*
 * Where the hooks are on, and where not: WEFT_HOOK, weft_hook_enable, WEFT_NO_HOOK; and the system's own functions.
 */
#include "hook/ends.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/hook.h>
#include <weft/weft.h>

static weft_sched *new_sched(void)
{
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1}), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    return s;
}

static void end_sched(weft_sched *s)
{
    CHECK_INT(weft_sched_stop(s, weft_in(10 * WEFT_SEC)), ==, 0);
    weft_sched_free(s);
}

static weft_fiber *go(weft_sched *s, unsigned flags, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .flags = flags};
    CHECK_INT(weft_sched_go(s, &f, &attr, fn, arg), ==, 0);
    return f;
}

static void ended(weft_fiber *f)
{
    CHECK_INT(weft_join(f, NULL, weft_in(20 * WEFT_SEC)), ==, 0);
}

/* A fiber of the only worker that counts, and sees whether it is let. */
static int count; /* atomic */
static bool stop; /* atomic */

static void *count_on(void *arg)
{
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
        weft_sleep(WEFT_MS);
    }
    return arg;
}

/* Whether others run while a hooked call waits. */
static bool lets_others_run(void)
{
    weft_sleep(3 * WEFT_MS);
    int before = __atomic_load_n(&count, __ATOMIC_RELAXED);
    usleep(20000);
    return __atomic_load_n(&count, __ATOMIC_RELAXED) > before + 2;
}

static weft_fiber *begin_count(weft_sched *s)
{
    stop = false;
    return go(s, 0, count_on, NULL);
}

static void end_count(weft_fiber *f)
{
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    ended(f);
}

static void *expects(void *arg)
{
    bool wanted = *(bool *)arg;
    CHECK_INT(lets_others_run(), ==, wanted && !is_kernel());
    CHECK_INT(weft_hooked(), ==, wanted);
    return arg;
}

static bool on = true, off = false;

/* In the kernel's run WEFT_HOOK is "off". */
TEST(the_environment_turns_them_off)
{
    weft_sched *s = new_sched();
    weft_fiber *counting = begin_count(s);
    ended(go(s, 0, expects, &on));
    end_count(counting);
    end_sched(s);
}

TEST(a_fiber_is_started_without_them)
{
    weft_sched *s = new_sched();
    weft_fiber *counting = begin_count(s);
    ended(go(s, WEFT_NO_HOOK, expects, &off));
    ended(go(s, 0, expects, &on)); /* and that was for the one */
    end_count(counting);
    end_sched(s);
}

static void *turns(void *arg)
{
    weft_fiber *child = NULL;
    CHECK_INT(weft_hook_enable(false), ==, true);
    CHECK_INT(weft_hook_enable(false), ==, false);
    expects(&off);
    CHECK_INT(weft_go_with(&child, NULL, expects, &off), ==, 0);
    ended(child);
    CHECK_INT(weft_hook_enable(true), ==, false);
    expects(&on);
    CHECK_INT(weft_go_with(&child, NULL, expects, &on), ==, 0);
    ended(child);
    weft_attr attr = {.size = sizeof attr, .flags = WEFT_NO_HOOK};
    CHECK_INT(weft_go_with(&child, &attr, expects, &off), ==, 0);
    ended(child);
    expects(&on);
    CHECK_INT(weft_hook_enable(true), ==, true);
    return arg;
}

TEST(a_fiber_turns_them_off_for_itself_and_what_it_starts)
{
    weft_sched *s = new_sched();
    weft_fiber *counting = begin_count(s);
    ended(go(s, 0, turns, NULL));
    ended(go(s, 0, expects, &on)); /* others are as they were */
    end_count(counting);
    end_sched(s);
}

TEST(a_thread_turns_them_off_for_what_it_starts)
{
    weft_sched *s = new_sched();
    weft_fiber *counting = begin_count(s);
    CHECK_INT(weft_hooked(), ==, false); /* no fiber */
    CHECK_INT(weft_hook_enable(false), ==, true);
    ended(go(s, 0, expects, &off));
    CHECK_INT(weft_hook_enable(true), ==, false);
    ended(go(s, 0, expects, &on));
    CHECK_INT(weft_hook_enable(true), ==, true);
    end_count(counting);
    end_sched(s);
}

static void *waits_by_the_real_one(void *arg)
{
    int (*real)(useconds_t) = (int (*)(useconds_t))weft_hook_real("usleep");
    CHECK(real && real != usleep);
    weft_sleep(3 * WEFT_MS);
    int before = __atomic_load_n(&count, __ATOMIC_RELAXED);
    CHECK_INT(real(20000), ==, 0);
    CHECK_INT(__atomic_load_n(&count, __ATOMIC_RELAXED), ==, before);
    return arg;
}

TEST(the_system_s_own_functions_are_there)
{
    static const char *const names[] = {"poll",        "ppoll",       "select",    "pselect",    "read",
                                        "readv",       "write",       "writev",    "recv",       "recvfrom",
                                        "recvmsg",     "send",        "sendto",    "sendmsg",    "connect",
                                        "accept",      "accept4",     "close",     "dup2",       "dup3",
                                        "sleep",       "usleep",      "nanosleep", "waitpid",    "wait4",
                                        "getaddrinfo", "close_range", "system",    "epoll_wait", "clock_nanosleep",
                                        "sendfile",    "splice",      "recvmmsg",  "sendmmsg",   "waitid",
                                        "epoll_pwait", "__read_chk",  "__poll_chk"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!weft_hook_real(names[i]))
            test_failed(__FILE__, __LINE__, "%s is not there", names[i]);
    }
    CHECK(weft_hook_real("printf") == NULL);
    CHECK(weft_hook_real("") == NULL);
    CHECK(weft_hook_real(NULL) == NULL);
    weft_sched *s = new_sched();
    weft_fiber *counting = begin_count(s);
    ended(go(s, 0, waits_by_the_real_one, NULL));
    end_count(counting);
    end_sched(s);
}

TEST(the_report_says_what_is_live)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int past = weft_hook_report(out);
    fclose(out);
    CHECK_INT(past, >=, 0);
    CHECK(strncmp(text, is_kernel() ? "weft-hook: off (WEFT_HOOK=off) in " : "weft-hook: on in ", 17) == 0);
    CHECK(strstr(text, " by default, locks off") != NULL); /* no fiber asks */
    CHECK(is_kernel() || strstr(text, ", locks off (WEFT_HOOK_LOCKS=1 turns them on): ") != NULL);
    CHECK(strstr(text, "names are live, ") != NULL);
    CHECK(strstr(text, "__cxa_guard") == NULL); /* a program in C: nobody has that */
    CHECK(strstr(text, "\n    test_hook_enable: ") != NULL);
    CHECK(strstr(text, "    need no hook, ") != NULL);
    CHECK(strstr(text, "two libwefts") == NULL);
    CHECK_INT(weft_hook_report(NULL), ==, -EINVAL);
    printf("%s", text);
    free(text);
}

static void read_end(void *arg)
{
    char byte;
    CHECK_INT(read(*(int *)arg, &byte, 1), ==, 1);
}

/* A plain thread has the kernel's own calls: what fibers do with the same descriptor is no matter of it. */
STATEMENT(a_plain_thread_is_let_alone)
{
    struct ends e = tcp_ends();
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l), *g = begin_thread(read_end, &e.a);
    end(g);
    CHECK_JUST_AFTER(&l);
    end(f);
    close_ends(e);
}

static bool told; /* atomic */

static void load_and_unload(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&told, __ATOMIC_ACQUIRE)) {
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        if (library)
            dlclose(library);
    }
}

static void tell_often(void *arg)
{
    FILE *out = arg;
    for (int i = 0; i < 100; i++)
        CHECK_INT(weft_hook_report(out), >=, 0);
    __atomic_store_n(&told, true, __ATOMIC_RELEASE);
}

STATEMENT(the_report_is_made_while_others_load_libraries)
{
    FILE *out = fopen("/dev/null", "w");
    __atomic_store_n(&told, false, __ATOMIC_RELEASE);
    struct flow *loads = begin_thread(load_and_unload, NULL), *tells = begin_thread(tell_often, out);
    end(tells);
    end(loads);
    fclose(out);
}

TESTS(enable, the_environment_turns_them_off, a_fiber_is_started_without_them,
      a_fiber_turns_them_off_for_itself_and_what_it_starts, a_thread_turns_them_off_for_what_it_starts,
      the_system_s_own_functions_are_there, the_report_says_what_is_live, a_plain_thread_is_let_alone,
      the_report_is_made_while_others_load_libraries)
