/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes, with any descriptors, as a packet: it is refused with an error text, or it is a
 * message with a valid header. At the end as many descriptors are open as before. The first byte
 * says what is sent: bits 0 and 1 the number of descriptors, bits 2 and 3 how the rest is wrapped,
 * bit 4 whether the memory files are sealed. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/process.h"
#include "protocol/span.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/descriptors.h"
#include "worker/link/packet.h"

#define MOST 60000u /* bytes of a rest that is sent */

const char fuzz_corpus[] = "protocol/vectors/span-*.hex";
const unsigned fuzz_prefixes = 32;

enum wrap { WRAP_NONE, WRAP_INLINE, WRAP_MEMFD, WRAP_LIE };

static int memory_file(const uint8_t *p, size_t n, bool sealed)
{
    struct err err = { "" };
    const int fd = blob_create("fuzz", &err);

    if (fd < 0 || blob_write(fd, p, n, 0, &err) < 0 || (sealed && blob_seal(fd, &err) < 0)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return fd;
}

static size_t wrap(enum wrap how, const uint8_t *p, size_t n, uint8_t out[MOST + 9])
{
    if (how == WRAP_NONE) {
        memcpy(out, p, n);
        return n;
    }
    out[0] = how == WRAP_INLINE ? 0 : 1;
    if (how == WRAP_MEMFD) {
        for (unsigned i = 0; i < 8; i++)
            out[1 + i] = (uint8_t)((uint64_t)n >> 8 * i & 0xff);
        return 9;
    }
    memcpy(out + 1, p, n);
    return n + 1;
}

static void send_raw(int fd, void *p, size_t n, const int *fds, unsigned n_fds)
{
    struct iovec iov = { p, n };
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

    memset(&control, 0, sizeof control);
    if (n_fds > 0) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
    }
    if (sendmsg(fd, &h, 0) != (ssize_t)n)
        abort();
}

static void receive(int fd)
{
    struct packet p = PACKET_INIT;
    struct err err = { "" };
    struct span m;
    const enum packet_got got = packet_recv(fd, &p, &err);

    if (got == PACKET_GOT) {
        if (span_peek(&m, p.p, p.n, NULL) < 0 ||
            (p.blob_fd >= 0) != (m.blob != 0 && m.blob_size != 0))
            abort();
        packet_release(&p);
    } else if (p.p || p.blob_fd != -1 || (got == PACKET_ERROR) != (err.text[0] != '\0')) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t packet[MOST + 9];
    const unsigned before = open_descriptors();
    int fd[2], fds[3];
    unsigned n_fds;
    size_t n;

    if (size == 0 || size - 1 > MOST)
        return 0;
    n_fds = data[0] & 3u;
    if (packet_pair(fd, NULL) < 0)
        abort();
    for (unsigned i = 0; i < n_fds; i++)
        fds[i] = memory_file(data + 1, size - 1, !(data[0] & 16u));
    n = wrap((enum wrap)(data[0] >> 2 & 3u), data + 1, size - 1, packet);
    send_raw(fd[0], packet, n, fds, n_fds);
    receive(fd[1]);
    for (unsigned i = 0; i < n_fds; i++)
        fd_close(&fds[i]);
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    if (open_descriptors() != before)
        abort();
    return 0;
}
