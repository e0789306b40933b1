/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine of a cell. Each step does its work and returns how it ended; the table here
 * decides the next state. docs/architecture.md shows the same table. */
#include <assert.h>

#include "base/log.h"
#include "kernel/cell/idle_release.h"
#include "kernel/dispatch/private.h"
#include "kernel/notebook/debugger.h"

/* The steps. Each is defined at the end of its file. */
extern const struct cell_step
    cell_expanding, /* home expands {name} in the option line, which becomes a plan */
    cell_choosing,  /* refuses bad options before anything starts or ends */
    cell_asking,    /* --fresh: before ranks end, home and nodes say whether the cell can run */
    cell_stopping,  /* old processes end first (--fresh, %ranks stop) */
    cell_engine,    /* the engine starts its nodes */
    cell_starting,  /* ranks start, home captures variables, an agent looks for a free port */
    cell_comparing, /* ranks tell whether they changed variables that home would overwrite */
    cell_sending,   /* home packs the variables that ranks lack */
    cell_table,     /* %ranks: nodes tell the use of memory and GPUs */
    cell_where,     /* %ranks where: ranks send their stacks */
    cell_logs,      /* %ranks logs: nodes send what was printed */
    cell_code,      /* %ranks code: home tells which modules went where */
    cell_checking,  /* %ranks check */
    cell_binding,   /* home receives the result */
    cell_over;

static void run(struct cell *c)
{
    run_begin(c);
    if (!c->bad)
        hang_begin(c);
}

static const struct cell_step cell_running = { CELL_RUNS, .begin = run, .poll = run_poll };

/* What comes next. A cell that fails goes to cell_over from every state. */
static const struct {
    const struct cell_step *from;
    enum cell_outcome outcome;
    const struct cell_step *to;
} rows[] = {
    { &cell_expanding, CELL_DONE, &cell_choosing },
    { &cell_expanding, CELL_IS_TABLE, &cell_table },
    { &cell_expanding, CELL_IS_WHERE, &cell_where },
    { &cell_expanding, CELL_IS_LOGS, &cell_logs },
    { &cell_expanding, CELL_IS_CODE, &cell_code },
    { &cell_expanding, CELL_IS_OVER, &cell_over },
    { &cell_choosing, CELL_DONE, &cell_engine },
    { &cell_choosing, CELL_ASKS_FIRST, &cell_asking },
    { &cell_choosing, CELL_ENDS_RANKS, &cell_stopping },
    { &cell_asking, CELL_DONE, &cell_stopping },
    { &cell_stopping, CELL_DONE, &cell_engine },
    { &cell_stopping, CELL_IS_OVER, &cell_over },
    { &cell_engine, CELL_DONE, &cell_starting },
    { &cell_starting, CELL_DONE, &cell_comparing },
    { &cell_starting, CELL_ENDS_RANKS, &cell_stopping },
    { &cell_starting, CELL_IS_CHECK, &cell_checking },
    { &cell_starting, CELL_IS_OVER, &cell_over },
    { &cell_comparing, CELL_DONE, &cell_sending },
    { &cell_sending, CELL_DONE, &cell_running },
    { &cell_table, CELL_DONE, &cell_over },
    { &cell_where, CELL_DONE, &cell_over },
    { &cell_logs, CELL_DONE, &cell_over },
    { &cell_code, CELL_DONE, &cell_over },
    { &cell_running, CELL_DONE, &cell_binding },
    { &cell_checking, CELL_DONE, &cell_binding },
    { &cell_binding, CELL_DONE, &cell_over },
};

static const struct cell_step *next(const struct cell_step *from, enum cell_outcome outcome)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].from == from && rows[k].outcome == outcome)
            return rows[k].to;
    assert(!"a step ends as the table does not say");
    return &cell_over;
}

/* A state's name in docs/architecture.md. */
static const char *name_of(const struct cell_step *step)
{
    static const struct {
        const struct cell_step *step;
        const char *name;
    } names[] = {
        { &cell_expanding, "EXPANDING" }, { &cell_choosing, "CHOOSING" },
        { &cell_asking, "ASKING" },       { &cell_stopping, "STOPPING" },
        { &cell_engine, "ENGINE" },       { &cell_starting, "STARTING" },
        { &cell_comparing, "COMPARING" }, { &cell_sending, "SENDING" },
        { &cell_running, "RUNNING" },     { &cell_table, "TABLE" },
        { &cell_where, "WHERE" },         { &cell_logs, "LOGS" },
        { &cell_code, "CODE" },           { &cell_checking, "CHECKING" },
        { &cell_binding, "BINDING" },     { &cell_over, "OVER" },
    };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (names[k].step == step)
            return names[k].name;
    return "?";
}

static void enter(struct cell *c, const struct cell_step *step)
{
    log_debug("cell", "In [%u], cell %llu: %s", c->from.count, (unsigned long long)c->id,
              name_of(step));
    if (step == &cell_over)
        log_info("cell", "In [%u] is over: %s", c->from.count,
                 !c->bad          ? "ok"
                 : c->fault.whole ? text_field(c->fault.whole, "ename")
                                  : "failed on ranks");

    c->now = (struct cell_now){ .step = step, .due_ns = NEVER, .since_ns = notebook_now(c->nb) };
    step->begin(c);
    if (c->bad && cell_runs(c)) /* nobody waits for ranks that were not told to run it */
        run_leave_out(c);
}

/* If the cell has failed while ranks run it, the step's poll() stops the ranks (run_poll(),
 * check_poll()) before the step ends. */
static bool step_once(struct cell *c)
{
    enum cell_outcome outcome = CELL_STAYS;

    if (!c->bad || cell_runs(c))
        outcome = c->now.step->poll(c);
    if (c->bad && (outcome != CELL_STAYS || !cell_runs(c))) {
        if (c->now.step->fail)
            c->now.step->fail(c);
        enter(c, &cell_over);
        return true;
    }
    if (outcome != CELL_STAYS)
        enter(c, next(c->now.step, outcome));
    return outcome != CELL_STAYS;
}

void cell_steps_init(struct cell *c)
{
    c->now = (struct cell_now){ .step = &cell_expanding, .due_ns = NEVER };
}

void cell_steps_begin(struct cell *c)
{
    enter(c, &cell_expanding);
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

    if (c->now.step->reply)
        c->now.step->reply(c, m, content);
    json_decref(content);
}

bool cell_steps_probed(struct cell *c, struct rank *r, const struct span *m)
{
    return c->now.step->probed && c->now.step->probed(c, r, m);
}

void cell_steps_ready(struct cell *c, const struct rank *r, const struct span *m)
{
    if (c->now.step->ready)
        c->now.step->ready(c, r, m);
}

/* ---- time ---- */

static uint64_t step_due(const struct cell *c)
{
    return c->now.due_ns;
}

static void step_tick(struct cell *c, uint64_t now)
{
    if (now < c->now.due_ns)
        return;
    cell_limit_step(c, NEVER);
    if (c->now.step->timed_out)
        c->now.step->timed_out(c);
}

/* What a cell does at a certain time: due() says when, tick() is called at any time and does what
 * is due. */
static const struct {
    uint64_t (*due)(const struct cell *c);
    void (*tick)(struct cell *c, uint64_t now);
    bool if_bad;     /* also when the cell has failed, and no rank runs it */
    bool if_stopped; /* also while a worker is stopped at a breakpoint */
} timers[] = {
    { output_due, output_tick, true, true },
    { step_due, step_tick, false, true },
    { gpu_memory_due, gpu_memory_tick, false, true },
    { gpu_wait_due, gpu_wait_tick, false, true },
    { gpu_wait_due, idle_release_retry, false, true },
    { live_due, live_tick, false, true },
    { slow_answers_due, slow_answers_tick, false, false },
    { stop_callbacks_due, stop_callbacks_tick, true, false },
    { stop_due, stop_tick, false, false },
    { cut_ranks_due, cut_ranks_tick, false, false },
    { stop_wait_for_killed_due, rank_events_tick, false, false },
    { hang_due, hang_tick, false, false },
};
#define TIMERS (sizeof timers / sizeof *timers)

void cell_steps_tick(struct cell *c, uint64_t now)
{
    const bool bad = c->bad && !cell_runs(c), stopped = debugger_stops(c->nb);

    for (size_t k = 0; k < TIMERS; k++)
        if ((timers[k].if_bad || !bad) && (timers[k].if_stopped || !stopped))
            timers[k].tick(c, now);
}

uint64_t cell_steps_due(const struct cell *c)
{
    const bool stopped = debugger_stops(c->nb);
    uint64_t first = NEVER;

    for (size_t k = 0; k < TIMERS; k++)
        if (timers[k].if_stopped || !stopped)
            first = clock_earlier(first, timers[k].due(c));
    return first;
}
