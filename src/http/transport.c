/*
 * http/transport.c: to be written.
 */
typedef int wh_transport_is_empty;
