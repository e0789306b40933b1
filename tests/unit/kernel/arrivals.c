/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives at the notebook of double.h: answers of home and of ranks, nodes that come up or are
 * lost, time that passes. */
#include "tests/unit/kernel/double.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

void captured(struct world *w, const char *names)
{
    struct span m = { .kind = SPAN_CAPTURED, .cell = w->nb->cells ? w->nb->cells->id : 0 };

    m.v[F_CAPTURED_NAMES].s = slice_text(names);
    m.v[F_CAPTURED_WARNINGS].s = slice_text("");
    say(w, SPAN_WORKER_HOME, m);
}

void port(struct world *w)
{
    const uint64_t cell = w->nb->cells ? w->nb->cells->id : 0;

    say(w, SPAN_WORKER_NONE,
        (struct span){ .kind = SPAN_PORT, .cell = cell, .v[F_PORT_PORT].u64 = 20123 });
}

void ready(struct world *w, uint32_t worker)
{
    ready_as(w, worker, "3.11.7");
}

void ready_as(struct world *w, uint32_t worker, const char *python)
{
    struct span m = { .kind = SPAN_READY, .v[F_READY_PID].u64 = 1000 + worker };

    m.v[F_READY_PYTHON].s = slice_text(python);
    m.v[F_READY_INFO].s = slice_text("{}");
    say(w, worker, m);
}

void done(struct world *w, uint32_t worker, const char *status, const char *content,
          const char *result)
{
    struct span m = { .kind = SPAN_DONE, .cell = w->nb->cells ? w->nb->cells->id : 0 };

    m.v[F_DONE_STATUS].s = slice_text(status);
    m.v[F_DONE_CONTENT].s = slice_text(content);
    m.v[F_DONE_RESULT].s = slice_text(result);
    m.v[F_DONE_NOTE].s = slice_text("");
    say(w, worker, m);
}

static void ended(struct world *w, uint32_t worker, uint64_t code, uint64_t status,
                  const char *stack)
{
    struct span m = { .kind = SPAN_EXITED };

    m.v[F_EXITED_PID].u64 = 1000 + worker;
    m.v[F_EXITED_CODE].u64 = code;
    m.v[F_EXITED_STATUS].u64 = status;
    m.v[F_EXITED_CAUSE].s = slice_text("");
    m.v[F_EXITED_STACK].s = slice_text(stack);
    m.v[F_EXITED_STDERR].s = slice_text("last words\n");
    say(w, worker, m);
}

void exited(struct world *w, uint32_t worker, uint64_t code, uint64_t status)
{
    ended(w, worker, code, status, "");
}

void crashed(struct world *w, uint32_t worker, const char *stack)
{
    ended(w, worker, 1, 11, stack);
}

void pass(struct world *w, uint64_t ns)
{
    w->now += ns;
    dispatch_tick(w->nb);
    settle(w);
}

void come(struct world *w, unsigned n)
{
    static const char *const names[WORLD_NODES] = { "here", "h1", "h2", "h3",  "h4",  "h5", "h6",
                                                    "h7",   "h8", "h9", "h10", "h11", "h12" };
    static const char *const addresses[WORLD_NODES] = {
        "",         "10.0.0.1", "10.0.0.2", "10.0.0.3",  "10.0.0.4",  "10.0.0.5", "10.0.0.6",
        "10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12"
    };

    for (unsigned k = w->first; k < w->first + n && k < WORLD_NODES; k++) {
        w->node[k].state = NODE_ASKED;
        w->node[k].engine = w->engine;
        w->node[k].name = names[k];
        w->node[k].address = addresses[k];
    }
    w->nodes = n;
    dispatch_engine(w->nb, w->engine, ENGINE_NODES, "");
}

void up(struct world *w, unsigned node)
{
    w->node[node].state = NODE_UP;
    w->node[node].cores = 4;
    dispatch_up(w->nb, node);
    settle(w);
}

void all_up(struct world *w, unsigned n)
{
    come(w, n);
    for (unsigned k = 0; k < n; k++)
        up(w, w->first + k);
}

void lost(struct world *w, unsigned node, const char *why)
{
    w->node[node].state = NODE_LOST;
    dispatch_lost(w->nb, node, why);
    settle(w);
}

void engine(struct world *w, enum engine_event event, const char *text)
{
    dispatch_engine(w->nb, w->engine, event, text);
}

void said_connections(struct world *w, unsigned node, const char *ends)
{
    struct span m = { .kind = SPAN_CONNECTIONS, .cell = w->nb->cells ? w->nb->cells->id : 0 };

    m.v[F_CONNECTIONS_CONNECTIONS].s = slice_text(ends);
    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

void all_ready(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        ready(w, k);
}

void all_done(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        done(w, k, "ok", "", "");
}

void all_exited(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        exited(w, k, 1, 15);
}

void next(struct world *w, const char *code)
{
    buf_clear(&w->log);
    run(w, code);
}

void provide(struct world *w)
{
    captured(w, "{\"names\": []}");
    port(w);
}

void home_open(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
}

void begin_two(struct world *w)
{
    run(w, "%%distribute -n 2\nprint(1)");
    provide(w);
    all_ready(w, 2, 3);
}

void end_two(struct world *w)
{
    all_done(w, 2, 3);
}

void stack(struct world *w, uint32_t worker, uint64_t cell, const char *text)
{
    struct span m = { .kind = SPAN_STACK, .cell = cell };

    m.v[F_STACK_TEXT].s = slice_text(text);
    say(w, worker, m);
}

void open_two(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    run(w, ON_TWO);
    all_up(w, 2);
    provide(w);
    all_ready(w, 2, 5);
    all_done(w, 2, 5);
    buf_clear(&w->log);
}

void packed(struct world *w, uint64_t cell, const char *error)
{
    struct span m = {
        .kind = SPAN_PACKED, .cell = cell, .blob = w->blob, .blob_size = error[0] ? 0 : 100
    };

    m.v[F_PACKED_ERROR].s = slice_text(error);
    say(w, SPAN_WORKER_HOME, m);
}

void replied(struct world *w, uint64_t cell, const char *status, const char *content)
{
    struct span m = { .kind = SPAN_REPLY, .cell = cell };

    m.v[F_REPLY_STATUS].s = slice_text(status);
    m.v[F_REPLY_CONTENT].s = slice_text(content);
    m.v[F_REPLY_METADATA].s = slice_text("{}");
    say(w, SPAN_WORKER_HOME, m);
}

void called(struct world *w, uint64_t call, const char *text)
{
    struct span m = { .kind = SPAN_CALL, .cell = call };

    m.v[F_CALL_TEXT].s = slice_text(text);
    say(w, SPAN_WORKER_HOME, m);
}

unsigned times(struct world *w, const char *text)
{
    unsigned n = 0;

    for (const char *at = w->log.p; at && (at = strstr(at, text)); at++)
        n++;
    return n;
}

bool sent(struct world *w, const char *text)
{
    const struct slice all = buf_slice(&w->sent);

    for (size_t at = 0; at + strlen(text) <= all.n; at++)
        if (memcmp(all.p + at, text, strlen(text)) == 0)
            return true;
    return false;
}

bool is_over(struct world *w, const char *text)
{
    return !w->nb->cells && times(w, "reply execute_reply") == 1 && logged(w, text);
}

void world_open_idle(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
    begin_two(w);
    done(w, 2, "ok", "", "");
    done(w, 3, "ok", "", "");
    buf_clear(&w->log);
}

void publishes(struct world *w, uint32_t worker, const char *type, const char *content)
{
    say(w, worker,
        (struct span){ .kind = SPAN_PUBLISH,
                       .cell = w->nb->cells ? w->nb->cells->id : 0,
                       .v[F_PUBLISH_TYPE].s = slice_text(type),
                       .v[F_PUBLISH_CONTENT].s = slice_text(content) });
}

void prompted(struct world *w, uint32_t worker, const char *prompt)
{
    say(w, worker, (struct span){ .kind = SPAN_INPUT, .v[F_INPUT_PROMPT].s = slice_text(prompt) });
}

void start_two(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    run(w, ON_TWO);
    all_up(w, 2);
    ready(w, 2);
}
