/*
 * http/route.c: to be written.
 */
typedef int wh_route_is_empty;
