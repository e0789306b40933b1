/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes requests and messages to the files that handle them, begins the next cell, and handles the
 * loss of agents. */
#include "kernel/dispatch/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/idle_release.h"
#include "kernel/cell/notices.h"
#include "kernel/dispatch/private.h"
#include "kernel/notebook/debugger.h"

/* ---- which cell is next ---- */

static void set_timer(struct notebook *nb)
{
    const uint64_t due[] = { pace_due_ns(nb->home.pace),
                             where_due(nb),
                             immediate_due(nb),
                             calls_due(nb),
                             question_due(nb),
                             finds_due(nb),
                             prompts_due(nb),
                             comm_routes_due(nb),
                             comm_unanswered_due(nb),
                             debugger_due(nb),
                             notices_due(nb),
                             idle_release_due(nb),
                             stopped_home_due(nb),
                             nb->home.omit ? omit_due_ns(nb->home.omit) : NEVER,
                             awaited_due(nb) };
    uint64_t first = NEVER;

    for (size_t k = 0; k < sizeof due / sizeof *due; k++)
        first = clock_earlier(first, due[k]);
    CELLS_EACH (c, nb)
        first = clock_earlier(first, cell_steps_due(c));
    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        first = clock_earlier(first, subshell_text_due(s));
    nb->ops.wake(nb->ops.arg, first);
}

/* The In [count] of this cell. All shells count together. */
static unsigned next_count(struct notebook *nb, const struct request *r)
{
    const bool silent = request_flag(r, "silent", false);
    const bool counts = !silent && request_flag(r, "store_history", true);
    const unsigned count = nb->count + (counts || nb->count == 0);

    if (counts)
        nb->count = count;
    return count;
}

static void execute(struct notebook *nb, struct request *r)
{
    const unsigned count = next_count(nb, r);

    log_info("cell", "In [%u] begins %s", count, cell_is_ours(r) ? "for ranks" : "at home");
    question_end(nb);
    prompts_drop_ended(nb);
    if (!cell_is_ours(r)) {
        home_execute(nb, NULL, r, count);
        return;
    }
    notebook_announce(nb, r, count);
    cell_begin(nb, r, count);
}

/* false: no cell has ended */
static bool end_one(struct notebook *nb)
{
    CELLS_EACH (c, nb)
        if (cell_steps_go_on(c)) {
            cell_destroy(c);
            calls_moved(nb);
            return true;
        }
    return false;
}

static void go_on(struct notebook *nb)
{
    while (end_one(nb) || calls_begin(nb) || async_calls_interrupt(nb))
        ;
}

static bool next_may_begin(const struct notebook *nb)
{
    struct request *r = queue_first(&nb->queue);

    return !nb->shutdown_asked && !nb->home.executing && r && may_begin_now(nb, r);
}

/* What a subshell runs on ranks is a call of its thread's. */
static void subshells_go_on(struct notebook *nb)
{
    struct request *r;

    subshells_sweep(nb);
    for (struct subshell *s = nb->home.subshells.first; s && !nb->shutdown_asked; s = s->next)
        while (!s->executing && (r = queue_take(&s->queue))) {
            home_execute(nb, s, r, next_count(nb, r));
            request_unref(r);
        }
}

/* Home can answer comm messages now: during a cell on ranks, or while its own cell waits for ranks
 * or is in an await. */
static bool home_takes_comms(const struct notebook *nb)
{
    if (nb->home.executing)
        return nb->home.awaits || async_home_waits(nb);
    return nb->cells || !queue_holds_execute(nb);
}

static void take_next(struct notebook *nb)
{
    struct request *r;

    if (nb->queue.aborting)
        return;
    notices_update(nb); /* before a cell ends in which ranks meet */
    go_on(nb);
    subshells_go_on(nb);
    while (next_may_begin(nb) && (r = queue_take(&nb->queue))) {
        awaited_over(nb);
        if (strcmp(request_type(r), "execute_request") == 0)
            execute(nb, r);
        else
            home_ask(nb, r);
        request_unref(r);
        go_on(nb);
    }
    if (!nb->shutdown_asked && home_takes_comms(nb))
        pass_comms(nb); /* before those that come later */
    awaited_update(nb);
    idle_release_update(nb, notebook_now(nb));
    set_timer(nb);
}

/* Home gets an interrupt for each open request of the main shell, since any of them may be running:
 * a cell or a comm message. false: there is none. */
static bool interrupt_main(struct notebook *nb)
{
    struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME };
    bool any = false;

    for (const struct asked *a = nb->home.asked; a; a = a->next) {
        if (a->subshell)
            continue;
        any = true;
        m.cell = a->cell;
        notebook_send(nb, SPAN_WORKER_HOME, &m);
    }
    return any;
}

/* Ends a client's cell that waits for calls, which go on. false: none waits. */
static bool interrupt_waiting_cell(struct notebook *nb)
{
    struct request *r = awaited_take(nb);
    unsigned count;

    if (!r)
        return false;
    count = next_count(nb, r);
    notebook_announce(nb, r, count);
    ranks_answer(nb, r, count, "KeyboardInterrupt",
                 cell_is_ours(r) ? "another call was running on the ranks"
                                 : "home was waiting for a call on the ranks");
    if (request_flag(r, "stop_on_error", true))
        queue_abort(nb, &nb->queue);
    request_unref(r);
    take_next(nb);
    return true;
}

/* It ends what subshells run at home only if nothing else runs. */
void dispatch_interrupt(struct notebook *nb)
{
    stop_put_off(nb, debugger_interrupt(nb));
    if (interrupt_waiting_cell(nb))
        return;
    calls_interrupt(nb);
    comm_routes_interrupt(nb);
    CELLS_EACH (c, nb)
        if (async_is_interrupted(c))
            stop_by_interrupt(c);
    if ((nb->home.executing ? !async_home_waits(nb) : !nb->cells) && !interrupt_main(nb) &&
        !nb->cells)
        subshells_interrupt(nb);
    if (nb->home.executing)
        nb->home.executing->interrupted = true;
    take_next(nb);
}

/* ---- requests ---- */

/* `cellspan run` adds the number of the signal that it got. */
static void answer_interrupt(struct notebook *nb, struct request *r)
{
    const json_int_t signal = json_integer_value(
        json_object_get(request_content(r), "cellspan_signal"));

    reply_json(nb, r, "interrupt_reply", json_pack("{s:s}", "status", "ok"));
    if (nb->cells && signal > 0 && signal < 64) {
        CELLS_EACH (c, nb)
            stop_by_signal(c, (unsigned)signal);
    } else {
        dispatch_interrupt(nb);
    }
    take_next(nb);
}

static void answer_shutdown(struct notebook *nb, struct request *r)
{
    const bool restart = json_is_true(json_object_get(request_content(r), "restart"));

    reply_json(nb, r, "shutdown_reply",
               json_pack("{s:s, s:b}", "status", "ok", "restart", restart));
    publish_json(nb, r, "shutdown_reply",
                 json_pack("{s:s, s:b}", "status", "ok", "restart", restart));
    nb->shutdown_asked = true;
    nb->ops.shutdown(nb->ops.arg);
}

static void take_execute(struct notebook *nb, struct request *r)
{
    if (!where_request(nb, r) && !debug_rank_request(nb, r) && !immediate_request(nb, r))
        queue_add(queue_of(nb, r), r);
    take_next(nb);
}

/* Completions never wait in the queue of cells: while ranks run a cell, home answers; while home
 * runs one, they wait in home. */
static void take_complete(struct notebook *nb, struct request *r)
{
    if (!info_complete(nb, r))
        home_ask(nb, r);
}

static void take_inspect(struct notebook *nb, struct request *r)
{
    if (!info_inspect(nb, r))
        home_ask(nb, r);
}

static void take_debug(struct notebook *nb, struct request *r)
{
    debugger_request(nb, r);
    take_next(nb);
}

static void take_comm(struct notebook *nb, struct request *r)
{
    if (comm_routes_take(nb, r)) {
        if (nb->comms.unanswered) /* a rank's callback may use its GPUs */
            idle_release_wake(nb);
        return;
    }
    if (!notebook_subshell(nb, r) && !home_takes_comms(nb))
        queue_add(&nb->queue, r);
    else
        home_ask(nb, r);
}

/* A request of a type that nobody handles gets an error: its client must not
 * wait for ever. */
static void refuse(struct notebook *nb, struct request *r)
{
    char type[64];

    log_info("cell", "a request of a type that nobody here answers");
    if (home_reply_type(request_type(r), type))
        reply_json(nb, r, type,
                   json_pack("{s:s, s:s, s:s+, s:[]}", "status", "error", "ename",
                             "NotImplementedError", "evalue", request_type(r),
                             " is nothing that cellspan answers", "traceback"));
}

void dispatch_request(struct notebook *nb, struct request *r)
{
    static const struct {
        const char *type;
        void (*f)(struct notebook *nb, struct request *r);
        bool at_once;     /* f replies before it returns */
        bool in_subshell; /* one that names a subshell is for its thread */
    } table[] = {
        { "execute_request", take_execute, false, true },
        { "kernel_info_request", info_reply, true, false },
        { "interrupt_request", answer_interrupt, true, false },
        { "shutdown_request", answer_shutdown, true, false },
        { "complete_request", take_complete, false, true },
        { "inspect_request", take_inspect, false, true },
        { "is_complete_request", home_ask, false, true },
        { "history_request", home_ask, false, true },
        { "comm_info_request", comm_routes_info, true, false },
        { "create_subshell_request", subshells_create, false, false },
        { "delete_subshell_request", subshells_delete, false, false },
        { "list_subshell_request", subshells_list, false, false },
        { "comm_open", take_comm, false, false },
        { "comm_msg", take_comm, false, false },
        { "comm_close", take_comm, false, false },
        { "input_reply", prompts_answer, false, false },
        { "debug_request", take_debug, false, false },
        /* without a busy and an idle: servers take these for use of the kernel */
        { "cellspan_overview_request", rank_table_overview, false, false },
        { "", refuse, true, false }, /* all others */
    };
    size_t k = 0;

    if (nb->shutdown_asked)
        return;
    log_debug("request", "%s", request_type(r));
    while (k < sizeof table / sizeof *table - 1 && strcmp(table[k].type, request_type(r)) != 0)
        k++;
    if (table[k].in_subshell && request_subshell(r) && !notebook_subshell(nb, r)) {
        subshells_refuse(nb, r);
        return;
    }
    if (table[k].at_once)
        nb->ops.status(nb->ops.arg, r, "busy");
    table[k].f(nb, r);
    if (table[k].at_once)
        nb->ops.status(nb->ops.arg, r, "idle");
}

/* ---- messages ---- */

/* A call ends before the cell at home that made it. Takes error. */
static void fail_home(struct notebook *nb, json_t *error)
{
    go_on(nb);
    home_fail(nb, error);
    json_decref(error);
}

static void message_exited(struct notebook *nb, uint32_t worker, const struct span *m)
{
    log_info("death", "%s (worker %u, process %llu) has ended: code %llu, status %llu",
             worker == SPAN_WORKER_HOME ? "home" : "a rank", (unsigned)worker,
             (unsigned long long)m->v[F_EXITED_PID].u64,
             (unsigned long long)m->v[F_EXITED_CODE].u64,
             (unsigned long long)m->v[F_EXITED_STATUS].u64);
    nb->ops.forget(nb->ops.arg, worker);
    if (worker == SPAN_WORKER_HOME) {
        stop_put_off(nb, debugger_gone(nb, worker));
        fail_home(nb, from_home_exited(nb, m));
    } else
        rank_events_on_exited(nb, worker, m);
}

static void take_usage(struct notebook *nb, unsigned node, const struct span *m)
{
    rank_usage_on_gauges(nb, node, m);
    immediate_tick(nb);
}

/* Ranks may have to save what they have on their GPUs. */
static void take_notice(struct notebook *nb, unsigned node, const struct span *m)
{
    notices_take(nb, node, m);
    idle_release_wake(nb);
}

static void message_for_cell(struct cell *c, unsigned node, const struct span *m)
{
    if (m->kind == SPAN_LOGS)
        rank_logs_on_logs(c, node, m);
    else if (m->kind == SPAN_CONNECTIONS)
        cut_ranks_on_connections(c, node, m);
    else
        prepare_on_message(c, node, m);
}

void dispatch_message(struct notebook *nb, unsigned node, uint32_t worker, const struct span *m)
{
    struct cell *c;

    log_debug("message", "%s of node %u, worker %u, cell %llu", span_info((unsigned)m->kind)->name,
              node, (unsigned)worker, (unsigned long long)m->cell);
    if (m->kind == SPAN_EXITED)
        message_exited(nb, worker, m);
    else if (m->kind == SPAN_DEBUGGED)
        stop_put_off(nb, debugger_message(nb, worker, m));
    else if (worker == SPAN_WORKER_HOME)
        from_home(nb, m);
    else if (worker != SPAN_WORKER_NONE)
        from_ranks(nb, worker, m);
    else if (m->kind == SPAN_GAUGES)
        take_usage(nb, node, m);
    else if (m->kind == SPAN_GPUS)
        node_gpus_on_gpus(nb, node, m);
    else if (m->kind == SPAN_NOTICE)
        take_notice(nb, node, m);
    else if (m->kind == SPAN_PARK)
        idle_release_on_parked(nb, node, m);
    else if ((c = cell_find(nb, m->cell)))
        message_for_cell(c, node, m);
    else if (m->kind == SPAN_LOGS)
        immediate_on_logs(nb, node, m);
    take_next(nb);
}

void dispatch_engine(struct notebook *nb, unsigned engine, enum engine_event event,
                     const char *text)
{
    if (nb->shutdown_asked)
        return;
    log_debug("engine", "engine %u: event %d", engine, (int)event);
    engine_event(nb, engine, event, text);
    take_next(nb);
}

void dispatch_replaced(struct notebook *nb, unsigned node, unsigned by)
{
    if (nb->shutdown_asked)
        return;
    engine_replaced(nb, node, by);
    take_next(nb);
}

void dispatch_up(struct notebook *nb, unsigned node)
{
    (void)node;
    if (!nb->shutdown_asked)
        take_next(nb);
}

static void lost_here(struct notebook *nb, const char *why)
{
    struct err err = { "" };

    from_home_tell_lost(nb); /* before the loss of ranks ends the cell */
    nb->home.warmed = false;
    nb->agent_gone = true;
    nb->node[0].asked = false;
    if (nb->home.deaths++ < DEATHS_MAX && notebook_revive(nb, &err) < 0)
        why = err.text;
    rank_events_lost(nb, NODE_HERE, why);
    go_on(nb); /* before home's loss fails the cell: %ranks stop needs only that its ranks end */
    stop_put_off(nb, debugger_gone(nb, SPAN_WORKER_HOME));
    fail_home(nb, from_home_lost(nb, why));
}

void dispatch_lost(struct notebook *nb, unsigned node, const char *why)
{
    if (nb->shutdown_asked)
        return;
    log_info("link", "node %u (%s) is lost: %s", node, notebook_node_name(nb, node), why);
    if (node == NODE_HERE)
        lost_here(nb, why);
    else
        engine_lost(nb, node, why);
    CELLS_EACH (c, nb)
        if (!c->bad)
            rank_logs_lost(c, node);
    immediate_lost(nb, node);
    take_next(nb);
}

void dispatch_tick(struct notebook *nb)
{
    struct err err = { "" };

    if ((nb->home.omit && omit_tick(nb->home.omit) < 0) || pace_tick(nb->home.pace, &err) < 0)
        log_error("cell", "%s", err.text);
    CELLS_EACH (c, nb)
        cell_steps_tick(c, notebook_now(nb));
    for (struct subshell *s = nb->home.subshells.first; s; s = s->next)
        subshell_text_tick(s);
    where_tick(nb);
    immediate_tick(nb);
    awaited_tick(nb);
    question_tick(nb);
    finds_tick(nb);
    prompts_tick(nb);
    comm_output_tick(nb);
    comm_unanswered_tick(nb);
    notices_tick(nb);
    stopped_home_tick(nb);
    stop_put_off(nb, debugger_tick(nb));
    take_next(nb);
}

enum occupied dispatch_is_occupied(const struct notebook *nb)
{
    return nb->home.executing || nb->cells ? OCCUPIED
           : subshells_run(nb)             ? OCCUPIED_SUBSHELLS
                                           : OCCUPIED_NOT;
}

size_t dispatch_waiting(const struct notebook *nb)
{
    size_t n = pace_waiting(nb->home.pace) + immediate_waiting(nb);

    CELLS_EACH (c, nb)
        n += output_waiting(c);
    for (const struct subshell *s = nb->home.subshells.first; s; s = s->next)
        n += subshell_text_waiting(s);
    return n;
}

/* ---- create and destroy ---- */

struct notebook *dispatch_create(const struct cell_ops *ops, const struct dispatch_config *config,
                                 struct err *err)
{
    struct notebook *nb = calloc(1, sizeof *nb);

    if (!nb)
        return err_null(err, "out of memory");
    nb->ops = *ops;
    notebook_init_numbers(nb);
    nb->config.python = strdup(config->python);
    nb->config.python_version = strdup(config->python_version);
    nb->config.run_id = strdup(config->run_id);
    memcpy(nb->config.key, config->key, sizeof nb->config.key);
    nb->config.nccl_shares = config->nccl_shares;
    nb->config.status = config->status;
    nb->config.code = config->code;
    nb->config.cells = config->cells;
    nb->config.cells.on = strdup(config->cells.on ? config->cells.on : "");
    nb->config.cells.image = strdup(config->cells.image ? config->cells.image : "");
    nb->home.subshells.comms = config->subshell_comms;
    nb->config.hang_notice_ns = config->hang_notice_ns;
    nb->ends.idle = idle_release_create(nb, config->gpu_idle_ns, config->gpu_park,
                                        config->gpu_keep);
    if ((nb->group = group_create("default", err))) {
        nb->group->quota = config->gpu_quota;
        nb->group->quota_place = config->gpu_quota_place ? config->gpu_quota_place : "";
    }
    nb->home.cwd = strdup("");
    nb->node = calloc(1, sizeof *nb->node); /* NODE_HERE */
    nb->nodes = 1;
    nb->home.pace = pace_create(ops->clock, from_home_text, nb, err);
    nb->comms.table = comms_create();
    nb->calls.held = calloc(1, sizeof *nb->calls.held);
    if (nb->config.python && nb->config.python_version && nb->config.run_id &&
        nb->config.cells.on && nb->config.cells.image && nb->group && nb->home.cwd && nb->node &&
        nb->home.pace && nb->comms.table && nb->calls.held && nb->ends.idle &&
        (!config->server || from_home_limit(nb, config->server))) {
        (void)home_keep_early(nb, 2, slice_text(config->notice));
        return nb;
    }
    dispatch_destroy(nb);
    return err_null(err, "out of memory");
}

void dispatch_destroy(struct notebook *nb)
{
    if (!nb)
        return;
    calls_release(nb);
    calls_free(nb->immediate.cells);
    calls_free(nb->cells);
    request_unref(nb->rank_parent);
    queue_release(&nb->queue);
    subshells_release(nb);
    home_release(nb);
    rank_usage_release(nb);
    where_release(nb);
    question_release(nb);
    finds_release(nb);
    comm_routes_release(nb);
    prompts_release(nb);
    debugger_release(nb);
    notices_release(nb);
    omit_destroy(nb->home.omit);
    output_limit_destroy(nb->output_limit);
    pace_destroy(nb->home.pace);
    free(nb->ran.of);
    idle_release_destroy(nb->ends.idle);
    group_destroy(nb->group);
    free(nb->node);
    free(nb->home.cwd);
    free(nb->config.python);
    free(nb->config.python_version);
    free(nb->config.run_id);
    free(nb->config.cells.on);
    free(nb->config.cells.image);
    free(nb);
}
