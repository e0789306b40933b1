/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mux/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mux/mux.h"
#include "base/process.h"
#include "base/unix_socket.h"

#define PING_NS    (10 * NS_PER_S)
#define SILENCE_NS (30 * NS_PER_S)   /* after that much of it, the other end is gone */
#define REST_NS    (200 * NS_PER_MS) /* after a connection that could not be accepted */
#define OUT_MAX    131072u           /* while more waits for the other end, no connection is read */
#define READ_SIZE  MUX_DATA_MAX
#define NOISE_MAX  1048576u /* bytes before the mark */

/* A connection on this side. */
struct wire {
    struct forward *forward;
    uint32_t stream; /* 0: the place is free */
    int fd;
    struct watch *watch;
    unsigned events; /* that the watch waits for */
    bool connecting;
    bool closing; /* the stream is over, but bytes of it are left */
    struct buf out;
};

struct forward {
    struct loop *loop;
    struct forward_spec spec; /* its texts and its address are owned below */
    char *mark;
    struct sockaddr_storage dial;
    struct mux mux;
    struct wire wire[MUX_STREAMS_MAX];
    int listening;
    struct watch *in, *out, *accepts, *ping;
    struct watch *rest; /* until connections are accepted again */
    struct buf noise;   /* what has come before the mark */
    size_t dropped;     /* bytes of it */
    uint64_t heard_ns;
    uint64_t looked_ns; /* when ping() ran */
    uint64_t data;      /* bytes of connections that have come, in whole frames */
    uint64_t counted;   /* of them, and of the frame that is coming */
    bool marked;        /* frames come */
    bool over;
    char why[200];
};

static void pump(struct forward *f);

/* Its owner is told from the loop, because it may stop f at once. */
static void end(struct forward *f, const char *why)
{
    if (f->over)
        return;
    f->over = true;
    snprintf(f->why, sizeof f->why, "%s", why);
    watch_clear(&f->in);
    loop_timer_again(f->ping, 0);
}

/* ---- connections on this side ---- */

static void wire_close(struct wire *w)
{
    watch_clear(&w->watch);
    fd_close(&w->fd);
    buf_release(&w->out);
    w->stream = 0;
}

/* The connection has ended here. */
static void wire_ended(struct wire *w)
{
    struct forward *f = w->forward;
    const uint32_t stream = w->stream;

    wire_close(w);
    if (mux_close(&f->mux, stream) < 0)
        end(f, "out of memory");
}

static struct wire *wire_of(struct forward *f, uint32_t stream)
{
    for (unsigned i = 0; i < MUX_STREAMS_MAX; i++)
        if (f->wire[i].stream == stream)
            return &f->wire[i];
    return NULL;
}

static void wire_read(struct wire *w)
{
    struct forward *f = w->forward;
    const uint32_t room = mux_room(&f->mux, w->stream);
    char bytes[READ_SIZE]; /* not of the heap: a launcher may have a thousand relays */
    const ssize_t n = read(w->fd, bytes, room < READ_SIZE ? room : READ_SIZE);

    if (n > 0) {
        if (mux_send(&f->mux, w->stream, slice_of(bytes, (size_t)n)) < 0)
            end(f, "out of memory");
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        wire_ended(w);
}

/* What has come for it. */
static void wire_write(struct wire *w)
{
    struct forward *f = w->forward;
    const ssize_t n = send(w->fd, w->out.p, w->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
            wire_ended(w);
        return;
    }
    buf_drop(&w->out, (size_t)n);
    if (!w->closing && mux_left(&f->mux, w->stream, (uint32_t)n) < 0)
        end(f, "out of memory");
    if (w->out.n > 0)
        return;
    buf_release(&w->out);
    if (w->closing)
        wire_close(w);
}

static bool wire_may_read(const struct wire *w)
{
    const struct forward *f = w->forward;

    return !w->connecting && !w->closing && f->mux.out.n < OUT_MAX &&
           mux_room(&f->mux, w->stream) > 0;
}

static void wire_ready(void *arg, int fd, unsigned events)
{
    struct wire *w = arg;
    struct forward *f = w->forward;
    int error = 0;
    socklen_t size = sizeof error;

    w->events = ~0u; /* a hang-up may have taken the watch's: pump() sets them */
    if (w->connecting && events) {
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        w->connecting = false;
        if (error)
            wire_ended(w);
    } else {
        if (w->out.n > 0 && (events & (LOOP_WRITE | LOOP_HANGUP)))
            wire_write(w);
        if (w->stream && wire_may_read(w) && (events & (LOOP_READ | LOOP_HANGUP)))
            wire_read(w);
    }
    pump(f);
}

static struct wire *wire_begin(struct forward *f, uint32_t stream, int fd, bool connecting)
{
    struct wire *w = wire_of(f, 0);
    struct err err = { "" };

    if (w) {
        *w = (struct wire){ .forward = f, .fd = fd, .connecting = connecting };
        unix_no_sigpipe(fd);
        w->events = connecting ? LOOP_WRITE : LOOP_READ;
        if (fd_nonblock(fd, true) == 0 &&
            (w->watch = loop_fd(f->loop, fd, w->events, wire_ready, w, &err))) {
            w->stream = stream;
            return w;
        }
    }
    fd_close(&fd);
    return NULL;
}

/* ---- the two ways in which a stream begins ---- */

static void accept_ready(void *arg, int fd, unsigned events)
{
    struct forward *f = arg;
    int one = unix_accept(fd);
    uint32_t stream;

    (void)events;
    if (one < 0) {
        /* without a descriptor for it, it waits on: the loop would ask all the time */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            loop_fd_events(f->accepts, 0);
            loop_timer_again(f->rest, REST_NS);
        }
        return;
    }
    if (!(stream = mux_open(&f->mux)))
        fd_close(&one);
    else if (!wire_begin(f, stream, one, false) && mux_close(&f->mux, stream) < 0)
        end(f, "out of memory");
    pump(f);
}

static void rested(void *arg)
{
    loop_fd_events(((struct forward *)arg)->accepts, LOOP_READ);
}

static bool on_opened(void *arg, uint32_t stream)
{
    struct forward *f = arg;
    int fd = socket(f->dial.ss_family, SOCK_STREAM, 0);

    if (fd < 0)
        return false;
    if (fd_cloexec(fd) < 0 || fd_nonblock(fd, true) < 0 ||
        (connect(fd, (const struct sockaddr *)&f->dial, f->spec.dial_size) < 0 &&
         errno != EINPROGRESS)) {
        fd_close(&fd);
        return false;
    }
    return wire_begin(f, stream, fd, true) != NULL;
}

/* ---- the mux ---- */

static void on_data(void *arg, uint32_t stream, struct slice bytes)
{
    struct forward *f = arg;
    struct wire *w = wire_of(f, stream);

    f->data += bytes.n;
    if (w && buf_add_slice(&w->out, bytes) < 0)
        end(f, "out of memory");
}

static void on_room(void *arg, uint32_t stream)
{
    (void)arg; /* pump() follows */
    (void)stream;
}

static void on_closed(void *arg, uint32_t stream)
{
    struct wire *w = wire_of(arg, stream);

    if (!w)
        return;
    if (w->out.n == 0 || w->connecting)
        wire_close(w);
    else
        w->closing = true;
}

/* ---- the other end ---- */

static void out_ready(void *arg, int fd, unsigned events)
{
    struct forward *f = arg;

    (void)fd;
    (void)events;
    pump(f);
}

/* Writes what waits for the other end. */
static void flush(struct forward *f)
{
    struct err err = { "" };
    ssize_t n = 0;

    while (f->mux.out.n > 0 && (n = write(f->spec.out, f->mux.out.p, f->mux.out.n)) > 0)
        buf_drop(&f->mux.out, (size_t)n);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        buf_release(&f->mux.out);
        end(f, strerror(errno));
    }
    if (f->mux.out.n == 0) {
        buf_release(&f->mux.out);
        watch_clear(&f->out);
    } else if (!f->out && !f->over &&
               !(f->out = loop_fd(f->loop, f->spec.out, LOOP_WRITE, out_ready, f, &err)))
        end(f, err.text);
}

/* After everything that may have changed what is waited for. */
static void pump(struct forward *f)
{
    flush(f);
    for (unsigned i = 0; i < MUX_STREAMS_MAX; i++) {
        struct wire *w = &f->wire[i];
        const unsigned events = (wire_may_read(w) ? LOOP_READ : 0) |
                                (w->connecting || w->out.n > 0 ? LOOP_WRITE : 0);

        if (w->stream && events != w->events)
            loop_fd_events(w->watch, w->events = events);
    }
}

/* Is the mark there? Then what follows it are frames. */
static struct slice after_mark(struct forward *f, struct slice bytes)
{
    const size_t size = strlen(f->mark);
    struct slice line;

    if (buf_add_slice(&f->noise, bytes) < 0) {
        end(f, "out of memory");
        return slice_text("");
    }
    while (!f->marked && buf_line(&f->noise, &line)) {
        f->marked = line.n >= size && memcmp(line.p + line.n - size, f->mark, size) == 0;
        f->dropped += line.n + 1;
        buf_drop(&f->noise, line.n + 1);
    }
    if (!f->marked) {
        if (f->dropped + f->noise.n > NOISE_MAX)
            end(f, "it prints other text");
        return slice_text("");
    }
    if (f->spec.up)
        f->spec.up(f->spec.arg);
    return buf_slice(&f->noise);
}

static void take(struct forward *f, struct slice bytes)
{
    struct err err = { "" };

    if (!f->marked)
        bytes = after_mark(f, bytes);
    if (f->marked && mux_received(&f->mux, bytes, &err) < 0)
        end(f, err.text);
    if (f->marked && f->noise.p)
        buf_release(&f->noise);
    if (f->mux.heard_end)
        end(f, "");
}

/* A ping comes from the other end, and says nothing of whom it connects to. */
static void count(struct forward *f)
{
    const struct buf *in = &f->mux.in;
    const bool part = in->n > MUX_HEADER_SIZE && in->p[0] == MUX_DATA;
    const uint64_t came = f->data + (part ? in->n - MUX_HEADER_SIZE : 0);

    if (f->spec.count && came > f->counted)
        atomic_fetch_add_explicit(f->spec.count, came - f->counted, memory_order_relaxed);
    f->counted = came;
}

static void in_ready(void *arg, int fd, unsigned events)
{
    struct forward *f = arg;
    char bytes[READ_SIZE];
    const ssize_t n = read(fd, bytes, READ_SIZE);

    (void)events;
    if (n > 0) {
        f->heard_ns = clock_now(loop_clock(f->loop));
        take(f, slice_of(bytes, (size_t)n));
        count(f);
        pump(f);
    } else if (n == 0)
        end(f, "its output has ended");
    else if (errno != EAGAIN && errno != EINTR)
        end(f, strerror(errno));
}

/* If this machine slept, or this process was stopped, what came meanwhile is not read yet. */
static void allow_late(struct forward *f, uint64_t now)
{
    const uint64_t passed = now - f->looked_ns, late = passed > PING_NS ? passed - PING_NS : 0;

    f->heard_ns = f->heard_ns + late < now ? f->heard_ns + late : now;
    f->looked_ns = now;
}

static void ping(void *arg)
{
    struct forward *f = arg;
    const uint64_t now = clock_now(loop_clock(f->loop));

    if (f->over) {
        watch_clear(&f->ping);
        f->spec.over(f->spec.arg, f->why);
        return;
    }
    allow_late(f, now);
    if (!f->marked)
        return;
    if (now - f->heard_ns >= SILENCE_NS)
        end(f, "nothing was heard from it for 30 s");
    else if (f->mux.out.n == 0 && mux_ping(&f->mux) < 0)
        end(f, "out of memory");
    pump(f);
}

/* ---- begin and end ---- */

/* The new socket takes the place of an old one at once: nobody finds none. */
static int listen_at(struct forward *f, const char *path, struct err *err)
{
    struct buf fresh = BUF_INIT;

    if (buf_addf(&fresh, "%s.%ld", path, (long)getpid()) < 0)
        (void)err_set(err, "out of memory");
    else if ((f->listening = unix_listen(fresh.p)) < 0 || rename(fresh.p, path) < 0)
        (void)err_set(err, "%s: %s", path, strerror(errno));
    else if ((f->rest = loop_timer(f->loop, LOOP_OFF, 0, rested, f, err)))
        f->accepts = loop_fd(f->loop, f->listening, LOOP_READ, accept_ready, f, err);
    buf_release(&fresh);
    return f->accepts ? 0 : -1;
}

static int begin(struct forward *f, struct err *err)
{
    if (f->spec.mark && !(f->mark = strdup(f->spec.mark)))
        return err_set(err, "out of memory");
    if (f->spec.listen && listen_at(f, f->spec.listen, err) < 0)
        return -1;
    if (!(f->in = loop_fd(f->loop, f->spec.in, LOOP_READ, in_ready, f, err)) ||
        !(f->ping = loop_timer(f->loop, PING_NS, PING_NS, ping, f, err)))
        return -1;
    return 0;
}

static void release(struct forward *f)
{
    for (unsigned i = 0; i < MUX_STREAMS_MAX; i++)
        if (f->wire[i].stream)
            wire_close(&f->wire[i]);
    watch_stop(f->in);
    watch_stop(f->out);
    watch_stop(f->accepts);
    watch_stop(f->rest);
    watch_stop(f->ping);
    fd_close(&f->listening);
    fd_close(&f->spec.in);
    fd_close(&f->spec.out);
    mux_release(&f->mux);
    buf_release(&f->noise);
    free(f->mark);
}

struct forward *forward_start(struct loop *loop, const struct forward_spec *spec, struct err *err)
{
    const struct mux_handler handler = { spec->listen ? NULL : on_opened, on_data, on_room,
                                         on_closed, NULL };
    struct forward *f = calloc(1, sizeof *f);
    struct forward_spec closed = *spec;

    if (!f) {
        fd_close(&closed.in);
        fd_close(&closed.out);
        return err_null(err, "out of memory");
    }
    f->loop = loop;
    f->spec = *spec;
    f->listening = -1;
    f->heard_ns = f->looked_ns = clock_now(loop_clock(loop));
    f->marked = !spec->mark;
    mux_init(&f->mux, &handler);
    f->mux.handler.arg = f;
    for (unsigned i = 0; i < MUX_STREAMS_MAX; i++)
        f->wire[i] = (struct wire){ .forward = f, .fd = -1 };
    if (spec->dial && spec->dial_size <= sizeof f->dial)
        memcpy(&f->dial, spec->dial, spec->dial_size);
    if (begin(f, err) == 0)
        return f;
    release(f);
    loop_free(loop, f);
    return NULL;
}

void forward_stop(struct forward *f)
{
    if (!f)
        return;
    if (!f->over && f->marked && mux_end(&f->mux) == 0)
        flush(f);
    f->over = true;
    release(f);
    loop_free(f->loop, f); /* functions up the stack still use it */
}

/* ---- the count of bytes ---- */

_Atomic uint64_t *relayed_open(const char *folder, struct err *err)
{
    struct buf path = BUF_INIT;
    void *count = MAP_FAILED;
    int fd = -1;

    if (buf_addf(&path, "%s/relayed", folder) == 0 &&
        (fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) >= 0 &&
        ftruncate(fd, sizeof(uint64_t)) == 0)
        count = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (count == MAP_FAILED)
        (void)err_set(err, "%s: %s", path.p ? path.p : folder, strerror(errno));
    fd_close(&fd);
    buf_release(&path);
    return count == MAP_FAILED ? NULL : count;
}

void relayed_close(_Atomic uint64_t *count)
{
    if (count)
        (void)munmap((void *)count, sizeof(uint64_t));
}
