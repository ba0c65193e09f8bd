/*
 * http/limits.c: to be written.
 */
typedef int wh_limits_is_empty;
