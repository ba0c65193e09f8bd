/*
 * http/request.c: to be written.
 */
typedef int wh_request_is_empty;
