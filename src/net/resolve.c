/*
 * net/resolve.c: weft_resolve. What is a number is read right here; for a name somebody has to be asked, which a helper
 * does. It works on copies, as the caller may have given up by the time it has an answer.
 */
#include <netdb.h>
#include <string.h>

#include <weft/net.h>
#include <weft/offload.h>

#include "base/errno.h"
#include "base/own.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/wait.h"

#define NUMBERS (AI_NUMERICHOST | AI_NUMERICSERV)

/* -EMFILE or -ENFILE if there is no descriptor to be had at this moment, else 0. */
static int descriptor_lack(void)
{
    int fd = wf_sys_eventfd();
    if (fd >= 0)
        wf_own_close(fd);
    return fd == -EMFILE || fd == -ENFILE ? fd : 0;
}

/*
 * What a failed lookup lacked, else 0. If glibc cannot open /etc/hosts, /etc/services or a socket, it mostly says that the
 * name or the service does not exist (EAI_NONAME, EAI_SERVICE), and errno tells. Sometimes it says EAI_SYSTEM with an errno
 * of 0; then we look.
 */
static int lack_of(int code, int error)
{
    switch (code) {
    case EAI_SYSTEM:
        return error == 0 ? descriptor_lack() : 0;
    case EAI_AGAIN:
    case EAI_NONAME:
    case EAI_SERVICE:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
        return error == EMFILE || error == ENFILE || error == ENOMEM ? -error : 0;
    default:
        return 0;
    }
}

/* `error`: errno after the lookup, 0 if it has set none. */
static int error_of(int code, int error)
{
    int lack = lack_of(code, error);
    if (lack != 0)
        return lack;
    switch (code) {
    case 0:
        return 0;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return error > 0 ? -error : -EIO;
    case EAI_FAIL:
        return -EIO;
    case EAI_NONAME:
    case EAI_SERVICE:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
#ifdef EAI_ADDRFAMILY
    case EAI_ADDRFAMILY:
#endif
        return -ENOENT;
    default:
        return -EINVAL;
    }
}

static int look_up(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    int kept = errno, rc;
    struct addrinfo *found = NULL;
    do {
        int code = wf_sys_getaddrinfo(host, port, hints, &found);
        rc = error_of(code, errno);
    } while (rc == -EINTR);
    errno = kept;
    if (rc == 0)
        *out = found;
    return rc;
}

/* For the helper. */
struct lookup {
    struct addrinfo hints, *found;
    const char *host, *port; /* in `text`, or NULL */
    int result;
    char text[];
};

static void *look_up_there(void *arg)
{
    struct lookup *l = arg;
    l->result = look_up(l->host, l->port, &l->hints, &l->found);
    return NULL;
}

static void drop_lookup(void *arg, void *value)
{
    struct lookup *l = arg;
    (void)value;
    if (l->found)
        freeaddrinfo(l->found);
    wf_sys_free(l);
}

static const char *copy(char *to, const char *text, size_t size)
{
    return text ? memcpy(to, text, size) : NULL;
}

static int ask(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out,
               weft_time deadline)
{
    size_t host_size = host ? strlen(host) + 1 : 0, port_size = port ? strlen(port) + 1 : 0;
    struct lookup *l = wf_sys_malloc(sizeof *l + host_size + port_size);
    if (!l)
        return -ENOMEM;
    *l = (struct lookup){.hints = *hints};
    l->host = copy(l->text, host, host_size);
    l->port = copy(l->text + host_size, port, port_size);
    int rc = weft_offload_with(&(weft_offload_opts){.kind = WEFT_OFFLOAD_NET, .drop = drop_lookup}, look_up_there, l,
                               NULL, deadline);
    if (rc == -ETIMEDOUT || rc == -ECANCELED)
        return rc; /* it is dropped when it has come to its end */
    if (rc == 0 && (rc = l->result) == 0)
        *out = l->found;
    wf_sys_free(l);
    return rc;
}

int weft_resolve(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out,
                 weft_time deadline)
{
    if (!out || (!host && !port))
        return -EINVAL;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    struct addrinfo wish = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (hints)
        wish = (struct addrinfo){.ai_flags = hints->ai_flags,
                                 .ai_family = hints->ai_family,
                                 .ai_socktype = hints->ai_socktype,
                                 .ai_protocol = hints->ai_protocol};
    int flags = wish.ai_flags;
    wish.ai_flags = (flags | NUMBERS) & ~AI_ADDRCONFIG; /* who says ::1 means it */
    int rc = look_up(host, port, &wish, out);
    if (rc != -ENOENT || (flags & NUMBERS) == NUMBERS)
        return rc;
    wish.ai_flags = hints ? flags : AI_ADDRCONFIG;
    return ask(host, port, &wish, out, deadline);
}
