/*
 * http/files_folder.c: to be written.
 */
typedef int wh_files_folder_is_empty;
