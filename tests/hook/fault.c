/*
 * tests/hook/fault.c: calls that are given what they cannot use: memory that is not there, and too much at once.
 */
#include "hook/peer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define NOWHERE ((void *)(uintptr_t)8)

STATEMENT(no_memory_to_receive_into_is_efault)
{
    int pair[2];
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(write(pair[1], "abc", 3), ==, 3);
    CHECK_ERRNO(recv(pair[0], NOWHERE, 3, 0), EFAULT);
    CHECK_ERRNO(read(pair[0], NOWHERE, 3), EFAULT);
    CHECK_ERRNO(readv(pair[0], NOWHERE, 1), EFAULT);
    CHECK_ERRNO(readv(pair[0], &(struct iovec){NOWHERE, 3}, 1), EFAULT);
    CHECK_ERRNO(recvmsg(pair[0], NOWHERE, 0), EFAULT);
    CHECK_ERRNO(recvmsg(pair[0], &(struct msghdr){.msg_iov = NOWHERE, .msg_iovlen = 1}, 0), EFAULT);
    char text[4];
    CHECK_INT(recv(pair[0], text, 4, 0), ==, 3);
    close_pair(pair);
}

STATEMENT(no_memory_to_send_from_is_efault)
{
    int pair[2], pipefd[2];
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe(pipefd), ==, 0);
    CHECK_ERRNO(send(pair[0], NOWHERE, 3, 0), EFAULT);
    CHECK_ERRNO(write(pair[0], NOWHERE, 3), EFAULT);
    CHECK_ERRNO(writev(pair[0], NOWHERE, 1), EFAULT);
    CHECK_ERRNO(writev(pair[0], &(struct iovec){NOWHERE, 3}, 1), EFAULT);
    CHECK_ERRNO(sendmsg(pair[0], NOWHERE, 0), EFAULT);
    CHECK_ERRNO(sendmsg(pair[0], &(struct msghdr){.msg_iov = NOWHERE, .msg_iovlen = 1}, 0), EFAULT);
    CHECK_ERRNO(write(pipefd[1], NOWHERE, 3), EFAULT);
    CHECK_ERRNO(writev(pipefd[1], NOWHERE, 1), EFAULT);
    CHECK_ERRNO(recv(pair[1], (char[1]){0}, 1, MSG_DONTWAIT), EAGAIN);
    close_pair(pair);
    close_pair(pipefd);
}

STATEMENT(memory_that_ends_too_soon_is_read_as_far_as_it_goes)
{
    int pair[2];
    char text[8192];
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_INT(mprotect(two + 4096, 4096, PROT_NONE), ==, 0);
    CHECK_INT(pipe(pair), ==, 0);
    CHECK_INT(write(pair[1], two, 8192), ==, 4096);
    CHECK_INT(read(pair[0], text, sizeof text), ==, 4096);
    close_pair(pair);
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(write(pair[1], text, 8192), ==, 8192);
    CHECK_ERRNO(read(pair[0], two + 4096, 100), EFAULT);
    CHECK_INT(read(pair[0], text, sizeof text), ==, 8192);
    close_pair(pair);
    munmap(two, 8192);
}

STATEMENT(too_many_parts_are_refused)
{
    static struct iovec parts[1025];
    static char bytes[1025];
    int pair[2], pipefd[2];
    for (int i = 0; i < 1025; i++)
        parts[i] = (struct iovec){&bytes[i], 1};
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe(pipefd), ==, 0);
    CHECK_ERRNO(writev(pair[0], parts, 1025), EINVAL);
    CHECK_ERRNO(readv(pair[0], parts, 1025), EINVAL);
    CHECK_ERRNO(writev(pair[0], parts, -1), EINVAL);
    CHECK_ERRNO(readv(pair[0], parts, -1), EINVAL);
    CHECK_ERRNO(writev(pipefd[1], parts, 1025), EINVAL);
    CHECK_ERRNO(sendmsg(pair[0], &(struct msghdr){.msg_iov = parts, .msg_iovlen = 1025}, 0), EMSGSIZE);
    CHECK_ERRNO(recvmsg(pair[0], &(struct msghdr){.msg_iov = parts, .msg_iovlen = 1025}, 0), EMSGSIZE);
    CHECK_INT(writev(pair[0], parts, 1024), ==, 1024);
    CHECK_INT(readv(pair[1], parts, 1024), ==, 1024);
    CHECK_INT(writev(pipefd[1], parts, 1024), ==, 1024);
    CHECK_INT(readv(pipefd[0], parts, 1024), ==, 1024);
    CHECK_INT(writev(pair[0], parts, 0), ==, 0);
    CHECK_INT(readv(pair[0], parts, 0), ==, 0);
    close_pair(pair);
    close_pair(pipefd);
}

STATEMENT(a_large_transfer_of_very_many_parts_arrives_in_order)
{
    enum { PART = 1024 };
    static unsigned char bytes[1024 * PART];
    static struct iovec parts[1024];
    int pair[2];
    fill_pattern(bytes, sizeof bytes);
    for (int i = 0; i < 1024; i++)
        parts[i] = (struct iovec){bytes + i * PART, PART};
    unix_pair(pair, SOCK_STREAM);
    struct reader r = {.fd = pair[1], .after_ms = 20, .chunk = 30001};
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(writev(pair[0], parts, 1024), ==, sizeof bytes);
    CHECK_INT(close(pair[0]), ==, 0);
    end(reads);
    CHECK_INT(r.bytes, ==, sizeof bytes);
    CHECK(!r.wrong);
}

STATEMENT(no_memory_for_an_address_is_efault)
{
    struct sockaddr_in at;
    int l = listener(8, &at), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_ERRNO(connect(fd, NOWHERE, sizeof at), EFAULT);
    CHECK_ERRNO(connect(fd, NULL, sizeof at), EFAULT);
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_ERRNO(accept(l, NOWHERE, &(socklen_t){sizeof at}), EFAULT);
    close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_ERRNO(connect(fd, NOWHERE, sizeof(struct sockaddr_un)), EFAULT);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, AS_ADDRESS(at), sizeof at), ==, 0);
    CHECK_ERRNO(accept(l, AS_ADDRESS(at), NOWHERE), EFAULT);
    close(fd);
    close(l);
}

STATEMENTS(fault, no_memory_to_receive_into_is_efault, no_memory_to_send_from_is_efault,
           memory_that_ends_too_soon_is_read_as_far_as_it_goes, too_many_parts_are_refused,
           a_large_transfer_of_very_many_parts_arrives_in_order, no_memory_for_an_address_is_efault)
