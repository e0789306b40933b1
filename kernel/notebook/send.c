/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends messages to agents, home and ranks, and publishes and replies to clients. */
#include "kernel/notebook/notebook.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static bool is_asked_of_home(const struct span *m)
{
    return m->worker == SPAN_WORKER_HOME &&
           (m->kind == SPAN_REQUEST || m->kind == SPAN_SUBSHELL || m->kind == SPAN_CAPTURE ||
            m->kind == SPAN_PACK || m->kind == SPAN_BIND || m->kind == SPAN_DEBUG);
}

int notebook_revive(struct notebook *nb, struct err *err)
{
    if (nb->ops.revive(nb->ops.arg, err) < 0) {
        log_error("cell", "%s", err->text);
        return -1;
    }
    nb->agent_gone = false;
    nb->home.state = HOME_STARTING;
    return 0;
}

void notebook_start_home(struct notebook *nb)
{
    const uint32_t home = SPAN_WORKER_HOME;
    const unsigned char rank[4] = { 0 };
    struct span m = { .kind = SPAN_START };
    struct err err = { "" };

    nb->home.state = HOME_STARTING;
    m.v[F_START_RANKS].s = slice_of(rank, sizeof rank);
    m.v[F_START_GROUP].s = slice_text("home");
    m.v[F_START_PYTHON].s = slice_text(nb->config.python);
    m.v[F_START_CWD].s = slice_text("");
    m.v[F_START_ENV].s = slice_text("{}");
    (void)nb->ops.send(nb->ops.arg, &home, 1, &m, &err);
}

/* Starts this machine's agent or home again if it is gone and somebody waits for the answer to m.
 * -1: the agent is gone. */
static int start_if_gone(struct notebook *nb, const struct span *m, struct err *err)
{
    const bool home = is_asked_of_home(m);

    if (nb->agent_gone) {
        if (home || m->kind == SPAN_START || m->kind == SPAN_PORT || m->kind == SPAN_GPUS)
            return notebook_revive(nb, err);
        return err_set(err, "the agent on %s is gone; a cell that needs new ranks starts it again",
                       notebook_node_name(nb, NODE_HERE));
    }
    if (home && nb->home.state == HOME_BROKEN)
        notebook_start_home(nb);
    return 0;
}

static bool any_here(const struct notebook *nb, const uint32_t *workers, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (notebook_node_of(nb, workers[k]) == NODE_HERE)
            return true;
    return false;
}

int notebook_send_to(struct notebook *nb, const uint32_t *workers, size_t n, const struct span *m,
                     struct err *err)
{
    struct err spare = { "" };

    if (!err)
        err = &spare;
    if ((nb->agent_gone || is_asked_of_home(m)) && any_here(nb, workers, n) &&
        start_if_gone(nb, m, err) < 0)
        return -1;
    log_debug("send", "%s to worker %u%s, cell %llu", span_info((unsigned)m->kind)->name,
              n ? (unsigned)workers[0] : 0, n > 1 ? " and others" : "",
              (unsigned long long)m->cell);
    return nb->ops.send(nb->ops.arg, workers, n, m, err);
}

int notebook_send_ranks(struct notebook *nb, const struct group *g, rank_wanted_f wanted,
                        const void *arg, const struct span *m, struct err *err)
{
    uint32_t *workers = calloc(g->size + 1u, sizeof *workers);
    size_t n = 0;
    int rc = workers ? 0 : err_set(err, "out of memory");

    for (unsigned k = 0; workers && k < g->size; k++)
        if (g->rank[k].worker && wanted(&g->rank[k], arg))
            workers[n++] = g->rank[k].worker;
    if (n)
        rc = notebook_send_to(nb, workers, n, m, err);
    free(workers);
    return rc;
}

bool rank_in_set(const struct rank *r, const void *ranks)
{
    return ranks_has(ranks, r->number);
}

int notebook_ask_ranks(struct notebook *nb, const struct ranks *which, struct span *m, uint64_t *id,
                       struct err *err)
{
    m->cell = *id = notebook_next_cell(nb);
    return notebook_send_ranks(nb, nb->group, rank_in_set, which, m, err);
}

void notebook_send(struct notebook *nb, uint32_t worker, const struct span *m)
{
    (void)notebook_send_to(nb, &worker, 1, m, NULL);
}

int notebook_send_node(struct notebook *nb, unsigned node, const struct span *m, struct err *err)
{
    struct err spare = { "" };

    if (!err)
        err = &spare;
    if (node == NODE_HERE && start_if_gone(nb, m, err) < 0)
        return -1;
    log_debug("send", "%s to node %u, cell %llu", span_info((unsigned)m->kind)->name, node,
              (unsigned long long)m->cell);
    return nb->ops.send_nodes(nb->ops.arg, &node, 1, m, err);
}

void notebook_record(struct notebook *nb, uint64_t cell, unsigned count, struct slice code)
{
    const struct span m = { .kind = SPAN_CAPTURE,
                            .worker = SPAN_WORKER_HOME,
                            .cell = cell,
                            .v[F_CAPTURE_FLAGS].u64 = CAPTURE_NONE | CAPTURE_RECORD,
                            .v[F_CAPTURE_COUNT].u64 = count,
                            .v[F_CAPTURE_RAW].s = code };

    notebook_send(nb, SPAN_WORKER_HOME, &m);
}

void notebook_drop(struct notebook *nb, uint64_t blob)
{
    if (blob)
        nb->ops.drop(nb->ops.arg, blob);
}

void publish_content(struct notebook *nb, const struct request *parent, const char *type,
                     const struct content *p)
{
    if (parent && strncmp(type, "comm_", 5) != 0 && strcmp(type, "execute_input") != 0)
        request_add_outputs((struct request *)parent, 1);
    nb->ops.publish(nb->ops.arg, parent, type, p);
}

void publish(struct notebook *nb, const struct request *parent, const char *type,
             struct slice content)
{
    const struct content p = { .content = content };

    publish_content(nb, parent, type, &p);
}

void publish_json(struct notebook *nb, const struct request *parent, const char *type,
                  json_t *content)
{
    struct buf text = BUF_INIT;

    if (text_json(&text, content) < 0)
        log_error("cell", "a %s message is lost: out of memory", type);
    else
        publish(nb, parent, type, buf_slice(&text));
    buf_release(&text);
}

void publish_stream(struct notebook *nb, const struct request *parent, unsigned stream,
                    struct slice text)
{
    struct buf content = BUF_INIT;

    if (buf_add_text(&content, stream == 2 ? "{\"name\":\"stderr\",\"text\":"
                                           : "{\"name\":\"stdout\",\"text\":") < 0 ||
        jupyter_quote(&content, text) < 0 || buf_add_text(&content, "}") < 0)
        log_error("cell", "%zu bytes of output are lost: out of memory", text.n);
    else
        publish(nb, parent, "stream", buf_slice(&content));
    buf_release(&content);
}

void reply_json(struct notebook *nb, struct request *r, const char *type, json_t *content)
{
    struct buf text = BUF_INIT;
    struct content p = { .content = slice_text(NO_MEMORY) };

    if (text_json(&text, content) == 0)
        p.content = buf_slice(&text);
    nb->ops.reply(nb->ops.arg, r, type, &p);
    buf_release(&text);
}
