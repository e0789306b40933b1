/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "base/meter.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifdef HAVE_TCP_BYTES_RECEIVED
#include <linux/tcp.h> /* netinet/tcp.h has an older struct tcp_info */
#else
#include <netinet/tcp.h>
#endif

/* 0: fd is closed, or not a socket. */
static uint64_t inode_of(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

static bool is_local(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;

    return fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0 &&
           at.ss_family == AF_UNIX;
}

/* Bytes are counted in their order, so packets beyond a gap count beside them. Packets that come
 * again add to neither. */
static uint64_t come_on(int fd)
{
#ifdef HAVE_TCP_BYTES_RECEIVED
    struct tcp_info info;
    socklen_t size = sizeof info;
    uint64_t beyond = 0;

    memset(&info, 0, sizeof info); /* an older kernel fills less of it */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return 0;
#ifdef HAVE_TCP_RCV_OOOPACK
    beyond = info.tcpi_rcv_ooopack;
#endif
    return info.tcpi_bytes_received + beyond;
#else
    (void)fd;
    return 0;
#endif
}

#ifdef __linux__
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since 6.15 */
#endif
#define PAUSE_MS   3000
#define GIVE_UP_MS 924000 /* the system's default; with PAUSE_MS it would be 39 s */

static void set(int fd, int option, int value)
{
    (void)setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
}

/* By default TCP retransmits a segment after 0.2 s, 0.4 s, 0.8 s and so on. If 30 % of packets are
 * lost in each direction, one exchange in 200 is silent for a minute, and a large message needs
 * hundreds of exchanges. With pauses of at most 3 s it is one in millions. */
static void keep_pace(int fd)
{
    int before;
    socklen_t size = sizeof before;

    set(fd, TCP_THIN_LINEAR_TIMEOUTS, 1);
    if (getsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &before, &size) < 0)
        return;
    set(fd, TCP_USER_TIMEOUT, GIVE_UP_MS);
    set(fd, TCP_RTO_MAX_MS, PAUSE_MS);
}
#else
static void keep_pace(int fd)
{
    (void)fd;
}
#endif

void meter_watch(struct meter *m, int fd)
{
    if (fd == m->fd)
        return;
    m->fd = fd;
    m->inode = inode_of(fd);
    m->come = come_on(fd);
    m->is_local = is_local(fd);
    keep_pace(fd);
}

static bool relay_moved(struct meter *m)
{
    const uint64_t before = m->counted;

    if (m->relayed)
        m->counted = atomic_load_explicit(m->relayed, memory_order_relaxed);
    return m->counted != before;
}

bool meter_moved(struct meter *m)
{
    const uint64_t inode = inode_of(m->fd);
    const uint64_t before = m->come;
    const bool relayed = relay_moved(m);

    if (inode == 0 || inode != m->inode) {
        m->fd = -1;
        m->inode = 0;
        m->come = 0;
        return false;
    }
    m->come = come_on(m->fd);
    return m->come != before || (relayed && m->is_local);
}
