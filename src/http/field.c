/*
 * http/field.c: to be written.
 */
typedef int wh_field_is_empty;
