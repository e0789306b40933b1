/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/kernel/thread_calls.h"

#include <stdio.h>

void call(struct world *w, uint64_t number, const char *line, const char *looked)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };
    char text[128];

    snprintf(text, sizeof text, "%s\nf()", line);
    m.v[F_CALL_TEXT].s = slice_text(text);
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_FUNCTION | CALL_ASYNC;
    m.v[F_CALL_CALL].u64 = number;
    m.v[F_CALL_NAMES].s = slice_text(looked);
    m.v[F_CALL_LOAD].s = slice_text("(f, (), {})");
    say(w, SPAN_WORKER_HOME, m);
}

void call_on(struct world *w, uint64_t number, const char *ranks)
{
    char line[64];

    snprintf(line, sizeof line, "%%%%distribute -r %s", ranks);
    call(w, number, line, "{\"names\": []}");
}

struct cell *running(const struct world *w, uint64_t call)
{
    CELLS_EACH (c, w->nb)
        if (c->from.call == call)
            return c;
    return NULL;
}

unsigned cells(const struct world *w)
{
    unsigned n = 0;

    CELLS_EACH (c, w->nb)
        n++;
    return n;
}

void ends_with(struct world *w, uint64_t call, uint32_t worker, uint64_t flags)
{
    struct span m = { .kind = SPAN_DONE, .cell = running(w, call) ? running(w, call)->id : 0 };

    m.v[F_DONE_STATUS].s = slice_text("ok");
    m.v[F_DONE_CONTENT].s = slice_text("{}");
    m.v[F_DONE_VALUE].s = slice_text("one");
    m.v[F_DONE_FLAGS].u64 = flags;
    say(w, worker, m);
}

void ends(struct world *w, uint64_t call, uint32_t worker)
{
    ends_with(w, call, worker, 0);
}

void open_four(struct world *w, struct clock *clock)
{
    open_two(w, clock);
    run(w, "pool.map(f, range(4))");
    buf_clear(&w->log);
}

void open_with_two(struct world *w, struct clock *clock)
{
    open_four(w, clock);
    call_on(w, 7, "0");
    port(w);
    call_on(w, 8, "2-3");
}

void end_at_home(struct world *w)
{
    replied(w, w->nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
}

void open_in_background(struct world *w, struct clock *clock)
{
    open_with_two(w, clock);
    end_at_home(w);
}
