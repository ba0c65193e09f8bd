/*
 * http/request_id.c: to be written.
 */
typedef int wh_request_id_is_empty;
