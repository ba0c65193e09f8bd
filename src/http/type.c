/*
 * http/type.c: to be written.
 */
typedef int wh_type_is_empty;
