/*
 * descriptors.c: see descriptors.h. A connection takes one descriptor, and one more while it is sent a file.
 */
#include "descriptors.h"

#include <sys/resource.h>
#include <unistd.h>

#include "say.h"

enum {
    EACH_CONNECTION = 2,
    EACH_WORKER = 4,      /* epoll or a ring, and what wakes the worker up */
    OTHERS = 24,          /* standard streams, listener, folder, log, signals, files of /proc */
    FEWEST = 8,           /* connections; a browser opens six */
    SERVER_LIMIT = 16384, /* the default of weft_http_opts.max_conns */
    WORTH_A_WORD = 4096,  /* connections; with fewer, the user is told */
};

bool descriptors_prepare(unsigned workers, unsigned *connections)
{
    struct rlimit limit;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *connections = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    rlim_t own = OTHERS + EACH_WORKER * (rlim_t)(workers ? workers : cpus > 0 ? (unsigned)cpus : 1);
    rlim_t least = own + FEWEST * EACH_CONNECTION;
    if (limit.rlim_cur < least) {
        say("this process may have %llu descriptors, and needs at least %llu\nTry: ulimit -n 1024",
            (unsigned long long)limit.rlim_cur, (unsigned long long)least);
        return false;
    }
    rlim_t most = (limit.rlim_cur - own) / EACH_CONNECTION;
    if (most < SERVER_LIMIT)
        *connections = (unsigned)most;
    if (most < WORTH_A_WORD) {
        say("this process may have %llu descriptors: at most %u connections at a time, others are answered by 503",
            (unsigned long long)limit.rlim_cur, *connections);
    }
    return true;
}
