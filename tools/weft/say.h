/*
 * say.h: the messages of `weft` on stderr.
 */
#ifndef TOOL_SAY_H
#define TOOL_SAY_H

/** Prints "weft: ", the text and a newline. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
