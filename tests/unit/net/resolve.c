/*
 * Names: numbers, /etc/hosts, what does not exist, a name server that takes long.
 */
#include <weft/net.h>

#include "unit/net/ground.h"
#include "unit/net/shortage.h"
#include "unit/offload/ground.h"

/* Whether 127.0.0.1 or ::1 is among them, with this port. */
static bool has_loopback(const struct addrinfo *all, int port)
{
    for (; all; all = all->ai_next) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)all->ai_addr;
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)all->ai_addr;
        if (all->ai_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_LOOPBACK) &&
            ntohs(four->sin_port) == port)
            return true;
        if (all->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) && ntohs(six->sin6_port) == port)
            return true;
    }
    return false;
}

static int never_asked(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    CHECK((hints->ai_flags & (AI_NUMERICHOST | AI_NUMERICSERV)) == (AI_NUMERICHOST | AI_NUMERICSERV));
    return getaddrinfo(host, port, hints, out);
}

IN_FIBER(numbers_need_nobody)
{
    struct addrinfo *all = NULL, listens = {.ai_flags = AI_PASSIVE, .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    wf_sys_resolver(never_asked);
    CHECK_INT(weft_resolve("127.0.0.1", "80", NULL, &all, WEFT_NOW), ==, 0);
    CHECK(has_loopback(all, 80) && all->ai_socktype == SOCK_STREAM && !all->ai_next);
    freeaddrinfo(all);
    CHECK_INT(weft_resolve("::1", "65535", NULL, &all, WEFT_NOW), ==, 0);
    CHECK(has_loopback(all, 65535) && all->ai_family == AF_INET6);
    freeaddrinfo(all);
    CHECK_INT(weft_resolve(NULL, "7", NULL, &all, WEFT_NOW), ==, 0);
    CHECK(has_loopback(all, 7));
    freeaddrinfo(all);
    CHECK_INT(weft_resolve(NULL, "7", &listens, &all, WEFT_NOW), ==, 0);
    CHECK(((struct sockaddr_in *)(void *)all->ai_addr)->sin_addr.s_addr == htonl(INADDR_ANY));
    CHECK_INT(all->ai_socktype, ==, SOCK_DGRAM);
    freeaddrinfo(all);
    CHECK_INT(weft_resolve("127.0.0.1", NULL, NULL, &all, WEFT_NOW), ==, 0);
    CHECK(has_loopback(all, 0));
    freeaddrinfo(all);
    wf_sys_resolver(NULL);
    return arg;
}

IN_FIBER(localhost_is_known)
{
    struct addrinfo *all = NULL, four = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, WEFT_FOREVER), ==, 0);
    CHECK(has_loopback(all, 80));
    freeaddrinfo(all);
    CHECK_INT(weft_resolve("localhost", "80", &four, &all, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK(has_loopback(all, 80) && all->ai_family == AF_INET);
    freeaddrinfo(all);
    return arg;
}

IN_FIBER(what_does_not_exist_is_said_and_out_is_left_alone)
{
    struct addrinfo *all = ptr(1), numbers = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, wrong = {.ai_family = 9999};
    errno = 12345;
    CHECK_INT(weft_resolve("no such name", "80", NULL, &all, WEFT_FOREVER), ==, -ENOENT);
    CHECK_INT(weft_resolve("127.0.0.1", "no such service", NULL, &all, WEFT_FOREVER), ==, -ENOENT);
    CHECK_INT(weft_resolve("localhost", "80", &numbers, &all, WEFT_FOREVER), ==, -ENOENT);
    CHECK_INT(weft_resolve("localhost", "80", &wrong, &all, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_resolve(NULL, NULL, NULL, &all, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_resolve("localhost", "80", NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, weft_in(-1)), ==, -ETIMEDOUT);
    CHECK_PTR(all, ==, ptr(1));
    CHECK_INT(errno, ==, 12345);
    return arg;
}

static int fails_with; /* flag */

static int fails(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)port, (void)out;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    errno = ENETDOWN;
    return seen(&fails_with);
}

IN_FIBER(every_reason_has_its_error)
{
    static const struct {
        int code, error;
    } table[] = {
        {EAI_AGAIN, -EAGAIN},   {EAI_MEMORY, -ENOMEM},   {EAI_SYSTEM, -ENETDOWN}, {EAI_FAIL, -EIO},
        {EAI_SERVICE, -ENOENT}, {EAI_BADFLAGS, -EINVAL}, {EAI_FAMILY, -EINVAL},   {EAI_NODATA, -ENOENT},
    };
    struct addrinfo *all = NULL;
    wf_sys_resolver(fails);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        put(&fails_with, table[i].code);
        CHECK_INT(weft_resolve("name", "80", NULL, &all, WEFT_FOREVER), ==, table[i].error);
    }
    wf_sys_resolver(NULL);
    return arg;
}

static int leaves; /* errno. flag */

static int fails_and_leaves(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    int rc = fails(host, port, hints, out);
    errno = hints->ai_flags & AI_NUMERICHOST ? 0 : seen(&leaves);
    return rc;
}

/* What the C library says when it could open no file of names, or no socket, and what it leaves in errno. */
IN_FIBER(a_lack_is_told_from_a_name_that_does_not_exist)
{
    static const struct {
        int code, left, error;
    } table[] = {
        {EAI_NONAME, EMFILE, -EMFILE}, {EAI_SERVICE, EMFILE, -EMFILE},  {EAI_NONAME, ENFILE, -ENFILE},
        {EAI_AGAIN, ENFILE, -ENFILE},  {EAI_NODATA, ENOMEM, -ENOMEM},   {EAI_SYSTEM, EMFILE, -EMFILE},
        {EAI_SYSTEM, 0, -EIO},         {EAI_NONAME, 0, -ENOENT},        {EAI_NONAME, ENOENT, -ENOENT},
        {EAI_AGAIN, EAGAIN, -EAGAIN},  {EAI_BADFLAGS, EMFILE, -EINVAL},
    };
    struct addrinfo *all = NULL;
    wf_sys_resolver(fails_and_leaves);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        put(&fails_with, table[i].code);
        put(&leaves, table[i].left);
        errno = EMFILE; /* of before */
        CHECK_INT(weft_resolve("name", "80", NULL, &all, WEFT_FOREVER), ==, table[i].error);
        CHECK_INT(errno, ==, EMFILE);
    }
    wf_sys_resolver(NULL);
    return arg;
}

static void *looks_up_without_descriptors(void *arg)
{
    struct addrinfo *all = NULL;
    struct shortage lack;
    int last = dup(0);
    close(last);
    begin_shortage(&lack, last - 1);
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, WEFT_FOREVER), ==, -EMFILE);
    CHECK_INT(weft_resolve("no.such.name.example", "80", NULL, &all, WEFT_FOREVER), ==, -EMFILE);
    CHECK_INT(weft_resolve("127.0.0.1", "http", NULL, &all, WEFT_FOREVER), ==, -EMFILE);
    CHECK_INT(weft_resolve("127.0.0.1", "80", NULL, &all, WEFT_FOREVER), ==, 0); /* needs none */
    freeaddrinfo(all);
    put(&fails_with, EAI_SYSTEM);
    put(&leaves, 0); /* the C library has lost the reason */
    wf_sys_resolver(fails_and_leaves);
    CHECK_INT(weft_resolve("name", "80", NULL, &all, WEFT_FOREVER), ==, -EMFILE);
    wf_sys_resolver(NULL);
    end_shortage(&lack);
    return arg;
}

static void look_up_for_the_first_time(void *arg)
{
    in_a_fiber(1, looks_up_without_descriptors, arg);
    _exit(test_has_failed());
}

/* Before the C library has read how names are looked up, and after. */
TEST(a_lookup_without_descriptors_says_so)
{
#if defined(WF_VALGRIND) && WF_VALGRIND
    SKIP("valgrind keeps descriptors of its own");
#endif
    CHECK_CHILD(look_up_for_the_first_time, NULL, 0, NULL);
    struct addrinfo *all = NULL;
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, WEFT_FOREVER), ==, 0);
    freeaddrinfo(all);
    in_a_fiber(1, looks_up_without_descriptors, NULL);
    in_a_fiber(2, looks_up_without_descriptors, NULL);
}

static struct gate server;
static int at_once, most_at_once; /* flags */

/* A name server that answers when the test says so. The address of "NUMBER" is 127.0.0.1, and its port the number. */
static int takes_long(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)port;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    int now = more(&at_once);
    if (now > seen(&most_at_once))
        put(&most_at_once, now);
    passes(&server);
    __atomic_sub_fetch(&at_once, 1, __ATOMIC_ACQ_REL);
    return getaddrinfo("127.0.0.1", host + 4, NULL, out);
}

static void *asks(void *arg)
{
    struct addrinfo *all = NULL;
    return ptr(weft_resolve("host80", NULL, NULL, &all, *(weft_time *)arg));
}

/* Who gives up returns at once; what comes later is released. */
IN_FIBER(a_lookup_ends_at_its_deadline_or_when_cancelled)
{
    server = (struct gate){0};
    wf_sys_resolver(takes_long);
    weft_time until = weft_in(200 * WEFT_MS); /* a helper has begun by then */
    CHECK_PTR(asks(&until), ==, ptr(-ETIMEDOUT));
    CHECK_INT(weft_now().ns, >=, until.ns);
    weft_fiber *f = go(asks, &(weft_time){INT64_MAX});
    AWAIT(seen(&server.begun) == 2);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    CHECK_INT(seen(&server.ended), ==, 0);
    put(&server.open, 1);
    AWAIT(helpers().busy == 0);
    wf_sys_resolver(NULL);
    return arg;
}

static void *asks_for_its_number(void *arg)
{
    struct addrinfo *all = NULL;
    char name[16];
    snprintf(name, sizeof name, "host%d", (int)(intptr_t)arg);
    CHECK_INT(weft_resolve(name, NULL, NULL, &all, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK(has_loopback(all, (int)(intptr_t)arg));
    freeaddrinfo(all);
    return NULL;
}

/* They do not wait for each other, nor does the worker for them. */
IN_FIBER(a_hundred_at_once)
{
    enum { MANY = 100, HELPERS = 32 };
    weft_fiber *f[MANY];
    server = (struct gate){0};
    put(&most_at_once, 0);
    wf_sys_resolver(takes_long);
    for (int i = 0; i < MANY; i++)
        f[i] = go(asks_for_its_number, ptr(1000 + i));
    AWAIT(seen(&at_once) == HELPERS);
    for (int i = 0; i < MANY; i++)
        AWAIT(is_parked(f[i]));
    put(&server.open, 1);
    for (int i = 0; i < MANY; i++)
        ended(f[i]);
    CHECK_INT(seen(&most_at_once), ==, HELPERS);
    CHECK_INT(seen(&server.ended), ==, MANY);
    wf_sys_resolver(NULL);
    return arg;
}

TEST(a_plain_thread_may_ask)
{
    struct addrinfo *all = NULL;
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, WEFT_FOREVER), ==, 0);
    CHECK(has_loopback(all, 80));
    freeaddrinfo(all);
    CHECK_INT(weft_resolve("localhost", "80", NULL, &all, weft_in(20 * WEFT_SEC)), ==, 0);
    freeaddrinfo(all);
    server = (struct gate){0};
    wf_sys_resolver(takes_long);
    weft_time until = weft_in(5 * WEFT_MS);
    CHECK_PTR(asks(&until), ==, ptr(-ETIMEDOUT));
    CHECK_INT(weft_now().ns, >=, until.ns);
    put(&server.open, 1);
    wf_sys_resolver(NULL);
    end_helpers();
}

TESTS(net_resolve, a_lookup_without_descriptors_says_so, numbers_need_nobody, localhost_is_known,
      what_does_not_exist_is_said_and_out_is_left_alone, every_reason_has_its_error,
      a_lack_is_told_from_a_name_that_does_not_exist, a_lookup_ends_at_its_deadline_or_when_cancelled,
      a_hundred_at_once, a_plain_thread_may_ask)
