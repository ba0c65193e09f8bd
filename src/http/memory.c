/*
 * http/memory.c: to be written.
 */
typedef int wh_memory_is_empty;
