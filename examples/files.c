/*
 * files.c: counts the lines and bytes of files, of all at the same time: what waits for the disk is a fiber for each, and no
 * thread that runs fibers.
 *
 *     files FILE...    prints, for example: 52 lines, 1634 bytes: files.c
 */
#include <error.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

struct file {
    char *path;
    long lines, bytes;
    ptrdiff_t error; /* 0, or a negative errno */
};

static void *count(void *arg)
{
    struct file *f = arg;
    char buffer[8192];
    int fd = weft_open(f->path, O_RDONLY | O_CLOEXEC, 0, WEFT_FOREVER);
    ptrdiff_t n = fd;
    while (fd >= 0 && (n = weft_pread(fd, buffer, sizeof buffer, f->bytes, WEFT_FOREVER)) > 0) {
        f->bytes += n;
        for (ptrdiff_t i = 0; i < n; i++)
            f->lines += buffer[i] == '\n';
    }
    f->error = n;
    weft_close(fd);
    return NULL;
}

static void *count_all(void *files)
{
    for (struct file *f = files; f->path; f++)
        weft_go(count, f);
    return NULL;
}

int main(int argc, char **argv)
{
    struct file *files = calloc((size_t)argc, sizeof *files); /* the last has no path */
    for (int i = 1; files && i < argc; i++)
        files[i - 1].path = argv[i];
    if (!files || weft_run(count_all, files, NULL, NULL) < 0) /* returns when all of them are counted */
        return 1;
    int failed = 0;
    for (struct file *f = files; f->path; f++) {
        failed |= f->error < 0;
        if (f->error < 0)
            error(0, (int)-f->error, "%s", f->path);
        else
            printf("%ld lines, %ld bytes: %s\n", f->lines, f->bytes, f->path);
    }
    free(files);
    return failed;
}
