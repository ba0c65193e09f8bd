/*
 * http/date.c: to be written.
 */
typedef int wh_date_is_empty;
