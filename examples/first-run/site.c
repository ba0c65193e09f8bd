/*
 * site.c: see site.h.
 */
#include "site.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../support/fail.h"

/* Whether this is a file that is not too large, and whose name needs no encoding in a request. *bytes is its size. */
static bool is_page(const char *path, const char *name, size_t *bytes)
{
    struct stat found;
    if (name[0] == '.' || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] != '\0' ||
        stat(path, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size > SITE_LARGEST)
        return false;
    *bytes = (size_t)found.st_size;
    return true;
}

static void read_page(struct page *page, const char *path, const char *name, size_t bytes)
{
    *page = (struct page){.body = malloc(bytes + 1), .bytes = bytes};
    FILE *file = fopen(path, "re");
    if (!file || !page->body || fread(page->body, 1, bytes + 1, file) != bytes)
        fail(errno, "cannot read %s", path);
    fclose(file);
    if (asprintf(&page->path, "/%s", strcmp(name, "index.html") == 0 ? "" : name) < 0)
        fail(ENOMEM, "%s", path);
}

void site_read(struct site *site, const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);
    if (count < 0)
        fail(errno, "cannot read the folder %s", folder);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        char path[4096];
        size_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (site->count < SITE_PAGES && is_page(path, name, &bytes)) {
            read_page(&site->pages[site->count++], path, name, bytes);
            site->largest = bytes > site->largest ? bytes : site->largest;
        }
        free(names[i]);
    }
    free(names);
    if (site->count == 0)
        fail(0, "there are no files in %s", folder);
}
