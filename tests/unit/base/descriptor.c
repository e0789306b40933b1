/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/descriptor.h: descriptors that are passed between processes. */
#include "base/descriptor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/unit/tap.h"

static void a_pipe_changes_hands(int a, int b)
{
    char packet[4] = "", byte = 0;
    int ends[2], got;

    ok(fd_pipe(ends) == 0 && descriptor_send(a, "word", 4, ends[0]) == 0, "a descriptor is sent");
    fd_close(&ends[0]);
    ok(descriptor_recv(b, packet, 4, &got) && got >= 0 && memcmp(packet, "word", 4) == 0,
       "and comes, with its packet");
    ok((fcntl(got, F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
    ok(write(ends[1], "x", 1) == 1 && read(got, &byte, 1) == 1 && byte == 'x',
       "it is the same file");
    close(got);
    close(ends[1]);
    ok(!descriptor_recv(b, packet, 4, &got) && got == -1, "nothing more: nobody waits");
}

static void packets_of_another_kind(int a, int b)
{
    char packet[4];
    int got = 0;

    ok(descriptor_send(a, "longer", 6, a) == 0 && descriptor_recv(b, packet, 4, &got) && got == -1,
       "one too long");
    ok(descriptor_send(a, "l", 1, a) == 0 && descriptor_recv(b, packet, 4, &got) && got == -1,
       "one too short");
    ok(send(a, "word", 4, 0) == 4 && descriptor_recv(b, packet, 4, &got) && got == -1,
       "one without a descriptor");
    ok(descriptor_send(a, "", 0, a) == 0 && !descriptor_recv(b, packet, 4, &got) && got == -1,
       "one of nothing else");
}

static void send_two(int a, int first, int second)
{
    const int fds[2] = { first, second };
    union {
        char bytes[CMSG_SPACE(sizeof fds)];
        struct cmsghdr align;
    } control = { .bytes = { 0 } };
    char word[] = "word";
    struct iovec bytes = { .iov_base = word, .iov_len = 4 };
    struct msghdr h = { .msg_iov = &bytes,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof control.bytes };

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(&control.align), fds, sizeof fds);
    ok(sendmsg(a, &h, 0) == 4, "a packet with two descriptors");
}

static int lowest_free(void)
{
    int fd = dup(0);
    const int number = fd;

    fd_close(&fd);
    return number;
}

/* A descriptor that the test has inherited may stand between the two lowest. */
static void one_too_many(int a, int b)
{
    const int lowest = dup(0), next = lowest_free();
    char packet[4];
    int got;

    close(lowest);
    send_two(a, a, b);
    ok(descriptor_recv(b, packet, 4, &got) && got == lowest, "the first is taken");
    ok(lowest_free() == next, "and the other one closed");
    close(got);
}

int main(void)
{
    int fd[2], stream[2], ends[2];
    char packet[4];
    int got;

    ok(descriptor_pair(fd) == 0 && (fcntl(fd[0], F_GETFD) & FD_CLOEXEC) != 0, "a pair");
    ok(descriptor_is_end(fd[0]) && descriptor_is_end(fd[1]), "its ends are known");
    ok(fd_pipe(ends) == 0 && !descriptor_is_end(ends[0]), "a pipe is none");
    ok(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0 && !descriptor_is_end(stream[0]),
       "nor is a stream");
    ok(!descriptor_is_end(-1), "nor is nothing");
    a_pipe_changes_hands(fd[0], fd[1]);
    packets_of_another_kind(fd[0], fd[1]);
    one_too_many(fd[0], fd[1]);
    close(fd[0]);
    ok(!descriptor_recv(fd[1], packet, 4, &got), "the other end is closed");
    ok(descriptor_send(fd[1], "word", 4, fd[1]) < 0, "and takes nothing");
    close(fd[1]);
    return plan_done();
}
