/*
 * owner.c: see owner.h. The kernel lists the sockets that listen, each with the number of its inode; /proc/PID/fd tells
 * which process has that inode open.
 */
#include "owner.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTENING 0x0a /* TCP_LISTEN, as /proc/net/tcp writes it */
#define PATH_ROOM 512  /* "/proc/", two names of a folder, and what stands between them */

/* The inode of the socket that listens on the port; 0: there is none in this table. */
static unsigned long inode_in(const char *table, unsigned port)
{
    char line[512];
    unsigned long found = 0;
    FILE *f = fopen(table, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned local, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*d %*d %lu", &local, &state, &inode) == 3 &&
            local == port && state == LISTENING)
            found = inode;
    }
    if (f)
        fclose(f);
    return found;
}

static bool has_open(const char *pid, const char *link)
{
    char path[PATH_ROOM], target[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && !found && (entry = readdir(folder))) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, link) == 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

static void describe(const char *pid, char *to, size_t size)
{
    char path[PATH_ROOM], name[32] = "";
    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    snprintf(to, size, "pid %s%s%s", pid, name[0] ? " " : "", name);
}

bool owner_of_port(unsigned port, char *to, size_t size)
{
    char link[64];
    bool found = false;
    unsigned long inode = inode_in("/proc/net/tcp", port);
    if (!inode)
        inode = inode_in("/proc/net/tcp6", port);
    if (!inode)
        return false;
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes && !found && (entry = readdir(processes))) {
        found = isdigit((unsigned char)entry->d_name[0]) && has_open(entry->d_name, link);
        if (found)
            describe(entry->d_name, to, size);
    }
    if (processes)
        closedir(processes);
    return found;
}
