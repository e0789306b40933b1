/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernel/double.h"

#include <stdlib.h>

#include "base/le.h"
#include "tests/unit/tap.h"

static uint64_t set_clock(void *arg)
{
    return ((struct world *)arg)->now;
}

static uint64_t set_wall(void *arg)
{
    return WORLD_WALL_S * NS_PER_S + set_clock(arg);
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

    (void)password;
    if (!r) {
        note(w, "prompt over");
        return;
    }
    own(w, true);
    if (buf_addf(&w->log, "ask %.*s\n", SLICE_ARG(prompt)) < 0)
        abort();
    own(w, false);
}

/* To those of the workers that are on this node, or to its agent itself. */
static bool to_agent(struct world *w, unsigned node, const uint32_t *workers, size_t n)
{
    struct buf list = BUF_INIT;
    char number[4];
    bool played = false;

    own(w, true);
    for (size_t k = 0; k < n; k++)
        if (w->place[workers[k] % WORLD_WORKERS] == node) {
            le_put(number, sizeof number, workers[k]);
            if (buf_add(&list, number, sizeof number) < 0)
                abort();
        }
    if (w->agent && (n == 0 || list.n))
        played = w->agent(w->agent_arg, node, buf_slice(&list), buf_slice(&w->sent));
    buf_release(&list);
    own(w, false);
    return played;
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
    rc = span_encode(m, &w->sent, err);
    for (unsigned node = 0; rc == 0 && w->agent && node < WORLD_NODES; node++)
        (void)to_agent(w, node, workers, n);
    return rc;
}

static void out_drain(void *arg)
{
    struct world *w = arg;
    const char *code = w->arrives;

    w->arrives = NULL;
    note(w, "drain");
    if (code)
        run(w, code);
    if (w->asks) {
        char content[128];

        snprintf(content, sizeof content, "{\"code\":\"%s\",\"cursor_pos\":1}", w->asks);
        w->asks = NULL;
        ask(w, "complete_request", content);
    }
    if (w->deletes) {
        char content[128];

        snprintf(content, sizeof content, "{\"subshell_id\":\"%s\"}", w->deletes);
        w->deletes = NULL;
        ask(w, "delete_subshell_request", content);
        note(w, w->nb->home.subshells.first ? "kept" : "freed");
    }
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
    buf_clear(&w->sent);
    if (span_encode(m, &w->sent, err) < 0)
        return -1;
    for (size_t k = 0; k < n; k++)
        if (!to_agent(w, nodes[k], NULL, 0) && m->kind == SPAN_GPUS)
            w->asked |= 1u << nodes[k];
    return 0;
}

static int out_engine_start(void *arg, const char *name, const char *spec, const char *image,
                            unsigned ranks, const json_t *changes, unsigned *number,
                            struct err *err)
{
    struct world *w = arg;
    char *text = json_dumps(changes, JSON_COMPACT | JSON_SORT_KEYS);

    own(w, true);
    if (buf_addf(&w->log, "engine %s (%s)%s%s %u%s%s\n", name, spec, image ? " in " : "",
                 image ? image : "", ranks, text ? " " : "", text ? text : "") < 0)
        abort();
    free(text);
    own(w, false);
    if (w->no_engine)
        return err_set(err, "there is no engine %s", name);
    *number = ++w->engine;
    w->nodes = 0;
    w->for_ranks = ranks;
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

static void in_engine_nodes(void *arg, unsigned number, unsigned *first, unsigned *n,
                            unsigned *ranks)
{
    struct world *w = arg;

    *first = w->first;
    *n = number == w->engine ? w->nodes : 0;
    *ranks = w->by_ranks && number == w->engine ? w->for_ranks : 0;
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

    w->place[worker % WORLD_WORKERS] = node;
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

    /* nodes that come in place of others have an engine, too */
    return node < WORLD_NODES &&
                   (node == NODE_HERE || node < w->first + w->nodes || w->node[node].engine)
               ? &w->node[node]
               : NULL;
}

static uint64_t in_expected(void *arg, unsigned node, uint64_t *had, uint64_t *whole)
{
    const struct world *w = arg;

    if (node == w->has_all) {
        *had = 0;
        *whole = w->expected;
        return 0;
    }
    *had = w->had;
    *whole = 0;
    return w->expected;
}

struct dispatch_config world_config = { .python = "python3",
                                        .python_version = "3.11.7",
                                        .run_id = "run",
                                        .status = true,
                                        .code = true,
                                        .cells = { .grace_ns = 10 * NS_PER_S },
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

    *w = (struct world){ .now = NS_PER_S, .first = 1, .has_all = WORLD_NODES };
    w->node[0] =
        (struct node){ .state = NODE_UP, .name = "here", .address = "127.0.0.1", .cores = 8 };
    *clock = (struct clock){ .now_ns = set_clock, .wall_ns = set_wall, .arg = w };
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

void settle(struct world *w)
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

/* Home answers at once if an engine waits for that. */
static void start_engine(struct world *w)
{
    const struct cell *c = w->nb->cells;
    const struct group *g = w->nb->group;
    const char *names = w->captures ? w->captures : "{\"names\": []}";

    if (c && g->on && !g->engine && !c->engine.here && c->prep.wants_capture && *names)
        captured(w, names);
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
    start_engine(w);
}

void say(struct world *w, uint32_t worker, struct span m)
{
    m.worker = worker;
    dispatch_message(w->nb, NODE_HERE, worker, &m);
    settle(w);
    start_engine(w);
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
