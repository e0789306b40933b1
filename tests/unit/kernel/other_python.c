/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks whose Python has another version than home's. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void versions(void)
{
    struct clock clock;
    struct world w;

    start_two(&w, &clock);
    ready_as(&w, 4, "3.9.18");
    ok(is_over(&w, "rank 2: Python on h2 is 3.9.18, the notebook's is 3.11.7") &&
           logged(&w, "CELLSPAN_REMOTE_PYTHON"),
       "another Python version on a machine fails the cell; the error names both versions and the setting");
    ok(logged(&w, "send KILL 4 5"), "the ranks on that machine are ended");
    buf_clear(&w.log);
    ready_as(&w, 5, "3.9.18");
    ok(!times(&w, "reply"), "a second rank with that version causes no second reply");
    world_close(&w);
}

/* A Python of another version that lacks what a worker needs, or is too old for it. */
static void versions_that_can_not_start(void)
{
    struct span m = { .kind = SPAN_EXITED, .v[F_EXITED_CODE].u64 = EXITED_UNKNOWN };
    struct clock clock;
    struct world w;

    for (unsigned ours = 0; ours < 2; ours++) {
        start_two(&w, &clock);
        m.v[F_EXITED_CAUSE].s = slice_text("py on h2 has no IPython");
        m.v[F_EXITED_STDERR].s = slice_text(ours ? "cellspan: this is Python 3.11.2\n"
                                                 : "why\ncellspan: this is Python 3.12.1\n");
        say(&w, 4, m);
        if (ours)
            ok(is_over(&w, "rank 2 on h2 did not come up: py on h2 has no IPython"),
               "with home's version it is told what is missing");
        else
            ok(is_over(&w, "rank 2: Python on h2 is 3.12.1, the notebook's is 3.11.7"),
               "a Python of another version is named, whatever it lacks");
        world_close(&w);
    }
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    versions();
    versions_that_can_not_start();
    return plan_done();
}
