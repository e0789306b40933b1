/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine that has room for as many ranks as it was started for starts again for more. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void script(struct world *w, const char *code)
{
    next(w, code);
    captured(w, "{\"names\": [], \"script\": \"print(1)\"}");
}

/* The engine's n nodes come, and so many ranks run the script. */
static void runs(struct world *w, unsigned n, uint32_t first)
{
    all_up(w, n);
    port(w);
    all_ready(w, first, first + n - 1);
    all_done(w, first, first + n - 1);
    all_exited(w, first, first + n - 1);
}

/* An engine whose nodes are as many as it was told that there would be ranks. */
static void by_ranks(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.by_ranks = true;
    for (unsigned k = 1; k < 9; k++)
        w.node[k].slots = 1;
    script(&w, "%distribute -n 1 --on spark train.py");
    runs(&w, 1, 2);
    ok(!w.nb->cells && !times(&w, "engine stop"), "after a script, its engine stays");
    w.first = 2;
    script(&w, "%distribute -n 2 --on spark train.py");
    ok(in_order(&w, "engine stop 1", "engine spark () 2") &&
           logged(&w, "spark was started for 1 rank: it is started again, for 2"),
       "a script with more ranks starts it again for them, and a line says so");
    runs(&w, 2, 3);
    ok(logged(&w, "place 3 on 2") && logged(&w, "place 4 on 3"), "and runs on the new machines");
    w.first = 4;
    next(&w, "%%distribute -n 3\npass");
    ok(in_order(&w, "engine stop 2", "engine spark () 3"), "so does a cell if no rank lives");
    all_up(&w, 3);
    provide(&w);
    all_ready(&w, 5, 7);
    all_done(&w, 5, 7);
    next(&w, "%%distribute -n 4\npass");
    ok(is_over(&w, "-n 4: there is room for 3 ranks (h4: 1, h5: 1, h6: 1)") &&
           logged(&w, "%ranks stop") && !times(&w, "engine "),
       "while ranks with variables live, more are refused");
    script(&w, "%distribute -n 4 train.py");
    ok(is_over(&w, "-n 4: there is room for") && !times(&w, "engine ") && !times(&w, "KILL"),
       "also those of a script, and nothing ends for it");
    next(&w, "%%distribute --fresh -n 4\nx");
    captured(&w, "{\"error\": \"CaptureError: x was not sent\"}");
    ok(is_over(&w, "x was not sent") && !times(&w, "KILL"), "--fresh asks home first, as ever");
    w.first = 7;
    next(&w, "%%distribute --fresh -n 4\npass");
    captured(&w, "{\"names\": []}");
    ok(logged(&w, "send KILL 5 6 7") && !times(&w, "engine stop"), "--fresh ends the ranks, then");
    all_exited(&w, 5, 7);
    ok(in_order(&w, "engine stop 3", "engine spark () 4"), "the engine starts again for more");
    all_up(&w, 4);
    provide(&w);
    all_ready(&w, 8, 11);
    all_done(&w, 8, 11);
    ok(is_over(&w, "\"status\":\"ok\""), "and the cell runs on them");
    world_close(&w);
}

/* What starts again for more ranks, and has no more room all the same. */
static void by_ranks_in_vain(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.by_ranks = true;
    w.node[1].slots = 1;
    script(&w, "%distribute -n 1 --on spark train.py");
    runs(&w, 1, 2);
    script(&w, "%distribute -n 2 train.py");
    ok(times(&w, "engine spark") == 1, "it is started again");
    all_up(&w, 1);
    ok(is_over(&w, "-n 2: there is room for 1 rank (h1: 1)") && times(&w, "engine spark") == 1,
       "once, and the error says how many ranks there is room for");
    script(&w, "%distribute -n 2 train.py");
    ok(!times(&w, "engine "), "nor does the next cell try it again");
    world_close(&w);
}

static void a_wrong_default_is_named(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    free(w.nb->config.cells.on);
    w.nb->config.cells.on = strdup("shh:h3");
    w.no_engine = true;
    next(&w, "%%distribute -n 2\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "there is no engine shh; CELLSPAN_ON names it"),
       "the error about a place that the cell does not name has the variable");
    next(&w, "%%distribute -n 2 --on shi:h3\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "there is no engine shi") && !logged(&w, "CELLSPAN_ON"),
       "but not one about --on");
    world_close(&w);
}

int main(void)
{
    by_ranks();
    by_ranks_in_vain();
    a_wrong_default_is_named();
    return plan_done();
}
