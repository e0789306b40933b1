/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory of the notebook's ranks, where a script's ranks start beside them. If memory is out,
 * the script ends with an error: it must not start beside ranks that keep memory about which
 * nothing was said. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/chaos.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define GPUS4                                                                                      \
    "{\"gpus\":[{\"uuid\":\"GPU-1\"},{\"uuid\":\"GPU-2\"},{\"uuid\":\"GPU-3\"},{\"uuid\":\"GPU-4\"}]}"
#define NOTE "ranks 0-1 keep 2.0 GiB of GPU memory meanwhile (%ranks stop frees it)"

static long kept = -1; /* of the countdown, while the double allocates */

static void doubles_own(bool on)
{
    const long left = chaos_left;

    chaos_left = on ? -1 : kept;
    kept = on ? left : -1;
}

static void *json_alloc(size_t n)
{
    return malloc(n);
}

static void json_free(void *p)
{
    free(p);
}

/* Two idle ranks with GPUs, workers 2 and 3; the log is empty. */
static void open_gpus(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    w->gpus[0] = GPUS4;
    begin_two(w);
    all_done(w, 2, 3);
    buf_clear(&w->log);
    w->own = doubles_own;
}

/* Such a rank keeps one GiB. */
static void keeps(struct world *w, uint32_t worker)
{
    struct span m = { .kind = SPAN_PROBED, .cell = w->nb->cells ? w->nb->cells->id : 0 };

    m.v[F_PROBED_STATUS].s = slice_text("ok");
    m.v[F_PROBED_CONTENT].s = slice_text("{\"kept\": 1073741824}");
    say(w, worker, m);
}

static bool failed(struct world *w)
{
    return !w->nb->cells && times(w, "\"status\":\"error\"") == 1;
}

static void ranks_are_asked(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock);
    run(&w, "%distribute train.py");
    provide(&w);
    all_ready(&w, 4, 5);
    ok(logged(&w, "send PROBE 2 3") && !times(&w, "send RUN"), "a script waits for idle ranks");
    keeps(&w, 2);
    keeps(&w, 3);
    ok(logged(&w, NOTE) && times(&w, "send RUN"), "a line says what they keep, and it runs");
    world_close(&w);
    open_gpus(&w, &clock);
    w.stuck = SPAN_PROBE;
    run(&w, "%distribute train.py");
    ok(is_over(&w, "the agent on h1 can't be reached"), "if they can't be asked, it fails");
    world_close(&w);
}

/* The nth allocation fails while ranks are asked (or: while the first one answers). false: there
 * are not so many. */
static bool try_failing(long nth, bool answers, unsigned *n_silent)
{
    struct clock clock;
    struct world w;
    bool came;

    open_gpus(&w, &clock);
    if (!answers)
        alloc_fail_at(nth);
    run(&w, "%distribute train.py");
    provide(&w);
    if (!answers)
        came = alloc_failed();
    all_ready(&w, 4, 5);
    if (answers)
        alloc_fail_at(nth);
    keeps(&w, 2);
    if (answers)
        came = alloc_failed();
    alloc_fail_at(-1);
    kept = -1;
    keeps(&w, 3);
    if (!failed(&w) && !times(&w, NOTE)) {
        diag("allocation %ld while ranks %s: %s", nth, answers ? "answer" : "are asked", w.log.p);
        ++*n_silent;
    }
    world_close(&w);
    return came;
}

int main(void)
{
    struct err err = { "" };
    unsigned n_silent = 0;
    long asks = 0, answers = 0;

    if (random_open(&err) < 0)
        abort();
    json_set_alloc_funcs(json_alloc, json_free);
    ranks_are_asked();
    while (asks < 10000 && try_failing(asks, false, &n_silent))
        asks++;
    while (answers < 10000 && try_failing(answers, true, &n_silent))
        answers++;
    ok(asks > 0 && answers > 0,
       "allocations may fail while ranks are asked, and while one answers");
    diag("%ld and %ld of them", asks, answers);
    is_int(n_silent, 0, "then the script fails, unless the line is shown");
    return plan_done();
}
