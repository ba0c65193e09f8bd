/*
 * http/connection.c: to be written.
 */
typedef int wh_connection_is_empty;
