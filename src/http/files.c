/*
 * http/files.c: to be written.
 */
typedef int wh_files_is_empty;
