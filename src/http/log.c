/*
 * http/log.c: to be written.
 */
typedef int wh_log_is_empty;
