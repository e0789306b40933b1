/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* bytes in one call, so that data is passed on early */
#define AT_ONCE (1u << 20)

static int failed(const struct stream_end *end, int error, struct err *err)
{
    if (!error)
        return err_set(err, "rank %u closed its connection", end->rank);
    return err_set(err, "the connection to rank %u failed: %s", end->rank, strerror(error));
}

static size_t bounded(size_t n)
{
    return n < AT_ONCE ? n : AT_ONCE;
}

static int put(const struct stream_end *to, const char *p, size_t n, size_t *done, struct err *err)
{
    const ssize_t k = send(to->fd, p, bounded(n), MSG_NOSIGNAL);

    if (k > 0)
        *done += (size_t)k;
    else if (k < 0 && errno != EAGAIN && errno != EINTR)
        return failed(to, errno, err);
    return 0;
}

static int get(const struct stream_end *from, char *p, size_t n, size_t *done, struct err *err)
{
    const ssize_t k = recv(from->fd, p, bounded(n), 0);

    if (k > 0)
        *done += (size_t)k;
    else if (k == 0)
        return failed(from, 0, err);
    else if (errno != EAGAIN && errno != EINTR)
        return failed(from, errno, err);
    return 0;
}

/* Sleeps until an end is ready or the limit must be checked. Both may be the same descriptor. */
static int rest(const struct stream_end *to, bool sends, const struct stream_end *from, bool takes,
                const struct deadline *l, struct err *err)
{
    struct pollfd watch[2] = { { .fd = sends ? to->fd : -1, .events = POLLOUT },
                               { .fd = takes ? from->fd : -1, .events = POLLIN } };
    char who[32];

    snprintf(who, sizeof who, "rank %u", takes ? from->rank : to->rank);
    if (deadline_check(l, who, err) < 0)
        return -1;
    if (poll(watch, 2, deadline_sleep_ms(l)) < 0 && errno != EINTR)
        return err_set(err, "can't wait for %s: %s", who, strerror(errno));
    return 0;
}

static int check_ends(const struct stream_end *to, size_t n_out, const struct stream_end *from,
                      size_t n_in, struct err *err)
{
    if (n_out && to->fd < 0)
        return err_set(err, "there is no connection to rank %u", to->rank);
    if (n_in && from->fd < 0)
        return err_set(err, "there is no connection to rank %u", from->rank);
    return 0;
}

int stream_exchange(struct stream_end to, const void *out, size_t n_out, struct stream_end from,
                    void *in, size_t n_in, const struct deadline *l, struct err *err)
{
    const char *p = out;
    char *q = in;
    size_t sent = 0, got = 0;

    if (check_ends(&to, n_out, &from, n_in, err) < 0)
        return -1;
    while (sent < n_out || got < n_in) {
        const size_t before = sent + got;

        if (sent < n_out && put(&to, p + sent, n_out - sent, &sent, err) < 0)
            return -1;
        if (got < n_in && get(&from, q + got, n_in - got, &got, err) < 0)
            return -1;
        if (sent + got == before && rest(&to, sent < n_out, &from, got < n_in, l, err) < 0)
            return -1;
    }
    return 0;
}

int stream_relay(struct stream_end from, struct stream_end to, void *bytes, size_t n,
                 const struct deadline *l, struct err *err)
{
    char *p = bytes;
    size_t got = from.fd < 0 ? n : 0, sent = to.fd < 0 ? n : 0;

    while (got < n || sent < n) {
        const size_t before = sent + got;

        if (got < n && get(&from, p + got, n - got, &got, err) < 0)
            return -1;
        if (sent < got && to.fd >= 0 && put(&to, p + sent, got - sent, &sent, err) < 0)
            return -1;
        if (sent + got == before && rest(&to, sent < got && to.fd >= 0, &from, got < n, l, err) < 0)
            return -1;
    }
    return 0;
}
