/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/blobs/transfer_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory_limit.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/memory.h"
#include "protocol/bytes.h"
#include "worker/agent/blobs/blobs.h"
#include "worker/agent/blobs/transfers.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/net/uplink.h"

#define CHECK_NS NS_PER_S
/* a receiver that has not answered for this long is cut off, and gets the blob by another way */
#define SILENT_NS (10 * NS_PER_S)

#define AGENT_LARGE (128 << 10) /* bytes; the same as in main.c */
#define REFUSALS    8u

_Static_assert(TRANSFERS_ROOM == UPLINK_ROOM, "transfers leave room for what the uplink writes");

/* A blob that did not arrive, and why: for messages that need it later. */
struct refusal {
    uint64_t blob;
    char why[320];
};

struct transfer_io {
    struct transfer_io_config config;
    struct transfers *transfers;
    struct watch *work, *check;
    struct refusal refused[REFUSALS]; /* the latest ones */
    unsigned refusals;
    bool busy; /* `check` is on, and malloc keeps freed memory */
};

static int send_on(void *arg, uint32_t link, struct buf *msg)
{
    struct transfer_io *t = arg;
    struct err err = { "" };
    int rc;

    if (!t->config.kernel->uplink) {
        buf_release(msg);
        return -1;
    }
    rc = link == TRANSFERS_KERNEL ? uplink_give(t->config.kernel->uplink, msg, &err)
                                  : uplink_give_peer(t->config.kernel->uplink, link, msg, &err);
    if (rc < 0)
        log_warn("transfers", "%s", err.text);
    return rc;
}

/* The socket to the kernel is the agent's stdin. */
static int share_fd(void *arg, uint64_t blob, uint64_t size, int fd)
{
    struct buf packet = BUF_INIT;
    struct writer w = writer_of(&packet);
    int rc;

    (void)arg;
    writer_u64(&w, blob);
    writer_u64(&w, size);
    rc = writer_end(&w) < 0 ? -1 : descriptor_send(STDIN_FILENO, packet.p, packet.n, fd);
    buf_release(&packet);
    return rc;
}

static void settled(void *arg, uint64_t blob, const char *error)
{
    struct transfer_io *t = arg;

    if (error) {
        struct refusal *r = &t->refused[t->refusals++ % REFUSALS];

        r->blob = blob;
        snprintf(r->why, sizeof r->why, "%s", error);
    }
    t->config.settled(t->config.arg, blob, error);
}

static void broken(void *arg, const char *why)
{
    struct transfer_io *t = arg;

    kernel_link_fail(t->config.kernel, why);
}

static uint64_t free_memory(void *arg, const char **why)
{
    (void)arg;
    return memory_limit_free(why);
}

/* ---- turns ---- */

/* Schedules the work that may be due now: it is done after the messages of this turn. While blobs
 * move, malloc keeps freed memory, because each chunk needs it again. */
static void schedule_work(struct transfer_io *t)
{
    loop_timer_again(t->work, 0);
    if (t->busy || transfers_is_idle(t->transfers))
        return;
    t->busy = true;
    memory_keep();
    loop_timer_again(t->check, CHECK_NS);
}

static void work(void *arg)
{
    struct transfer_io *t = arg;

    if (transfers_work(t->transfers))
        loop_timer_again(t->work, 0); /* so that beats and other messages are not delayed */
}

static void check(void *arg)
{
    struct transfer_io *t = arg;

    if (t->config.kernel->uplink && uplink_is_cut_off(t->config.kernel->uplink))
        transfers_stand_still(t->transfers);
    else
        transfers_check(t->transfers, SILENT_NS);
    if (!transfers_is_idle(t->transfers)) {
        loop_timer_again(t->check, CHECK_NS);
        return;
    }
    t->busy = false;
    memory_keep_no_more(AGENT_LARGE);
}

/* ---- messages ---- */

void transfer_io_message(struct transfer_io *t, const struct span *m)
{
    transfers_message(t->transfers, TRANSFERS_KERNEL, m);
    schedule_work(t);
}

void transfer_io_peer(struct transfer_io *t, uint32_t node, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        log_warn("transfers", "from node %u: %s", node, err.text);
        return;
    }
    transfers_message(t->transfers, node, &m);
    span_release(&m);
    schedule_work(t);
}

void transfer_io_unlinked(struct transfer_io *t, uint32_t node, const char *why)
{
    transfers_unlinked(t->transfers, node, why);
}

void transfer_io_resumed(struct transfer_io *t)
{
    transfers_resumed(t->transfers);
    schedule_work(t);
}

void transfer_io_drop(struct transfer_io *t, uint64_t blob)
{
    transfers_drop(t->transfers, blob);
    blobs_drop(t->config.blobs, blob);
}

void transfer_io_unwanted(struct transfer_io *t, uint64_t blob)
{
    transfers_unwanted(t->transfers, blob);
}

const char *transfer_io_why(const struct transfer_io *t, uint64_t blob)
{
    for (unsigned i = 0; i < REFUSALS; i++)
        if (t->refused[i].blob == blob)
            return t->refused[i].why;
    return "the node that had its bytes is gone";
}

bool transfer_io_expects(const struct transfer_io *t, uint64_t blob)
{
    return transfers_expects(t->transfers, blob);
}

/* ---- the whole ---- */

struct transfer_io *transfer_io_create(const struct transfer_io_config *config, struct err *err)
{
    struct loop *loop = config->kernel->loop;
    struct transfer_io *t = calloc(1, sizeof *t);
    const bool share = config->same_machine && descriptor_is_end(STDIN_FILENO);
    const struct transfers_ops ops = {
        .send = send_on,
        .share_fd = share ? share_fd : NULL,
        .settled = settled,
        .broken = broken,
        .free_memory = free_memory,
        .clock = loop_clock(loop),
        .node = config->kernel->node,
        .arg = t,
    };

    if (!t)
        return err_null(err, "out of memory");
    t->config = *config;
    if ((t->transfers = transfers_create(config->blobs, &ops, err)) &&
        (t->work = loop_timer(loop, 0, 0, work, t, err)) &&
        (t->check = loop_timer(loop, CHECK_NS, 0, check, t, err))) {
        loop_timer_off(t->check);
        return t;
    }
    transfer_io_destroy(t);
    return NULL;
}

void transfer_io_destroy(struct transfer_io *t)
{
    if (!t)
        return;
    watch_stop(t->work);
    watch_stop(t->check);
    transfers_destroy(t->transfers);
    free(t);
}
