/*
 * http/reason.c: to be written.
 */
typedef int wh_reason_is_empty;
