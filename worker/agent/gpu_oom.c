/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_oom.c - names the processes on a full GPU in the error of a cell (declared in private.h). */
#include "worker/agent/private.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/gpu/gpu_errors.h"
#include "worker/agent/processes/worker.h"

struct held_done {
    struct agent *agent;
    uint32_t id;
    struct buf msg;
};

/* Does the cell's error say that GPU memory ran out? */
static bool complains(struct slice msg)
{
    struct err err = { "" };
    struct span m;
    bool does;

    if (span_decode(&m, msg.p, msg.n, &err) < 0)
        return false;
    does = slice_is(m.v[F_DONE_STATUS].s, "error") && gpu_errors_say_oom(m.v[F_DONE_CONTENT].s);
    span_release(&m);
    return does;
}

/* The error with one more line in its traceback. Its message stays the same, so that ranks with the
 * same error are shown together. The caller frees the text. NULL: the content is not understood. */
static char *add_line(struct slice content, const char *line)
{
    json_t *error = json_loadb(content.p, content.n, JSON_ALLOW_NUL, NULL);
    json_t *traceback = json_object_get(error, "traceback");
    char *text = NULL;

    if (json_is_array(traceback) && json_array_append_new(traceback, json_string(line)) == 0)
        text = json_dumps(error, JSON_COMPACT);
    json_decref(error);
    return text;
}

static void send_with(struct held_done *h, const char *line)
{
    struct err err = { "" };
    struct span m;
    char *content;

    if (span_decode(&m, h->msg.p, h->msg.n, &err) < 0)
        return;
    content = line[0] ? add_line(m.v[F_DONE_CONTENT].s, line) : NULL;
    m.worker = h->id;
    if (content)
        m.v[F_DONE_CONTENT].s = slice_text(content);
    kernel_link_send(&h->agent->kernel, &m);
    free(content);
    span_release(&m);
}

static void send_report(void *arg, const char *text)
{
    struct held_done *h = arg;

    send_with(h, text);
    buf_release(&h->msg);
    free(h);
}

static struct held_done *held_create(struct worker *w, struct slice msg)
{
    struct held_done *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    *h = (struct held_done){ w->all->agent, w->id, BUF_INIT };
    if (buf_add_slice(&h->msg, msg) == 0)
        return h;
    free(h);
    return NULL;
}

bool gpu_oom_takes(struct worker *w, struct slice msg)
{
    struct held_done *h;
    struct node_workers all;

    if (!gpu_has(w->all->agent->gpus, w->id) || !complains(msg) || !(h = held_create(w, msg)))
        return false;
    if (node_workers_init(&all, w->all->agent, 0) < 0)
        log_error("agent", "out of memory: who fills the GPU is not told");
    gpu_full(w->all->agent->gpus, w->id, all.v, all.n, send_report, h);
    node_workers_release(&all);
    return true;
}
