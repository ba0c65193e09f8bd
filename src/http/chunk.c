/*
 * http/chunk.c: to be written.
 */
typedef int wh_chunk_is_empty;
