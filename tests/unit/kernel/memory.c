/* Short of memory: runs the same cells of a notebook again and again, and each time another
 * allocation fails. Nothing is freed twice or leaked, and no cell stays unanswered. The interrupt
 * at the end stands for the user, who ends a cell that waits for something that was lost. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/chaos.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define CAPTURES_X "{\"names\": [[\"x\", 1, 8, \"\"]]}"
#define FAILURE    "{\"ename\":\"E\",\"evalue\":\"why\",\"traceback\":[\"line\"]}"

static long kept = -1; /* of the countdown, while a double allocates */

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

static void *json_alloc(size_t n)
{
    return malloc(n);
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
    return w->nb->cell ? w->nb->cell->id : 0;
}

/* What is needed for the cell to run, whoever asked for it. */
static void provide_x(struct world *w)
{
    const uint32_t old = w->nb->next.worker;

    captured(w, CAPTURES_X);
    if (running(w))
        port(w);
    for (uint32_t k = 2; k < old; k++)
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

/* Home serves what was asked of it, in order. */
static void serve(struct world *w)
{
    while (w->nb->home.asked)
        replied(w, w->nb->home.asked->cell, "ok", "{\"status\":\"ok\"}");
}

static void walk(struct world *w)
{
    ready(w, SPAN_WORKER_HOME);
    run(w, "1");
    serve(w);
    run(w, "%%distribute -n 2 --into y\nx");
    provide_x(w);
    answer(w, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    run(w, "%%distribute\nx");
    provide_x(w);
    answer(w, "error", FAILURE, "");
    run(w, "%distribute 1");
    if (w->nb->cell)
        exited(w, 3, 1, 11);
    answer(w, "ok", "", "");
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
        said_ends(w, 1, "ends");
        said_ends(w, 2, "ends");
    }
    answer(w, "ok", "", "");
    run(w, "%%distribute --no-gpu\nx");
    provide_x(w);
    if (w->engine)
        lost(w, 2, "it was not heard of");
    answer(w, "error", FAILURE, "");
    run(w, "%distribute train.py");
    provide_x(w);
    answer(w, "ok", "", "");
    if (w->engine)
        engine(w, ENGINE_FAILED, "the job is over");
    run(w, "%%distribute -n 2 --fresh --on slurm\nx");
    provide_x(w);
    if (w->engine)
        engine(w, ENGINE_FAILED, "there is no such partition");
}

/* The user ends what waits; what was killed for it dies. */
static void give_up(struct world *w)
{
    for (int k = 0; w->nb->cell && k < 3; k++) {
        w->now += NS_PER_S;
        dispatch_interrupt(w->nb);
        for (uint32_t worker = 2; w->nb->cell && worker < w->nb->next.worker; worker++)
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
    if (w.nb->cell || w.nb->home.executing || unanswered(&w))
        ++*n_lost;
    world_close(&w);
    return came;
}

int main(void)
{
    struct err err = { "" };
    unsigned n_lost = 0;
    long n = 0, away = 0;

    if (random_open(&err) < 0)
        abort();
    json_set_alloc_funcs(json_alloc, json_free);
    while (n < 100000 && try_failing(n, walk, &n_lost))
        n++;
    while (away < 100000 && try_failing(away, walk_away, &n_lost))
        away++;
    ok(n > 200 && n < 100000, "every allocation of a notebook with ranks on this machine may fail");
    ok(away > 200 && away < 100000,
       "every allocation of a notebook with ranks on other machines may fail");
    diag("%ld and %ld of them", n, away);
    is_int(n_lost, 0, "and every cell is answered");
    return plan_done();
}
