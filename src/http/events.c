/*
 * http/events.c: to be written.
 */
typedef int wh_events_is_empty;
