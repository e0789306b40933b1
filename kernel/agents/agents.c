/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/agents/agents.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "kernel/agents/private.h"
#include "protocol/span_fields.h"

const struct node *agents_node(const struct agents *a, unsigned node)
{
    struct node_link *link = node_table_get(&a->nodes, node);

    if (!link)
        return NULL;
    link->node.full = session_is_full(&link->session);
    return &link->node;
}

/* ---- sending ---- */

int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m,
                struct err *err)
{
    if (agents_blobs_send_ahead(&a->blobs, workers, n, m, err) < 0)
        return -1;
    return to_agents_workers(&a->out, workers, n, m, err);
}

int agents_send_nodes(struct agents *a, const unsigned *nodes, size_t n, const struct span *m,
                      struct err *err)
{
    for (size_t k = 0; m->kind == SPAN_QUIT && k < n; k++)
        node_failures_give_up(a, node_table_get(&a->nodes, nodes[k]));
    return to_agents_nodes(&a->out, nodes, n, m, err);
}

/* ---- blobs ---- */

uint64_t agents_expected(const struct agents *a, unsigned node, uint64_t *had, uint64_t *whole)
{
    return blob_schedule_expected(a->blobs.schedule, node, had, whole);
}

void agents_drop(struct agents *a, uint64_t blob)
{
    blob_schedule_drop(a->blobs.schedule, blob);
}

void agents_cancel(struct agents *a, uint64_t blob)
{
    blob_schedule_cancel(a->blobs.schedule, blob);
}

/* ---- where things are ---- */

int agents_place(struct agents *a, uint32_t worker, unsigned node)
{
    struct err err = { "" };

    if (node_table_place(&a->nodes, worker, node, &err) == 0)
        return 0;
    log_error("agents", "worker %u: %s", worker, err.text);
    return -1;
}

/* ---- credit ---- */

static void give_back(struct agents *a, uint32_t worker)
{
    const uint64_t owed = credit_take(&a->credit, worker);
    struct span m = { .kind = SPAN_CREDIT, .v[F_CREDIT_BYTES].u64 = owed };
    struct err err = { "" };

    if (owed && agents_send(a, &worker, 1, &m, &err) < 0)
        log_warn("agents", "credit for worker %u: %s", worker, err.text);
}

void agents_owe(struct agents *a, uint32_t worker, size_t bytes)
{
    uint64_t owed;

    if (credit_owe(&a->credit, worker, bytes, &owed) < 0)
        log_error("agents", "worker %u: out of memory, %zu bytes of credit are lost", worker,
                  bytes);
    else if (!a->held && owed >= WINDOW / 4)
        give_back(a, worker);
}

void agents_hold(struct agents *a, bool hold)
{
    if (a->held == hold)
        return;
    a->held = hold;
    for (size_t k = 0; !hold && k < a->credit.n; k++)
        if (a->credit.row[k].owed >= WINDOW / 4)
            give_back(a, a->credit.row[k].worker);
}

void agents_forget(struct agents *a, uint32_t worker)
{
    credit_forget(&a->credit, worker);
    if (worker > SPAN_WORKER_HOME) /* home is always here, and is started again under its number */
        node_table_forget(&a->nodes, worker);
}

/* ---- made and destroyed ---- */

static int add_here(struct agents *a, struct err *err)
{
    char name[256] = "";

    if (gethostname(name, sizeof name - 1) < 0)
        strcpy(name, "localhost");
    if (node_table_add(&a->nodes, 1, 0, err) < 0)
        return -1;
    a->nodes.link[0]->node.cores = sysconf(_SC_NPROCESSORS_ONLN); /* until its agent says HELLO */
    if (node_link_set_name(a->nodes.link[0], slice_text(name)) < 0 ||
        node_link_set_addresses(a->nodes.link[0], slice_text("127.0.0.1")) < 0)
        return err_set(err, "out of memory");
    return 0;
}

struct agents *agents_create(struct loop *loop, const char *folder,
                             const struct agents_handler *events, struct err *err)
{
    struct agents *a = calloc(1, sizeof *a);
    const struct router_handler handler = { .arrived = from_agents_received,
                                            .refused = from_agents_refused,
                                            .arg = a };

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->handler = *events;
    a->out = (struct to_agents){ .clock = loop_clock(loop), .fan.nodes = &a->nodes };
    beat_init(&a->beat, setting_value(SETTING_HEARTBEAT_TIMEOUT), clock_now(a->out.clock));
    a->resume_ns = setting_value(SETTING_RESUME);
    a->untold_ns = setting_text(SETTING_RESUME) ? a->resume_ns : 0;
    if (agents_blobs_init(&a->blobs, &a->out, err) == 0 && add_here(a, err) == 0 &&
        listen_here(&a->listen, loop, folder, &handler, err) == 0 &&
        node_failures_watch(a, err) == 0)
        return a;
    agents_destroy(a);
    return NULL;
}

void agents_destroy(struct agents *a)
{
    if (!a)
        return;
    watch_stop(a->beat_timer);
    listen_release(&a->listen);
    node_table_release(&a->nodes);
    agents_blobs_release(&a->blobs);
    to_agents_release(&a->out);
    credit_release(&a->credit);
    free(a);
}
