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
#include "base/memory.h"
#include "base/orphans.h"
#include "base/runtime.h"
#include "kernel/agents/room.h"
#include "protocol/reader.h"

/* for all of them to end by themselves: their ranks have 2 s, and clients kill us after 5 */
#define END_WAIT_MS  3400
#define TERM_MS      2500 /* then engines are asked by a signal */
#define NAP_MS       5
#define IO_THREADS   2           /* what comes by ipc is read while what leaves is encrypted */
#define KERNEL_LARGE (256 << 10) /* bytes; as the kernel sets malloc up before its first thread */

uint64_t agents_now(const struct agents *a)
{
    return clock_now(loop_clock(a->loop));
}

const struct node_info *agents_node(const struct agents *a, unsigned node)
{
    const struct node *l = node_table_get(&a->nodes, node);

    return l ? &l->info : NULL;
}

/* ---- sending ---- */

static void body_free(void *p, void *hint)
{
    (void)hint;
    free(p);
}

/* One encoding, whose bytes every connection shares. */
static int body_of(zmq_msg_t *body, const struct span *m, struct err *err)
{
    struct buf bytes = BUF_INIT;
    const int rc = span_encode(m, &bytes, err);
    const size_t n = bytes.n;
    char *p = rc == 0 ? buf_take(&bytes) : NULL;

    buf_release(&bytes);
    if (rc < 0)
        return -1;
    if (p && zmq_msg_init_data(body, p, n, body_free, NULL) == 0)
        return 0;
    free(p);
    return err_set(err, "out of memory");
}

/* Sends by every connection of the fan. Who can't be reached is reported lost soon; -1 if nobody
 * can. */
static int fan_out(struct agents *a, zmq_msg_t *body, struct err *err)
{
    const uint64_t now = agents_now(a);
    size_t failed = 0;

    for (size_t i = 0; i < a->fan.n_top; i++) {
        struct node *l = a->fan.top[i];
        struct err why = { "" };

        if (router_send(l->router, slice_of(l->identity, l->identity_size), buf_slice(&l->route),
                        body, &why) == 0)
            continue;
        failed++;
        err_set(err, "the agent on %s can't be reached: %s", l->info.name, why.text);
    }
    for (size_t i = 0; i < a->fan.n_touched; i++)
        a->fan.touched[i]->pulse.sent = now;
    if (failed && failed == a->fan.n_top)
        return -1;
    if (a->fan.n_touched == 0 && a->fan.gone)
        return err_set(err, "the agent that it is for is gone");
    return 0;
}

/* What a blob's message is told ahead of, see blob_schedule.h: its nodes get to know that the bytes
 * come. */
static int ship(struct agents *a, const uint32_t *workers, size_t n, const struct span *m,
                struct err *err)
{
    unsigned *nodes;

    if (!m->blob || !m->blob_size)
        return 0;
    if (!(nodes = agents_list(a)))
        return err_set(err, "out of memory");
    if (blob_schedule_need(a->blobs, m->blob, m->blob_size, nodes,
                           fan_list(&a->fan, workers, n, nodes), err) < 0)
        return -1;
    return agents_blobs_go_on(a) ? 0 : err_set(err, "out of memory for the messages about a blob");
}

int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m,
                struct err *err)
{
    zmq_msg_t body;
    int rc;

    if (ship(a, workers, n, m, err) < 0 || body_of(&body, m, err) < 0)
        return -1;
    rc = fan_workers(&a->fan, workers, n, &body) < 0 ? err_set(err, "out of memory")
                                                     : fan_out(a, &body, err);
    zmq_msg_close(&body);
    return rc;
}

/* Takes body. */
static int send_body(struct agents *a, const unsigned *nodes, size_t n, zmq_msg_t *body,
                     struct err *err)
{
    const int rc = fan_nodes(&a->fan, nodes, n, body) < 0 ? err_set(err, "out of memory")
                                                          : fan_out(a, body, err);

    zmq_msg_close(body);
    return rc;
}

int agents_send_nodes(struct agents *a, const unsigned *nodes, size_t n, const struct span *m,
                      struct err *err)
{
    zmq_msg_t body;

    return body_of(&body, m, err) < 0 ? -1 : send_body(a, nodes, n, &body, err);
}

void agents_tell(struct agents *a, const struct node *l, const struct span *m)
{
    struct err err = { "" };

    if (agents_send_nodes(a, &l->number, 1, m, &err) < 0)
        log_warn("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
}

unsigned *agents_list(struct agents *a)
{
    unsigned *list;

    if (a->list_room >= a->nodes.n)
        return a->list;
    if (!(list = realloc(a->list, 2 * a->nodes.n * sizeof *list)))
        return NULL;
    a->list = list;
    a->list_room = 2 * a->nodes.n;
    return list;
}

void agents_flush(struct node *l)
{
    struct node *top = node_top(l);
    struct waiting_message *letter;
    struct err err = { "" };

    while (node_is_ready(l) && (letter = node_take(l))) {
        if (router_send(top->router, slice_of(top->identity, top->identity_size),
                        buf_slice(&letter->route), &letter->body, &err) < 0)
            log_warn("agents", "the agent on %s can't be reached: %s", l->info.name, err.text);
        waiting_message_free(letter);
    }
}

/* ---- blobs ---- */

/* What this machine's agent is told to drop it does not share any more. */
static void forget_local_blobs(struct agents *a, const unsigned *nodes, size_t n,
                               const struct span *drop)
{
    struct reader r = reader_of(drop->v[F_DROP_BLOBS].s.p, drop->v[F_DROP_BLOBS].s.n);
    bool here = false;

    for (size_t i = 0; i < n; i++)
        here = here || nodes[i] == NODE_HERE;
    while (here && reader_left(&r) >= 8)
        local_blobs_drop(&a->local_blobs, reader_u64(&r));
}

static void blobs_sends(void *arg, const unsigned *nodes, size_t n, const struct span *m)
{
    struct err err = { "" };
    struct agents *a = arg;
    zmq_msg_t body;

    if (m->kind == SPAN_TAKEN && n == 1 && nodes[0] == NODE_HERE &&
        local_blobs_taken(&a->local_blobs, m, agents_now(a)))
        return;
    if (m->kind == SPAN_DROP)
        forget_local_blobs(a, nodes, n, m);
    if (body_of(&body, m, &err) < 0) {
        log_error("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
        a->blobs_stop = a->blobs_stop || m->kind != SPAN_DROP;
    } else if (send_body(a, nodes, n, &body, &err) < 0) {
        log_info("agents", "%s: %s", span_info((unsigned)m->kind)->name, err.text);
    }
}

bool agents_blobs_go_on(struct agents *a)
{
    struct span m;

    while (local_blobs_next(&a->local_blobs, &m, agents_now(a)))
        (void)blob_schedule_message(a->blobs, NODE_HERE, &m);
    if (!a->blobs_stop)
        return true;
    a->blobs_stop = false;
    blob_schedule_stop(a->blobs);
    return false;
}

static bool blobs_peers(void *arg, unsigned node, struct blob_peer *out)
{
    const struct agents *a = arg;
    const struct node *l = node_table_get(&a->nodes, node);

    if (!l || node == NODE_HERE || l->info.state != NODE_UP || !l->addresses || !*l->addresses)
        return false;
    *out = (struct blob_peer){ .addresses = l->addresses, .key = l->key };
    return true;
}

/* Large ones pass through as many messages of a MiB. */
static void blobs_moves(void *arg, bool on)
{
    (void)arg;
    if (on)
        memory_keep();
    else
        memory_keep_no_more(KERNEL_LARGE);
}

uint64_t agents_expected(const struct agents *a, unsigned node, uint64_t *had)
{
    return blob_schedule_expected(a->blobs, node, had);
}

void agents_drop(struct agents *a, uint64_t blob)
{
    blob_schedule_drop(a->blobs, blob);
}

void agents_cancel(struct agents *a, uint64_t blob)
{
    blob_schedule_cancel(a->blobs, blob);
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
    struct node *here = node_table_get(&a->nodes, NODE_HERE);

    if (local_agent_start(&a->local, err) < 0)
        return -1;
    here->info.state = NODE_ASKED;
    here->info.pid = a->local.pid;
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
    if (node_set_name(a->nodes.node[0], slice_text(a->name)) < 0 ||
        node_set_addresses(a->nodes.node[0], slice_text("127.0.0.1")) < 0)
        return err_set(err, "out of memory");
    return 0;
}

struct agents *agents_create(struct loop *loop, const struct agents_config *config, struct err *err)
{
    struct blob_schedule_ops doors = { .send = blobs_sends,
                                       .peer = blobs_peers,
                                       .busy = blobs_moves };
    struct agents *a = calloc(1, sizeof *a);

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->handler = config->handler;
    a->fan.nodes = &a->nodes;
    doors.arg = a;
    a->local = (struct local_agent)LOCAL_AGENT_INIT;
    a->local_blobs = (struct local_blobs)LOCAL_BLOBS_INIT;
    if (beat_init(&a->beat, getenv("CELLSPAN_HEARTBEAT_TIMEOUT"), agents_now(a), err) < 0 ||
        engine_runs_init(a, err) < 0 || !(a->blobs = blob_schedule_create(&doors, err)) ||
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
    unsigned *up = agents_list(a);
    struct err err = { "" };
    size_t n = 0;

    for (size_t i = 0; up && i < a->nodes.n; i++)
        if (a->nodes.node[i]->info.state == NODE_UP)
            up[n++] = a->nodes.node[i]->number;
    if (n && agents_send_nodes(a, up, n, &quit, &err) < 0)
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
    fan_release(&a->fan);
    blob_schedule_destroy(a->blobs);
    local_blobs_release(&a->local_blobs);
    credit_release(&a->credit);
    free(a->list);
    free(a->endpoint);
    free(a->python);
    free(a);
}
