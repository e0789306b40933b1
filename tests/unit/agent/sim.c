/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/agent/sim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/le.h"
#include "tests/unit/tap.h"
#include "worker/link/packet.h"

struct sim *sim;

/* ---- messages on their way ---- */

struct sim_message {
    struct sim_message *next;
    uint32_t worker; /* who sent it */
    struct buf to;   /* *u32: to whom; empty: to the agent */
    struct buf msg;
    int blob_fd; /* owned; -1: none */
};

static void add(struct sim_message **at, uint32_t worker, struct slice to, struct slice msg,
                int blob_fd)
{
    struct sim_message *m = calloc(1, sizeof *m);

    if (!m || buf_add_slice(&m->to, to) < 0 || buf_add_slice(&m->msg, msg) < 0)
        abort();
    m->worker = worker;
    m->blob_fd = blob_fd;
    while (*at)
        at = &(*at)->next;
    *at = m;
}

static struct sim_message *take(struct sim_message **list)
{
    struct sim_message *m = *list;

    if (m)
        *list = m->next;
    return m;
}

static void destroy(struct sim_message *m)
{
    buf_release(&m->to);
    buf_release(&m->msg);
    if (m->blob_fd >= 0)
        close(m->blob_fd);
    free(m);
}

static void drop_all(struct sim_message **list)
{
    for (struct sim_message *m; (m = take(list));)
        destroy(m);
}

void sim_note(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (buf_addf(&sim->log, "%s\n", line) < 0)
        abort();
}

bool sim_logged(struct sim *s, const char *text)
{
    const bool found = s->log.p && strstr(s->log.p, text);

    if (!found)
        diag("no \"%s\" in: %s", text, s->log.p ? s->log.p : "");
    return found;
}

/* ---- workers ---- */

struct sim_child *sim_child_of(const struct worker *w)
{
    return &sim->child[w->stacks.fd - SIM_LINK];
}

/* 0: the zygote */
static struct worker *worker_of(struct sim *s, uint32_t id)
{
    struct worker *w = s->agent.workers.first;

    while (w && w->id != id)
        w = w->next;
    if (!w)
        diag("there is no worker %u", id);
    return w;
}

int sim_to_worker(struct sim_child *c, struct slice msg, int blob_fd)
{
    struct err err = { "" };
    struct slice why = slice_text("");
    struct span m;

    if (sim->full)
        return 1;
    if (span_decode(&m, msg.p, msg.n, &err) < 0)
        abort();
    if (m.kind == SPAN_BIND && blob_fd < 0)
        why = m.v[F_BIND_NAMES].s;
    for (const struct worker *w = sim->agent.workers.first; w; w = w->next)
        if (sim_child_of(w) == c)
            sim_note("to %u: %s%s %.*s", w->id, span_info(m.kind)->name,
                     blob_fd < 0 ? "" : " with blob", SLICE_ARG(why));
    span_release(&m);
    return 0;
}

static void carry(struct sim *s, bool up, size_t size)
{
    if (s->carry)
        s->carry(s->carry_arg, up, size);
}

void sim_to_kernel(uint32_t worker, struct slice msg)
{
    add(&sim->up, worker, slice_text(""), msg, -1);
    carry(sim, true, msg.n);
}

/* The next message that has come. NULL: there is none. */
static struct sim_message *take_come(struct sim *s, bool up)
{
    if (s->carry && s->come[up] == 0)
        return NULL;
    s->come[up] -= s->carry != NULL;
    return take(up ? &s->up : &s->down);
}

/* One packet is read. */
static void read_one(struct worker *w)
{
    struct sim_message *m = take(&sim_child_of(w)->said);
    struct packet p = { m->msg.p, m->msg.n, m->blob_fd };

    if (w->role == WORKER_ZYGOTE)
        zygote_says(w, buf_slice(&m->msg));
    else
        relay_up(w, &p);
    m->blob_fd = w->role == WORKER_ZYGOTE ? -1 : p.blob_fd;
    destroy(m);
}

void sim_read_socket(struct worker *w)
{
    while (!w->state.gone && w->link_fd >= 0 && sim_child_of(w)->said)
        read_one(w);
}

void sim_read_pipes(struct pipes *p)
{
    struct sim_child *c = &sim->child[p->stream[0].fd - SIM_LINK];

    for (int i = 0; i < 2; i++) {
        struct buf now = c->printed[i];

        c->printed[i] = (struct buf)BUF_INIT;
        if (now.n)
            pipes_take(&p->stream[i], buf_slice(&now));
        buf_release(&now);
    }
}

/* ---- the zygote ---- */

static void fork_ranks(struct sim *s, struct worker *z)
{
    struct buf packet = BUF_INIT;
    char tag = ZYGOTE_PIDS, number[8];

    if (buf_add(&packet, &tag, 1) < 0)
        abort();
    for (const struct worker *w = s->agent.workers.first; w; w = w->next) {
        struct sim_child *c = sim_child_of(w);

        if (!c->ordered)
            continue;
        c->ordered = false;
        c->pid = ++s->pids;
        le_put(number, 4, w->id);
        le_put(number + 4, 4, (uint64_t)c->pid);
        if (buf_add(&packet, number, sizeof number) < 0)
            abort();
        if (!s->mute)
            sim_ready(s, w->id);
    }
    add(&sim_child_of(z)->said, 0, slice_text(""), buf_slice(&packet), -1);
    buf_release(&packet);
}

/* It reads one order. */
static void obey(struct sim *s, struct worker *z)
{
    const struct order *o = z->orders.first;
    struct err err = { "" };
    struct span m;

    if (o->p[0] == ZYGOTE_FORK) {
        fork_ranks(s, z);
    } else {
        if (span_decode(&m, o->p + 1, o->n - 1, &err) < 0)
            abort();
        sim_child_of(worker_of(s, m.worker))->ordered = true;
        sim_note("order: %u", m.worker);
        span_release(&m);
    }
    orders_pop(&z->orders);
}

/* ---- turns ---- */

/* What the loop would do for a worker now. false: nothing. */
static bool serve(struct sim *s, struct worker *w)
{
    struct sim_child *c = sim_child_of(w);

    if (c->watched && w->link_fd >= 0 && w->orders.first && !s->idle) {
        obey(s, w);
        return true;
    }
    if (c->watched && w->link_fd >= 0 && outbox_first(&w->outbox) && !s->full) {
        relay_send_waiting(w);
        return true;
    }
    if (w->link_fd >= 0 && c->said && pipes_may_send(&w->pipes) &&
        (w->role != WORKER_ZYGOTE || !s->silent)) {
        read_one(w);
        return true;
    }
    if ((c->printed[0].n || c->printed[1].n) && pipes_may_send(&w->pipes)) {
        sim_read_pipes(&w->pipes);
        return true;
    }
    if (c->hung_up && w->link_fd >= 0) {
        worker_unlink(w);
        return true;
    }
    return false;
}

static bool serve_workers(struct sim *s)
{
    for (struct worker *w = s->agent.workers.first; w; w = w->next)
        if (serve(s, w))
            return true;
    return false;
}

static bool bury(struct sim *s)
{
    for (unsigned i = 0; i < s->children; i++) {
        struct sim_child *c = &s->child[i];
        const struct death d = { true, EXITED_SIGNAL, c->signo };
        const pid_t pid = c->pid;

        if (!c->signo || !pid)
            continue;
        c->pid = 0;
        exited_process(&s->agent, pid, &d);
        return true;
    }
    return false;
}

static bool answer(struct sim *s)
{
    const path_probe_f probed = s->probed;
    const gpu_known_f looked = s->looked;

    s->probed = NULL;
    s->looked = NULL;
    if (probed)
        probed(s->probe, 0, true, NULL);
    if (looked)
        looked(s->look);
    return probed || looked;
}

static void to_kernel(struct sim *s, const struct sim_message *m)
{
    struct slice said = slice_text("");
    struct err err = { "" };
    struct span span;

    if (span_decode(&span, m->msg.p, m->msg.n, &err) < 0)
        abort();
    if (span.kind == SPAN_EXITED)
        said = span.v[F_EXITED_CAUSE].s;
    sim_note("from %u: %s %.*s", m->worker, span_info(span.kind)->name, SLICE_ARG(said));
    span.worker = m->worker;
    /* the kernel's side of blobs between nodes is not played */
    if (span.kind != SPAN_STORED && span.kind != SPAN_CHUNK_ACK) {
        dispatch_message(s->w->nb, s->node, m->worker, &span);
        settle(s->w);
    }
    span_release(&span);
}

static bool pass_messages(struct sim *s)
{
    struct sim_message *down = take_come(s, false), *up;

    if (down) {
        from_kernel_message(&s->agent, buf_slice(&down->to), buf_slice(&down->msg));
        destroy(down);
        return true;
    }
    if (!(up = take_come(s, true)))
        return false;
    to_kernel(s, up);
    destroy(up);
    return true;
}

void sim_turn(struct sim *s)
{
    while (pass_messages(s) || answer(s) || serve_workers(s) || bury(s))
        while (s->retired) {
            struct worker *w = s->retired;

            s->retired = w->next;
            worker_destroy(w);
        }
}

/* When something is due next, at the agent or in the notebook. */
static uint64_t due_ns(const struct sim *s)
{
    uint64_t due = s->agent.workers.timer_due_ns;

    for (const struct worker *w = s->agent.workers.first; w; w = w->next)
        due = clock_earlier(due, pipes_due_ns(&w->pipes));
    return clock_earlier(due, s->w->due);
}

static void tick(struct sim *s)
{
    const uint64_t now = clock_now(s->agent.workers.io.clock);

    for (struct worker *w = s->agent.workers.first; w; w = w->next)
        for (int i = 0; i < 2 && pipes_due_ns(&w->pipes) <= now; i++)
            pipes_tick(&w->pipes.stream[i], false);
    if (s->agent.workers.timer_due_ns <= now)
        exited_overdue(&s->agent);
}

void sim_pass(struct sim *s, uint64_t ns)
{
    const uint64_t until = s->w->now + ns;

    while (s->w->now < until) {
        const uint64_t due = clock_earlier(due_ns(s), until);

        pass(s->w, due > s->w->now ? due - s->w->now : 0);
        tick(s);
        sim_turn(s);
    }
}

/* ---- what processes do ---- */

void sim_says(struct sim *s, uint32_t worker, struct span m, int blob_fd)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    if (span_encode(&m, &msg, &err) < 0)
        abort();
    add(&sim_child_of(worker_of(s, worker))->said, worker, slice_text(""), buf_slice(&msg),
        blob_fd);
    buf_release(&msg);
}

void sim_prints(struct sim *s, uint32_t worker, unsigned stream, const char *text)
{
    if (buf_add_text(&sim_child_of(worker_of(s, worker))->printed[stream - 1], text) < 0)
        abort();
}

void sim_ready(struct sim *s, uint32_t worker)
{
    struct span m = { .kind = SPAN_READY };

    m.v[F_READY_PID].u64 = (uint64_t)sim_child_of(worker_of(s, worker))->pid;
    m.v[F_READY_PYTHON].s = slice_text("3.11.7");
    m.v[F_READY_INFO].s = slice_text("{}");
    sim_says(s, worker, m, -1);
}

void sim_done(struct sim *s, uint32_t worker, const char *status, const char *content,
              const char *result)
{
    struct span m = { .kind = SPAN_DONE, .cell = s->w->nb->cells ? s->w->nb->cells->id : 0 };

    m.v[F_DONE_STATUS].s = slice_text(status);
    m.v[F_DONE_CONTENT].s = slice_text(content);
    m.v[F_DONE_RESULT].s = slice_text(result);
    sim_says(s, worker, m, -1);
}

void sim_captured(struct sim *s, const char *names)
{
    struct span m = { .kind = SPAN_CAPTURED, .cell = s->w->nb->cells ? s->w->nb->cells->id : 0 };

    m.v[F_CAPTURED_NAMES].s = slice_text(names);
    sim_says(s, SPAN_WORKER_HOME, m, -1);
}

void sim_hangs_up(struct sim *s, uint32_t worker)
{
    sim_child_of(worker_of(s, worker))->hung_up = true;
}

void sim_dies(struct sim *s, uint32_t worker, int signo)
{
    sim_child_of(worker_of(s, worker))->signo = signo;
}

void sim_tells(struct sim *s, struct span m)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    char to[4];

    le_put(to, sizeof to, m.worker);
    if (span_encode(&m, &msg, &err) < 0)
        abort();
    add(&s->down, 0, slice_of(to, m.worker ? sizeof to : 0), buf_slice(&msg), -1);
    carry(s, false, msg.n);
    buf_release(&msg);
}

void sim_run(struct sim *s, const char *code)
{
    next(s->w, code);
    sim_turn(s);
}

/* ---- the whole ---- */

static bool from_notebook(void *arg, unsigned node, struct slice workers, struct slice msg)
{
    struct sim *s = arg;

    if (node != s->node)
        return false;
    add(&s->down, 0, workers, msg, -1);
    carry(s, false, msg.n);
    return true;
}

static int send_blob(void *arg, uint32_t link, struct buf *msg)
{
    (void)arg, (void)link;
    buf_drop(msg, TRANSFERS_ROOM);
    sim_to_kernel(0, buf_slice(msg));
    buf_release(msg);
    return 0;
}

static void settled(void *arg, uint64_t blob, const char *error)
{
    relay_settle(&((struct sim *)arg)->agent, blob, error);
}

static void broken(void *arg, const char *why)
{
    (void)arg;
    sim_note("broken: %s", why);
}

void sim_open(struct sim *s, struct world *w, const struct clock *clock, unsigned node)
{
    struct agent *a = &s->agent;
    struct err err = { "" };

    *s = (struct sim){ .w = w, .node = node, .pids = 1000 };
    sim = s;
    a->path = "/usr/bin";
    a->args = (struct agent_args){ .node = node == NODE_HERE ? "here" : "h1" };
    a->workers = (struct workers){ .agent = a, .timer_due_ns = UINT64_MAX };
    a->workers.io = (struct pipes_io){
        .clock = clock, .kernel = &a->kernel, .spool = &a->spool, .window = WORKER_CREDIT_FIRST
    };
    s->ops = (struct transfers_ops){ .send = send_blob,
                                     .settled = settled,
                                     .broken = broken,
                                     .clock = clock,
                                     .node = "h1",
                                     .arg = s };
    if (!(s->transfers = transfers_create(&a->blobs, &s->ops, &err)))
        abort();
    w->agent = from_notebook;
    w->agent_arg = s;
    if (node != NODE_HERE)
        return;
    if (!spawn_home(a, SPAN_WORKER_HOME, "python3", NULL, slice_text(""), &err))
        abort();
    sim_ready(s, SPAN_WORKER_HOME);
    sim_turn(s);
}

bool sim_close(struct sim *s)
{
    int open = 0;

    while (s->agent.workers.first) {
        struct worker *w = s->agent.workers.first;

        s->agent.workers.first = w->next;
        worker_destroy(w);
    }
    for (unsigned i = 0; i < s->children; i++) {
        drop_all(&s->child[i].said);
        buf_release(&s->child[i].printed[0]);
        buf_release(&s->child[i].printed[1]);
        open += s->child[i].ends;
    }
    drop_all(&s->down);
    drop_all(&s->up);
    transfers_destroy(s->transfers);
    blobs_release(&s->agent.blobs);
    buf_release(&s->agent.kernel.scratch);
    buf_release(&s->log);
    s->w->agent = NULL;
    return open == 0;
}
