/*
 * tests/hook/startup.h: what startup.c and its library share.
 */
#ifndef TESTS_HOOK_STARTUP_H
#define TESTS_HOOK_STARTUP_H

/* Makes hooked calls of every kind; what went wrong, or "". */
const char *startup_calls(void);

/* What they said in the library's constructor. */
const char *startup_library_said(void);

/* From now on the library makes them at exit and in its destructor, and says on standard error how it went. */
void startup_library_is_to_end(void);

#endif
