/* double.c - see double.h. */
#include "tests/unit/kernel/double.h"

#include <stdlib.h>

#include "kernel/jupyter/request.h"
#include "tests/unit/tap.h"

static uint64_t set_clock(void *arg)
{
    return ((struct world *)arg)->now;
}

/* Doubles allocate, too; a test of failing allocations does not mean theirs. */
static void own(const struct world *w, bool on)
{
    if (w->own)
        w->own(on);
}

static void note(struct world *w, const char *text)
{
    own(w, true);
    if (buf_addf(&w->log, "%s\n", text) < 0)
        abort();
    own(w, false);
}

static void out_publish(void *arg, const struct request *parent, const char *type,
                        const struct content *p)
{
    struct world *w = arg;

    (void)parent;
    own(w, true);
    if (buf_addf(&w->log, "publish %s %.*s\n", type, SLICE_ARG(p->content)) < 0)
        abort();
    own(w, false);
}

static void out_reply(void *arg, struct request *r, const char *type, const struct content *p)
{
    struct world *w = arg;

    (void)r;
    own(w, true);
    if (buf_addf(&w->log, "reply %s %.*s\n", type, SLICE_ARG(p->content)) < 0)
        abort();
    own(w, false);
}

static void out_status(void *arg, struct request *r, const char *state)
{
    (void)r;
    note(arg, state);
}

static void out_ask(void *arg, const struct request *r, struct slice prompt, bool password)
{
    struct world *w = arg;

    (void)r, (void)password;
    own(w, true);
    if (buf_addf(&w->log, "ask %.*s\n", SLICE_ARG(prompt)) < 0)
        abort();
    own(w, false);
}

static int out_send(void *arg, const uint32_t *workers, size_t n, const struct span *m,
                    struct err *err)
{
    struct world *w = arg;
    struct buf who = BUF_INIT;
    int rc = 0;

    if (w->stuck && m->kind == w->stuck && w->leave-- == 0)
        return err_set(err, "the agent on h1 can't be reached: its connection is gone");
    own(w, true);
    for (size_t k = 0; k < n; k++)
        rc |= buf_addf(&who, " %u", workers[k]);
    if (m->kind == SPAN_PACK)
        w->blob = m->blob;
    rc |= buf_addf(&w->log, "send %s%s\n", span_info(m->kind)->name, who.n ? who.p : "");
    buf_release(&who);
    own(w, false);
    if (rc < 0)
        abort();
    if (n)
        w->last = (struct span){ .kind = m->kind, .cell = m->cell, .blob = m->blob };
    buf_clear(&w->sent);
    return span_encode(m, &w->sent, err);
}

static void out_drain(void *arg)
{
    struct world *w = arg;
    const char *code = w->arrives;

    w->arrives = NULL;
    note(w, "drain");
    if (code)
        run(w, code);
}

static int out_send_nodes(void *arg, const unsigned *nodes, size_t n, const struct span *m,
                          struct err *err)
{
    struct world *w = arg;
    int rc;

    own(w, true);
    rc = buf_addf(&w->log, "send %s node", span_info(m->kind)->name);
    for (size_t k = 0; k < n; k++)
        rc |= buf_addf(&w->log, " %u", nodes[k]);
    rc |= buf_addf(&w->log, "\n");
    own(w, false);
    if (rc < 0)
        abort();
    if (m->kind == SPAN_GPUS)
        for (size_t k = 0; k < n; k++)
            w->asked |= 1u << nodes[k];
    buf_clear(&w->sent);
    return span_encode(m, &w->sent, err);
}

static int out_engine_start(void *arg, const char *name, const char *spec, unsigned ranks,
                            unsigned *number, struct err *err)
{
    struct world *w = arg;

    own(w, true);
    if (buf_addf(&w->log, "engine %s (%s) %u\n", name, spec, ranks) < 0)
        abort();
    own(w, false);
    if (w->no_engine)
        return err_set(err, "there is no engine %s", name);
    *number = ++w->engine;
    w->nodes = 0;
    return 0;
}

static int in_engine_find(void *arg, const char *name, struct err *err)
{
    const struct world *w = arg;

    return w->no_engine ? err_set(err, "there is no engine %s", name) : 0;
}

static void out_engine_stop(void *arg, unsigned number)
{
    struct world *w = arg;

    own(w, true);
    if (buf_addf(&w->log, "engine stop %u\n", number) < 0)
        abort();
    own(w, false);
}

static void in_engine_nodes(void *arg, unsigned number, unsigned *first, unsigned *n)
{
    struct world *w = arg;

    *first = w->first;
    *n = number == w->engine ? w->nodes : 0;
}

static void note_blob(struct world *w, const char *what, uint64_t blob)
{
    own(w, true);
    if (buf_addf(&w->log, "%s %llu\n", what, (unsigned long long)blob) < 0)
        abort();
    own(w, false);
}

static void out_drop(void *arg, uint64_t blob)
{
    note_blob(arg, "drop", blob);
}
static void out_cancel(void *arg, uint64_t blob)
{
    note_blob(arg, "cancel", blob);
}

static int out_place(void *arg, uint32_t worker, unsigned node)
{
    struct world *w = arg;

    own(w, true);
    if (node != NODE_HERE && buf_addf(&w->log, "place %u on %u\n", worker, node) < 0)
        abort();
    own(w, false);
    return 0;
}

static void out_shutdown(void *arg)
{
    ((struct world *)arg)->ended = true;
}
static void out_owe(void *arg, uint32_t worker, size_t bytes)
{
    (void)arg, (void)worker, (void)bytes;
}
static void out_forget(void *arg, uint32_t worker)
{
    (void)arg, (void)worker;
}
static int out_revive(void *arg, struct err *err)
{
    note(arg, "revive");
    return ((struct world *)arg)->no_agent ? err_set(err, "no agent to be had") : 0;
}

static void out_wake(void *arg, uint64_t due)
{
    ((struct world *)arg)->due = due;
}

static const struct node *in_node(void *arg, unsigned node)
{
    struct world *w = arg;

    return node < WORLD_NODES && (node == NODE_HERE || node < w->first + w->nodes) ? &w->node[node]
                                                                                   : NULL;
}

static uint64_t in_expected(void *arg, unsigned node, uint64_t *had)
{
    const struct world *w = arg;

    (void)node;
    *had = w->had;
    return w->expected;
}

struct dispatch_config world_config = { .python = "python3",
                                        .python_version = "3.11.7",
                                        .run_id = "run",
                                        .status = true,
                                        .hang_notice_ns = 60 * NS_PER_S };

void world_open(struct world *w, struct clock *clock)
{
    const struct cell_ops ops = {
        .arg = w,
        .clock = clock,
        .publish = out_publish,
        .reply = out_reply,
        .status = out_status,
        .ask = out_ask,
        .drain_shell = out_drain,
        .shutdown = out_shutdown,
        .send = out_send,
        .owe = out_owe,
        .forget = out_forget,
        .revive = out_revive,
        .wake = out_wake,
        .node = in_node,
        .send_nodes = out_send_nodes,
        .place = out_place,
        .drop = out_drop,
        .cancel = out_cancel,
        .engine_start = out_engine_start,
        .engine_find = in_engine_find,
        .engine_stop = out_engine_stop,
        .engine_nodes = in_engine_nodes,
        .expected = in_expected,
    };
    struct err err = { "" };

    *w = (struct world){ .now = NS_PER_S, .first = 1 };
    w->node[0] =
        (struct node){ .state = NODE_UP, .name = "here", .address = "127.0.0.1", .cores = 8 };
    *clock = (struct clock){ set_clock, w };
    if (jupyter_session_init(&w->session, "test", "test", slice_text(""), &err) < 0 ||
        !(w->nb = dispatch_create(&ops, &world_config, &err)))
        abort();
}

void world_close(struct world *w)
{
    dispatch_destroy(w->nb);
    jupyter_session_release(&w->session);
    buf_release(&w->log);
    buf_release(&w->sent);
}

/* ---- what comes in ---- */

static void settle(struct world *w)
{
    for (unsigned node = 0; node < WORLD_NODES && !w->silent; node++) {
        struct span m = { .kind = SPAN_GPUS };

        if (!(w->asked & 1u << node))
            continue;
        w->asked &= ~(1u << node);
        m.v[F_GPUS_GPUS].s = slice_text(w->gpus[node] ? w->gpus[node] : "{}");
        dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
    }
}

void ask(struct world *w, const char *type, const char *content)
{
    static unsigned number;
    char header[256];
    const char *const text[] = { "client", "<IDS|MSG>", "", header, "{}", "{}", content };
    zmq_msg_t part[7];
    struct request *r = NULL;

    snprintf(header, sizeof header,
             "{\"msg_id\":\"%u\",\"msg_type\":\"%s\",\"session\":\"s\",\"version\":\"5.4\"}",
             number++, type);
    for (size_t k = 0; k < 7; k++) {
        zmq_msg_init_size(&part[k], strlen(text[k]));
        memcpy(zmq_msg_data(&part[k]), text[k], strlen(text[k]));
    }
    own(w, true);
    if (request_create(CHANNEL_SHELL, part, 7, &w->session, &r) != JUPYTER_FINE)
        abort();
    own(w, false);
    dispatch_request(w->nb, r);
    settle(w);
    request_unref(r);
    for (size_t k = 0; k < 7; k++)
        zmq_msg_close(&part[k]);
}

void run(struct world *w, const char *code)
{
    json_t *content;
    char *text;

    own(w, true);
    content = json_pack("{s:s}", "code", code);
    text = json_dumps(content, 0);
    own(w, false);
    ask(w, "execute_request", text);
    free(text);
    json_decref(content);
}

void say(struct world *w, uint32_t worker, struct span m)
{
    m.worker = worker;
    dispatch_message(w->nb, NODE_HERE, worker, &m);
    settle(w);
}

bool logged(struct world *w, const char *text)
{
    const bool found = w->log.p && strstr(w->log.p, text);

    if (!found)
        diag("no \"%s\" in: %s", text, w->log.p ? w->log.p : "");
    return found;
}

bool in_order(struct world *w, const char *first, const char *second)
{
    const char *a = w->log.p ? strstr(w->log.p, first) : NULL;

    return a && strstr(a + 1, second);
}

void captured(struct world *w, const char *names)
{
    struct span m = { .kind = SPAN_CAPTURED, .cell = w->nb->cell ? w->nb->cell->id : 0 };

    m.v[F_CAPTURED_NAMES].s = slice_text(names);
    m.v[F_CAPTURED_WARNINGS].s = slice_text("");
    say(w, SPAN_WORKER_HOME, m);
}

void port(struct world *w)
{
    say(w, SPAN_WORKER_NONE,
        (struct span){ .kind = SPAN_PORT, .cell = w->nb->cell->id, .v[F_PORT_PORT].u64 = 20123 });
}

void ready(struct world *w, uint32_t worker)
{
    ready_as(w, worker, "3.11.7");
}

void ready_as(struct world *w, uint32_t worker, const char *python)
{
    struct span m = { .kind = SPAN_READY, .v[F_READY_PID].u64 = 1000 + worker };

    m.v[F_READY_PYTHON].s = slice_text(python);
    m.v[F_READY_INFO].s = slice_text("{}");
    say(w, worker, m);
}

void done(struct world *w, uint32_t worker, const char *status, const char *content,
          const char *result)
{
    struct span m = { .kind = SPAN_DONE, .cell = w->nb->cell ? w->nb->cell->id : 0 };

    m.v[F_DONE_STATUS].s = slice_text(status);
    m.v[F_DONE_CONTENT].s = slice_text(content);
    m.v[F_DONE_RESULT].s = slice_text(result);
    m.v[F_DONE_NOTE].s = slice_text("");
    say(w, worker, m);
}

static void ended(struct world *w, uint32_t worker, uint64_t code, uint64_t status,
                  const char *stack)
{
    struct span m = { .kind = SPAN_EXITED };

    m.v[F_EXITED_PID].u64 = 1000 + worker;
    m.v[F_EXITED_CODE].u64 = code;
    m.v[F_EXITED_STATUS].u64 = status;
    m.v[F_EXITED_CAUSE].s = slice_text("");
    m.v[F_EXITED_STACK].s = slice_text(stack);
    m.v[F_EXITED_STDERR].s = slice_text("last words\n");
    say(w, worker, m);
}

void exited(struct world *w, uint32_t worker, uint64_t code, uint64_t status)
{
    ended(w, worker, code, status, "");
}

void crashed(struct world *w, uint32_t worker, const char *stack)
{
    ended(w, worker, 1, 11, stack);
}

void pass(struct world *w, uint64_t ns)
{
    w->now += ns;
    dispatch_tick(w->nb);
    settle(w);
}

void come(struct world *w, unsigned n)
{
    static const char *const names[WORLD_NODES] = { "here", "h1", "h2", "h3",  "h4",  "h5", "h6",
                                                    "h7",   "h8", "h9", "h10", "h11", "h12" };
    static const char *const addresses[WORLD_NODES] = {
        "",         "10.0.0.1", "10.0.0.2", "10.0.0.3",  "10.0.0.4",  "10.0.0.5", "10.0.0.6",
        "10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12"
    };

    for (unsigned k = w->first; k < w->first + n && k < WORLD_NODES; k++) {
        w->node[k].state = NODE_ASKED;
        w->node[k].engine = w->engine;
        w->node[k].name = names[k];
        w->node[k].address = addresses[k];
    }
    w->nodes = n;
    dispatch_engine(w->nb, w->engine, ENGINE_NODES, "");
}

void up(struct world *w, unsigned node)
{
    w->node[node].state = NODE_UP;
    w->node[node].cores = 4;
    dispatch_up(w->nb, node);
    settle(w);
}

void all_up(struct world *w, unsigned n)
{
    come(w, n);
    for (unsigned k = 0; k < n; k++)
        up(w, w->first + k);
}

void lost(struct world *w, unsigned node, const char *why)
{
    w->node[node].state = NODE_LOST;
    dispatch_lost(w->nb, node, why);
    settle(w);
}

void engine(struct world *w, enum engine_event event, const char *text)
{
    dispatch_engine(w->nb, w->engine, event, text);
}

void said_ends(struct world *w, unsigned node, const char *ends)
{
    struct span m = { .kind = SPAN_ENDS, .cell = w->nb->cell ? w->nb->cell->id : 0 };

    m.v[F_ENDS_ENDS].s = slice_text(ends);
    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

void all_ready(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        ready(w, k);
}

void all_done(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        done(w, k, "ok", "", "");
}

void all_exited(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        exited(w, k, 1, 15);
}

void next(struct world *w, const char *code)
{
    buf_clear(&w->log);
    run(w, code);
}

void provide(struct world *w)
{
    captured(w, "{\"names\": []}");
    port(w);
}

void home_open(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
}

void begin_two(struct world *w)
{
    run(w, "%%distribute -n 2\nprint(1)");
    provide(w);
    all_ready(w, 2, 3);
}

void open_two(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    run(w, ON_TWO);
    all_up(w, 2);
    provide(w);
    all_ready(w, 2, 5);
    all_done(w, 2, 5);
    buf_clear(&w->log);
}

void packed(struct world *w, uint64_t cell, const char *error)
{
    struct span m = {
        .kind = SPAN_PACKED, .cell = cell, .blob = w->blob, .blob_size = error[0] ? 0 : 100
    };

    m.v[F_PACKED_ERROR].s = slice_text(error);
    say(w, SPAN_WORKER_HOME, m);
}

void replied(struct world *w, uint64_t cell, const char *status, const char *content)
{
    struct span m = { .kind = SPAN_REPLY, .cell = cell };

    m.v[F_REPLY_STATUS].s = slice_text(status);
    m.v[F_REPLY_CONTENT].s = slice_text(content);
    m.v[F_REPLY_METADATA].s = slice_text("{}");
    say(w, SPAN_WORKER_HOME, m);
}

void called(struct world *w, uint64_t call, const char *text)
{
    struct span m = { .kind = SPAN_CALL, .cell = call };

    m.v[F_CALL_TEXT].s = slice_text(text);
    say(w, SPAN_WORKER_HOME, m);
}

unsigned times(struct world *w, const char *text)
{
    unsigned n = 0;

    for (const char *at = w->log.p; at && (at = strstr(at, text)); at++)
        n++;
    return n;
}

bool sent(struct world *w, const char *text)
{
    const struct slice all = buf_slice(&w->sent);

    for (size_t at = 0; at + strlen(text) <= all.n; at++)
        if (memcmp(all.p + at, text, strlen(text)) == 0)
            return true;
    return false;
}

bool is_over(struct world *w, const char *text)
{
    return !w->nb->cell && times(w, "reply execute_reply") == 1 && logged(w, text);
}

void world_open_idle(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
    begin_two(w);
    done(w, 2, "ok", "", "");
    done(w, 3, "ok", "", "");
    buf_clear(&w->log);
}
