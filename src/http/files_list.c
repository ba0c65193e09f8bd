/*
 * http/files_list.c: to be written.
 */
typedef int wh_files_list_is_empty;
