/*
 * http/flusher.c: to be written.
 */
typedef int wh_flusher_is_empty;
