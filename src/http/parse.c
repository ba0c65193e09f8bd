/*
 * http/parse.c: to be written.
 */
typedef int wh_parse_is_empty;
