/* ferry.c - see ferry.h. */
#include "worker/agent/ferry.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/memory.h"
#include "protocol/writer.h"
#include "worker/agent/agent.h"
#include "worker/agent/carrier.h"
#include "worker/agent/join.h"
#include "worker/agent/relay.h"
#include "worker/agent/space.h"
#include "worker/agent/uplink.h"

#define CHECK_NS NS_PER_S
/* a taker that has answered nothing for so long is cut off, and gets it by another way */
#define SILENT_NS (10 * NS_PER_S)

#define AGENT_LARGE (128 << 10) /* bytes; as main.c has it */
#define REFUSALS    8u

_Static_assert(CARRIER_ROOM == UPLINK_ROOM, "the carrier leaves room for what the uplink writes");

/* What came to nothing, for the messages that come after it. */
struct refusal {
    uint64_t blob;
    char why[320];
};

struct ferry {
    struct agent *agent; /* borrowed */
    struct carrier *carrier;
    struct watch *work, *check;
    struct refusal refused[REFUSALS]; /* the latest */
    unsigned refusals;
    bool busy; /* `check` runs, and malloc keeps what chunks took */
};

static int send_on(void *arg, uint32_t link, struct buf *msg)
{
    struct ferry *f = arg;
    struct err err = { "" };
    int rc;

    if (!f->agent->uplink) {
        buf_release(msg);
        return -1;
    }
    rc = link == CARRIER_KERNEL ? uplink_give(f->agent->uplink, msg, &err)
                                : uplink_give_peer(f->agent->uplink, link, msg, &err);
    if (rc < 0)
        log_warn("ferry", "%s", err.text);
    return rc;
}

/* By the socket that is our stdin. */
static int lend(void *arg, uint64_t blob, uint64_t size, int fd)
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
    struct ferry *f = arg;

    if (error) {
        struct refusal *r = &f->refused[f->refusals++ % REFUSALS];

        r->blob = blob;
        snprintf(r->why, sizeof r->why, "%s", error);
    }
    relay_settle(f->agent, blob, error);
}

static void broken(void *arg, const char *why)
{
    struct ferry *f = arg;

    agent_fail(f->agent, why);
}

static uint64_t space_left(void *arg, const char **why)
{
    (void)arg;
    return space_free(why);
}

/* ---- turns ---- */

/* Something has changed: what there is to do is done after this turn's messages. While blobs move,
 * malloc keeps the pages of chunks. */
static void stir(struct ferry *f)
{
    loop_timer_again(f->work, 0);
    if (f->busy || carrier_is_idle(f->carrier))
        return;
    f->busy = true;
    memory_keep();
    loop_timer_again(f->check, CHECK_NS);
}

static void work(struct loop *loop, void *arg)
{
    struct ferry *f = arg;

    (void)loop;
    if (carrier_work(f->carrier))
        loop_timer_again(f->work, 0); /* beats and other messages go first */
}

static void check(struct loop *loop, void *arg)
{
    struct ferry *f = arg;

    (void)loop;
    carrier_check(f->carrier, SILENT_NS);
    if (!carrier_is_idle(f->carrier)) {
        loop_timer_again(f->check, CHECK_NS);
        return;
    }
    f->busy = false;
    memory_keep_no_more(AGENT_LARGE);
}

/* ---- messages ---- */

void ferry_message(struct ferry *f, const struct span *m)
{
    carrier_message(f->carrier, CARRIER_KERNEL, m);
    stir(f);
}

void ferry_peer(void *agent, uint32_t node, struct slice msg)
{
    struct ferry *f = ((struct agent *)agent)->ferry;
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        log_warn("ferry", "from node %u: %s", node, err.text);
        return;
    }
    carrier_message(f->carrier, node, &m);
    span_release(&m);
    stir(f);
}

void ferry_unlinked(void *agent, uint32_t node, const char *why)
{
    carrier_unlinked(((struct agent *)agent)->ferry->carrier, node, why);
}

void ferry_drop(struct ferry *f, uint64_t blob)
{
    carrier_drop(f->carrier, blob);
    blobs_drop(&f->agent->blobs, blob);
}

void ferry_unwanted(struct ferry *f, uint64_t blob)
{
    carrier_unwanted(f->carrier, blob);
}

const char *ferry_why(const struct ferry *f, uint64_t blob)
{
    for (unsigned i = 0; i < REFUSALS; i++)
        if (f->refused[i].blob == blob)
            return f->refused[i].why;
    return "the node that had its bytes is gone";
}

bool ferry_expects(const struct ferry *f, uint64_t blob)
{
    return carrier_expects(f->carrier, blob);
}

/* ---- the whole ---- */

struct ferry *ferry_create(struct agent *a, struct err *err)
{
    struct ferry *f = calloc(1, sizeof *f);
    struct carrier_doors doors = {
        .send = send_on,
        .lend = descriptor_is_end(STDIN_FILENO) && !join_is_remote(a->args.connect) ? lend : NULL,
        .settled = settled,
        .broken = broken,
        .space = space_left,
        .clock = loop_clock(a->loop),
        .node = a->args.node,
        .arg = f,
    };

    if (!f)
        return err_null(err, "out of memory");
    f->agent = a;
    if ((f->carrier = carrier_create(&a->blobs, &doors, err)) &&
        (f->work = loop_timer(a->loop, 0, 0, work, f, err)) &&
        (f->check = loop_timer(a->loop, CHECK_NS, 0, check, f, err))) {
        loop_timer_off(f->check);
        return f;
    }
    ferry_destroy(f);
    return NULL;
}

void ferry_destroy(struct ferry *f)
{
    if (!f)
        return;
    watch_stop(f->work);
    watch_stop(f->check);
    carrier_destroy(f->carrier);
    free(f);
}
