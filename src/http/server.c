/*
 * http/server.c: to be written.
 */
typedef int wh_server_is_empty;
