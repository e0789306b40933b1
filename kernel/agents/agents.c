/* The face of the room: see agents.h; room.h says which file does what. */
#include "kernel/agents/agents.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/orphans.h"
#include "base/runtime.h"
#include "kernel/agents/room.h"

/* for all of them to end by themselves: their ranks have 2 s, and clients kill us after 5 */
#define END_WAIT_MS 3400
#define TERM_MS     2500 /* then engines are asked by a signal */
#define NAP_MS      5
#define IO_THREADS  2 /* what comes by ipc is read while what leaves is encrypted */

uint64_t agents_now(const struct agents *a)
{
    return clock_now(loop_clock(a->loop));
}

const struct node *agents_node(const struct agents *a, unsigned node)
{
    const struct node_link *link = node_table_get(&a->nodes, node);

    return link ? &link->node : NULL;
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
    return to_agents_nodes(&a->out, nodes, n, m, err);
}

/* ---- blobs ---- */

uint64_t agents_expected(const struct agents *a, unsigned node, uint64_t *had)
{
    return blob_schedule_expected(a->blobs.schedule, node, had);
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

int agents_restart(struct agents *a, struct err *err)
{
    struct node_link *here = node_table_get(&a->nodes, NODE_HERE);

    if (local_agent_start(&a->local, err) < 0)
        return -1;
    here->node.state = NODE_ASKED;
    here->node.pid = a->local.pid;
    return 0;
}

static int bind_here(struct agents *a, const char *folder, struct err *err)
{
    const struct router_handler handler = { .arrived = from_agents_received,
                                            .refused = from_agents_refused,
                                            .arg = a };
    char *path = runtime_path(folder, "agents", err);

    if (!path)
        return -1;
    a->endpoint = malloc(strlen(path) + 7);
    if (a->endpoint)
        sprintf(a->endpoint, "ipc://%s", path);
    free(path);
    if (!a->endpoint || !(a->zmq = zmq_ctx_new()) ||
        zmq_ctx_set(a->zmq, ZMQ_IO_THREADS, IO_THREADS) < 0)
        return err_set(err, "no socket for the agents: out of memory");
    a->here = router_create(a->loop, a->zmq, NULL, NULL, &handler, err);
    return a->here ? router_bind(a->here, a->endpoint, err) : -1;
}

static int know_here(struct agents *a, const struct agents_config *config, struct err *err)
{
    if (gethostname(a->name, sizeof a->name - 1) < 0)
        strcpy(a->name, "localhost");
    if (!(a->python = strdup(config->python)))
        return err_set(err, "out of memory");
    if (node_table_add(&a->nodes, 1, 0, err) < 0)
        return -1;
    if (node_link_set_name(a->nodes.link[0], slice_text(a->name)) < 0 ||
        node_link_set_addresses(a->nodes.link[0], slice_text("127.0.0.1")) < 0)
        return err_set(err, "out of memory");
    return 0;
}

struct agents *agents_create(struct loop *loop, const struct agents_config *config, struct err *err)
{
    struct agents *a = calloc(1, sizeof *a);

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->handler = config->handler;
    a->out = (struct to_agents){ .clock = loop_clock(loop), .fan.nodes = &a->nodes };
    a->local = (struct local_agent)LOCAL_AGENT_INIT;
    if (beat_init(&a->beat, getenv("CELLSPAN_HEARTBEAT_TIMEOUT"), agents_now(a), err) < 0 ||
        engine_runs_init(a, err) < 0 || agents_blobs_init(&a->blobs, &a->out, err) < 0 ||
        know_here(a, config, err) < 0 || bind_here(a, config->folder, err) < 0 ||
        node_failures_watch(a, err) < 0)
        goto undo;
    a->local.endpoint = a->endpoint;
    a->local.node = a->name;
    a->local.python = a->python;
    if (agents_restart(a, err) < 0)
        goto undo;
    return a;
undo:
    agents_destroy(a);
    return err_null(err, "the agent could not be started");
}

/* ---- the end ---- */

/* The agents kill their workers and end. */
static void tell_to_quit(struct agents *a)
{
    const struct span quit = { .kind = SPAN_QUIT };
    unsigned *up = to_agents_list(&a->out);
    struct err err = { "" };
    size_t n = 0;

    for (size_t i = 0; up && i < a->nodes.n; i++)
        if (a->nodes.link[i]->node.state == NODE_UP)
            up[n++] = a->nodes.link[i]->node.number;
    if (n && to_agents_nodes(&a->out, up, n, &quit, &err) < 0)
        log_info("agents", "%s", err.text);
}

/* Engines have their agents' ends to wait for, and this machine's agent its workers'. */
static void wait_for_ends(struct agents *a)
{
    size_t engines = engine_runs_end(a, 0);

    for (unsigned ms = 0; ms < END_WAIT_MS && (a->local.pid > 0 || engines); ms += NAP_MS) {
        const struct timespec nap = { 0, NAP_MS * 1000000 };
        int status;
        pid_t pid;

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
            if (pid == a->local.pid)
                a->local.pid = 0;
            else if (engine_runs_child(a, pid, status))
                engines--;
        if (ms == TERM_MS)
            (void)engine_runs_end(a, SIGTERM);
        if (a->local.pid > 0 || engines)
            nanosleep(&nap, NULL);
    }
    (void)engine_runs_end(a, SIGKILL);
    local_agent_kill(&a->local);
}

void agents_destroy(struct agents *a)
{
    if (!a)
        return;
    node_failures_unwatch(a);
    tell_to_quit(a);
    local_agent_let_go(&a->local);
    wait_for_ends(a);
    engine_runs_release(a);
    orphans_kill(0);
    router_destroy(a->here);
    router_destroy(a->wire);
    agents_zap_destroy(a->zap);
    if (a->zmq)
        zmq_ctx_term(a->zmq);
    node_table_release(&a->nodes);
    agents_blobs_release(&a->blobs);
    to_agents_release(&a->out);
    credit_release(&a->credit);
    free(a->endpoint);
    free(a->python);
    free(a);
}
