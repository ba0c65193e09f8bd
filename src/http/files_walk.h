/*
 * http/files_walk.h: opens a path beneath a folder without openat2(2): component after component, following symbolic
 * links by hand. Any thread, which it blocks.
 */
#ifndef WH_HTTP_FILES_WALK_H
#define WH_HTTP_FILES_WALK_H

struct wh_folder;

/* As openat2(folder->fd, path, flags) with the folder's rule for links. The path is plain (wh_path_is_plain). Returns
 * the descriptor or a negative errno. */
int wh_walk(const struct wh_folder *folder, const char *path, int flags);

#endif
