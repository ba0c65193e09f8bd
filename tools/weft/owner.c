/*
 * owner.c: see owner.h. The kernel lists the sockets that listen, each with the number of its inode; /proc/PID/fd tells
 * which process has that inode open.
 */
#include "owner.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTENING 0x0a /* TCP_LISTEN, as /proc/net/tcp writes it */
#define ADDRESS_ROOM 33
#define PATH_ROOM 512 /* "/proc/", two names of a folder, and what stands between them */

/* Writes an address as the kernel's tables do: its 32-bit words as they lie in memory, each as eight digits. "": all
 * addresses. */
static void write_hex(const char *addr, char hex[ADDRESS_ROOM])
{
    struct in_addr v4;
    struct in6_addr v6;
    hex[0] = '\0';
    if (inet_pton(AF_INET, addr, &v4) == 1 && v4.s_addr != 0)
        snprintf(hex, ADDRESS_ROOM, "%08X", v4.s_addr);
    else if (inet_pton(AF_INET6, addr, &v6) == 1 && !IN6_IS_ADDR_UNSPECIFIED(&v6))
        snprintf(hex, ADDRESS_ROOM, "%08X%08X%08X%08X", v6.s6_addr32[0], v6.s6_addr32[1], v6.s6_addr32[2],
                 v6.s6_addr32[3]);
}

/* Whether two listeners conflict over a port: one of them has all addresses, or both have the same address. In the
 * table of IPv6, an IPv4 address has more digits in front. */
static bool overlaps(const char *listed, const char *wanted)
{
    size_t listed_length = strlen(listed), length = strlen(wanted);
    return strspn(listed, "0") == listed_length ||
           (length <= listed_length && strcmp(listed + listed_length - length, wanted) == 0);
}

/* The inode of the socket that listens on the port; 0: there is none in this table. */
static unsigned long inode_in(const char *table, const char *address, unsigned port)
{
    char line[512], local[ADDRESS_ROOM];
    unsigned long found = 0;
    FILE *f = fopen(table, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned local_port, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %32[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*d %*d %lu", local, &local_port, &state, &inode) ==
                4 &&
            local_port == port && state == LISTENING && overlaps(local, address))
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

/* A process may give itself any name, and the terminal must not obey it. */
static void hide_controls(char *name)
{
    for (; *name; name++) {
        if (!isprint((unsigned char)*name))
            *name = '?';
    }
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
    hide_controls(name);
    if (name[0])
        snprintf(to, size, "%s (pid %s)", name, pid);
    else
        snprintf(to, size, "pid %s", pid);
}

bool owner_of_port(const char *addr, unsigned port, char *to, size_t size)
{
    char link[64], address[ADDRESS_ROOM];
    bool found = false;
    write_hex(addr, address);
    unsigned long inode = inode_in("/proc/net/tcp", address, port);
    if (!inode)
        inode = inode_in("/proc/net/tcp6", address, port);
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
