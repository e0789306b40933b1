/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles messages from home: replies, output, questions, calls that run cells on ranks; and home's
 * death. */
#include "base/log.h"
#include "kernel/dispatch/private.h"
#include "kernel/notebook/debugger.h"
#include "kernel/ranks/ranks.h"

void pass_comms(struct notebook *nb)
{
    struct request *r;

    while ((r = queue_take_comm(nb))) {
        home_ask(nb, r);
        request_unref(r);
    }
}

static void awaits(struct notebook *nb, const struct span *m)
{
    if (!nb->home.executing || nb->home.executing->cell != m->cell)
        return;
    nb->home.awaits = true;
    pass_comms(nb);
}

/* A prompt from a thread of an earlier cell is shown under the cell that runs: clients show prompts
 * nowhere else. */
static void input(struct notebook *nb, const struct span *m)
{
    const struct asked *a = home_asked(nb, m->cell);
    const struct cell *client = cell_of_client(nb), *c = client ? client : nb->cells;
    const struct request *r = a && a->subshell       ? a->r
                              : nb->home.executing   ? nb->home.executing->r
                              : c && c->from.request ? c->from.request
                                                     : home_parent_of(nb, m->cell);

    if (m->v[F_INPUT_OVER].u64)
        prompts_drop_one(nb, SPAN_WORKER_HOME, m);
    else if (r)
        prompts_add(nb, r, SPAN_WORKER_HOME, -1, false, m);
}

/* c: the cell that has asked; NULL: none that runs. */
static void found(struct notebook *nb, struct cell *c, const struct span *m)
{
    if (c)
        rank_code_on_found(c, m);
    else if (m->cell)
        immediate_on_found(nb, m);
    else
        finds_answered(nb, m);
}

void from_home(struct notebook *nb, const struct span *m)
{
    struct cell *c = cell_find(nb, m->cell);

    switch (m->kind) {
    case SPAN_READY:
        home_ready(nb, m);
        rank_usage_home_is(nb, (long)m->v[F_READY_PID].u64);
        subshells_create_again(nb);
        debugger_join_home(nb);
        break;
    case SPAN_REPLY:
        if (!home_reply(nb, m) && c)
            cell_steps_reply(c, m);
        break;
    case SPAN_PUBLISH:
        home_publish(nb, m);
        break;
    case SPAN_LINES:
        home_lines(nb, m);
        break;
    case SPAN_INPUT:
        input(nb, m);
        break;
    case SPAN_OUTPUT_PARENT:
        home_output_parent(nb, m);
        break;
    case SPAN_AWAITS:
        awaits(nb, m);
        break;
    case SPAN_CALL:
        home_flush(nb);
        if (m->v[F_CALL_FLAGS].u64 & CALL_INTERRUPT)
            calls_end(nb, m->v[F_CALL_CALL].u64);
        else
            calls_add(nb, m);
        break;
    case SPAN_HAND:
        if (c)
            exchange_on_home_hand(c, m);
        break;
    case SPAN_FOUND:
        found(nb, c, m);
        break;
    case SPAN_ASK:
        question_on_ask(nb, m);
        break;
    case SPAN_CAPTURED:
    case SPAN_PACKED:
        if (c)
            prepare_on_message(c, NODE_HERE, m);
        else
            notebook_drop(nb, m->blob_size ? m->blob : 0); /* it was for a cell that is over */
        break;
    default:
        log_warn("home", "a message of kind %u is not for the kernel", (unsigned)m->kind);
    }
}

/* ---- home's death ---- */

/* error: NULL where memory was too short to make it. */
static void home_gone(struct notebook *nb, const json_t *error)
{
    home_flush(nb);
    prompts_drop_worker(nb, SPAN_WORKER_HOME);
    finds_home_gone(nb);
    comm_output_forget(nb, SPAN_WORKER_HOME);
    home_disown(nb);
    calls_drop(nb);
    group_forget_versions(nb->group);
    CELLS_EACH (c, nb)
        if (c->from.is_call || !cell_runs(c))
            cell_fail(c, error ? text_field(error, "ename") : "HomeDied", "%s",
                      text_field(error, "evalue"));
}

/* Headless clients keep nothing that comes for a cell that is over. So the line is shown under the
 * cell that runs on ranks. If no cell runs, the next one shows it as well. */
static void tell_gone(struct notebook *nb, const char *line)
{
    const struct cell *c = cell_of_client(nb);

    if (!c && !nb->home.executing)
        (void)home_keep(nb, 2, slice_text(line));
    publish_stream(nb, c ? c->from.request : nb->home.parent, 2, slice_text(line));
}

json_t *from_home_exited(struct notebook *nb, const struct span *m)
{
    const bool had_started = nb->home.state == HOME_READY;
    json_t *error = error_of_exit(had_started ? "HomeDied" : "HomeNotStarted", "home", "", m);

    nb->home.state = HOME_BROKEN;
    if (had_started && nb->home.deaths++ < DEATHS_MAX) {
        /* a home that died while it started is started again only when a request needs it */
        notebook_start_home(nb);
        tell_gone(nb,
                  "cellspan: home ended; a new one is starting: the variables of home are gone, "
                  "the ranks keep theirs\n");
    }
    home_gone(nb, error);
    return error;
}

void from_home_tell_lost(struct notebook *nb)
{
    if (nb->home.state == HOME_READY)
        tell_gone(nb, "cellspan: home ended with the agent of this machine: the variables of home "
                      "and of the ranks here are gone\n");
}

json_t *from_home_lost(struct notebook *nb, const char *why)
{
    json_t *error = json_pack("{s:s, s:s, s:[o]}", "ename", "AgentDied", "evalue", why, "traceback",
                              json_sprintf("AgentDied: %s", why));

    nb->home.state = HOME_STARTING;
    home_gone(nb, error);
    return error;
}

/* ---- its text, as far as the page takes it ---- */

static int home_passes(void *arg, unsigned stream, struct slice text)
{
    struct err err = { "" };

    return pace_add(((struct notebook *)arg)->home.pace, stream, text, &err);
}

static int home_left_out(void *arg, size_t lines, size_t displays)
{
    struct notebook *nb = arg;
    struct buf note = BUF_INIT;
    int rc = text_left_out(&note, lines, displays, nb->home.count);

    if (rc == 0)
        rc = home_passes(nb, 2, buf_slice(&note));
    buf_release(&note);
    return rc;
}

bool from_home_limit(struct notebook *nb, long server)
{
    const struct omit_out out = { .text = home_passes, .note = home_left_out, .arg = nb };

    return (nb->output_limit = output_limit_create(nb->ops.clock, server)) &&
           (nb->home.omit = omit_create(nb->ops.clock, nb->output_limit, out));
}

int from_home_text(void *arg, unsigned stream, struct slice text)
{
    struct notebook *nb = arg;

    if (!home_keep_early(nb, stream, text))
        late_stream(nb, nb->home.output_parent ? nb->home.output_parent : nb->home.parent, stream,
                    text);
    return 0;
}
