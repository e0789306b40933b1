/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks and %ranks logs, alone and while another cell runs. */
#include <stdlib.h>
#include <string.h>

#include "protocol/bytes.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* One record of LOGS. */
static void add(struct buf *data, uint32_t rank, const char *text)
{
    struct writer w = writer_of(data);

    writer_u32(&w, rank);
    writer_u32(&w, 1);
    writer_u32(&w, 0);
    writer_u32(&w, (uint32_t)strlen(text));
    writer_bytes(&w, slice_text(text));
    if (writer_end(&w) < 0)
        abort();
}

/* The node's answer about the cell `of`; at, end: what it has told so far, and stored. */
static void tells(struct world *w, uint64_t of, const char *text, uint64_t at, uint64_t end)
{
    const struct cell *c = w->nb->immediate.cells;
    struct span m = { .kind = SPAN_LOGS, .cell = c ? c->id : 0 };
    struct buf data = BUF_INIT;

    if (text)
        add(&data, 0, text);
    m.v[F_LOGS_OF].u64 = of;
    m.v[F_LOGS_AT].u64 = at;
    m.v[F_LOGS_END].u64 = end;
    m.v[F_LOGS_FLAGS].u64 = at < end ? LOGS_MORE : 0;
    m.v[F_LOGS_DATA].s = buf_slice(&data);
    say(w, SPAN_WORKER_NONE, m);
    buf_release(&data);
}

static void shows_while_ranks_run(void)
{
    struct clock clock;
    struct world w;
    uint64_t of;

    world_open(&w, &clock);
    begin_two(&w);
    of = w.nb->cells->id;
    buf_clear(&w.log);
    run(&w, "%ranks logs");
    ok(times(&w, "send LOGS") == 1 && w.nb->cells && !w.nb->queue.n,
       "%%ranks logs does not wait for the cell that runs: the node is asked");
    tells(&w, of, "one\n", 100, 200);
    tells(&w, of, "two\n", 220, 300);
    pass(&w, NS_PER_S);
    ok(logged(&w, "[0] one") && logged(&w, "[0] two"), "what was printed so far is shown");
    ok(times(&w, "send LOGS") == 2 && times(&w, "execute_reply") == 1,
       "and not what is printed meanwhile, which might never end");
    ok(logged(&w, "still runs") && in_order(&w, "still runs", "execute_reply"),
       "a line says that it is not all");
    buf_clear(&w.log);
    run(&w, "%ranks logs -r 1");
    tells(&w, of, NULL, 0, 0);
    ok(logged(&w, "it has printed nothing yet") && times(&w, "execute_reply") == 1,
       "also that there is nothing yet");
    buf_clear(&w.log);
    run(&w, "%ranks logs --cell 99");
    ok(logged(&w, "no such cell ran here") && logged(&w, "publish error") &&
           logged(&w, "\"status\":\"error\"") && !w.nb->immediate.cells,
       "a number that never ran is an error");
    end_two(&w);
    ok(!w.nb->cells, "the cell ends as usual");
    world_close(&w);
}

static void help_does_not_wait(void)
{
    static const char *const lines[] = { "%ranks --help", "%ranks logs -h", "%ranks?",
                                         "%push --help", "%%distribute?" };
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        buf_clear(&w.log);
        run(&w, lines[k]);
        ok(logged(&w, "show this") && logged(&w, "\"status\":\"ok\"") &&
               times(&w, "execute_reply") == 1,
           "%s is answered while a cell runs", lines[k]);
    }
    ok(w.nb->cells && !w.nb->queue.n && !w.nb->immediate.cells, "the cell runs on");
    end_two(&w);
    world_close(&w);
}

static void gauges(struct world *w, const char *workers)
{
    struct span m = { .kind = SPAN_GAUGES };

    m.v[F_GAUGES_GAUGES].s = slice_text(workers);
    say(w, SPAN_WORKER_NONE, m);
}

static void a_rank_is_suspended(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks");
    gauges(&w, "{\"workers\": [{\"worker\": 2, \"suspended\": false}, "
               "{\"worker\": 3, \"suspended\": true}]}");
    ok(in_order(&w, "running", "suspended") && times(&w, "execute_reply") == 1,
       "a rank whose process is stopped does not run, as the table says");
    end_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks");
    gauges(&w, "{\"workers\": [{\"worker\": 2, \"suspended\": true}, "
               "{\"worker\": 3, \"suspended\": false}]}");
    ok(in_order(&w, "suspended", "idle"), "nor is it idle");
    world_close(&w);
}

static void who_waits(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    run(&w, "%%distribute\npass");
    buf_clear(&w.log);
    run(&w, "%ranks logs");
    run(&w, "%ranks");
    ok(!times(&w, "send LOGS") && !times(&w, "send GAUGES") && w.nb->queue.n == 3,
       "behind another cell of its client it waits for its turn");
    w.client = "another";
    run(&w, "%ranks logs");
    run(&w, "%ranks");
    ok(times(&w, "send LOGS") == 1 && times(&w, "send GAUGES") == 1 && w.nb->queue.n == 3,
       "other clients are answered at once, such as the command in a shell");
    run(&w, "%ranks logs --cell {n}");
    ok(w.nb->queue.n == 4, "a line that home has to expand waits");
    world_close(&w); /* what waits is freed */
}

/* `late` arrives while a mistake in this line is answered. */
static void answer_mistake(struct world *w, const char *line, const char *late)
{
    buf_clear(&w->log);
    w->arrives = late;
    run(w, line);
}

static void a_mistake_aborts_what_follows(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    answer_mistake(&w, "%ranks wher", "1 + 1");
    ok(in_order(&w, "drain", "\"status\":\"error\"") && times(&w, "aborted") == 1 &&
           !w.nb->queue.n && w.nb->cells,
       "a mistake aborts the cells that its client has sent after it");
    w.client = "another";
    run(&w, "2 + 2");
    w.client = NULL;
    answer_mistake(&w, "%ranks wher", NULL);
    ok(!times(&w, "aborted") && w.nb->queue.n == 1, "and none of another client");
    run(&w, "3 + 3");
    answer_mistake(&w, "%ranks where -r 9", "4 + 4");
    ok(times(&w, "UsageError") && times(&w, "aborted") == 1 && w.nb->queue.n == 2,
       "nor one that came before it");
    answer_mistake(&w, "%ranks where", "5 + 5");
    ok(w.arrives && !times(&w, "drain"), "what is no mistake aborts nothing");
    world_close(&w);
}

static void nodes_fall_silent(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks logs");
    pass(&w, 10 * NS_PER_S);
    ok(logged(&w, "does not answer") && times(&w, "execute_reply") == 1 && w.nb->cells,
       "a node that does not answer is left out after a while");
    world_close(&w);
    home_open(&w, &clock);
    run(&w, "import time; time.sleep(60)");
    buf_clear(&w.log);
    run(&w, "%ranks logs");
    tells(&w, w.nb->home.executing->cell, NULL, 0, 0);
    ok(logged(&w, "it has printed nothing yet") && times(&w, "execute_reply") == 1,
       "home's cell is no obstacle either");
    called(&w, w.nb->home.executing->cell, "%%distribute -n 2\nf()");
    called(&w, w.nb->home.executing->cell, "%ranks logs");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    pass(&w, 20 * NS_PER_S);
    ok(!w.nb->immediate.cells && !times(&w, "send RETURN"),
       "when home ends, nobody waits for what its threads have asked");
    world_close(&w);
}

int main(void)
{
    shows_while_ranks_run();
    help_does_not_wait();
    a_rank_is_suspended();
    who_waits();
    a_mistake_aborts_what_follows();
    nodes_fall_silent();
    return plan_done();
}
