/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/loop/message_stream.h and base/unix_socket.h. */
#include "base/loop/message_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/process.h"
#include "base/unix_socket.h"
#include "tests/unit/chaos.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/tap.h"

#define LARGE ((size_t)20 << 20)

/* One end, and what came to it. */
struct end {
    struct loop *loop;
    struct message_stream *stream;
    char text[256]; /* "first|body " for each message */
    unsigned messages, stop_at;
    size_t bytes;
    bool intact; /* no byte of a large body was wrong so far */
    char why[128];
    bool closes; /* the stream, at the first message */
};

static void arrived(void *arg, zmq_msg_t part[2])
{
    struct end *e = arg;
    const uint8_t *body = zmq_msg_data(&part[1]);
    const size_t n = strlen(e->text), size = zmq_msg_size(&part[1]);

    e->messages++;
    e->bytes += size;
    if (size < 64)
        snprintf(e->text + n, sizeof e->text - n, "%.*s|%.*s ", (int)zmq_msg_size(&part[0]),
                 (const char *)zmq_msg_data(&part[0]), (int)size, (const char *)body);
    for (size_t i = 0; size >= 64 && i < size; i++)
        e->intact = e->intact && body[i] == (uint8_t)(i * 7 + size);
    if (e->closes) {
        message_stream_close(e->stream, 0);
        e->stream = NULL;
    }
    if (e->messages >= e->stop_at)
        loop_stop(e->loop);
}

static void ended(void *arg, const char *why)
{
    struct end *e = arg;

    snprintf(e->why, sizeof e->why, "%s", why);
    loop_stop(e->loop);
}

static void out_of_time(void *arg)
{
    ok(false, "the loop took a minute");
    loop_stop(arg);
}

/* Until `e` has so many messages, or its stream has ended. */
static void run_until(struct end *e, unsigned messages)
{
    struct watch *limit = loop_timer(e->loop, 60 * NS_PER_S, 0, out_of_time, e->loop, NULL);

    e->stop_at = messages;
    if (e->messages < messages && !e->why[0] && loop_run(e->loop, NULL) < 0)
        ok(false, "the loop runs");
    watch_stop(limit);
}

static void open_end(struct end *e, struct loop *loop, int fd)
{
    const struct message_stream_handler handler = { arrived, ended, e };
    struct err err = { "" };

    *e = (struct end){ .loop = loop, .intact = true, .stop_at = UINT32_MAX };
    e->stream = message_stream_open(loop, fd, &handler, &err);
    if (!e->stream)
        ok(false, "a stream opens: %s", err.text);
}

static struct loop *open_pair(struct end pair[2])
{
    struct loop *loop = loop_create(&clock_system, NULL);
    int fd[2];

    if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
        exit(99);
    open_end(&pair[0], loop, fd[0]);
    open_end(&pair[1], loop, fd[1]);
    return loop;
}

/* A stream, and a bare socket at its other end. */
static struct loop *open_one(struct end *e, int *bare)
{
    struct loop *loop = loop_create(&clock_system, NULL);
    int fd[2];

    if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
        exit(99);
    open_end(e, loop, fd[0]);
    *bare = fd[1];
    return loop;
}

static void close_all(struct loop *loop, struct end *a, struct end *b)
{
    message_stream_close(a->stream, 0);
    if (b)
        message_stream_close(b->stream, 0);
    loop_destroy(loop);
}

static void fill(zmq_msg_t *body, size_t n)
{
    uint8_t *p;

    if (zmq_msg_init_size(body, n) < 0)
        exit(99);
    p = zmq_msg_data(body);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 7 + n);
}

static int send_text(struct end *e, const char *first, const char *text)
{
    zmq_msg_t body;
    int rc;

    if (zmq_msg_init_size(&body, strlen(text)) < 0)
        exit(99);
    memcpy(zmq_msg_data(&body), text, strlen(text));
    rc = message_stream_send(e->stream, slice_text(first), &body, NULL);
    zmq_msg_close(&body);
    return rc;
}

static int send_large(struct end *e, size_t n)
{
    zmq_msg_t body;
    int rc;

    fill(&body, n);
    rc = message_stream_send(e->stream, slice_text("large"), &body, NULL);
    zmq_msg_close(&body);
    return rc;
}

/* ---- what arrives ---- */

static void both_sides_speak(void)
{
    struct end e[2];
    struct loop *loop = open_pair(e);

    ok(send_text(&e[0], "to", "one") == 0 && send_text(&e[0], "", "two") == 0 &&
           message_stream_send(e[0].stream, slice_text("three"), NULL, NULL) == 0 &&
           send_text(&e[0], "", "") == 0 && send_text(&e[1], "back", "again") == 0,
       "messages are sent, also with empty parts");
    run_until(&e[1], 4);
    is_text(e[1].text, "to|one |two three| | ", "they come whole and in order");
    run_until(&e[0], 1);
    is_text(e[0].text, "back|again ", "on both sides");
    close_all(loop, &e[0], &e[1]);
}

static void no_size_is_too_large(void)
{
    static const size_t sizes[] = { 1, 65527, 65528, 65529, 65536, 131072, 1 << 20, LARGE };
    struct end e[2];
    struct loop *loop = open_pair(e);
    unsigned n = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (send_large(&e[0], sizes[i]) < 0 || send_text(&e[0], "", "s") < 0 ||
            send_large(&e[1], sizes[i]) < 0)
            ok(false, "%zu bytes are sent", sizes[i]);
        n += 2;
    }
    run_until(&e[1], n);
    run_until(&e[0], n / 2);
    ok(e[1].intact && e[0].intact, "no byte of large messages is wrong, both ways at once");
    is_int(e[0].bytes, e[1].bytes - n / 2, "and none is missing");
    close_all(loop, &e[0], &e[1]);
}

static void many_at_once(void)
{
    struct end e[2];
    struct loop *loop = open_pair(e);
    int rc = 0;

    for (int i = 0; i < 50000 && rc == 0; i++)
        rc = send_text(&e[0], "route", "a message of some length");
    ok(rc == 0, "50,000 messages are sent to nobody who reads");
    run_until(&e[1], 50000);
    is_int(e[1].messages, 50000, "all come");
    rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = send_text(&e[0], "", "more");
    message_stream_drain(e[1].stream);
    ok(rc == 0 && e[1].messages == 50100, "those that are there can be had at once");
    close_all(loop, &e[0], &e[1]);
}

static void torn_in_any_place(void)
{
    const char whole[] = "\3\0\0\0\5\0\0\0abcdefgh";
    struct end e;
    int bare;
    struct loop *loop = open_one(&e, &bare);

    for (size_t cut = 1; cut < sizeof whole - 1; cut++) {
        const unsigned before = e.messages;

        (void)!write(bare, whole, cut);
        message_stream_drain(e.stream);
        (void)!write(bare, whole + cut, sizeof whole - 1 - cut);
        e.text[0] = '\0';
        message_stream_drain(e.stream);
        ok(e.messages == before + 1 && strcmp(e.text, "abc|defgh ") == 0,
           "a message in two pieces, after %zu bytes: %s", cut, e.text);
    }
    close(bare);
    close_all(loop, &e, NULL);
}

/* ---- ends ---- */

static void an_end_is_told_once(void)
{
    struct end e[2];
    struct err err = { "" };
    struct loop *loop = open_pair(e);

    ok(send_text(&e[0], "last", "words") == 0, "a side that ends has said something");
    message_stream_close(e[0].stream, 0);
    e[0].stream = NULL;
    run_until(&e[1], 2);
    is_text(e[1].text, "last|words ", "that comes");
    is_text(e[1].why, "the other side has closed it", "then the end");
    ok(message_stream_send(e[1].stream, slice_text("x"), NULL, &err) < 0 &&
           message_stream_is_over(e[1].stream),
       "sending fails: %s", err.text);
    close_all(loop, &e[0], &e[1]);
}

static void nobody_reads_any_more(void)
{
    struct end e;
    int bare;
    struct loop *loop = open_one(&e, &bare);

    ok(!message_stream_is_over(e.stream), "it is not over");
    close(bare);
    ok(send_text(&e, "", "x") < 0 && message_stream_is_over(e.stream),
       "that the other side is gone shows in sending, before its end is read");
    close_all(loop, &e, NULL);
}

static void half_a_message_is_none(void)
{
    struct end e;
    int bare;
    struct loop *loop = open_one(&e, &bare);

    (void)!write(bare, "\3\0\0\0\5\0\0\0abcd", 12);
    close(bare);
    run_until(&e, 1);
    ok(e.messages == 0 && e.why[0], "a torn message is dropped: %s", e.why);
    close_all(loop, &e, NULL);
}

static void nonsense_ends_it(void)
{
    struct end e;
    int bare;
    struct loop *loop = open_one(&e, &bare);

    (void)!write(bare, "\0\0\0\0\1\0\0\100", 8);
    run_until(&e, 1);
    ok(e.messages == 0 && strstr(e.why, "impossible size"), "a head that can't be: %s", e.why);
    close(bare);
    close_all(loop, &e, NULL);
}

static void closed_while_it_is_read(void)
{
    struct end e[2];
    struct loop *loop = open_pair(e);

    e[1].closes = true;
    ok(send_text(&e[0], "", "one") == 0 && send_text(&e[0], "", "two") == 0, "two messages");
    run_until(&e[1], 1);
    is_text(e[1].text, "|one ", "a stream that is closed at the first brings no second");
    run_until(&e[0], 1);
    ok(e[0].why[0], "the other side learns of it: %s", e[0].why);
    close_all(loop, &e[0], &e[1]);
}

/* A process that begins to read late. Its exit status: did as many bytes come? */
static pid_t slow_reader(int fd, size_t want)
{
    const pid_t pid = fork();
    static char some[65536];
    ssize_t n;

    if (pid != 0)
        return pid;
    usleep(50000);
    while (want > 0 && (n = read(fd, some, sizeof some)) > 0)
        want -= (size_t)n;
    _exit(want != 0);
}

static void what_was_sent_leaves(void)
{
    struct end e;
    int bare, status = -1;
    struct loop *loop = open_one(&e, &bare);
    pid_t reader;

    ok(send_large(&e, LARGE) == 0, "a message that the socket has no room for");
    reader = slow_reader(bare, 8 + 5 + LARGE);
    close(bare);
    message_stream_close(e.stream, 30000);
    ok(waitpid(reader, &status, 0) == reader && status == 0, "leaves before the stream is closed");
    loop_destroy(loop);
}

static void nobody_waits_for_ever(void)
{
    struct end e;
    int bare;
    struct loop *loop = open_one(&e, &bare);

    ok(send_large(&e, LARGE) == 0, "a message that nobody reads");
    message_stream_close(e.stream, 10);
    ok(true, "is given up");
    close(bare);
    loop_destroy(loop);
}

static void allocations_fail(void)
{
    for (long nth = 0; nth < 6; nth++) {
        const struct message_stream_handler handler = { arrived, ended, NULL };
        struct loop *loop = loop_create(&clock_system, NULL);
        struct message_stream *s;
        struct err err = { "" };
        zmq_msg_t body;
        int fd[2], rc = -1;

        if (!loop || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
            exit(99);
        fill(&body, LARGE);
        alloc_fail_at(nth);
        if ((s = message_stream_open(loop, fd[0], &handler, &err)))
            rc = message_stream_send(s, slice_text("large"), &body, &err);
        ok(!alloc_failed() || rc < 0, "allocation %ld: %s", nth, err.text);
        alloc_fail_at(-1);
        message_stream_close(s, 0);
        zmq_msg_close(&body);
        close(fd[1]);
        loop_destroy(loop);
    }
}

/* ---- unix_socket.h ---- */

static void sockets_have_paths(void)
{
    char folder[] = "/tmp/cellspan-test-XXXXXX", path[64], over[200];
    int listening, dialed, accepted = -1;

    if (!mkdtemp(folder))
        exit(99);
    snprintf(path, sizeof path, "%s/s", folder);
    memset(over, 'x', sizeof over - 1);
    over[sizeof over - 1] = '\0';
    ok(unix_listen(over) < 0 && errno == ENAMETOOLONG, "a path is too long");
    ok(unix_connect(path) < 0 && errno == ENOENT, "nobody listens");
    listening = unix_listen(path);
    close(listening);
    ok(unix_connect(path) < 0 && errno == ECONNREFUSED, "nor at an old file");
    ok((listening = unix_listen(path)) >= 0, "which is replaced");
    ok(unix_accept(listening) < 0 && errno == EAGAIN, "nobody has dialed");
    ok((dialed = unix_connect(path)) >= 0 && (accepted = unix_accept(listening)) >= 0, "now one");
    ok(fcntl(dialed, F_GETFD) == FD_CLOEXEC && fcntl(accepted, F_GETFD) == FD_CLOEXEC &&
           fcntl(listening, F_GETFD) == FD_CLOEXEC,
       "close-on-exec");
    close(dialed);
    close(accepted);
    close(listening);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const unsigned before = open_descriptors();

    both_sides_speak();
    no_size_is_too_large();
    many_at_once();
    torn_in_any_place();
    an_end_is_told_once();
    nobody_reads_any_more();
    half_a_message_is_none();
    nonsense_ends_it();
    closed_while_it_is_read();
    what_was_sent_leaves();
    nobody_waits_for_ever();
    allocations_fail();
    sockets_have_paths();
    is_int(open_descriptors(), before, "no descriptor is left open");
    return plan_done();
}
