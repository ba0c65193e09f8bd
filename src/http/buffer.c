/*
 * http/buffer.c: to be written.
 */
typedef int wh_buffer_is_empty;
