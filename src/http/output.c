/*
 * http/output.c: to be written.
 */
typedef int wh_output_is_empty;
