/* SPDX-License-Identifier: BSD-3-Clause */
/* message_stream.c - see message_stream.h. A message is n:u32 m:u32 n*OCTET m*OCTET. Small messages
 * are cut out of one buffer; a part that is longer than that is read to where it stays. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/loop/message_stream.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/process.h"
#include "base/unix_socket.h"

#define HEAD           8u /* bytes: the sizes of the two parts */
#define INPUT_SIZE     65536u
#define READS_PER_TURN 16
#define DIRECT_MAX     1048576u /* bytes of one read into a long part */

/* A message that the socket had no room for. */
struct unsent {
    struct unsent *next;
    struct buf start; /* the head and the first part */
    zmq_msg_t body;
    size_t done; /* bytes that have left */
};

struct message_stream {
    struct loop *loop;
    int fd; /* -1: the connection has ended */
    struct watch *watch;
    struct message_stream_handler handler;
    struct unsent *first, **last;
    zmq_msg_t part[2]; /* of the message that is arriving, if has_head */
    size_t filled;     /* bytes of both that have arrived */
    bool has_head;
    bool gone;       /* the other side reads no more */
    bool closed;     /* by its owner */
    size_t from, to; /* the bytes of input that were read, and not taken yet */
    char input[INPUT_SIZE];
};

/* ---- out ---- */

static void unsent_free(struct unsent *w)
{
    buf_release(&w->start);
    zmq_msg_close(&w->body);
    free(w);
}

static void watch_again(struct message_stream *s)
{
    if (s->watch)
        loop_fd_events(s->watch, LOOP_READ | (s->first && !s->gone ? LOOP_WRITE : 0));
}

/* Writes the bytes of the pieces from `done` on. How many; -1 and errno. */
static ssize_t write_pieces(int fd, const struct slice *piece, int n, size_t done)
{
    struct iovec iov[3];
    struct msghdr h = { .msg_iov = iov };
    ssize_t sent;

    for (int i = 0; i < n; i++) {
        const size_t skip = done < piece[i].n ? done : piece[i].n;

        done -= skip;
        if (skip < piece[i].n)
            iov[h.msg_iovlen++] = (struct iovec){ (void *)(uintptr_t)(piece[i].p + skip),
                                                  piece[i].n - skip };
    }
    do
        sent = sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
        return 0;
    return sent;
}

static struct slice slice_of_msg(zmq_msg_t *m)
{
    return slice_of(zmq_msg_data(m), zmq_msg_size(m));
}

/* -1: the other side is gone. */
static int write_unsent(struct message_stream *s)
{
    while (s->first) {
        struct unsent *w = s->first;
        const struct slice piece[2] = { buf_slice(&w->start), slice_of_msg(&w->body) };
        const ssize_t n = write_pieces(s->fd, piece, 2, w->done);

        if (n < 0)
            return -1;
        w->done += (size_t)n;
        if (w->done < piece[0].n + piece[1].n)
            return 0;
        if (!(s->first = w->next))
            s->last = &s->first;
        unsent_free(w);
    }
    return 0;
}

static int wait_for_room(struct message_stream *s, struct slice head, struct slice first,
                         zmq_msg_t *body, size_t done)
{
    struct unsent *w = calloc(1, sizeof *w);

    if (!w)
        return -1;
    (void)zmq_msg_init(&w->body);
    w->done = done;
    if (buf_add_slice(&w->start, head) < 0 || buf_add_slice(&w->start, first) < 0 ||
        (body && zmq_msg_copy(&w->body, body) < 0)) {
        unsent_free(w);
        return -1;
    }
    *s->last = w;
    s->last = &w->next;
    watch_again(s);
    return 0;
}

int message_stream_send(struct message_stream *s, struct slice first, zmq_msg_t *body,
                        struct err *err)
{
    const struct slice rest = body ? slice_of_msg(body) : slice_text("");
    uint8_t head[HEAD];
    const struct slice piece[3] = { slice_of(head, HEAD), first, rest };
    ssize_t done = 0;

    if (s->fd < 0)
        return err_set(err, "the connection has ended");
    if (first.n > MESSAGE_STREAM_MAX || rest.n > MESSAGE_STREAM_MAX)
        return err_set(err, "a message of %zu bytes: the most is %u", first.n + rest.n,
                       (unsigned)MESSAGE_STREAM_MAX);
    le_put(head, 4, first.n);
    le_put(head + 4, 4, rest.n);
    if (!s->first && (done = write_pieces(s->fd, piece, 3, 0)) < 0) {
        s->gone = true;
        return err_set(err, "%s", strerror(errno));
    }
    if ((size_t)done == HEAD + first.n + rest.n ||
        wait_for_room(s, piece[0], first, body, (size_t)done) == 0)
        return 0;
    if (done > 0) /* the other side can't go on behind half a message */
        (void)shutdown(s->fd, SHUT_RDWR);
    return err_set(err, "out of memory for a message of %zu bytes", first.n + rest.n);
}

bool message_stream_is_over(const struct message_stream *s)
{
    return s->fd < 0 || s->gone;
}

/* ---- in ---- */

static void end(struct message_stream *s, const char *why)
{
    watch_clear(&s->watch);
    fd_close(&s->fd);
    s->from = s->to = 0;
    s->handler.ended(s->handler.arg, why);
}

static void drop_parts(struct message_stream *s)
{
    if (s->has_head)
        for (int k = 0; k < 2; k++)
            zmq_msg_close(&s->part[k]);
    s->has_head = false;
    s->filled = 0;
}

/* What is missing of the message that is arriving: where its next bytes go. */
static size_t gap(struct message_stream *s, char **at)
{
    size_t before = 0;

    for (int k = 0; k < 2; k++) {
        const size_t n = zmq_msg_size(&s->part[k]);

        if (s->filled < before + n) {
            *at = (char *)zmq_msg_data(&s->part[k]) + (s->filled - before);
            return before + n - s->filled;
        }
        before += n;
    }
    return 0;
}

static int take_head(struct message_stream *s, const char **why)
{
    const uint8_t *p = (const uint8_t *)s->input + s->from;
    const uint64_t n = le_get(p, 4), m = le_get(p + 4, 4);

    *why = "a message's head with an impossible size came";
    if (n > MESSAGE_STREAM_MAX || m > MESSAGE_STREAM_MAX)
        return -1;
    *why = "memory is out";
    if (zmq_msg_init_size(&s->part[0], (size_t)n) < 0)
        return -1;
    if (zmq_msg_init_size(&s->part[1], (size_t)m) < 0) {
        zmq_msg_close(&s->part[0]);
        return -1;
    }
    s->from += HEAD;
    s->has_head = true;
    s->filled = 0;
    return 0;
}

static void deliver(struct message_stream *s)
{
    zmq_msg_t part[2];

    for (int k = 0; k < 2; k++) {
        (void)zmq_msg_init(&part[k]);
        (void)zmq_msg_move(&part[k], &s->part[k]);
    }
    drop_parts(s);
    s->handler.arrived(s->handler.arg, part);
    for (int k = 0; k < 2; k++)
        zmq_msg_close(&part[k]);
}

/* Takes all whole messages out of the input. */
static void take_all(struct message_stream *s)
{
    const char *why;
    char *at = NULL;
    size_t n;

    while (s->fd >= 0) {
        if (!s->has_head && s->to - s->from < HEAD)
            return;
        if (!s->has_head && take_head(s, &why) < 0) {
            end(s, why);
            return;
        }
        while ((n = gap(s, &at)) > 0) {
            if (s->from == s->to)
                return;
            if (n > s->to - s->from)
                n = s->to - s->from;
            memcpy(at, s->input + s->from, n);
            s->from += n;
            s->filled += n;
        }
        deliver(s);
    }
}

/* Reads once. The number of bytes; 0: the end; -1 and errno. *full: there may be more. */
static ssize_t read_once(struct message_stream *s, bool *full)
{
    const size_t left = s->to - s->from;
    char *at = s->input + left;
    size_t room = INPUT_SIZE - left, missing;
    bool direct = false;
    ssize_t n;

    if (left > 0)
        memmove(s->input, s->input + s->from, left);
    s->from = 0;
    s->to = left;
    if (s->has_head && (missing = gap(s, &at)) >= INPUT_SIZE) {
        direct = true;
        room = missing < DIRECT_MAX ? missing : DIRECT_MAX;
    } else {
        at = s->input + left;
    }
    do
        n = recv(s->fd, at, room, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    *full = n == (ssize_t)room;
    if (n > 0 && direct)
        s->filled += (size_t)n;
    else if (n > 0)
        s->to += (size_t)n;
    return n;
}

/* turns: at most so many reads; 0: all that is there. */
static void read_some(struct message_stream *s, int turns)
{
    bool full = true;

    for (int k = 0; s->fd >= 0 && full && (turns == 0 || k < turns); k++) {
        const ssize_t n = read_once(s, &full);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0 && errno != ECONNRESET)
            end(s, strerror(errno));
        else if (n <= 0)
            end(s, "the other side has closed it");
        else
            take_all(s);
    }
}

void message_stream_drain(struct message_stream *s)
{
    take_all(s); /* when it is called while a message is delivered */
    read_some(s, 0);
}

static void ready(void *arg, int fd, unsigned events)
{
    struct message_stream *s = arg;

    (void)fd;
    if (events & LOOP_WRITE) {
        s->gone = write_unsent(s) < 0 || s->gone; /* the end is still to be read */
        watch_again(s);
    }
    if (events & (LOOP_READ | LOOP_HANGUP))
        read_some(s, READS_PER_TURN);
}

/* ---- opened and closed ---- */

struct message_stream *message_stream_open(struct loop *loop, int fd,
                                           const struct message_stream_handler *handler,
                                           struct err *err)
{
    struct message_stream *s = calloc(1, sizeof *s);

    if (!s) {
        fd_close(&fd);
        return err_null(err, "out of memory");
    }
    s->loop = loop;
    s->fd = fd;
    s->last = &s->first;
    s->handler = *handler;
    (void)!fd_nonblock(fd, true); /* where sendmsg() does not know MSG_DONTWAIT */
    unix_no_sigpipe(fd);
    if ((s->watch = loop_fd(loop, fd, LOOP_READ, ready, s, err)))
        return s;
    message_stream_close(s, 0);
    return NULL;
}

static void linger(struct message_stream *s, int ms)
{
    struct pollfd room = { s->fd, POLLOUT, 0 };
    const uint64_t until = clock_now(&clock_system) + (uint64_t)ms * NS_PER_MS;

    while (s->fd >= 0 && s->first && ms > 0) {
        const uint64_t now = clock_now(&clock_system);

        if (now >= until || poll(&room, 1, (int)((until - now) / NS_PER_MS) + 1) == 0 ||
            write_unsent(s) < 0)
            return;
    }
}

void message_stream_close(struct message_stream *s, int linger_ms)
{
    if (!s || s->closed)
        return;
    s->closed = true;
    linger(s, linger_ms);
    watch_clear(&s->watch);
    fd_close(&s->fd);
    drop_parts(s);
    while (s->first) {
        struct unsent *w = s->first;

        s->first = w->next;
        unsent_free(w);
    }
    s->from = s->to = 0;
    loop_free(s->loop, s); /* functions up the stack still use it */
}
