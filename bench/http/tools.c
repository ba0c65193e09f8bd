/*
 * tools.c: see tools.h.
 */
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../common/case.h"

#define OUTPUT_MAX 8192

/* Runs a command and takes what it prints. `tool` is the name to say. */
static void run(const char *tool, const char *command, char output[OUTPUT_MAX])
{
    FILE *f = popen(command, "re");
    size_t got;
    int status;

    if (!f)
        case_fail("cannot start %s", tool);
    got = fread(output, 1, OUTPUT_MAX - 1, f);
    output[got] = '\0';
    status = pclose(f);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        case_na("%s is not installed (packages wrk, apache2-utils)", tool);
    if (status != 0)
        case_fail("%s failed (status %d): %s", tool, status, output);
}

/* The number after a text; -1 if the text is not there. */
static double number_after(const char *output, const char *before)
{
    const char *at = strstr(output, before);
    return at ? strtod(at + strlen(before), NULL) : -1;
}

static unsigned seconds_of(double ms)
{
    return ms > 1000 ? (unsigned)(ms / 1000) : 1;
}

/* `requests` is what the tool's output says. */
static struct tool_result result(double rate, double requests, int64_t cpu_ns, const char *tool, const char *output)
{
    if (rate <= 0 || requests <= 0)
        case_fail("%s does not say how many requests it made: %s", tool, output);
    return (struct tool_result){.rate = rate, .us_each = (double)cpu_ns / 1e3 / requests};
}

struct tool_result tool_wrk(const struct child *server, size_t connections, double ms)
{
    static char output[OUTPUT_MAX];
    char command[200];
    const char *requests;
    int64_t cpu;

    snprintf(command, sizeof(command), "exec wrk -t1 -c%zu -d%us http://127.0.0.1:%u/ 2>&1", connections,
             seconds_of(ms), server->port);
    cpu = child_cpu_ns(server);
    run("wrk", command, output);
    cpu = child_cpu_ns(server) - cpu;
    if (strstr(output, "Socket errors") || strstr(output, "Non-2xx"))
        case_fail("wrk has met errors: %s", output);
    /* "  123456 requests in 1.00s, 17.17MB read" */
    requests = strstr(output, " requests in ");
    while (requests && requests > output && requests[-1] >= '0' && requests[-1] <= '9')
        requests--;
    return result(number_after(output, "Requests/sec:"), requests ? strtod(requests, NULL) : -1, cpu, "wrk", output);
}

struct tool_result tool_ab(const struct child *server, size_t connections, double ms)
{
    static char output[OUTPUT_MAX];
    char command[200];
    double requests;
    int64_t cpu;

    /* -n stands behind -t, whose own -n would be 50,000: so the time ends the run. */
    snprintf(command, sizeof(command), "exec ab -q -k -r -c %zu -t %u -n 100000000 http://127.0.0.1:%u/ 2>&1",
             connections, seconds_of(ms), server->port);
    cpu = child_cpu_ns(server);
    run("ab", command, output);
    cpu = child_cpu_ns(server) - cpu;
    requests = number_after(output, "Complete requests:");
    if (number_after(output, "Failed requests:") != 0 || strstr(output, "Non-2xx"))
        case_fail("ab has met errors: %s", output);
    if (number_after(output, "Keep-Alive requests:") < requests)
        case_fail("the server does not keep the connections of ab");
    return result(number_after(output, "Requests per second:"), requests, cpu, "ab", output);
}
