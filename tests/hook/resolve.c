/*
 * Looking up names: those of /etc/hosts, and numbers; and by a server of our own.
 */
#include "hook/ends.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>
#include <sys/resource.h>

static bool is_loopback(const struct addrinfo *a, int port)
{
    const struct sockaddr_in *at = (const struct sockaddr_in *)(const void *)a->ai_addr;
    return a->ai_family == AF_INET && a->ai_addrlen == sizeof *at && ntohl(at->sin_addr.s_addr) == INADDR_LOOPBACK &&
           ntohs(at->sin_port) == port;
}

STATEMENT(names_of_etc_hosts_are_found)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME}, *found = NULL;
    errno = 99;
    CHECK_INT(getaddrinfo("localhost", "80", &hints, &found), ==, 0);
    CHECK(found && is_loopback(found, 80));
    CHECK_INT(found->ai_socktype, ==, SOCK_STREAM);
    CHECK_INT(found->ai_protocol, ==, IPPROTO_TCP);
    CHECK_STR(found->ai_canonname, "localhost");
    freeaddrinfo(found);
    found = NULL;
    CHECK_INT(getaddrinfo("localhost", NULL, NULL, &found), ==, 0); /* of every kind */
    int kinds = 0;
    for (struct addrinfo *a = found; a; a = a->ai_next)
        kinds |= a->ai_socktype == SOCK_STREAM  ? 1
                 : a->ai_socktype == SOCK_DGRAM ? 2
                 : a->ai_socktype == SOCK_RAW   ? 4
                                                : 8;
    CHECK_INT(kinds, ==, 7);
    freeaddrinfo(found);
}

STATEMENT(numbers_are_taken_as_they_are)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
    CHECK_INT(getaddrinfo("127.0.0.1", "4711", &hints, &found), ==, 0);
    CHECK(is_loopback(found, 4711));
    CHECK(found->ai_next == NULL);
    freeaddrinfo(found);
    CHECK_INT(getaddrinfo("::1", "4711", &hints, &found), ==, 0);
    CHECK_INT(found->ai_family, ==, AF_INET6);
    freeaddrinfo(found);
    CHECK_INT(getaddrinfo("fe80::1%lo", "1", &hints, &found), ==, 0);
    CHECK_INT(((struct sockaddr_in6 *)(void *)found->ai_addr)->sin6_scope_id, ==, 1);
    freeaddrinfo(found);
}

STATEMENT(no_node_is_anywhere_or_here)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    CHECK_INT(getaddrinfo(NULL, "9", &hints, &found), ==, 0);
    CHECK_INT(((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr.s_addr, ==, htonl(INADDR_ANY));
    freeaddrinfo(found);
    hints.ai_flags = 0;
    CHECK_INT(getaddrinfo(NULL, "http", &hints, &found), ==, 0);
    CHECK(is_loopback(found, 80));
    freeaddrinfo(found);
}

STATEMENT(every_error_has_its_code)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = (struct addrinfo *)&hints;
    CHECK_INT(getaddrinfo("localhost", NULL, &hints, &found), ==, EAI_NONAME);
    CHECK_INT(getaddrinfo(NULL, NULL, NULL, &found), ==, EAI_NONAME);
    CHECK_INT(getaddrinfo("127.0.0.1", "http", &(struct addrinfo){.ai_flags = AI_NUMERICSERV}, &found), ==, EAI_NONAME);
    CHECK_INT(getaddrinfo("127.0.0.1", "nosuchservice", NULL, &found), ==, EAI_SERVICE);
    CHECK_INT(getaddrinfo("127.0.0.1", "80", &(struct addrinfo){.ai_family = 12345}, &found), ==, EAI_FAMILY);
    CHECK_INT(getaddrinfo("::1", NULL, &(struct addrinfo){.ai_family = AF_INET, .ai_flags = AI_NUMERICHOST}, &found),
              ==, EAI_ADDRFAMILY);
    CHECK_INT(getaddrinfo("127.0.0.1", "80", &(struct addrinfo){.ai_socktype = 77}, &found), ==, EAI_SOCKTYPE);
    CHECK_INT(getaddrinfo("127.0.0.1", "80", &(struct addrinfo){.ai_flags = 1 << 30}, &found), ==, EAI_BADFLAGS);
    CHECK_INT(getaddrinfo(NULL, "80", &(struct addrinfo){.ai_flags = AI_CANONNAME}, &found), ==, EAI_BADFLAGS);
    CHECK_PTR(found, ==, &hints); /* left as it was */
    char longest[2000];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    int rc = getaddrinfo(longest, NULL, NULL, &found);
    CHECK(rc == EAI_NONAME || rc == EAI_FAIL || rc == EAI_AGAIN || rc == EAI_NODATA);
}

struct lookup {
    const char *host;
    struct addrinfo *found;
    int rc;
};

static void look_up(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    char host[32]; /* which is gone when it returns */
    snprintf(host, sizeof host, "%s", l->host);
    l->rc = getaddrinfo(host, "80", &hints, &l->found);
}

static void let_go(void *arg)
{
    freeaddrinfo(((struct lookup *)arg)->found);
}

STATEMENT(a_hundred_are_looked_up_at_once)
{
    enum { MANY = 100 };
    static struct lookup lookups[MANY];
    struct flow *flows[MANY];
    for (int i = 0; i < MANY; i++) {
        lookups[i] = (struct lookup){.host = i % 3 ? "localhost" : "127.0.0.1"};
        flows[i] = i % 2 ? begin(look_up, &lookups[i]) : begin_elsewhere(look_up, &lookups[i]);
    }
    for (int i = 0; i < MANY; i++) {
        end(flows[i]);
        CHECK_INT(lookups[i].rc, ==, 0);
        CHECK(is_loopback(lookups[i].found, 80));
    }
    for (int i = 0; i < MANY; i++) /* by anybody */
        flows[i] = i % 3 == 0   ? begin_thread(let_go, &lookups[i])
                   : i % 3 == 1 ? begin_elsewhere(let_go, &lookups[i])
                                : begin(let_go, &lookups[i]);
    for (int i = 0; i < MANY; i++)
        end(flows[i]);
}

STATEMENT(a_plain_thread_looks_up)
{
    struct lookup l = {.host = "localhost"};
    end(begin_thread(look_up, &l));
    CHECK_INT(l.rc, ==, 0);
    CHECK(is_loopback(l.found, 80));
    end(begin(let_go, &l));
}

STATEMENT(addresses_have_names)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(80)};
    char host[64] = "", service[16] = "";
    CHECK_INT(getnameinfo((struct sockaddr *)&at, sizeof at, host, sizeof host, service, sizeof service, 0), ==, 0);
    CHECK_STR(host, "localhost");
    CHECK_STR(service, "http");
    CHECK_INT(getnameinfo((struct sockaddr *)&at, sizeof at, host, sizeof host, service, sizeof service,
                          NI_NUMERICHOST | NI_NUMERICSERV),
              ==, 0);
    CHECK_STR(host, "127.0.0.1");
    CHECK_STR(service, "80");
    CHECK_INT(getnameinfo((struct sockaddr *)&at, sizeof at, host, 2, NULL, 0, NI_NUMERICHOST), ==, EAI_OVERFLOW);
    CHECK_INT(getnameinfo((struct sockaddr *)&at, 1, host, sizeof host, NULL, 0, 0), ==, EAI_FAMILY);
}

STATEMENT(the_older_calls_find_the_same)
{
    struct hostent entry, *found = gethostbyname("localhost");
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    char memory[1024];
    int error = 0;
    CHECK(found && found->h_addrtype == AF_INET && memcmp(found->h_addr_list[0], &loopback, 4) == 0);
    found = gethostbyaddr(&loopback, sizeof loopback, AF_INET);
    CHECK(found != NULL);
    CHECK_STR(found->h_name, "localhost");
    found = NULL;
    CHECK_INT(gethostbyname_r("localhost", &entry, memory, sizeof memory, &found, &error), ==, 0);
    CHECK(found == &entry && memcmp(entry.h_addr_list[0], &loopback, 4) == 0 && entry.h_addr_list[1] == NULL);
    CHECK(entry.h_addr_list[0] >= memory && entry.h_addr_list[0] < memory + sizeof memory);
    CHECK_INT(gethostbyname_r("localhost", &entry, memory, 8, &found, &error), ==, ERANGE);
    CHECK(found == NULL);
    h_errno = 0;
    CHECK(gethostbyname("") == NULL);
    CHECK_INT(h_errno, !=, 0);
}

/* A failure of the system is told with its errno. */
STATEMENT(without_descriptors_the_reason_is_told)
{
    struct rlimit now, none;
    struct addrinfo *found = NULL;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), ==, 0);
    none = (struct rlimit){0, now.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), ==, 0);
    errno = 0;
    int rc = getaddrinfo("localhost", "80", NULL, &found), error = errno;
    errno = 0;
    int service_rc = getaddrinfo("127.0.0.1", "http", NULL, &found), service_error = errno;
    errno = 0;
    const struct hostent *host = gethostbyname("localhost");
    int host_error = errno, reason = h_errno;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &now), ==, 0);
    CHECK_INT(rc, ==, EAI_SYSTEM);
    CHECK_INT(error, ==, EMFILE);
    CHECK_INT(service_rc, ==, EAI_SERVICE);
    CHECK_INT(service_error, ==, EMFILE);
    CHECK(!host);
    CHECK_INT(host_error, ==, EMFILE);
    CHECK_INT(reason, ==, NETDB_INTERNAL);
    if (rc == 0)
        freeaddrinfo(found);
}

enum { ASKERS = 10 };

/* A name server that answers nobody until all have asked. */
static void serve_names(void *arg)
{
    int fd = *(int *)arg;
    unsigned char text[ASKERS][512];
    struct sockaddr_in from[ASKERS];
    ssize_t bytes[ASKERS];
    for (int i = 0; i < ASKERS; i++) {
        socklen_t size = sizeof from[i];
        bytes[i] = recvfrom(fd, text[i], 400, 0, (struct sockaddr *)&from[i], &size);
        CHECK_INT(bytes[i], >, 12);
    }
    for (int i = 0; i < ASKERS; i++) {
        static const unsigned char answer[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7};
        text[i][2] |= 0x80; /* an answer... */
        text[i][3] = 0x80;
        text[i][7] = 1; /* ...of one record, without what the question had besides */
        text[i][9] = text[i][11] = 0;
        memcpy(text[i] + bytes[i], answer, sizeof answer);
        bytes[i] += (ssize_t)sizeof answer;
        CHECK_INT(sendto(fd, text[i], (size_t)bytes[i], 0, (struct sockaddr *)&from[i], sizeof from[i]), ==, bytes[i]);
    }
}

struct asker {
    in_port_t port;
    int bytes;
    unsigned char text[512];
};

static void ask(void *arg)
{
    struct asker *a = arg;
    struct __res_state state = {0};
    CHECK_INT(res_ninit(&state), ==, 0);
    state.nscount = 1;
    state.nsaddr_list[0] = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = a->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    state.retrans = 30;
    state.retry = 1;
    state.options &= ~(RES_USE_EDNS0 | RES_USE_DNSSEC);
    a->bytes = res_nquery(&state, "weft.example", ns_c_in, ns_t_a, a->text, sizeof a->text);
    res_nclose(&state);
}

STATEMENT(many_wait_for_a_name_server_at_the_same_time)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    CHECK_INT(bind(fd, (struct sockaddr *)&at, sizeof at), ==, 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&at, &size), ==, 0);
    struct flow *server = begin_thread(serve_names, &fd), *flows[ASKERS];
    static struct asker askers[ASKERS];
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){.port = at.sin_port};
        flows[i] = begin(ask, &askers[i]);
    }
    for (int i = 0; i < ASKERS; i++) {
        end(flows[i]);
        CHECK_INT(askers[i].bytes, >, 16);
        if (askers[i].bytes > 16)
            CHECK_INT(memcmp(askers[i].text + askers[i].bytes - 4, "\300\000\002\007", 4), ==, 0);
    }
    end(server);
    close(fd);
}

STATEMENT(what_a_name_does_not_fill_is_left_as_it_was)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(80)};
    char host[64], service[64];
    memset(host, 'x', sizeof host);
    memset(service, 'x', sizeof service);
    CHECK_INT(getnameinfo((struct sockaddr *)&at, sizeof at, host, sizeof host, service, sizeof service,
                          NI_NUMERICHOST | NI_NUMERICSERV),
              ==, 0);
    CHECK_STR(host, "127.0.0.1");
    CHECK_STR(service, "80");
    CHECK(host[10] == 'x' && host[63] == 'x' && service[3] == 'x' && service[63] == 'x');
}

STATEMENTS(resolve, names_of_etc_hosts_are_found, numbers_are_taken_as_they_are, no_node_is_anywhere_or_here,
           every_error_has_its_code, a_hundred_are_looked_up_at_once, a_plain_thread_looks_up, addresses_have_names,
           the_older_calls_find_the_same, without_descriptors_the_reason_is_told,
           many_wait_for_a_name_server_at_the_same_time, what_a_name_does_not_fill_is_left_as_it_was)
