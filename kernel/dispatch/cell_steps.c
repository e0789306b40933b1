/* The state machine of a cell. Each step does its work and returns how it ended; the table here
 * decides the next state. docs/architecture.md shows the same table. */
#include <assert.h>

#include "kernel/dispatch/private.h"
#include "kernel/notebook/debugger.h"

static void run(struct cell *c)
{
    run_begin(c);
    if (!c->bad)
        hang_begin(c);
}

/* What each step does. All columns but the first three may be empty. */
static const struct {
    enum cell_phase phase;
    void (*begin)(struct cell *c); /* starts its work */
    /* called after every event: whether and how it has ended */
    enum cell_outcome (*look)(struct cell *c);
    void (*fail)(struct cell *c); /* cleans up if the cell fails in this step */
    void (*late)(struct cell *c); /* cell_limit_step()'s time has come */
    /* home has answered what cell_ask_home() asked */
    void (*reply)(struct cell *c, const struct span *m, const json_t *content);
    /* a rank has answered a PROBE; false: of another step, or of another cell */
    bool (*probed)(struct cell *c, struct rank *r, const struct span *m);
    void (*ready)(struct cell *c, const struct rank *r, const struct span *m); /* it has started */
    bool ends_ranks; /* it waits for the end of ranks: their deaths do not fail the cell */
} steps[] = {
    [CELL_EXPANDING] = { CELL_BEFORE, .begin = expand_begin, .look = expand_look,
                         .reply = expand_reply },
    [CELL_CHOOSING] = { CELL_BEFORE, .begin = prepare_choose_begin, .look = prepare_choose_look },
    [CELL_ASKING] = { CELL_BEFORE, .begin = prepare_ask_begin, .look = prepare_ask_look,
                      .late = start_late },
    [CELL_STOPPING] = { CELL_BEFORE, .begin = end_ranks_begin, .look = end_ranks_look,
                        .ends_ranks = true },
    [CELL_ENGINE] = { CELL_BEFORE, .begin = engine_begin, .look = engine_look, .fail = engine_fail,
                      .late = node_errors_fail },
    [CELL_STARTING] = { CELL_BEFORE, .begin = prepare_begin, .look = prepare_look,
                        .late = start_late, .probed = room_message, .ready = start_ready },
    [CELL_COMPARING] = { CELL_BEFORE, .begin = compare_begin, .look = compare_look,
                         .probed = compare_message },
    [CELL_SENDING] = { CELL_BEFORE, .begin = prepare_send_begin, .look = prepare_send_look,
                       .late = broadcast_late, .probed = broadcast_message },
    [CELL_TABLE] = { CELL_BEFORE, .begin = rank_table_begin, .look = rank_table_look },
    [CELL_WHERE] = { CELL_BEFORE, .begin = where_begin, .look = where_look },
    [CELL_LOGS] = { CELL_BEFORE, .begin = rank_logs_begin, .look = rank_logs_look,
                    .late = rank_logs_late },
    [CELL_RUNNING] = { CELL_RUNS, .begin = run, .look = run_look },
    [CELL_CHECKING] = { CELL_RUNS, .begin = check_begin, .look = check_look,
                        .probed = check_message },
    [CELL_BINDING] = { CELL_AFTER, .begin = bind_begin, .look = bind_look, .reply = bind_reply },
    [CELL_OVER] = { CELL_AFTER, .begin = finish_begin },
};

/* A cell that fails goes to CELL_OVER from every state. */
static const struct {
    enum cell_state from;
    enum cell_outcome outcome;
    enum cell_state to;
} rows[] = {
    { CELL_EXPANDING, CELL_DONE, CELL_CHOOSING },
    { CELL_EXPANDING, CELL_IS_TABLE, CELL_TABLE },
    { CELL_EXPANDING, CELL_IS_WHERE, CELL_WHERE },
    { CELL_EXPANDING, CELL_IS_LOGS, CELL_LOGS },
    { CELL_EXPANDING, CELL_IS_OVER, CELL_OVER },
    { CELL_CHOOSING, CELL_DONE, CELL_ENGINE },
    { CELL_CHOOSING, CELL_ASKS_FIRST, CELL_ASKING },
    { CELL_CHOOSING, CELL_ENDS_RANKS, CELL_STOPPING },
    { CELL_ASKING, CELL_DONE, CELL_STOPPING },
    { CELL_STOPPING, CELL_DONE, CELL_ENGINE },
    { CELL_STOPPING, CELL_IS_OVER, CELL_OVER },
    { CELL_ENGINE, CELL_DONE, CELL_STARTING },
    { CELL_STARTING, CELL_DONE, CELL_COMPARING },
    { CELL_STARTING, CELL_ENDS_RANKS, CELL_STOPPING },
    { CELL_STARTING, CELL_IS_CHECK, CELL_CHECKING },
    { CELL_STARTING, CELL_IS_OVER, CELL_OVER },
    { CELL_COMPARING, CELL_DONE, CELL_SENDING },
    { CELL_SENDING, CELL_DONE, CELL_RUNNING },
    { CELL_TABLE, CELL_DONE, CELL_OVER },
    { CELL_WHERE, CELL_DONE, CELL_OVER },
    { CELL_LOGS, CELL_DONE, CELL_OVER },
    { CELL_RUNNING, CELL_DONE, CELL_BINDING },
    { CELL_CHECKING, CELL_DONE, CELL_BINDING },
    { CELL_BINDING, CELL_DONE, CELL_OVER },
};

static enum cell_state next(enum cell_state from, enum cell_outcome outcome)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].from == from && rows[k].outcome == outcome)
            return rows[k].to;
    assert(!"a step ends as the table does not say");
    return CELL_OVER;
}

static void enter(struct cell *c, enum cell_state state)
{
    c->step = (struct cell_step){ state, steps[state].phase, steps[state].ends_ranks, NEVER };
    steps[state].begin(c);
    if (c->bad && cell_runs(c)) /* nobody waits for ranks that were not told to run it */
        run_leave_out(c);
}

/* If the cell has failed while ranks run it, look() stops the ranks before the step ends. */
static bool step_once(struct cell *c)
{
    enum cell_outcome outcome = CELL_STAYS;

    if (!c->bad || cell_runs(c))
        outcome = steps[c->step.state].look(c);
    if (c->bad && (outcome != CELL_STAYS || !cell_runs(c))) {
        if (steps[c->step.state].fail)
            steps[c->step.state].fail(c);
        enter(c, CELL_OVER);
        return true;
    }
    if (outcome != CELL_STAYS)
        enter(c, next(c->step.state, outcome));
    return outcome != CELL_STAYS;
}

void cell_steps_begin(struct cell *c)
{
    enter(c, CELL_EXPANDING);
}

bool cell_steps_go_on(struct cell *c)
{
    while (!cell_is_over(c) && step_once(c))
        ;
    return cell_is_over(c);
}

/* ---- messages ---- */

void cell_steps_reply(struct cell *c, const struct span *m)
{
    json_t *content = text_parse(m->v[F_REPLY_CONTENT].s);

    if (steps[c->step.state].reply)
        steps[c->step.state].reply(c, m, content);
    json_decref(content);
}

bool cell_steps_probed(struct cell *c, struct rank *r, const struct span *m)
{
    return steps[c->step.state].probed && steps[c->step.state].probed(c, r, m);
}

void cell_steps_ready(struct cell *c, const struct rank *r, const struct span *m)
{
    if (steps[c->step.state].ready)
        steps[c->step.state].ready(c, r, m);
}

/* ---- time ---- */

static uint64_t step_due(const struct cell *c)
{
    return c->step.due_ns;
}

static void step_tick(struct cell *c, uint64_t now)
{
    if (now < c->step.due_ns)
        return;
    cell_limit_step(c, NEVER);
    if (steps[c->step.state].late)
        steps[c->step.state].late(c);
}

/* The parts of a cell that do something at a time of their own: due() says when, tick() is called
 * at any time and does what is due. */
static const struct {
    uint64_t (*due)(const struct cell *c);
    void (*tick)(struct cell *c, uint64_t now);
    bool if_bad;     /* also when the cell has failed, and no rank runs it */
    bool if_stopped; /* also while a worker is stopped at a breakpoint */
} parts[] = {
    { output_due, output_tick, true, true },
    { step_due, step_tick, false, true },
    { room_due, room_tick, false, true },
    { live_due, live_tick, false, true },
    { stop_due, stop_tick, false, false },
    { disconnect_due, disconnect_tick, false, false },
    { stop_killed_due, left_behind_tick, false, false },
    { hang_due, hang_tick, false, false },
};
#define PARTS (sizeof parts / sizeof *parts)

void cell_steps_tick(struct cell *c, uint64_t now)
{
    const bool bad = c->bad && !cell_runs(c), stopped = debugger_stops(c->nb);

    for (size_t k = 0; k < PARTS; k++)
        if ((parts[k].if_bad || !bad) && (parts[k].if_stopped || !stopped))
            parts[k].tick(c, now);
}

uint64_t cell_steps_due(const struct cell *c)
{
    const bool stopped = debugger_stops(c->nb);
    uint64_t first = NEVER;

    for (size_t k = 0; k < PARTS; k++)
        if (parts[k].if_stopped || !stopped)
            first = clock_earlier(first, parts[k].due(c));
    return first;
}
