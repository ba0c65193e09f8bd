/*
 * Calls that are made before the hooks' library is set up, and after it is torn down: by what runs before all
 * constructors, by another library's constructor and destructor (startup_library.c), and at exit. Each does the same:
 * startup_calls, which says what went wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hook/startup.h"
#include "hook/statement.h"

static const char *first = "it has not run"; /* what the earliest said */

/* A sanitizer is not up either then, and it stands before the hooks. */
#ifndef __SANITIZE_ADDRESS__
static void before_all(int argc, char **argv, char **env)
{
    (void)argc, (void)argv, (void)env;
    first = startup_calls();
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **) = before_all;
#endif

static const char *ours = "it has not run";

__attribute__((constructor)) static void at_our_start(void)
{
    ours = startup_calls();
}

TEST(calls_before_all_constructors_work)
{
#ifdef __SANITIZE_ADDRESS__
    SKIP("the sanitizer is not up before all constructors");
#endif
    CHECK_STR(first, "");
}

TEST(calls_of_constructors_work)
{
    CHECK_STR(startup_library_said(), "");
    CHECK_STR(ours, "");
}

STATEMENT(and_so_they_do_later)
{
    CHECK_STR(startup_calls(), "");
}

/* How a program ends that calls at exit and in a destructor: theirs change its status. */
static void leave(void *arg)
{
    (void)arg;
    startup_library_is_to_end();
    exit(0);
}

TEST(calls_at_exit_and_of_destructors_work)
{
    CHECK_CHILD(leave, NULL, 0, "startup: at exit: \nstartup: destructor: \n");
}

/* There it is a fiber that calls exit. */
STATEMENT(calls_at_exit_of_a_flow_s_child_work)
{
#ifdef __SANITIZE_ADDRESS__
    SKIP("what the parent's other threads own is a leak in the child");
#endif
    CHECK_CHILD(leave, NULL, 0, "startup: at exit: \nstartup: destructor: \n");
}

STATEMENTS(startup, calls_before_all_constructors_work, calls_of_constructors_work, and_so_they_do_later,
           calls_at_exit_and_of_destructors_work, calls_at_exit_of_a_flow_s_child_work)
