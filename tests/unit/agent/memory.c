/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory runs out while a message is passed on: it arrives, or its receiver is told so. */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "protocol/span_fields.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"
#include "worker/agent/agent.h"
#include "worker/agent/blobs/transfers.h"
#include "worker/agent/blobs/transfer_io.h"
#include "worker/agent/private.h"
#include "worker/agent/processes/worker.h"

#define MANY 200 /* allocations; none of this takes so many */

/* ---- to a worker ---- */

struct desk {
    struct agent agent;
    struct worker *worker;
    struct worker_pipes ends;
};

static void on_settled(void *arg, uint64_t blob, const char *error)
{
    (void)arg;
    (void)blob;
    (void)error;
}

static void desk_open(struct desk *d)
{
    const struct transfer_io_config config = { .kernel = &d->agent.kernel,
                                               .blobs = &d->agent.blobs,
                                               .settled = on_settled };
    struct err err = { "" };

    memset(d, 0, sizeof *d);
    d->agent.workers.agent = &d->agent;
    d->agent.workers.io =
        (struct pipes_io){ .clock = &clock_system, .kernel = &d->agent.kernel, .window = 1000 };
    if (!(d->agent.workers.io.loop = d->agent.kernel.loop = loop_create(&clock_system, &err)) ||
        !(d->agent.transfers = transfer_io_create(&config, &err)) ||
        !(d->worker = worker_create(&d->agent.workers, WORKER_RANK, 2, 0, "python3", &d->ends,
                                    &err)))
        abort();
}

static void desk_close(struct desk *d)
{
    d->agent.workers.first = NULL;
    worker_destroy(d->worker);
    worker_pipes_close(&d->ends);
    transfer_io_destroy(d->agent.transfers);
    loop_destroy(d->agent.kernel.loop);
}

static bool has_got(const struct desk *d)
{
    char packet[256];

    return recv(d->ends.link, packet, sizeof packet, MSG_DONTWAIT) > 0;
}

/* So that what follows waits in the outbox. */
static void fill_socket(const struct desk *d)
{
    static const char some[4096];

    while (send(d->worker->link_fd, some, sizeof some, MSG_DONTWAIT) > 0)
        ;
}

/* A BIND whose blob is not here, and a plain one; full: there is no room for either. */
static bool passes(long nth, bool with_blob, bool full, bool *failed)
{
    struct span m = { .kind = SPAN_BIND,
                      .worker = 2,
                      .cell = 1,
                      .blob = with_blob ? 7 : 0,
                      .blob_size = with_blob ? 9 : 0 };
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    struct desk d;
    bool good;

    if (span_encode(&m, &msg, &err) < 0)
        abort();
    desk_open(&d);
    if (full)
        fill_socket(&d);
    alloc_fail_at(nth);
    relay_down(d.worker, &m, buf_slice(&msg));
    *failed = alloc_failed();
    alloc_fail_at(-1);
    good = d.worker->state.broke[0] || (full ? !outbox_is_empty(&d.worker->outbox) : has_got(&d));
    if (d.worker->state.broke[0])
        good = good && d.worker->state.later == SIGKILL;
    buf_release(&msg);
    desk_close(&d);
    return good;
}

static void what_is_for_a_worker(bool with_blob, bool full, const char *what)
{
    bool failed = true, good = true;
    long nth = 0;

    for (; failed && nth < MANY; nth++)
        good = passes(nth, with_blob, full, &failed) && good;
    ok(good && !failed, "%s: with each of %ld allocations failing it arrives, or ends the worker",
       what, nth - 1);
}

/* ---- to the kernel ---- */

struct teller {
    unsigned sent, broken, failed;
};

static int t_send(void *arg, uint32_t link, struct buf *msg)
{
    struct teller *t = arg;

    buf_release(msg);
    t->sent += link == TRANSFERS_KERNEL;
    return 0;
}

static void t_settled(void *arg, uint64_t blob, const char *error)
{
    (void)blob;
    ((struct teller *)arg)->failed += error != NULL;
}

static void t_broken(void *arg, const char *why)
{
    (void)why;
    ((struct teller *)arg)->broken++;
}

/* Each message that asks for an answer gets one, or ends the agent. */
static bool answers(struct transfers *c, struct teller *t, const struct span *m, long nth,
                    bool *failed)
{
    const unsigned before = t->sent + t->broken;

    alloc_fail_at(nth);
    transfers_message(c, TRANSFERS_KERNEL, m);
    *failed = *failed || alloc_failed();
    alloc_fail_at(-1);
    return t->sent + t->broken > before;
}

/* in: which of the three messages meets the failure. */
static bool carries(unsigned in, long nth, bool *failed)
{
    struct span expect = {
        .kind = SPAN_EXPECT, .blob = 7, .blob_size = 4, .v[F_EXPECT_FROM].u64 = 3
    };
    struct span chunk = { .kind = SPAN_CHUNK, .blob = 7, .blob_size = 4, .v[F_CHUNK_TO].u64 = 1 };
    struct span ship = { .kind = SPAN_SHIP,
                         .blob = 7,
                         .blob_size = 4,
                         .v[F_SHIP_TO].u64 = 3,
                         .v[F_SHIP_THROUGH].u64 = 1 };
    const struct span *const all[] = { &expect, &chunk, &ship };
    struct teller t = { 0, 0, 0 };
    const struct transfers_ops ops = { .send = t_send,
                                       .settled = t_settled,
                                       .broken = t_broken,
                                       .clock = &clock_system,
                                       .node = "h2",
                                       .arg = &t };
    struct blobs blobs = { 0 };
    struct err err = { "" };
    struct transfers *c = transfers_create(&blobs, &ops, &err);
    bool good = c != NULL, not_here = false;

    chunk.v[F_CHUNK_DATA].s = slice_text("data");
    *failed = false;
    for (unsigned i = 0; good && i <= in && !t.broken; i++)
        if (all[i]->kind == SPAN_SHIP) { /* its answer are chunks */
            alloc_fail_at(i == in ? nth : -1);
            transfers_message(c, TRANSFERS_KERNEL, all[i]);
            *failed = i == in && alloc_failed();
            alloc_fail_at(-1);
            good = t.broken || (transfers_work(c), t.sent > 2);
        } else {
            good = answers(c, &t, all[i], i == in ? nth : -1, i == in ? failed : &not_here);
        }
    transfers_destroy(c);
    blobs_release(&blobs);
    return good;
}

static void what_is_said_of_blobs(void)
{
    static const char *const names[] = { "EXPECT", "CHUNK", "SHIP" };

    for (unsigned in = 0; in < 3; in++) {
        bool failed = true, good = true;
        long nth = 0;

        for (; failed && nth < MANY; nth++)
            good = carries(in, nth, &failed) && good;
        ok(good && !failed,
           "%s: with each of %ld allocations failing it is answered, or ends the agent", names[in],
           nth - 1);
    }
}

int main(void)
{
    what_is_for_a_worker(false, false, "a message");
    what_is_for_a_worker(false, true, "one that has to wait");
    what_is_for_a_worker(true, false, "one whose blob is not here");
    what_is_said_of_blobs();
    return plan_done();
}
