/*
 * http/body.c: to be written.
 */
typedef int wh_body_is_empty;
