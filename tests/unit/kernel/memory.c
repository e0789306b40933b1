/* SPDX-License-Identifier: BSD-3-Clause */
/* Short of memory: runs the same cells of a notebook again and again, and each time another
 * allocation fails. Nothing is freed twice or leaked, and no cell stays unanswered. The interrupt
 * at the end stands for the user, who ends a cell that waits for something that was lost. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/chaos.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define FAILURE "{\"ename\":\"E\",\"evalue\":\"why\",\"traceback\":[\"line\"]}"

static long kept = -1;   /* of the countdown, while a double allocates */
static unsigned n_empty; /* calls that ended well without their value */

static void doubles_own(bool on)
{
    const long left = chaos_left;

    if (on) {
        kept = left;
        chaos_left = -1;
    } else {
        chaos_left = kept;
    }
}

/* Jansson's parser asserts when it has no memory for a string of more than 16 bytes. */
static bool json_fails = true;

static void *json_alloc(size_t n)
{
    return json_fails ? malloc(n) : __real_malloc(n);
}

static void json_free(void *p)
{
    free(p);
}

static void lines(struct world *w, uint32_t worker, const char *text)
{
    struct span m = { .kind = SPAN_LINES, .v[F_LINES_STREAM].u64 = 1 };

    m.v[F_LINES_DATA].s = slice_text(text);
    say(w, worker, m);
}

static uint64_t running(const struct world *w)
{
    return w->nb->cells ? w->nb->cells->id : 0;
}

/* What is needed for the cell to run, whoever asked for it. */
static void provide_x(struct world *w)
{
    captured(w, CAPTURES_X);
    if (running(w))
        port(w);
    for (uint32_t k = 2; k < w->nb->next.worker; k++)
        ready(w, k);
    packed(w, running(w), "");
}

static void answer(struct world *w, const char *status, const char *content, const char *result)
{
    for (uint32_t k = 2; k < w->nb->next.worker; k++) {
        lines(w, k, "a line\n");
        done(w, k, status, content, result);
    }
    pass(w, NS_PER_S);
    replied(w, running(w), "ok", "{\"status\":\"ok\"}");
}

/* All ranks end. */
static void all_leave(struct world *w)
{
    for (uint32_t k = 2; k < w->nb->next.worker; k++)
        exited(w, k, 2, 15);
}

/* Home serves what was asked of it, in order. */
static void serve(struct world *w)
{
    while (w->nb->home.asked)
        replied(w, w->nb->home.asked->cell, "ok", "{\"status\":\"ok\"}");
}

/* Did the last message end a call well, but without its value? */
static bool is_empty_return(const struct world *w)
{
    struct err err;
    struct span m;
    bool empty;

    if (span_decode(&m, w->sent.p, w->sent.n, &err) < 0)
        return false;
    empty = m.kind == SPAN_RETURN && slice_is(m.v[F_RETURN_STATUS].s, "ok") &&
            m.v[F_RETURN_VALUES].list.n == 0;
    span_release(&m);
    return empty;
}

/* A rank takes two loads, and home has two and then no more; a load that nobody takes stays. */
static void hand_out(struct world *w)
{
    struct slice part = slice_text("load");
    struct span takes = { .kind = SPAN_HAND, .v[F_HAND_TAKES].u64 = 2 };
    struct span load = { .kind = SPAN_HAND, .v[F_HAND_FLAGS].u64 = HAND_ANY }, last = load;

    takes.cell = load.cell = last.cell = running(w);
    load.v[F_HAND_LOAD].list = (struct span_list){ .item = &part, .n = 1 };
    last.v[F_HAND_FLAGS].u64 |= HAND_LAST;
    say(w, SPAN_WORKER_HOME, load);
    say(w, 2, takes);
    say(w, SPAN_WORKER_HOME, load);
    say(w, SPAN_WORKER_HOME, load);
    say(w, SPAN_WORKER_HOME, last);
}

/* Home calls a function on ranks, which goes along with its CALL; its value comes with DONE. */
static void call_function(struct world *w, uint64_t cell)
{
    struct span call = { .kind = SPAN_CALL, .cell = cell }, end = { .kind = SPAN_DONE };

    call.v[F_CALL_TEXT].s = slice_text("%%distribute --gather\nf()");
    call.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_FUNCTION;
    call.v[F_CALL_NAMES].s = slice_text("{\"names\": []}");
    call.v[F_CALL_LOAD].s = slice_text("f");
    say(w, SPAN_WORKER_HOME, call);
    if (!running(w))
        return;
    port(w);
    for (uint32_t k = 2; k < w->nb->next.worker; k++)
        ready(w, k);
    hand_out(w);
    end.cell = running(w);
    end.v[F_DONE_STATUS].s = slice_text("ok");
    end.v[F_DONE_VALUE].s = slice_text("7");
    for (uint32_t k = 2; k < w->nb->next.worker; k++)
        say(w, k, end);
    doubles_own(true);
    n_empty += is_empty_return(w);
    doubles_own(false);
}

static void walk(struct world *w)
{
    ready(w, SPAN_WORKER_HOME);
    run(w, "1");
    serve(w);
    run(w, "%%distribute -n 2 --into y\nx");
    provide_x(w);
    answer(w, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    run(w, "cellspan.run(f, gather=True)");
    if (w->nb->home.executing)
        call_function(w, w->nb->home.executing->cell);
    serve(w);
    run(w, "%%distribute\nx");
    provide_x(w);
    answer(w, "error", FAILURE, "");
    run(w, "%distribute 1"); /* a script: the cell ends with its ranks */
    provide_x(w);
    if (w->nb->cells)
        exited(w, 3, 1, 11);
    answer(w, "ok", "", "");
    all_leave(w);
    run(w, "2");
    if (w->nb->home.executing)
        called(w, w->nb->home.executing->cell, "%ranks");
    exited(w, SPAN_WORKER_HOME, 1, 9);
    dispatch_lost(w->nb, NODE_HERE, "it fell over");
}

/* Machines of an engine come, one is lost, and all of them are. */
static void walk_away(struct world *w)
{
    w->gpus[1] = "{\"gpus\":[{\"uuid\":\"a\"},{\"uuid\":\"b\"}]}";
    w->gpus[2] = "{\"gpus\":[{\"uuid\":\"c\"}]}";
    ready(w, SPAN_WORKER_HOME);
    run(w, "%%distribute -n gpu --on ssh:h1,h2\nx");
    if (w->engine) {
        engine(w, ENGINE_SAYS, "it waits");
        all_up(w, 2);
    }
    provide_x(w);
    if (running(w)) {
        pass(w, NS_PER_S);
        dispatch_interrupt(w->nb);
        pass(w, 2 * NS_PER_S);
        said_connections(w, 1, "ends");
        said_connections(w, 2, "ends");
    }
    answer(w, "ok", "", "");
    run(w, "%%distribute\nx");
    provide_x(w);
    if (w->engine)
        lost(w, 2, "it was not heard of");
    answer(w, "error", FAILURE, "");
    run(w, "%distribute train.py");
    all_leave(w);
    if (w->engine)
        all_up(w, 2);
    pass(w, 3 * NS_PER_S); /* those that are gone do not say what room they keep */
    provide_x(w);
    answer(w, "ok", "", "");
    all_leave(w);
    if (w->engine)
        engine(w, ENGINE_FAILED, "the job is over");
    run(w, "%%distribute -n 2 --fresh --on slurm\nx");
    provide_x(w);
    if (w->engine)
        engine(w, ENGINE_FAILED, "there is no such partition");
}

#define VALUE(n) "{\"comm_id\":\"c\",\"data\":{\"method\":\"update\",\"state\":{\"value\":" n "}}}"

/* A widget of a rank: shown, changed more often than a page can follow, moved, asked for, gone. */
static void walk_widgets(struct world *w)
{
    ready(w, SPAN_WORKER_HOME);
    run(w, "%%distribute -n 2\nx");
    provide_x(w);
    publishes(
        w, 3, "comm_open",
        "{\"comm_id\":\"c\",\"target_name\":\"jupyter.widget\",\"data\":{\"state\":{\"value\":1}}}");
    publishes(w, 3, "display_data",
              "{\"data\":{\"application/vnd.jupyter.widget-view+json\":{\"model_id\":\"c\"}},"
              "\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
    for (unsigned k = 0; k < COMM_SLOT_MAX + 2; k++)
        publishes(w, 3, "comm_msg", VALUE("2"));
    answer(w, "ok", "", "");
    ask(w, "comm_info_request", "{}");
    ask(w, "comm_open", "{\"comm_id\":\"k\",\"target_name\":\"jupyter.widget.control\"}");
    ask(w, "comm_msg", "{\"comm_id\":\"k\",\"data\":{\"method\":\"request_states\"}}");
    ask(w, "comm_msg", VALUE("3"));
    if (w->nb->comms.unanswered)
        say(w, 3, (struct span){ .kind = SPAN_REPLY, .cell = w->nb->comms.unanswered->cell });
    ask(w, "comm_msg", VALUE("4"));
    exited(w, 3, 1, 9);
    serve(w);
}

#define CELL "{\"code\":\"1\"}"

/* A subshell: made, used, and deleted while its cell runs; another one without home. */
static void walk_subshells(struct world *w)
{
    struct subshell *s;

    ready(w, SPAN_WORKER_HOME);
    ask(w, "create_subshell_request", "{}");
    serve(w);
    run(w, "1");
    ask_in(w, "run-1", "execute_request", CELL);
    ask_in(w, "run-1", "execute_request", CELL);
    ask_in(w, "run-1", "complete_request", CELL);
    if ((s = w->nb->home.subshells.first) && s->executing)
        say(w, SPAN_WORKER_HOME,
            (struct span){
                .kind = SPAN_PUBLISH,
                .cell = s->executing->cell,
                .v[F_PUBLISH_TYPE].s = slice_text("stream"),
                .v[F_PUBLISH_CONTENT].s = slice_text("{\"name\":\"stdout\",\"text\":\"t\"}") });
    dispatch_interrupt(w->nb);
    ask(w, "list_subshell_request", "{}");
    ask(w, "delete_subshell_request", "{\"subshell_id\":\"run-1\"}");
    ask_in(w, "run-1", "execute_request", CELL);
    serve(w);
    ask(w, "create_subshell_request", "{}");
    exited(w, SPAN_WORKER_HOME, 1, 9);
    serve(w);
}

/* The user ends what waits; what was killed for it dies. */
static void give_up(struct world *w)
{
    for (int k = 0; w->nb->cells && k < 3; k++) {
        w->now += NS_PER_S;
        dispatch_interrupt(w->nb);
        for (uint32_t worker = 2; w->nb->cells && worker < w->nb->next.worker; worker++)
            exited(w, worker, 1, 9);
    }
    serve(w);
}

static unsigned unanswered(struct world *w)
{
    return (unsigned)(times(w, "publish execute_input") > times(w, "reply execute_reply"));
}

/* The nth allocation fails. Returns false when there are not so many. */
static bool try_failing(long nth, void (*way)(struct world *w), unsigned *n_lost)
{
    struct clock clock;
    struct world w;
    bool came;

    world_open(&w, &clock);
    w.own = doubles_own;
    alloc_fail_at(nth);
    way(&w);
    came = alloc_failed();
    alloc_fail_at(-1);
    kept = -1;
    give_up(&w);
    if (w.nb->cells || w.nb->home.executing || unanswered(&w))
        ++*n_lost;
    world_close(&w);
    return came;
}

/* Without a failure, does the way go on to its end? runs: how many messages RUN that takes. */
static void goes_to_its_end(void (*way)(struct world *w), unsigned runs)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    way(&w);
    is_int(times(&w, "send RUN "), runs, "when memory is there, each cell runs on its ranks");
    ok(!w.nb->cells && !w.nb->home.executing, "and ends");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };
    unsigned n_lost = 0;
    long n = 0, away = 0, widgets = 0, subshells = 0;

    if (random_open(&err) < 0)
        abort();
    json_set_alloc_funcs(json_alloc, json_free);
    goes_to_its_end(walk, 8);
    goes_to_its_end(walk_away, 6);
    goes_to_its_end(walk_widgets, 2);
    while (n < 100000 && try_failing(n, walk, &n_lost))
        n++;
    while (away < 100000 && try_failing(away, walk_away, &n_lost))
        away++;
    while (subshells < 100000 && try_failing(subshells, walk_subshells, &n_lost))
        subshells++;
    json_fails = false;
    while (widgets < 100000 && try_failing(widgets, walk_widgets, &n_lost))
        widgets++;
    ok(subshells > 30 && subshells < 100000, "every allocation for subshells may fail");
    ok(widgets > 50 && widgets < 100000, "every allocation for widgets of ranks may fail");
    ok(n > 200 && n < 100000, "every allocation of a notebook with ranks on this machine may fail");
    ok(away > 200 && away < 100000,
       "every allocation of a notebook with ranks on other machines may fail");
    diag("%ld, %ld, %ld and %ld of them", n, away, widgets, subshells);
    is_int(n_lost, 0, "and every cell is answered");
    is_int(n_empty, 0, "and no call ends well without its value");
    return plan_done();
}
