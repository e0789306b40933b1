/* Who gets which request, what is next, and what is left when an agent dies. */
#include "kernel/cell/notebook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

uint64_t notebook_now(const struct notebook *nb)
{
    return clock_now(nb->doors.clock);
}

const struct group *notebook_shown(const struct notebook *nb)
{
    return nb->cell && nb->cell->passing && nb->cell->passing->size ? nb->cell->passing : nb->group;
}

struct rank *notebook_rank(const struct notebook *nb, uint32_t worker, struct group **g)
{
    struct group *const passing = nb->cell ? nb->cell->passing : NULL;
    struct rank *r = group_worker(nb->group, worker);
    const bool its = !r && passing && (r = group_worker(passing, worker));

    if (g)
        *g = its ? passing : nb->group;
    return r;
}

unsigned notebook_node_of(const struct notebook *nb, uint32_t worker)
{
    const struct rank *r = worker == SPAN_WORKER_HOME ? NULL : notebook_rank(nb, worker, NULL);

    return r ? r->node : NODE_HERE;
}

const char *notebook_node_name(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->doors.node(nb->doors.arg, node);

    return info && info->name[0] ? info->name
           : node == NODE_HERE   ? "this machine"
                                 : "a node without a name";
}

/* ---- requests ---- */

static void answer_info(struct notebook *nb, struct request *r)
{
    nb->doors.status(nb->doors.arg, r, "busy");
    info_reply(nb, r);
    nb->doors.status(nb->doors.arg, r, "idle");
}

/* `cellspan run` says which signal it was. */
static void answer_interrupt(struct notebook *nb, struct request *r)
{
    const json_int_t signal = json_integer_value(
        json_object_get(request_content(r), "cellspan_signal"));

    nb->doors.status(nb->doors.arg, r, "busy");
    reply_json(nb, r, "interrupt_reply", json_pack("{s:s}", "status", "ok"));
    if (nb->cell && signal > 0 && signal < 64)
        judge_signal(nb->cell, (unsigned)signal);
    else
        notebook_interrupt(nb);
    notebook_next(nb);
    nb->doors.status(nb->doors.arg, r, "idle");
}

static void answer_shutdown(struct notebook *nb, struct request *r)
{
    const bool restart = json_is_true(json_object_get(request_content(r), "restart"));

    nb->doors.status(nb->doors.arg, r, "busy");
    reply_json(nb, r, "shutdown_reply",
               json_pack("{s:s, s:b}", "status", "ok", "restart", restart));
    publish_json(nb, r, "shutdown_reply",
                 json_pack("{s:s, s:b}", "status", "ok", "restart", restart));
    nb->doors.status(nb->doors.arg, r, "idle");
    nb->over = true;
    nb->doors.shutdown(nb->doors.arg);
}

static void take_execute(struct notebook *nb, struct request *r)
{
    if (!where_request(nb, r))
        queue_add(nb, r);
    notebook_next(nb);
}

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

/* While home is free, as during a cell on ranks or while its own awaits, widgets and tab keys are
 * served at once. */
static void take_comm(struct notebook *nb, struct request *r)
{
    if (!nb->cell && (nb->executing ? !nb->home_awaits : queue_holds_execute(nb)))
        queue_add(nb, r);
    else
        home_ask(nb, r);
}

static void take_input(struct notebook *nb, struct request *r)
{
    prompts_answer(nb, r);
}

/* Who asks for a debugger or a subshell does not wait for what never comes. */
static void refuse(struct notebook *nb, struct request *r)
{
    char type[64];

    log_info("cell", "a request of a type that nobody here answers");
    nb->doors.status(nb->doors.arg, r, "busy");
    if (home_reply_type(request_type(r), type))
        reply_json(nb, r, type,
                   json_pack("{s:s, s:s, s:s+, s:[]}", "status", "error", "ename",
                             "NotImplementedError", "evalue", request_type(r),
                             " is nothing that cellspan answers", "traceback"));
    nb->doors.status(nb->doors.arg, r, "idle");
}

void notebook_request(struct notebook *nb, struct request *r)
{
    static const struct {
        const char *type;
        void (*f)(struct notebook *nb, struct request *r);
    } table[] = {
        { "execute_request", take_execute },
        { "kernel_info_request", answer_info },
        { "interrupt_request", answer_interrupt },
        { "shutdown_request", answer_shutdown },
        { "complete_request", take_complete },
        { "inspect_request", take_inspect },
        { "is_complete_request", home_ask },
        { "history_request", home_ask },
        { "comm_info_request", home_ask },
        { "comm_open", take_comm },
        { "comm_msg", take_comm },
        { "comm_close", take_comm },
        { "input_reply", take_input },
    };

    if (nb->over)
        return;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (strcmp(table[k].type, request_type(r)) == 0) {
            table[k].f(nb, r);
            return;
        }
    refuse(nb, r);
}

/* ---- cells, one after the other ---- */

static void publish_input(struct notebook *nb, struct request *r, unsigned count)
{
    const json_t *code = json_object_get(request_content(r), "code");

    publish_json(nb, r, "execute_input",
                 json_pack("{s:O, s:i}", "code", code ? code : json_null(), "execution_count",
                           (int)count));
}

bool request_flag(const struct request *r, const char *name, bool normally)
{
    const json_t *value = json_object_get(request_content(r), name);

    return json_is_boolean(value) ? json_is_true(value) : normally;
}

void notebook_announce(struct notebook *nb, struct request *r, unsigned count)
{
    nb->doors.status(nb->doors.arg, r, "busy");
    if (request_flag(r, "silent", false))
        return;
    publish_input(nb, r, count);
    home_tell_early(nb, r);
}

static void execute(struct notebook *nb, struct request *r)
{
    const bool silent = request_flag(r, "silent", false);
    const bool counts = !silent && request_flag(r, "store_history", true);
    const unsigned count = nb->count + (counts || nb->count == 0);

    question_over(nb);
    /* of threads: clients don't show them under a cell that is over */
    prompts_leave(nb, SPAN_WORKER_HOME);
    if (counts)
        nb->count = count;
    if (!cell_is_ours(r)) {
        home_execute(nb, r, count);
        return;
    }
    notebook_announce(nb, r, count);
    cell_begin(nb, r, count);
}

static void free_ended(struct notebook *nb)
{
    struct cell *c;

    while ((c = nb->ended)) {
        nb->ended = c->next_ended;
        cell_destroy(c);
    }
}

void notebook_next(struct notebook *nb)
{
    struct request *r;

    if (nb->aborting)
        return;
    free_ended(nb);
    while (!nb->over && !nb->executing && !nb->cell && (r = queue_take(nb))) {
        if (strcmp(request_type(r), "execute_request") == 0)
            execute(nb, r);
        else
            home_ask(nb, r);
        request_unref(r);
        free_ended(nb);
    }
    notebook_rewake(nb);
}

/* Home is interrupted in that of its requests which it is serving, be it a cell or a widget's
 * message. */
void notebook_interrupt(struct notebook *nb)
{
    struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME };

    if (nb->cell) {
        judge_interrupt(nb->cell);
    } else {
        for (const struct asked *a = nb->asked; a; a = a->next) {
            m.cell = a->cell;
            notebook_send(nb, SPAN_WORKER_HOME, &m);
        }
    }
    notebook_next(nb);
}

/* ---- messages ---- */

static void message_exited(struct notebook *nb, uint32_t worker, const struct span *m)
{
    nb->doors.forget(nb->doors.arg, worker);
    if (worker == SPAN_WORKER_HOME)
        home_exited(nb, m);
    else
        collect_exited(nb, worker, m);
}

void notebook_message(struct notebook *nb, unsigned node, uint32_t worker, const struct span *m)
{
    if (m->kind == SPAN_EXITED)
        message_exited(nb, worker, m);
    else if (worker == SPAN_WORKER_HOME)
        home_message(nb, m);
    else if (worker != SPAN_WORKER_NONE)
        collect_message(nb, worker, m);
    else if (m->kind == SPAN_GAUGES)
        manage_gauges(nb, node, m);
    else if (m->kind == SPAN_GPUS)
        sites_gpus(nb, node, m);
    else if (nb->cell && m->kind == SPAN_LOGS)
        logs_take(nb->cell, node, m);
    else if (nb->cell && m->kind == SPAN_ENDS)
        sever_ends(nb->cell, node, m);
    else if (nb->cell)
        gather_message(nb->cell, node, m);
    notebook_next(nb);
}

static void ranks_lost(struct notebook *nb, const struct group *g, unsigned node,
                       uint32_t first_new, struct span *gone)
{
    for (unsigned k = 0; k < g->size; k++) {
        const uint32_t worker = g->rank[k].worker;

        gone->v[F_EXITED_PID].u64 = (uint64_t)g->rank[k].pid;
        if (worker && worker < first_new && g->rank[k].node == node)
            collect_exited(nb, worker, gone);
    }
}

/* Ranks that were asked of the agent that came in its place have numbers from `first_new`. */
void group_lost(struct notebook *nb, unsigned node, uint32_t first_new, const char *why)
{
    struct span gone = { .kind = SPAN_EXITED, .v[F_EXITED_CODE].u64 = 2 };
    struct group *passing;
    char cause[1100];

    snprintf(cause, sizeof cause, "is gone: %s", why);
    text_trim(cause);
    gone.v[F_EXITED_CAUSE].s = slice_text(cause);
    ranks_lost(nb, nb->group, node, first_new, &gone);
    if ((passing = nb->cell ? nb->cell->passing : NULL))
        ranks_lost(nb, passing, node, first_new, &gone);
}

static void lost_here(struct notebook *nb, const char *why)
{
    struct err err = { "" };

    nb->warmed = false;
    nb->away = true;
    nb->machine[0].asked = false;
    if (nb->deaths++ < DEATHS_MAX && notebook_revive(nb, &err) < 0)
        why = err.text;
    group_lost(nb, NODE_HERE, nb->next_worker, why);
    home_lost(nb, why);
}

void notebook_lost(struct notebook *nb, unsigned node, const char *why)
{
    if (nb->over)
        return;
    if (node == NODE_HERE)
        lost_here(nb, why);
    else
        engine_lost(nb, node, why);
    if (nb->cell)
        logs_lost(nb->cell, node);
    notebook_next(nb);
}

void notebook_tick(struct notebook *nb)
{
    struct err err = { "" };

    if ((nb->home_gap && gap_tick(nb->home_gap) < 0) || pace_tick(nb->home_pace, &err) < 0)
        log_error("cell", "%s", err.text);
    if (nb->cell)
        cell_tick(nb->cell, notebook_now(nb));
    where_tick(nb);
    question_tick(nb);
    prompts_tick(nb);
    notebook_next(nb);
}

void notebook_rewake(struct notebook *nb)
{
    const uint64_t home = pace_due_ns(nb->home_pace), cell = nb->cell ? cell_due(nb->cell) : NEVER;
    const uint64_t due[] = { home,
                             cell,
                             where_due(nb),
                             question_due(nb),
                             prompts_due(nb),
                             nb->home_gap ? gap_due_ns(nb->home_gap) : NEVER };
    uint64_t first = NEVER;

    for (size_t k = 0; k < sizeof due / sizeof *due; k++)
        first = due[k] < first ? due[k] : first;
    nb->doors.wake(nb->doors.arg, first);
}

bool notebook_is_occupied(const struct notebook *nb)
{
    return nb->executing || nb->cell;
}

size_t notebook_waiting(const struct notebook *nb)
{
    const struct cell *c = nb->cell;

    return pace_waiting(nb->home_pace) + (c && c->pace ? pace_waiting(c->pace) : 0) +
           (c && c->merge ? merge_waiting(c->merge) : 0);
}

/* ---- birth and end ---- */

static int home_passes(void *arg, unsigned stream, struct slice text)
{
    struct err err = { "" };

    return pace_add(((struct notebook *)arg)->home_pace, stream, text, &err);
}

static int home_left_out(void *arg, size_t lines, size_t displays)
{
    struct notebook *nb = arg;
    struct buf note = BUF_INIT;
    struct err err = { "" };
    int rc = 0;

    if (lines)
        rc = buf_addf(
            &note,
            "cellspan: %zu line%s left out here, for Jupyter's server lets no more through; %%ranks logs --cell %u shows %s\n",
            lines, lines > 1 ? "s are" : " is", nb->home_count, lines > 1 ? "them" : "it");
    if (rc == 0 && displays)
        rc = buf_addf(
            &note,
            "cellspan: %zu display%s left out here, for Jupyter's server lets no more through\n",
            displays, displays > 1 ? "s are" : " is");
    if (rc == 0)
        rc = pace_add(nb->home_pace, 2, buf_slice(&note), &err);
    buf_release(&note);
    return rc;
}

/* A page under Jupyter's server takes only so much. */
static bool page_open(struct notebook *nb)
{
    const struct gap_out out = { .text = home_passes, .note = home_left_out, .arg = nb };

    return (nb->page = page_create(nb->doors.clock)) &&
           (nb->home_gap = gap_create(nb->doors.clock, nb->page, out));
}

static int home_text(void *arg, unsigned stream, struct slice text)
{
    struct notebook *nb = arg;

    if (!home_keep_early(nb, stream, text))
        publish_stream(nb, nb->home_owner ? nb->home_owner : nb->home_parent, stream, text);
    return 0;
}

struct notebook *notebook_create(const struct doors *doors, const struct notebook_config *config,
                                 struct err *err)
{
    struct notebook *nb = calloc(1, sizeof *nb);

    if (!nb)
        return err_null(err, "out of memory");
    nb->doors = *doors;
    nb->next_cell = nb->next_blob = 1;
    nb->next_worker = SPAN_WORKER_HOME + 1;
    nb->python = strdup(config->python);
    nb->python_version = strdup(config->python_version);
    nb->run_id = strdup(config->run_id);
    nb->group = group_create("default", err);
    nb->cwd = strdup("");
    nb->machine = calloc(1, sizeof *nb->machine); /* NODE_HERE */
    nb->machines = 1;
    nb->home_pace = pace_create(doors->clock, home_text, nb, err);
    if (nb->python && nb->python_version && nb->run_id && nb->group && nb->cwd && nb->machine &&
        nb->home_pace && (!config->page || page_open(nb)))
        return nb;
    notebook_destroy(nb);
    return err_null(err, "out of memory");
}

void notebook_destroy(struct notebook *nb)
{
    struct request *r;

    if (!nb)
        return;
    cell_destroy(nb->cell);
    free_ended(nb);
    request_unref(nb->rank_parent);
    while ((r = queue_take(nb)))
        request_unref(r);
    free(nb->queue);
    home_release(nb);
    gauges_release(nb);
    where_release(nb);
    question_release(nb);
    prompts_release(nb);
    gap_destroy(nb->home_gap);
    page_destroy(nb->page);
    pace_destroy(nb->home_pace);
    free(nb->ran);
    group_destroy(nb->group);
    free(nb->machine);
    free(nb->cwd);
    free(nb->python);
    free(nb->python_version);
    free(nb->run_id);
    free(nb);
}
