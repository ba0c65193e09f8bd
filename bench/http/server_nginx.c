/*
 * server_nginx.c: starts nginx with a configuration in a folder of its own, prints its process id, and ends it.
 *
 * hello is `return 200`; the file goes out by sendfile. By default nginx opens the file for each request; as
 * nginx-cached it keeps the file open. There is no access log. Each of several workers has a listening socket of its
 * own. This process reserves the port while nginx begins; it serves nothing itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/child.h"
#include "../common/listener.h"
#include "server.h"

#define START_MS 5000

static char folder[] = "/tmp/bench-http-nginx-XXXXXX", config[sizeof(folder) + 16], pid_file[sizeof(folder) + 16];

static void write_config(const struct server *server, uint16_t port)
{
    FILE *f = fopen(config, "we");

    if (!f)
        case_fail("%s: %s", config, strerror(errno));
    fprintf(f,
            "daemon off;\n"
            "worker_processes %u;\n"
            "pid %s;\n"
            "error_log stderr error;\n"
            "events { worker_connections 16384; }\n"
            "http {\n"
            "    access_log off;\n"
            "    default_type text/plain;\n"
            "    sendfile on;\n"
            "    tcp_nopush on;\n"
            "    keepalive_timeout 3600;\n"
            "    keepalive_requests 1000000000;\n",
            server->workers, pid_file);
    if (!strcmp(server->library, "nginx-cached"))
        fprintf(f, "    open_file_cache max=16 inactive=3600;\n"
                   "    open_file_cache_valid 3600;\n");
    for (const char *const *name = (const char *const[]){"client_body", "proxy", "fastcgi", "uwsgi", "scgi", NULL};
         *name; name++)
        fprintf(f, "    %s_temp_path %s;\n", *name, folder);
    fprintf(f,
            "    server {\n"
            "        listen 127.0.0.1:%u reuseport backlog=4096;\n"
            "        root %s;\n"
            "        location = / { return 200 \"hello, world\\n\"; }\n"
            "    }\n"
            "}\n",
            port, server->site);
    /* Workers that gave up root's rights could not read the site. */
    if (geteuid() == 0)
        fprintf(f, "user root;\n");
    fclose(f);
}

static void remove_folder(void)
{
    unlink(config);
    unlink(pid_file);
    rmdir(folder);
}

static pid_t start(const sigset_t *ends)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    sigprocmask(SIG_UNBLOCK, ends, NULL);
    /* nginx ends its workers when it gets SIGTERM. */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO)
        execlp("nginx", "nginx", "-c", config, "-e", "stderr", "-p", folder, (char *)NULL);
    if (errno == ENOENT)
        execl("/usr/sbin/nginx", "nginx", "-c", config, "-e", "stderr", "-p", folder, (char *)NULL);
    _exit(127);
}

static bool has_ended(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == pid;
}

/* Returns whether all workers are there. */
static bool wait_for_workers(pid_t pid, unsigned workers)
{
    struct timespec moment = {.tv_nsec = 1000000};
    pid_t family[CHILD_PROCESSES_MAX];

    for (int ms = 0; ms < START_MS && !has_ended(pid); ms++) {
        if (child_family(pid, family, CHILD_PROCESSES_MAX) == 1 + workers)
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);
    int status, got, reserved = listener_reserve();
    uint16_t port = listener_port(reserved);
    sigset_t ends;
    pid_t pid;

    if (!mkdtemp(folder))
        case_fail("%s: %s", folder, strerror(errno));
    snprintf(config, sizeof(config), "%s/nginx.conf", folder);
    snprintf(pid_file, sizeof(pid_file), "%s/nginx.pid", folder);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    write_config(&server, port);
    pid = start(&ends);
    if (!wait_for_workers(pid, server.workers)) {
        remove_folder();
        case_fail("nginx did not start");
    }
    listener_announce(port, pid);
    sigwait(&ends, &got);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    remove_folder();
    return got == SIGTERM ? 0 : 1;
}
