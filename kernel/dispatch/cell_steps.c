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

/* The functions of each step: begin() starts it; look(), called after every event, returns whether
 * it has ended. If the cell fails in this step, fail() cleans up. late() is called when the time
 * limit is over that begin() or look() has set. Both may be NULL. */
static const struct {
    enum cell_phase phase;
    void (*begin)(struct cell *c);
    enum cell_outcome (*look)(struct cell *c);
    void (*fail)(struct cell *c);
    void (*late)(struct cell *c);
} steps[] = {
    [CELL_EXPANDING] = { CELL_BEFORE, expand_begin, expand_look, NULL, NULL },
    [CELL_CHOOSING] = { CELL_BEFORE, prepare_choose_begin, prepare_choose_look, NULL, NULL },
    [CELL_ASKING] = { CELL_BEFORE, prepare_ask_begin, prepare_ask_look, NULL, start_late },
    [CELL_STOPPING] = { CELL_BEFORE, end_ranks_begin, end_ranks_look, NULL, NULL },
    [CELL_ENGINE] = { CELL_BEFORE, engine_begin, engine_look, engine_fail, node_errors_fail },
    [CELL_STARTING] = { CELL_BEFORE, prepare_begin, prepare_look, NULL, start_late },
    [CELL_COMPARING] = { CELL_BEFORE, compare_begin, compare_look, NULL, NULL },
    [CELL_SHIPPING] = { CELL_BEFORE, prepare_ship_begin, prepare_ship_look, NULL, broadcast_late },
    [CELL_TABLE] = { CELL_BEFORE, rank_table_begin, rank_table_look, NULL, NULL },
    [CELL_WHERE] = { CELL_BEFORE, where_begin, where_look, NULL, NULL },
    [CELL_LOGS] = { CELL_BEFORE, rank_logs_begin, rank_logs_look, NULL, rank_logs_late },
    [CELL_RUNNING] = { CELL_RUNS, run, run_look, NULL, NULL },
    [CELL_CHECKING] = { CELL_RUNS, check_begin, check_look, NULL, NULL },
    [CELL_BINDING] = { CELL_AFTER, bind_begin, bind_look, NULL, NULL },
    [CELL_OVER] = { CELL_AFTER, finish_begin, NULL, NULL, NULL },
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
    { CELL_COMPARING, CELL_DONE, CELL_SHIPPING },
    { CELL_SHIPPING, CELL_DONE, CELL_RUNNING },
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
    c->step = (struct cell_step){ state, steps[state].phase, NEVER };
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

void cell_steps_go_on(struct cell *c)
{
    while (c->step.state != CELL_OVER && step_once(c))
        ;
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
