/* SPDX-License-Identifier: BSD-3-Clause */
/* from_kernel.c - who handles which message of the kernel (declared in private.h). */
#include "worker/agent/private.h"

#include "base/le.h"
#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/blobs/transfer_io.h"
#include "worker/agent/cut_ranks.h"
#include "worker/agent/net/port.h"

#define SIGNAL_MAX 63u
#define LOGS_SIZE  262144u /* roughly how many bytes one answer to LOGS has */

static void on_welcome(struct agent *a, const struct span *m)
{
    const uint64_t window = m->v[F_WELCOME_WINDOW].u64;

    a->workers.io.window = window ? window : WORKER_CREDIT_FIRST;
    for (struct worker *w = a->workers.first; w; w = w->next) {
        worker_credit_window(&w->pipes.credit, a->workers.io.window);
        worker_watch(w);
    }
}

static void on_drop(struct agent *a, const struct span *m)
{
    const struct slice numbers = m->v[F_DROP_BLOBS].s;

    for (size_t i = 0; i < numbers.n / 8; i++)
        transfer_io_drop(a->transfers, le_get(numbers.p + 8 * i, 8));
}

static void on_port(struct agent *a, const struct span *m)
{
    struct span answer = { .kind = SPAN_PORT, .cell = m->cell };
    struct err err = { "" };
    uint16_t port[PORTS_RESERVED];
    char more[32];
    size_t n = 0;
    int found, reserved;

    while (n < sizeof port / sizeof *port && n <= m->v[F_PORT_PORT].u64 &&
           (found = port_find(&reserved, port, n, &err)) >= 0) {
        ports_reserved_add(&a->ports, reserved);
        port[n++] = (uint16_t)found;
    }
    if (n == 0)
        log_error("agent", "%s", err.text);
    answer.v[F_PORT_PORT].u64 = n ? port[0] : 0; /* 0: no port is free */
    for (size_t k = 1; k < n; k++)
        le_put(more + 2 * (k - 1), 2, port[k]);
    answer.v[F_PORT_MORE].s = slice_of(more, n ? 2 * (n - 1) : 0);
    kernel_link_send(&a->kernel, &answer);
}

static int logs_ranks(struct ranks *r, struct slice bits)
{
    for (size_t i = 0; i < bits.n * 8; i++)
        if ((unsigned char)bits.p[i / 8] >> i % 8 & 1 && ranks_add(r, (unsigned)i) < 0)
            return -1;
    return 0;
}

static void on_logs(struct agent *a, const struct span *m)
{
    struct span answer = { .kind = SPAN_LOGS,
                           .cell = m->cell,
                           .v[F_LOGS_OF].u64 = m->v[F_LOGS_OF].u64 };
    struct ranks ranks = RANKS_INIT;
    struct buf data = BUF_INIT;
    uint64_t at = m->v[F_LOGS_AT].u64;
    bool more = false, lost = false;

    if (logs_ranks(&ranks, m->v[F_LOGS_RANKS].s) < 0 ||
        spool_read(&a->spool, m->v[F_LOGS_OF].u64, &ranks, &at, LOGS_SIZE, &data, &more, &lost) < 0)
        log_error("agent", "out of memory: what was printed can't be read again");
    answer.v[F_LOGS_AT].u64 = at;
    answer.v[F_LOGS_FLAGS].u64 = (more ? LOGS_MORE : 0) | (lost ? LOGS_LOST : 0);
    answer.v[F_LOGS_DATA].s = buf_slice(&data);
    answer.v[F_LOGS_END].u64 = a->spool.end;
    kernel_link_send(&a->kernel, &answer);
    buf_release(&data);
    ranks_release(&ranks);
}

static void on_refuse(struct agent *a, const struct span *m)
{
    kernel_link_refused(&a->kernel, m->v[F_REFUSE_TEXT].s);
}

static void ask_stacks(struct worker *w, uint64_t cell)
{
    struct span m = { .kind = SPAN_STACKS, .worker = w->id, .cell = cell };

    if ((m.v[F_STACKS_UNTIL].u64 = stacks_ask(w, cell)))
        relay_tell(w, &m);
}

/* For each worker of the envelope. */
static void on_workers(struct agent *a, const struct span *m, struct slice workers)
{
    struct worker *w;

    for (size_t at = 0; (w = worker_next(&a->workers, workers, &at));)
        if (m->kind == SPAN_CREDIT) {
            worker_credit_give(&w->pipes.credit, m->v[F_CREDIT_BYTES].u64);
            worker_watch(w);
        } else if (m->kind == SPAN_STACKS) {
            ask_stacks(w, m->cell);
        } else if (m->v[F_KILL_SIGNAL].u64 > 0 && m->v[F_KILL_SIGNAL].u64 <= SIGNAL_MAX) {
            worker_kill(w, (int)m->v[F_KILL_SIGNAL].u64, m->v[F_KILL_GRACE_MS].u64);
        }
}

static void on_transfer(struct agent *a, const struct span *m)
{
    transfer_io_message(a->transfers, m);
}

static void on_quit(struct agent *a, const struct span *m)
{
    (void)m;
    kernel_link_quit(&a->kernel, "the kernel says so");
}

static const struct handler {
    enum span_kind kind;
    void (*f)(struct agent *a, const struct span *m);
    void (*for_workers)(struct agent *a, const struct span *m, struct slice workers);
} handlers[] = {
    { SPAN_WELCOME, on_welcome, NULL },
    { SPAN_REFUSE, on_refuse, NULL },
    { SPAN_START, NULL, start_workers },
    { SPAN_KILL, NULL, on_workers },
    { SPAN_STACKS, NULL, on_workers },
    { SPAN_CREDIT, NULL, on_workers },
    { SPAN_CUT_RANKS, NULL, cut_ranks_on_message },
    { SPAN_DROP, on_drop, NULL },
    { SPAN_PORT, on_port, NULL },
    { SPAN_WARM, prestart_zygote, NULL },
    { SPAN_GPUS, node_usage_gpus, NULL },
    { SPAN_GAUGES, node_usage_all, NULL },
    { SPAN_LOGS, on_logs, NULL },
    { SPAN_PARK, NULL, park_ranks },
    { SPAN_EXPECT, on_transfer, NULL },
    { SPAN_SHIP, on_transfer, NULL },
    { SPAN_CHUNK, on_transfer, NULL },
    { SPAN_CHUNK_ACK, on_transfer, NULL },
    { SPAN_QUIT, on_quit, NULL },
};

static void handle(struct agent *a, const struct span *m, struct slice workers)
{
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (handlers[i].kind == m->kind) {
            if (handlers[i].f)
                handlers[i].f(a, m);
            else
                handlers[i].for_workers(a, m, workers);
            return;
        }
    log_warn("agent", "%s is not handled here: ignored", span_info((unsigned)m->kind)->name);
}

static void relay(struct agent *a, const struct span *head, struct slice workers, struct slice msg)
{
    struct worker *w;

    for (size_t at = 0; (w = worker_next(&a->workers, workers, &at));)
        if (w->role != WORKER_ZYGOTE)
            relay_down(w, head, msg);
}

void from_kernel_message(void *agent, struct slice workers, struct slice msg)
{
    struct agent *a = agent;
    const struct span_info *info;
    struct err err = { "" };
    struct span m;

    if (a->kernel.quitting)
        return;
    if (workers.n % 4 != 0 || span_peek(&m, msg.p, msg.n, &err) < 0) {
        log_error("agent", "from the kernel: %s", err.text[0] ? err.text : "a torn envelope");
        return;
    }
    info = span_info((unsigned)m.kind);
    log_debug("message", "%s for %s, cell %llu", info->name, workers.n ? "workers" : "the agent",
              (unsigned long long)m.cell);
    if (info->ways & SPAN_KERNEL_TO_WORKER) {
        relay(a, &m, workers, msg);
    } else if (!(info->ways & SPAN_KERNEL_TO_AGENT)) {
        log_warn("agent", "%s is not for the kernel to send: ignored", info->name);
    } else if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        log_error("agent", "from the kernel: %s", err.text);
    } else {
        handle(a, &m, workers);
        span_release(&m);
    }
}
