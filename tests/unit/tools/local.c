/*
 * Which addresses and names are this machine's loopback.
 */
#include "tools/weft/local.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "support/test.h"

static bool is_local_v4(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(80)};
    CHECK_INT(inet_pton(AF_INET, text, &a.sin_addr), ==, 1);
    return local_address((struct sockaddr *)&a);
}

static bool is_local_v6(const char *text)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    CHECK_INT(inet_pton(AF_INET6, text, &a.sin6_addr), ==, 1);
    return local_address((struct sockaddr *)&a);
}

TEST(loopback_addresses_are_local)
{
    CHECK(is_local_v4("127.0.0.1"));
    CHECK(is_local_v4("127.255.255.254"));
    CHECK(is_local_v6("::1"));
    CHECK(is_local_v6("::ffff:127.0.0.1"));
    CHECK(is_local_v6("::ffff:127.9.9.9"));
}

TEST(other_addresses_are_not_local)
{
    CHECK(!is_local_v4("0.0.0.0"));
    CHECK(!is_local_v4("1.0.0.127"));
    CHECK(!is_local_v4("126.255.255.255"));
    CHECK(!is_local_v4("128.0.0.1"));
    CHECK(!is_local_v4("10.0.0.1"));
    CHECK(!is_local_v4("192.168.0.1"));
    CHECK(!is_local_v6("::"));
    CHECK(!is_local_v6("::2"));
    CHECK(!is_local_v6("fe80::1"));
    CHECK(!is_local_v6("2001:db8::1"));
    CHECK(!is_local_v6("::ffff:10.0.0.1"));
    CHECK(!is_local_v6("::ffff:0.0.0.1"));
    CHECK(!is_local_v6("::7f00:1")); /* IPv4-compatible, which no kernel uses */
    CHECK(!is_local_v6("64:ff9b::7f00:1"));
    CHECK(!is_local_v6("::1:ffff:7f00:1"));
}

TEST(a_unix_socket_has_no_loopback_address)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/127.0.0.1"};
    CHECK(!local_address((struct sockaddr *)&a));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    CHECK(!local_address(&none));
}

TEST(loopback_names_are_local_with_any_port)
{
    static const char *const hosts[] = {
        "localhost",
        "LocalHost",
        "localhost.",
        "localhost:8080",
        "localhost:",
        "localhost.:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "127.1.2.3",
        "127.0.0.1:",
        "[::1]",
        "[::1]:8080",
        "[0:0:0:0:0:0:0:1]:80",
        "[::ffff:127.0.0.1]:80",
        "[::FFFF:7f00:1]",
    };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (!local_host(hosts[i]))
            test_failed(__FILE__, __LINE__, "refuses \"%s\"", hosts[i]);
    }
}

TEST(other_names_are_not_local)
{
    static const char *const hosts[] = {
        "",
        ":",
        ":80",
        ".",
        "example.org",
        "localhost.example.org",
        "localhost.example.org:80",
        "localhost..",
        ".localhost",
        "mylocalhost",
        "localhostess",
        "localhos",
        "example.org:localhost",
        "localhost:80:80",
        "localhost:80x",
        "localhost: 80",
        "localhost:-1",
        "localhost/",
        " localhost",
        "localhost ",
        "example.org@localhost",
        "localhost@example.org",
        "localhost,example.org",
        "127.0.0.1.example.org",
        "127.0.0.1.",
        "127.1",
        "127",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "0.0.0.0",
        "10.0.0.1",
        "128.0.0.1",
        "::1",
        "[",
        "[]",
        "[::1",
        "[::1]x",
        "[::1].example.org",
        "[::2]",
        "[::]",
        "[127.0.0.1]",
        "[localhost]",
        "[::ffff:10.0.0.1]",
        "[fe80::1%lo]",
        "127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1127.0.0.1",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]",
    };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (local_host(hosts[i]))
            test_failed(__FILE__, __LINE__, "takes \"%s\"", hosts[i]);
    }
}

TESTS(tools_local, loopback_addresses_are_local, other_addresses_are_not_local, a_unix_socket_has_no_loopback_address,
      loopback_names_are_local_with_any_port, other_names_are_not_local)
