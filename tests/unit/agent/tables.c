/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent's tables: waiting messages, stored blobs, and blobs in transfer. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/memory_limit.h"
#include "base/clock.h"
#include "base/process.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "tests/unit/tap.h"
#include "worker/agent/blobs/blobs.h"
#include "worker/agent/output/worker_credit.h"
#include "worker/agent/private.h"
#include "worker/agent/processes/outbox.h"
#include "worker/agent/processes/worker_state.h"
#include "worker/agent/blobs/transfer_io.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int some_fd(void)
{
    return open("/dev/null", O_RDONLY);
}

static void urgent_messages_go_first(void)
{
    static const char want[] = "345"
                               "12";
    struct outbox o;
    bool good = true;
    int fd;

    outbox_init(&o);
    good = outbox_add(&o, false, slice_text("1"), -1) == 0 &&
           outbox_add(&o, false, slice_text("2"), -1) == 0 &&
           outbox_add(&o, true, slice_text("3"), -1) == 0 &&
           outbox_add(&o, true, slice_text("4"), -1) == 0 &&
           outbox_add(&o, true, slice_text("5"), -1) == 0;
    for (int i = 0; want[i]; i++) {
        good = good && outbox_first(&o)->p[0] == want[i] && outbox_has_urgent(&o) == (i < 3);
        outbox_pop(&o);
    }
    ok(good && outbox_is_empty(&o), "urgent ones first, each kind in its order");
    fd = some_fd();
    ok(outbox_add(&o, false, slice_text(""), fd) == 0, "an empty one");
    outbox_release(&o);
    ok(!is_open(fd), "descriptors go with their messages");
}

static void blobs_are_found_by_number(void)
{
    struct blobs b = BLOBS_INIT;
    bool good = true;
    int fd = some_fd();

    for (uint64_t i = 0; i < 100; i++)
        good = good && blobs_put(&b, i * 37 % 101, i, dup(fd)) == 0;
    for (uint64_t i = 0; i < 100; i++)
        good = good && blobs_get(&b, i * 37 % 101) && blobs_get(&b, i * 37 % 101)->size == i;
    ok(good, "each of a hundred");
    ok(!blobs_get(&b, 1000), "an unknown number is none");
    ok(blobs_put(&b, 37, 5, fd) == 0 && blobs_get(&b, 37)->size == 5 && b.n == 100,
       "a number that comes again is replaced");
    blobs_drop(&b, 37);
    ok(!blobs_get(&b, 37) && !is_open(fd), "a dropped one is closed");
    blobs_drop(&b, 37);
    blobs_release(&b);
}

static void messages_wait_for_blobs(void)
{
    const struct span run = { .kind = SPAN_RUN, .cell = 4 };
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    struct outbox o;
    int fd = some_fd();

    outbox_init(&o);
    ok(outbox_add_waiting(&o, slice_text("first"), 7) == 0 &&
           outbox_add(&o, false, slice_text("second"), -1) == 0,
       "a message waits for blob 7");
    ok(!outbox_first(&o) && !outbox_is_empty(&o), "and the one behind it, too");
    ok(outbox_add(&o, true, slice_text("urgent"), -1) == 0 &&
           slice_equal(slice_text("urgent"), slice_of(outbox_first(&o)->p, 6)),
       "what is urgent does not");
    outbox_pop(&o);
    ok(outbox_replace(&o, outbox_waiting(&o, 7), slice_text("instead of it")) == 0 &&
           outbox_first(&o)->p[0] == 'i' && !outbox_waiting(&o, 7),
       "another takes its place, and may leave");
    outbox_pop(&o);
    ok(outbox_first(&o)->p[0] == 's', "the next follows");
    outbox_pop(&o);
    ok(outbox_add_waiting(&o, slice_text("third"), 8) == 0, "one more");
    outbox_ready(outbox_waiting(&o, 8), fd);
    ok(outbox_first(&o)->blob_fd == fd, "leaves with its blob");
    ok(span_encode(&run, &msg, &err) == 0 && outbox_add(&o, false, buf_slice(&msg), -1) == 0 &&
           outbox_find(&o, SPAN_RUN, 4) && !outbox_find(&o, SPAN_RUN, 5) &&
           !outbox_find(&o, SPAN_BIND, 4),
       "a cell that waits is found");
    outbox_remove(&o, outbox_find(&o, SPAN_RUN, 4));
    ok(!outbox_find(&o, SPAN_RUN, 4) && !outbox_is_empty(&o), "and taken away");
    outbox_release(&o);
    ok(!is_open(fd) && outbox_is_empty(&o), "nothing is left");
    buf_release(&msg);
}

static void what_is_said_in_the_place_of_a_blob(void)
{
    struct span m = { .kind = SPAN_BIND, .worker = 3, .cell = 9, .blob = 5, .blob_size = 100 };
    struct buf msg = BUF_INIT, now = BUF_INIT;
    struct err err = { "" };

    ok(span_encode(&m, &msg, &err) == 0 &&
           stand_in_for_blob(buf_slice(&msg), "no room", &now, &err) == 0 &&
           span_decode(&m, now.p, now.n, &err) == 0,
       "a BIND without its blob");
    ok(m.blob == 5 && m.blob_size == 0 && m.cell == 9 && slice_is(m.v[F_BIND_NAMES].s, "no room"),
       "says why");
    stand_in_patch(msg.p);
    ok(span_decode(&m, msg.p, msg.n, &err) == 0 && m.blob == 5 && m.blob_size == 0,
       "without memory only that there is none");
    buf_clear(&msg);
    buf_clear(&now);
    m = (struct span){
        .kind = SPAN_RETURN, .blob = 5, .blob_size = 100, .v[F_RETURN_STATUS].s = slice_text("ok")
    };
    ok(span_encode(&m, &msg, &err) == 0 &&
           stand_in_for_blob(buf_slice(&msg), "no \"room\"", &now, &err) == 0 &&
           span_decode(&m, now.p, now.n, &err) == 0 && slice_is(m.v[F_RETURN_STATUS].s, "error") &&
           memmem(m.v[F_RETURN_CONTENT].s.p, m.v[F_RETURN_CONTENT].s.n, "no \\\"room\\\"", 11),
       "a RETURN becomes an error");
    buf_clear(&msg);
    buf_clear(&now);
    m = (struct span){ .kind = SPAN_FOUND, .blob = 5, .blob_size = 100 };
    m.v[F_FOUND_QUESTION].s = slice_text("{}");
    m.v[F_FOUND_CONTENT].s = slice_text("{\"files\":[]}");
    ok(span_encode(&m, &msg, &err) == 0 &&
           stand_in_for_blob(buf_slice(&msg), "no room", &now, &err) == 0 &&
           span_decode(&m, now.p, now.n, &err) == 0 && slice_is(m.v[F_FOUND_QUESTION].s, "{}") &&
           slice_is(m.v[F_FOUND_CONTENT].s, "{\"error\":\"no room\"}"),
       "the answer to a question about code becomes an error");
    buf_release(&msg);
    buf_release(&now);
}

static void memory_that_is_left(void)
{
    static const char text[] =
        "MemTotal:       24684092 kB\nMemFree:  5 kB\nMemAvailable:   24183000 kB\nBuffers: x\n";
    const char *why = NULL;

    ok(file_number_of(slice_text(text), "MemAvailable", UINT64_MAX) == 24183000, "the machine's");
    ok(file_number_of(slice_text(text), "Mem", UINT64_MAX) == UINT64_MAX &&
           file_number_of(slice_text(text), "Buffers", UINT64_MAX) == UINT64_MAX &&
           file_number_of(slice_text(""), "MemFree", UINT64_MAX) == UINT64_MAX,
       "only where it is told");
    ok(file_number(slice_text("max\n"), UINT64_MAX) == UINT64_MAX &&
           file_number(slice_text("734003200\n"), UINT64_MAX) == 734003200 &&
           file_number(slice_text("99999999999999999999999"), UINT64_MAX) > UINT64_MAX / 20,
       "a control group's");
    ok(memory_limit_free(&why) > 0 && why, "here: %s", why);
    {
        char info[4096];
        const struct slice here = file_start("/proc/meminfo", info, sizeof info);
        const uint64_t all = file_number_of(here, "MemTotal", 0) * 1024;
        const uint64_t now = file_number_of(here, "MemAvailable", 0) * 1024;

        ok(memory_limit_parking(&why) < now - all / 20, "parked ranks leave more of it free");
    }
}

static void a_worker_from_start_to_end(void)
{
    const struct death killed = { true, EXITED_SIGNAL, SIGTERM };
    struct worker_state s;

    worker_state_init(&s);
    ok(!worker_state_signal(&s, SIGTERM) && !worker_state_signal(&s, SIGKILL) &&
           !worker_state_signal(&s, SIGTERM),
       "without a process no signal is sent");
    is_int(worker_state_set_pid(&s, 7, NULL, 0), SIGKILL, "SIGKILL is, once there is one");
    ok(!worker_state_killed(&s, &killed) && worker_state_signal(&s, SIGTERM) &&
           worker_state_killed(&s, &killed),
       "a signal is ours if we sent it");
    ok(worker_state_expect_end(&s, NS_PER_S) && !worker_state_expect_end(&s, 2 * NS_PER_S) &&
           s.end_due_ns == 2 * NS_PER_S,
       "an end is expected within a second");
    ok(worker_state_overdue(&s, true) == WORKER_WAIT && s.end_due_ns == UINT64_MAX,
       "a process that is connected takes its time");
    ok(worker_state_expect_end(&s, 0) && worker_state_overdue(&s, false) == WORKER_KILL,
       "one that is not is killed");
    worker_state_init(&s);
    ok(worker_state_expect_end(&s, 0) && s.end_due_ns < NS_PER_S / 2 &&
           worker_state_overdue(&s, true) == WORKER_GIVE_UP,
       "where there is no process nothing is waited for");
    worker_state_init(&s);
    is_int(worker_state_set_pid(&s, 8, &killed, 5), 0, "a process that has died already");
    ok(s.end_due_ns == 5 && worker_state_overdue(&s, true) == WORKER_GIVE_UP &&
           s.death.status == SIGTERM,
       "is told of at once");
}

static void credit_is_bounded(void)
{
    struct worker_credit c = WORKER_CREDIT_INIT;

    worker_credit_window(&c, 1000);
    is_int(c.left, 1000, "the window is what is left at first");
    worker_credit_take(&c, 1500);
    ok(worker_credit_is_out(&c), "a message may go over it");
    worker_credit_give(&c, 500);
    ok(worker_credit_is_out(&c), "0 is out");
    worker_credit_give(&c, UINT64_MAX);
    is_int(c.left, 1000, "more than the window is never given");
    worker_credit_take(&c, 300);
    worker_credit_window(&c, 2000);
    is_int(c.left, 1700, "a larger window keeps what is on the way");
}

static void publish_counts_its_payload(void)
{
    struct slice buffers[] = { slice_text("12345"), slice_text("678") };
    struct span m = { .kind = SPAN_PUBLISH };
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    bool torn = true;

    m.v[F_PUBLISH_TYPE].s = slice_text("display_data");
    m.v[F_PUBLISH_CONTENT].s = slice_text("{\"a\": 1}");
    m.v[F_PUBLISH_METADATA].s = slice_text("{}");
    m.v[F_PUBLISH_BUFFERS].list = (struct span_list){ buffers, 2 };
    ok(span_encode(&m, &msg, &err) == 0, "a PUBLISH");
    is_int(worker_credit_of_publish(buf_slice(&msg)), 8 + 2 + 5 + 3,
           "content, metadata and buffers count");
    for (size_t n = 0; n < msg.n; n++)
        torn = torn && worker_credit_of_publish(slice_of(msg.p, n)) < 0;
    ok(torn, "every shorter one is torn");
    buf_release(&msg);
}

int main(void)
{
    urgent_messages_go_first();
    messages_wait_for_blobs();
    what_is_said_in_the_place_of_a_blob();
    memory_that_is_left();
    a_worker_from_start_to_end();
    blobs_are_found_by_number();
    credit_is_bounded();
    publish_counts_its_payload();
    return plan_done();
}
