/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/mux/forward.h: both ends in one loop, with pipes between them, and a
 * server that sends back what it gets. */
#include "base/mux/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/process.h"
#include "base/unix_socket.h"
#include "tests/unit/chaos.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/tap.h"

#define LARGE    ((size_t)20 << 20)
#define MARK     "ready to forward"
#define LIMIT_NS (60 * NS_PER_S)

struct bench {
    struct loop *loop;
    char folder[64], path[96];
    struct forward *listens, *dials;
    int server; /* listens on tcp */
    struct sockaddr_in at;
    int up_pipe[2], down_pipe[2]; /* from the end that listens; to it */
    unsigned ups;
    char over[2][200]; /* why the ends are over; "-": they are not */
    _Atomic uint64_t *count;
    bool late;
    uint64_t ahead_ns; /* of the system's clock */
    unsigned asked;    /* how often somebody asked for the time */
    struct clock clock;
};

static uint64_t now_ns(void *arg)
{
    struct bench *b = arg;

    b->asked++;
    return clock_now(&clock_system) + b->ahead_ns;
}

static void over_listens(void *arg, const char *why)
{
    struct bench *b = arg;

    snprintf(b->over[0], sizeof b->over[0], "%s", why);
    loop_stop(b->loop);
}

static void over_dials(void *arg, const char *why)
{
    struct bench *b = arg;

    snprintf(b->over[1], sizeof b->over[1], "%s", why);
    loop_stop(b->loop);
}

static void up(void *arg)
{
    ((struct bench *)arg)->ups++;
}

static bool serve(struct bench *b)
{
    socklen_t size = sizeof b->at;

    b->at = (struct sockaddr_in){ .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    b->server = socket(AF_INET, SOCK_STREAM, 0);
    return bind(b->server, (struct sockaddr *)&b->at, size) == 0 && listen(b->server, 16) == 0 &&
           getsockname(b->server, (struct sockaddr *)&b->at, &size) == 0;
}

/* noise: what the listening end's machine prints before the mark. */
static bool begin(struct bench *b, const char *noise)
{
    struct err err = { "" };
    struct forward_spec spec = { .arg = b };

    *b = (struct bench){ .server = -1,
                         .over = { "-", "-" },
                         .clock = { .now_ns = now_ns, .arg = b } };
    snprintf(b->folder, sizeof b->folder, "/tmp/cellspan-forward-%ld", (long)getpid());
    snprintf(b->path, sizeof b->path, "%s/relay", b->folder);
    if (mkdir(b->folder, 0700) < 0 || !(b->count = relayed_open(b->folder, &err)) || !serve(b) ||
        !(b->loop = loop_create(&b->clock, &err)) || fd_pipe(b->up_pipe) < 0 ||
        fd_pipe(b->down_pipe) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (fd_nonblock(b->up_pipe[i], true) < 0 || fd_nonblock(b->down_pipe[i], true) < 0)
            return false;
    if (fd_write(b->up_pipe[1], slice_text(noise)) < 0)
        return false;
    spec.in = b->down_pipe[0];
    spec.out = b->up_pipe[1];
    spec.listen = b->path;
    spec.count = b->count;
    spec.over = over_listens;
    b->listens = forward_start(b->loop, &spec, &err);
    spec = (struct forward_spec){ .in = b->up_pipe[0],
                                  .out = b->down_pipe[1],
                                  .mark = MARK,
                                  .dial = (struct sockaddr *)&b->at,
                                  .dial_size = sizeof b->at,
                                  .up = up,
                                  .over = over_dials,
                                  .arg = b };
    b->dials = forward_start(b->loop, &spec, &err);
    return b->listens && b->dials;
}

static void finish(struct bench *b)
{
    forward_stop(b->listens);
    forward_stop(b->dials);
    loop_destroy(b->loop);
    relayed_close(b->count);
    fd_close(&b->server);
    (void)unlink(b->path);
    snprintf(b->path, sizeof b->path, "%s/relayed", b->folder);
    (void)unlink(b->path);
    (void)rmdir(b->folder);
}

static void stop(void *arg)
{
    loop_stop(arg);
}

/* A moment of the loop. */
static bool turn(struct bench *b)
{
    struct watch *w = loop_timer(b->loop, NS_PER_MS, 0, stop, b->loop, NULL);
    const bool good = loop_run(b->loop, NULL) == 0;

    watch_stop(w);
    return good;
}

/* So much time passes at once, and everything that follows from it happens. */
static void skip_s(struct bench *b, unsigned seconds)
{
    b->ahead_ns += seconds * NS_PER_S;
    for (int i = 0; i < 20; i++)
        (void)turn(b);
}

static void late(void *arg)
{
    struct bench *b = arg;

    b->late = true;
    loop_stop(b->loop);
}

/* A client sends, a server reads, both non-blocking, as the loop goes on. */
struct flow {
    struct bench *bench;
    int from, to;
    size_t sent, got, all;
    bool wrong, ended;
    struct watch *out, *in;
};

static void flow_out(void *arg, int fd, unsigned events)
{
    struct flow *f = arg;
    char bytes[50000];
    size_t n = f->all - f->sent < sizeof bytes ? f->all - f->sent : sizeof bytes;
    ssize_t rc;

    (void)events;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(uint8_t)((f->sent + i) * 31 >> 3);
    rc = n ? send(fd, bytes, n, MSG_NOSIGNAL) : 0;
    if (rc > 0)
        f->sent += (size_t)rc;
    if (f->sent == f->all)
        watch_clear(&f->out);
}

static void flow_in(void *arg, int fd, unsigned events)
{
    struct flow *f = arg;
    char bytes[50000];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    (void)events;
    for (ssize_t i = 0; i < n; i++, f->got++)
        f->wrong = f->wrong || bytes[i] != (char)(uint8_t)(f->got * 31 >> 3);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        f->ended = true;
    if (f->ended)
        watch_clear(&f->in);
    if (f->ended || f->got == f->all)
        loop_stop(f->bench->loop);
}

static void run(struct bench *b)
{
    struct watch *limit = loop_timer(b->loop, LIMIT_NS, 0, late, b, NULL);

    if (loop_run(b->loop, NULL) < 0)
        b->late = true;
    watch_stop(limit);
}

static void watch_flow(struct flow *f, bool in, bool out)
{
    struct loop *loop = f->bench->loop;

    if (fd_nonblock(f->from, true) == 0 && fd_nonblock(f->to, true) == 0) {
        f->out = out ? loop_fd(loop, f->from, LOOP_WRITE, flow_out, f, NULL) : NULL;
        f->in = in ? loop_fd(loop, f->to, LOOP_READ, flow_in, f, NULL) : NULL;
    }
}

static void accepted(void *arg, int fd, unsigned events)
{
    int *to = arg;

    (void)events;
    *to = accept(fd, NULL, NULL);
}

/* A client's connection, and what the server got for it. */
static bool connect_through(struct bench *b, int end[2])
{
    struct watch *w;
    struct watch *limit = loop_timer(b->loop, LIMIT_NS, 0, late, b, NULL);

    end[1] = -1;
    end[0] = unix_connect(b->path);
    w = loop_fd(b->loop, b->server, LOOP_READ, accepted, &end[1], NULL);
    while (end[0] >= 0 && end[1] < 0 && !b->late && turn(b))
        ;
    watch_stop(w);
    watch_stop(limit);
    return end[0] >= 0 && end[1] >= 0;
}

static void much_goes_both_ways_at_once(void)
{
    struct bench b;
    int end[2];
    struct flow down, up_flow;

    if (!ok(begin(&b, "welcome\nto this\nmachine" MARK "\n"), "two ends"))
        return;
    ok(connect_through(&b, end), "a connection through them");
    is_int(b.ups, 1, "the mark was found behind other text");
    up_flow = (struct flow){ .bench = &b, .from = end[0], .to = end[1], .all = LARGE };
    down = (struct flow){ .bench = &b, .from = end[1], .to = end[0], .all = LARGE };
    watch_flow(&up_flow, true, true);
    watch_flow(&down, true, true);
    while (!b.late && (up_flow.got < LARGE || down.got < LARGE) && !up_flow.ended && !down.ended)
        run(&b);
    ok(up_flow.got == LARGE && down.got == LARGE && !up_flow.wrong && !down.wrong,
       "20 MiB come whole on both sides");
    is_int(*b.count, LARGE, "the bytes that came are counted");
    watch_stop(up_flow.in);
    watch_stop(down.in);
    close(end[0]);
    close(end[1]);
    finish(&b);
}

/* Bytes of the heap in use; 0 where the sanitizers have one of their own. */
static size_t heap(void)
{
#ifdef __GLIBC__
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

static void at_rest_it_has_little_memory(void)
{
    const size_t before = heap();
    struct bench b;
    int end[2];
    struct flow f;

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, end), "a connection"))
        return;
    f = (struct flow){ .bench = &b, .from = end[0], .to = end[1], .all = LARGE };
    watch_flow(&f, true, true);
    run(&b);
    ok(f.got == LARGE && turn(&b), "20 MiB have gone through it");
    ok(heap() - before <= 2 * (size_t)16384, "both ends have %zu bytes then", heap() - before);
    watch_stop(f.in);
    close(end[0]);
    close(end[1]);
    finish(&b);
}

static void one_that_nobody_reads(void)
{
    struct bench b;
    int stuck[2], end[2];
    struct flow first, second;

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, stuck) && connect_through(&b, end),
            "two connections"))
        return;
    first = (struct flow){ .bench = &b, .from = stuck[0], .to = stuck[1], .all = LARGE };
    second = (struct flow){ .bench = &b, .from = end[0], .to = end[1], .all = LARGE };
    watch_flow(&first, false, true);
    watch_flow(&second, true, true);
    run(&b);
    ok(second.got == LARGE && !second.wrong && first.sent < LARGE, "the other one goes on");
    first.in = loop_fd(b.loop, first.to, LOOP_READ, flow_in, &first, NULL);
    run(&b);
    ok(first.got == LARGE && !first.wrong, "and it comes whole when it is read");
    watch_stop(first.in);
    watch_stop(second.in);
    for (int i = 0; i < 2; i++) {
        close(stuck[i]);
        close(end[i]);
    }
    finish(&b);
}

static void the_end_of_a_connection_goes_through(void)
{
    struct bench b;
    int end[2];
    struct flow f;

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, end), "a connection"))
        return;
    f = (struct flow){ .bench = &b, .from = end[0], .to = end[1], .all = 300000 };
    watch_flow(&f, false, true);
    while (f.sent < f.all && turn(&b))
        ;
    close(end[0]);
    f.all++; /* one that will not come */
    f.in = loop_fd(b.loop, f.to, LOOP_READ, flow_in, &f, NULL);
    run(&b);
    ok(f.ended && f.got == 300000 && !f.wrong, "what was sent before comes first, then the end");
    close(end[1]);
    fd_close(&b.server);
    end[0] = unix_connect(b.path);
    f = (struct flow){ .bench = &b, .from = end[0], .to = end[0], .all = 1 };
    watch_flow(&f, true, false);
    run(&b);
    ok(f.ended && f.got == 0, "where nobody listens, the connection ends");
    close(end[0]);
    finish(&b);
}

static void an_end_tells_the_other(void)
{
    struct bench b;

    if (!ok(begin(&b, MARK "\n"), "two ends"))
        return;
    while (!b.ups && turn(&b))
        ;
    forward_stop(b.dials);
    b.dials = NULL;
    run(&b);
    is_text(b.over[0], "", "the launcher's end has ended, and says so");
    finish(&b);
    if (!ok(begin(&b, "permission denied\n"), "two ends, one of which never begins"))
        return;
    forward_stop(b.listens);
    b.listens = NULL;
    run(&b);
    is_text(b.over[1], "its output has ended", "that is told");
    is_int(b.ups, 0, "it was never up");
    finish(&b);
    if (!ok(begin(&b, MARK "\nno frames at all"), "one that sends what is no frame"))
        return;
    run(&b);
    ok(strstr(b.over[1], "which nobody opened") || strstr(b.over[1], "no frame"),
       "that is told: %s", b.over[1]);
    finish(&b);
}

static void pings_are_not_counted(void)
{
    struct bench b;
    int end[2];

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, end), "a connection"))
        return;
    for (int i = 0; i < 4; i++)
        skip_s(&b, 11);
    ok(strcmp(b.over[0], "-") == 0 && strcmp(b.over[1], "-") == 0, "pings keep two ends up");
    is_int(*b.count, 0, "and are no bytes of a connection");
    ok(write(end[1], "x", 1) == 1, "one comes");
    for (unsigned k = 0; *b.count == 0 && k < 60000; k++)
        (void)turn(&b);
    is_int(*b.count, 1, "which is one");
    close(end[0]);
    close(end[1]);
    finish(&b);
}

static void sleep_is_no_silence(void)
{
    struct forward_spec spec = { .over = over_listens };
    struct forward *alone;
    struct bench b;
    int end[2], in[2], out[2];

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, end) && fd_pipe(in) == 0 &&
                fd_pipe(out) == 0,
            "a connection"))
        return;
    skip_s(&b, 600);
    skip_s(&b, 600);
    ok(strcmp(b.over[0], "-") == 0 && strcmp(b.over[1], "-") == 0,
       "who slept has not been without the other end");
    spec.in = in[0];
    spec.out = out[1];
    spec.arg = &b;
    alone = forward_start(b.loop, &spec, NULL);
    for (int i = 0; i < 4; i++)
        skip_s(&b, 10);
    is_text(b.over[0], "nothing was heard from it for 30 s", "real silence is noticed");
    forward_stop(alone);
    close(in[1]);
    close(out[0]);
    close(end[0]);
    close(end[1]);
    finish(&b);
}

static void without_descriptors_it_rests(void)
{
    struct bench b;
    struct rlimit was;
    int first[2], end[2] = { -1, -1 };
    struct watch *w;

    if (!ok(begin(&b, MARK "\n") && connect_through(&b, first), "a connection"))
        return;
    end[0] = unix_connect(b.path);
    descriptors_end(&was);
    b.asked = 0;
    w = loop_timer(b.loop, 300 * NS_PER_MS, 0, stop, b.loop, NULL);
    ok(loop_run(b.loop, NULL) == 0, "a while passes");
    watch_stop(w);
    ok(b.asked < 200, "one that can't be accepted keeps nobody busy: %u", b.asked);
    if (setrlimit(RLIMIT_NOFILE, &was) < 0)
        abort();
    w = loop_fd(b.loop, b.server, LOOP_READ, accepted, &end[1], NULL);
    for (unsigned k = 0; end[1] < 0 && k < 60000; k++)
        (void)turn(&b);
    watch_stop(w);
    ok(end[1] >= 0, "and is accepted when it can be");
    for (int i = 0; i < 2; i++) {
        close(first[i]);
        close(end[i]);
    }
    finish(&b);
}

static void memory_is_out(void)
{
    const unsigned before = open_descriptors();

    for (long nth = 0; nth < 16; nth++) {
        struct err err = { "" };
        struct loop *loop = loop_create(&clock_system, &err);
        struct forward_spec spec = { .mark = MARK, .over = over_dials };
        int in[2], out[2];
        struct forward *f;

        if (!loop || fd_pipe(in) < 0 || fd_pipe(out) < 0)
            return;
        spec.in = in[0];
        spec.out = out[1];
        alloc_fail_at(nth);
        f = forward_start(loop, &spec, &err);
        if (alloc_failed())
            ok(!f && err.text[0], "allocation %ld fails: %s", nth, err.text);
        alloc_fail_at(-1);
        forward_stop(f);
        loop_destroy(loop);
        close(in[1]);
        close(out[0]);
    }
    is_int(open_descriptors(), before, "no descriptor is left");
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    much_goes_both_ways_at_once();
    at_rest_it_has_little_memory();
    one_that_nobody_reads();
    the_end_of_a_connection_goes_through();
    an_end_tells_the_other();
    pings_are_not_counted();
    sleep_is_no_silence();
    without_descriptors_it_rests();
    memory_is_out();
    return plan_done();
}
