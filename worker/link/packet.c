/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.c - see packet.h. The tag has its own iovec, so that the message need not be copied. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/link/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/blob.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/le.h"
#include "base/process.h"
#include "base/unix_socket.h"
#include "protocol/bytes.h"
#include "protocol/span.h"

#define TAG_INLINE 0
#define TAG_MEMFD  1
#define FDS_MAX    2u /* descriptors that a packet may have */
#define RETRY_NS   (5 * NS_PER_S)

#define INLINE_MAX (PACKET_INLINE_MAX - 1u) /* bytes of a message in a packet, without the tag */

int packet_pair(int fd[2], struct err *err)
{
    const int room = 4 * (int)PACKET_INLINE_MAX; /* set if the system's default is smaller */
    int have = 0;
    socklen_t size = sizeof have;

    if (descriptor_pair(fd) < 0)
        return err_set(err, "socketpair: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        if (getsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &have, &size) == 0 && have < room)
            (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        unix_no_sigpipe(fd[i]);
    }
    return 0;
}

/* ---- sending ---- */

struct fds {
    int fd[DESCRIPTORS_MAX];
    unsigned n;
};

static bool is_blocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Linux limits the descriptors in flight of all of a user's processes together. Waits a moment,
 * because the number falls when receivers read. */
static bool too_many_on_the_way(int fd, uint64_t *until_ns)
{
    const struct timespec ms = { 0, 1000000 };

#ifdef ETOOMANYREFS
    if (errno == ETOOMANYREFS && is_blocking(fd)) {
        const uint64_t now = clock_now(&clock_system);

        errno = ETOOMANYREFS;
        *until_ns = *until_ns ? *until_ns : now + RETRY_NS;
        if (now >= *until_ns)
            return false;
        (void)nanosleep(&ms, NULL);
        return true;
    }
#endif
    (void)ms;
    (void)fd;
    (void)until_ns;
    return false;
}

/* 0, or an errno; EAGAIN: it would block. */
static int send_packet(int fd, char tag, const void *p, size_t n, const struct fds *fds)
{
    struct iovec iov[2] = { { &tag, 1 }, { (void *)(uintptr_t)p, n } };
    struct msghdr h = { .msg_iov = iov, .msg_iovlen = 2 };
    union descriptor_room room;
    uint64_t until_ns = 0;
    ssize_t sent;

    descriptors_attach(&h, &room, fds->fd, fds->n);
    do
        sent = sendmsg(fd, &h, MSG_NOSIGNAL);
    while (sent < 0 && (errno == EINTR || too_many_on_the_way(fd, &until_ns)));
    if (sent >= 0)
        return 0;
#ifdef ETOOMANYREFS
    if (errno == ETOOMANYREFS)
        return EAGAIN;
#endif
    return errno == EWOULDBLOCK ? EAGAIN : errno;
}

/* Sends the message in a memory file. First checks whether the socket would block, to save the
 * work. Returns as send_packet, or -1 with *err set. */
static int send_large(int fd, const void *msg, size_t n, const struct fds *blob, struct err *err)
{
    struct pollfd ready = { fd, POLLOUT, 0 };
    struct fds fds = { { -1 }, 1 };
    uint8_t size[8];
    int rc;

    if (!is_blocking(fd) && poll(&ready, 1, 0) == 0)
        return EAGAIN;
    le_put(size, sizeof size, n);
    if ((fds.fd[0] = blob_of("cellspan-message", msg, n, err)) < 0)
        return -1;
    if (blob->n > 0)
        fds.fd[fds.n++] = blob->fd[0];
    rc = send_packet(fd, TAG_MEMFD, size, sizeof size, &fds);
    fd_close(&fds.fd[0]);
    return rc;
}

/* Checks the blob against the header. If they differ, the peer would close the link. */
static int check_blob(const struct span *m, int blob_fd, struct err *err)
{
    uint64_t size = 0;

    if (m->blob == 0 || m->blob_size == 0)
        return blob_fd < 0
                   ? 0
                   : err_set(err, "a message came with a blob that its header does not have");
    if (blob_fd < 0)
        return err_set(err, "a message came without the blob that its header has");
    if (blob_check(blob_fd, &size, err) < 0)
        return -1;
    return size == m->blob_size
               ? 0
               : err_set(err, "a blob has %llu bytes, the message's header says %llu",
                         (unsigned long long)size, (unsigned long long)m->blob_size);
}

int packet_send(int fd, const void *msg, size_t n, int blob_fd, struct err *err)
{
    const struct fds blob = { { blob_fd }, blob_fd >= 0 ? 1 : 0 };
    struct span m;
    int rc = EMSGSIZE;

    if (n > PACKET_MESSAGE_MAX)
        return err_set(err, "a message of %zu bytes: the most is %llu", n,
                       (unsigned long long)PACKET_MESSAGE_MAX);
    if (span_peek(&m, msg, n, err) < 0 || check_blob(&m, blob_fd, err) < 0)
        return -1;
    if (n <= INLINE_MAX)
        rc = send_packet(fd, TAG_INLINE, msg, n, &blob);
    if (rc == EMSGSIZE || rc == ENOBUFS) /* too long for a packet, or for the socket's buffer */
        rc = send_large(fd, msg, n, &blob, err);
    if (rc == EAGAIN)
        return 1;
    if (rc > 0)
        return err_set(err, "%s",
                       rc == EPIPE || rc == ECONNRESET ? "the peer is gone" : strerror(rc));
    return rc;
}

/* ---- receiving ---- */

static void close_fds(struct fds *fds)
{
    for (unsigned i = 0; i < fds->n; i++)
        fd_close(&fds->fd[i]);
    fds->n = 0;
}

static void collect(struct msghdr *h, struct fds *fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0;
             at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0) && fds->n < DESCRIPTORS_MAX;
             at += sizeof(int)) {
            memcpy(&fds->fd[fds->n], CMSG_DATA(c) + at, sizeof(int));
            if (!MSG_CMSG_CLOEXEC && fd_cloexec(fds->fd[fds->n]) < 0)
                (void)0; /* then it stays open over an exec; keep the message nevertheless */
            fds->n++;
        }
    }
}

struct arrival {
    unsigned char tag;
    char *p; /* INLINE_MAX bytes of room */
    size_t n;
    struct fds fds;
    bool lost; /* a descriptor that came could not be opened: this process has too many */
};

static enum packet_got receive(int fd, struct arrival *a, struct err *err)
{
    struct iovec iov[2] = { { &a->tag, 1 }, { a->p, INLINE_MAX } };
    union descriptor_room room;
    struct msghdr h = { .msg_iov = iov,
                        .msg_iovlen = 2,
                        .msg_control = room.bytes,
                        .msg_controllen = sizeof room.bytes };
    ssize_t n;

    memset(&room, 0, sizeof room);
    do
        n = recvmsg(fd, &h, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return PACKET_NONE;
    /* ECONNRESET is an end, too: the peer had not read everything */
    if (n < 0 && errno != ECONNRESET)
        return (enum packet_got)err_set(err, "%s", strerror(errno));
    if (n >= 0) /* an empty packet looks like the end, but may bring descriptors */
        collect(&h, &a->fds);
    if (n <= 0)
        return PACKET_END;
    a->n = (size_t)n - 1;
    a->lost = (h.msg_flags & MSG_CTRUNC) && a->fds.n < FDS_MAX;
    if (h.msg_flags & MSG_TRUNC || (h.msg_flags & MSG_CTRUNC && !a->lost))
        return (
            enum packet_got)err_set(err,
                                    "a packet is longer than %u bytes, or has too many descriptors",
                                    PACKET_INLINE_MAX);
    return PACKET_GOT;
}

/* Reads the message from the memory file that is the packet's first descriptor. */
static int open_large(struct arrival *a, struct packet *p, struct err *err)
{
    struct reader r = reader_of(a->p, a->n);
    const uint64_t said = reader_u64(&r);
    uint64_t size = 0;

    if (a->lost && a->fds.n == 0)
        return err_set(err, "a long message could not be opened: %s", strerror(EMFILE));
    if (r.bad || reader_left(&r) > 0 || a->fds.n == 0)
        return err_set(err, "a packet with tag 1 is not a size and a memory file");
    if (blob_check(a->fds.fd[0], &size, err) < 0)
        return -1;
    if (size != said || size > PACKET_MESSAGE_MAX)
        return err_set(
            err, "a message's memory file has %llu bytes, its packet says %llu, the most is %llu",
            (unsigned long long)size, (unsigned long long)said,
            (unsigned long long)PACKET_MESSAGE_MAX);
    if (!(p->p = malloc(size > 0 ? (size_t)size : 1)))
        return err_set(err, "out of memory for a message of %llu bytes", (unsigned long long)size);
    p->n = (size_t)size;
    if (blob_read(a->fds.fd[0], p->p, p->n, 0, err) < 0)
        return -1;
    fd_close(&a->fds.fd[0]);
    a->fds.fd[0] = a->fds.fd[--a->fds.n];
    return 0;
}

static int open_inline(struct arrival *a, struct packet *p)
{
    char *shrunk = realloc(a->p, a->n > 0 ? a->n : 1);

    p->p = shrunk ? shrunk : a->p;
    p->n = a->n;
    a->p = NULL;
    return 0;
}

static int open_packet(struct arrival *a, struct packet *p, struct err *err)
{
    struct span m;

    if (a->tag > TAG_MEMFD)
        return err_set(err, "a packet has the tag %u", a->tag);
    if ((a->tag == TAG_MEMFD ? open_large(a, p, err) : open_inline(a, p)) < 0)
        return -1;
    if (a->fds.n > FDS_MAX - 1)
        return err_set(err, "a packet has more descriptors than its message");
    if (span_peek(&m, p->p, p->n, err) < 0)
        return -1;
    if ((a->fds.n > 0 || !a->lost) && check_blob(&m, a->fds.n ? a->fds.fd[0] : -1, err) < 0)
        return -1;
    if (a->fds.n > 0)
        p->blob_fd = a->fds.fd[0];
    a->fds.n = 0;
    return 0;
}

enum packet_got packet_recv(int fd, struct packet *p, struct err *err)
{
    struct packet got = PACKET_INIT;
    struct arrival a = { .p = malloc(INLINE_MAX) };
    enum packet_got rc;

    if (!a.p)
        return (enum packet_got)err_set(err, "out of memory");
    rc = receive(fd, &a, err);
    if (rc == PACKET_GOT && open_packet(&a, &got, err) < 0)
        rc = PACKET_ERROR;
    if (rc == PACKET_GOT)
        *p = got;
    else
        packet_release(&got);
    close_fds(&a.fds);
    free(a.p);
    return rc;
}

bool packet_takes_descriptor(int fd)
{
    unsigned char tag;

    return recv(fd, &tag, sizeof tag, MSG_PEEK | MSG_DONTWAIT) == sizeof tag && tag == TAG_MEMFD;
}

void packet_spare_keep(struct packet_spare *s)
{
    if (s->fd >= 0)
        return;
    s->fd = socket(AF_UNIX, SOCK_DGRAM, 0); /* each has an inode of its own */
    if (s->fd >= 0 && (fd_cloexec(s->fd) < 0 || fstat(s->fd, &s->as) < 0))
        fd_close(&s->fd);
}

void packet_spare_give(struct packet_spare *s)
{
    struct stat now;

    if (s->fd < 0)
        return;
    if (fstat(s->fd, &now) == 0 && now.st_dev == s->as.st_dev && now.st_ino == s->as.st_ino)
        fd_close(&s->fd);
    s->fd = -1;
}

void packet_release(struct packet *p)
{
    free(p->p);
    fd_close(&p->blob_fd);
    *p = (struct packet)PACKET_INIT;
}

int packet_take_blob(struct packet *p)
{
    const int fd = p->blob_fd;

    p->blob_fd = -1;
    return fd;
}
