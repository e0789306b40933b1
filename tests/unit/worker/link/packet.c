/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/link/packet.h: one end gets what the other sends; invalid packets close the link,
 * and no descriptor stays open. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/link/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blob.h"
#include "base/process.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "tests/unit/chaos.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/tap.h"

/* A LINES message with n bytes of data. */
static struct buf message(size_t n, uint64_t blob, uint64_t blob_size)
{
    struct span m = { .kind = SPAN_LINES, .worker = 2, .blob = blob, .blob_size = blob_size };
    struct buf b = BUF_INIT;
    char *data = malloc(n + 1);

    if (data) {
        for (size_t i = 0; i < n; i++)
            data[i] = (char)(i * 7);
        m.v[F_LINES_DATA].s = slice_of(data, n);
        if (span_encode(&m, &b, NULL) < 0)
            buf_release(&b);
    }
    free(data);
    return b;
}

static void comes_through(size_t n, bool with_blob, const char *what)
{
    const unsigned before = open_descriptors();
    struct buf b = message(n, with_blob ? 5 : 0, with_blob ? 6 : 0);
    int blob = with_blob ? blob_of("test", "abcdef", 6, NULL) : -1;
    struct packet p = PACKET_INIT;
    struct err err = { "" };
    char bytes[6] = "";
    int fd[2];

    if (!ok(packet_pair(fd, &err) == 0, "there is a pair (%s)", err.text))
        return;
    ok(packet_send(fd[0], b.p, b.n, blob, &err) == 0, "%s is sent (%s)", what, err.text);
    if (ok(packet_recv(fd[1], &p, &err) == PACKET_GOT, "and received (%s)", err.text)) {
        ok(slice_equal(slice_of(p.p, p.n), buf_slice(&b)), "as the same bytes");
        if (with_blob)
            ok(blob_read(p.blob_fd, bytes, 6, 0, NULL) == 0 && memcmp(bytes, "abcdef", 6) == 0 &&
                   fcntl(p.blob_fd, F_GETFD) == FD_CLOEXEC,
               "with its blob, close-on-exec");
        else
            ok(p.blob_fd == -1, "without a blob");
        packet_release(&p);
    }
    fd_close(&fd[0]);
    ok(packet_recv(fd[1], &p, &err) == PACKET_END, "the end is told");
    ok(packet_send(fd[1], b.p, b.n, blob, &err) < 0, "sending after it fails: %s", err.text);
    fd_close(&fd[1]);
    fd_close(&blob);
    buf_release(&b);
    is_int(open_descriptors(), before, "no descriptor stays open");
}

static void messages_come_through(void)
{
    comes_through(0, false, "a small message");
    comes_through(10, true, "a small one with a blob");
    comes_through(PACKET_INLINE_MAX - 1 - SPAN_HEADER_SIZE - 20, false,
                  "the longest that fits a packet");
    comes_through(PACKET_INLINE_MAX - SPAN_HEADER_SIZE - 20, false, "one byte more");
    comes_through(1000000, true, "a large one with a blob");
}

static void a_small_socket_buffer_is_gone_around(void)
{
    struct buf b = message(60000, 0, 0);
    struct packet p = PACKET_INIT;
    struct err err = { "" };
    const int room = 4096;
    int fd[2];

    if (packet_pair(fd, NULL) < 0)
        return;
    if (setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0)
        ok(packet_send(fd[0], b.p, b.n, -1, &err) == 0 &&
               packet_recv(fd[1], &p, &err) == PACKET_GOT && p.n == b.n,
           "a packet that is longer than the socket takes goes in a memory file (%s)", err.text);
    packet_release(&p);
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    buf_release(&b);
}

/* Fills the socket until it would block. Returns how many messages went in; -1: it failed. */
static int fill(int fd, const struct buf *b)
{
    for (int n = 0; n < 100000; n++) {
        const int rc = packet_send(fd, b->p, b->n, -1, NULL);

        if (rc != 0)
            return rc == 1 ? n : -1;
    }
    return -1;
}

static void a_full_socket_says_so(size_t n)
{
    const unsigned before = open_descriptors();
    struct buf b = message(n, 0, 0);
    struct packet p = PACKET_INIT;
    int fd[2], sent, got = 0;

    if (packet_pair(fd, NULL) < 0 || fd_nonblock(fd[0], true) < 0 || fd_nonblock(fd[1], true) < 0)
        return;
    is_int(packet_recv(fd[1], &p, NULL), PACKET_NONE, "nothing there is no error");
    sent = fill(fd[0], &b);
    ok(sent > 0, "%d messages of %zu bytes go in before it would block", sent, b.n);
    while (packet_recv(fd[1], &p, NULL) == PACKET_GOT) {
        got += p.n == b.n;
        packet_release(&p);
    }
    is_int(got, sent, "all come out");
    ok(packet_send(fd[0], b.p, b.n, -1, NULL) == 0, "then there is room again");
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    buf_release(&b);
    is_int(open_descriptors(), before, "what was on the way is gone");
}

static void a_sender_keeps_to_the_rules(void)
{
    struct buf plain = message(3, 0, 0), with = message(3, 5, 6), number = message(3, 5, 0);
    int blob = blob_of("test", "abcde", 5, NULL);
    int open_blob = blob_create("test", NULL);
    struct err err[6] = { { "" }, { "" }, { "" }, { "" }, { "" }, { "" } };
    int fd[2];

    if (packet_pair(fd, NULL) < 0)
        return;
    ok(packet_send(fd[0], plain.p, plain.n, blob, &err[0]) < 0, "%s", err[0].text);
    ok(packet_send(fd[0], with.p, with.n, -1, &err[1]) < 0, "%s", err[1].text);
    ok(packet_send(fd[0], with.p, with.n, blob, &err[2]) < 0, "%s", err[2].text);
    ok(blob_write(open_blob, "abcdef", 6, 0, NULL) == 0 &&
           packet_send(fd[0], with.p, with.n, open_blob, &err[3]) < 0,
       "%s", err[3].text);
    ok(packet_send(fd[0], "abc", 3, -1, &err[4]) < 0, "%s", err[4].text);
    ok(packet_send(fd[0], plain.p, PACKET_MESSAGE_MAX + 1, -1, &err[5]) < 0, "%s", err[5].text);
    ok(packet_send(fd[0], number.p, number.n, -1, NULL) == 0,
       "a blob of size 0 is only a number: nothing rides along");
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    fd_close(&blob);
    fd_close(&open_blob);
    buf_release(&plain);
    buf_release(&with);
    buf_release(&number);
}

/* ---- what a peer may send that is no packet ---- */

struct rude {
    const char *p;
    size_t n;
    int fd[12];
    unsigned fds;
};

static bool send_rude(int fd, const struct rude *r)
{
    struct iovec iov = { (void *)(uintptr_t)r->p, r->n };
    union {
        char bytes[CMSG_SPACE(12 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

    memset(&control, 0, sizeof control);
    if (r->fds > 0) {
        struct cmsghdr *c = (struct cmsghdr *)(void *)control.bytes;

        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(r->fds * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(r->fds * sizeof(int));
        memcpy(CMSG_DATA(c), r->fd, r->fds * sizeof(int));
    }
    return sendmsg(fd, &h, 0) == (ssize_t)r->n;
}

static void is_refused(const struct rude *r, const char *what)
{
    const unsigned before = open_descriptors();
    struct packet p = { (char *)(uintptr_t)"untouched", 9, -1 };
    struct err err = { "" };
    int fd[2];

    if (packet_pair(fd, NULL) < 0)
        return;
    ok(send_rude(fd[0], r), "there is %s", what);
    is_int(packet_recv(fd[1], &p, &err), PACKET_ERROR, "it is refused: %s", err.text);
    ok(err.text[0] && strcmp(p.p, "untouched") == 0, "and nothing is handed out");
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    is_int(open_descriptors(), before, "its descriptors are closed");
}

/* "\1" and the size, as tag 1 has it. */
static void say_size(char out[static 9], uint64_t size)
{
    out[0] = 1;
    for (unsigned i = 0; i < 8; i++)
        out[1 + i] = (char)(size >> 8 * i & 0xff);
}

static void garbage_is_refused(void)
{
    char big[PACKET_INLINE_MAX + 1];

    memset(big, 0, sizeof big);
    is_refused(&(struct rude){ .p = "\7hello", .n = 6 }, "an unknown tag");
    is_refused(&(struct rude){ .p = "\0", .n = 1 }, "a tag alone");
    is_refused(&(struct rude){ .p = "\0\1\1\0\0", .n = 5 }, "half a header");
    is_refused(&(struct rude){ .p = big, .n = sizeof big }, "a packet that is too long");
    is_refused(&(struct rude){ .p = big, .n = 33 }, "a header of zeros");
    is_refused(&(struct rude){ .p = "\1\0\0\0", .n = 4 }, "tag 1 with half a size");
    is_refused(&(struct rude){ .p = "\1\0\0\0\0\0\0\0\0", .n = 9 }, "tag 1 without a memory file");
}

static void wrong_descriptors_are_refused(void)
{
    struct buf plain = message(3, 0, 0), with = message(3, 5, 6);
    struct buf packet = BUF_INIT, packet_with = BUF_INIT;
    int blob = blob_of("test", "abcdef", 6, NULL);
    int shorter = blob_of("test", "abcde", 5, NULL);
    int soft = blob_create("test", NULL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rude many = { .fds = 12 };

    if (buf_add(&packet, "", 1) < 0 || buf_add_slice(&packet, buf_slice(&plain)) < 0 ||
        buf_add(&packet_with, "", 1) < 0 || buf_add_slice(&packet_with, buf_slice(&with)) < 0 ||
        blob_write(soft, "abcdef", 6, 0, NULL) < 0)
        return;
    is_refused(&(struct rude){ packet.p, packet.n, { blob }, 1 },
               "a descriptor that the header does not have");
    is_refused(&(struct rude){ packet_with.p, packet_with.n, { 0 }, 0 },
               "a blob that did not come");
    is_refused(&(struct rude){ packet_with.p, packet_with.n, { blob, blob }, 2 },
               "one descriptor too many");
    is_refused(&(struct rude){ packet_with.p, packet_with.n, { shorter }, 1 },
               "a blob of another size");
    is_refused(&(struct rude){ packet_with.p, packet_with.n, { null }, 1 }, "a device for a blob");
#ifdef MFD_ALLOW_SEALING
    is_refused(&(struct rude){ packet_with.p, packet_with.n, { soft }, 1 }, "a blob without seals");
#endif
    many.p = packet_with.p;
    many.n = packet_with.n;
    for (unsigned i = 0; i < many.fds; i++)
        many.fd[i] = blob;
    is_refused(&many, "more descriptors than anybody wants");
    fd_close(&blob);
    fd_close(&shorter);
    fd_close(&soft);
    fd_close(&null);
    buf_release(&plain);
    buf_release(&with);
    buf_release(&packet);
    buf_release(&packet_with);
}

static int sent(int fd, const struct buf *b)
{
    int blob = blob_of("test", "abcdef", 6, NULL);
    const int rc = packet_send(fd, b->p, b->n, blob, NULL);

    fd_close(&blob);
    return rc;
}

/* The blob that the system could not open is gone, the process need not be. */
static void a_process_with_too_many_open_files_gets_the_message_alone(size_t n, bool is_long)
{
    const unsigned before = open_descriptors();
    struct buf b = message(n, 5, 6);
    struct packet p = PACKET_INIT;
    struct err err = { "" };
    struct rlimit limit, none;
    enum packet_got got;
    struct span m;
    int fd[2];

    if (packet_pair(fd, NULL) < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    is_int(sent(fd[0], &b), 0, "a message of %zu bytes with a blob is sent", b.n);
    none = limit;
    none.rlim_cur = 0;
    ok(setrlimit(RLIMIT_NOFILE, &none) == 0, "no more files can be opened");
    got = packet_recv(fd[1], &p, &err);
    ok(setrlimit(RLIMIT_NOFILE, &limit) == 0, "and now they can");
    if (is_long) {
        is_int(got, PACKET_ERROR, "what is in a memory file is lost");
        ok(strstr(err.text, strerror(EMFILE)) != NULL, "and why is said: %s", err.text);
    } else if (ok(got == PACKET_GOT, "the message came (%s)", err.text)) {
        ok(p.blob_fd < 0 && span_peek(&m, p.p, p.n, NULL) == 0 && m.blob == 5 && m.blob_size == 6,
           "its header says what it lacks");
    }
    packet_release(&p);
    buf_release(&b);
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    is_int(open_descriptors(), before, "no descriptor stays open");
}

/* It can't be told from the end. */
static void an_empty_packet_leaves_no_descriptor(void)
{
    int blob = blob_of("test", "abcdef", 6, NULL), fd[2];
    const unsigned before = open_descriptors();
    struct packet p = PACKET_INIT;
    struct err err = { "" };

    if (packet_pair(fd, NULL) < 0)
        return;
    ok(send_rude(fd[0], &(struct rude){ "", 0, { blob, blob }, 2 }),
       "there is a packet of nothing but descriptors");
    is_int(packet_recv(fd[1], &p, &err), PACKET_END, "it ends the link");
    fd_close(&fd[0]);
    fd_close(&fd[1]);
    is_int(open_descriptors(), before, "its descriptors are closed");
    fd_close(&blob);
}

static void lying_memory_files_are_refused(void)
{
    struct buf plain = message(100, 0, 0);
    int file = blob_of("test", plain.p, plain.n, NULL);
    int noise = blob_of("test", "noise", 5, NULL);
    int empty = blob_of("test", "", 0, NULL);
    int huge = blob_create("test", NULL);
    char said[9];

    say_size(said, plain.n + 1);
    is_refused(&(struct rude){ said, 9, { file }, 1 },
               "a memory file that is shorter than it says");
    say_size(said, plain.n - 1);
    is_refused(&(struct rude){ said, 9, { file }, 1 }, "one that is longer");
    say_size(said, plain.n);
    is_refused(&(struct rude){ said, 9, { file, file }, 2 },
               "one with a blob that its header does not have");
    is_refused(&(struct rude){ said, 9, { file, file, file }, 3 },
               "one with two descriptors too many");
    say_size(said, 5);
    is_refused(&(struct rude){ said, 9, { noise }, 1 }, "noise in a memory file");
    say_size(said, 0);
    is_refused(&(struct rude){ said, 9, { empty }, 1 }, "nothing in a memory file");
    if (ftruncate(huge, (off_t)PACKET_MESSAGE_MAX + 1) == 0 && blob_seal(huge, NULL) == 0) {
        say_size(said, PACKET_MESSAGE_MAX + 1);
        is_refused(&(struct rude){ said, 9, { huge }, 1 }, "a message over the limit");
    }
    fd_close(&file);
    fd_close(&noise);
    fd_close(&empty);
    fd_close(&huge);
    buf_release(&plain);
}

static void any_failed_allocation_is_survived(size_t n)
{
    const unsigned before = open_descriptors();
    struct buf b = message(n, 0, 0);
    enum packet_got rc = PACKET_ERROR;

    for (long nth = 0; rc != PACKET_GOT && nth < 10; nth++) {
        struct packet p = PACKET_INIT;
        struct err err = { "" };
        int fd[2];

        if (packet_pair(fd, NULL) < 0 || packet_send(fd[0], b.p, b.n, -1, NULL) != 0)
            break;
        alloc_fail_at(nth);
        rc = packet_recv(fd[1], &p, &err);
        if (alloc_failed() && rc == PACKET_GOT) /* only the shrinking failed */
            ok(p.n == b.n, "a message may stay in the larger block");
        alloc_fail_at(-1);
        ok(rc == PACKET_GOT || strstr(err.text, "memory"), "allocation %ld: %s", nth, err.text);
        packet_release(&p);
        fd_close(&fd[0]);
        fd_close(&fd[1]);
    }
    ok(rc == PACKET_GOT, "with enough memory it comes");
    buf_release(&b);
    is_int(open_descriptors(), before, "no descriptor stays open");
}

static void taking_the_blob_leaves_none(void)
{
    struct packet p = { NULL, 0, blob_of("test", "x", 1, NULL) };
    int fd = packet_take_blob(&p);

    ok(fd >= 0 && p.blob_fd == -1, "the blob is the caller's");
    packet_release(&p);
    ok(fcntl(fd, F_GETFD) >= 0, "and stays open");
    fd_close(&fd);
}

int main(void)
{
    messages_come_through();
    a_small_socket_buffer_is_gone_around();
    a_full_socket_says_so(100);
    a_full_socket_says_so(200000);
    a_sender_keeps_to_the_rules();
    garbage_is_refused();
    wrong_descriptors_are_refused();
    a_process_with_too_many_open_files_gets_the_message_alone(3, false);
    a_process_with_too_many_open_files_gets_the_message_alone(200000, true);
    an_empty_packet_leaves_no_descriptor();
    lying_memory_files_are_refused();
    any_failed_allocation_is_survived(10);
    any_failed_allocation_is_survived(100000);
    taking_the_blob_leaves_none();
    return plan_done();
}
