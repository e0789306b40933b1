/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that come late or twice, steps that take too long, messages that can't be sent: cells
 * end nevertheless. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void late_and_twice(void)
{
    struct clock clock;
    struct world w;
    uint64_t old;

    world_open_idle(&w, &clock);
    run(&w, "%%distribute\nx");
    old = w.nb->cells->id;
    captured(&w, CAPTURES_X);
    captured(&w, CAPTURES_X);
    port(&w);
    port(&w);
    ready(&w, 2);
    ok(times(&w, "send PACK") == 1, "a second CAPTURED or PORT has no effect");
    packed(&w, old, "");
    packed(&w, old, "");
    ok(times(&w, "send BIND") == 1 && times(&w, "send RUN") == 2, "a second PACKED has no effect");
    done(&w, 2, "ok", "", "");
    done(&w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    ready(&w, 2);
    ok(w.nb->cells && w.nb->group->rank[1].state == RANK_BUSY,
       "a second DONE of a rank has no effect");
    done(&w, 3, "ok", "", "");
    ok(is_over(&w, "\"status\":\"ok\""), "the cell's result is that of the first DONEs");
    buf_clear(&w.log);
    say(&w, 3,
        (struct span){ .kind = SPAN_DONE,
                       .cell = old,
                       .blob = 55,
                       .blob_size = 10,
                       .v[F_DONE_STATUS].s = { "ok", 2 } });
    say(&w, 99,
        (struct span){ .kind = SPAN_DONE,
                       .cell = old,
                       .blob = 56,
                       .blob_size = 10,
                       .v[F_DONE_STATUS].s = { "ok", 2 } });
    ok(times(&w, "drop ") == 2,
       "a value for a cell that is over is dropped, also from an unknown worker");
    replied(&w, old, "ok", "{}");
    exited(&w, 99, 0, 0);
    ok(times(&w, "reply") == 0, "late messages cause no reply");
    world_close(&w);
}

static void nobody_to_answer(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    prompted(&w, 2, "name? ");
    exited(&w, 2, 1, 9);
    ask(&w, "input_reply", "{\"value\":\"Ada\"}");
    ok(!times(&w, "INPUT_REPLY"), "the answer to a prompt of a dead rank is sent to nobody");
    world_close(&w);
}

static void too_long(void)
{
    const size_t size = 17u << 20;
    char *code = malloc(size + 1);
    struct clock clock;
    struct world w;

    if (!code)
        abort();
    memset(code, 'a', size);
    code[size] = '\0';
    memcpy(code, "%%distribute\n", 13);
    world_open_idle(&w, &clock);
    run(&w, code);
    ok(!w.nb->cells && times(&w, "reply execute_reply {\"ename\":\"RuntimeError\"") == 1,
       "a cell that is too long to be sent fails");
    memcpy(code, "%%distribute --cwd /", 20);
    memcpy(code + 5000, "\npass", 6);
    buf_clear(&w.log);
    run(&w, code);
    if (w.nb->cells) {
        captured(&w, "{\"names\": []}");
        port(&w);
    }
    ok(!w.nb->cells && times(&w, "\"status\":\"error\"") == 1,
       "a cell with a --cwd that is too long to be sent fails");
    ok(w.nb->group->rank[0].state == RANK_IDLE, "the ranks of that cell are idle afterwards");
    free(code);
    world_close(&w);
}

/* What can be sent to some ranks only. */
static void half_way(void)
{
    static const char stopped[] =
        "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}";
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    w.stuck = SPAN_RUN;
    w.leave = 1;
    run(&w, "%%distribute --gather\n1");
    captured(&w, "{\"names\": []}");
    port(&w);
    ok(times(&w, "send RUN 2\n") == 1 && times(&w, "send INTERRUPT 2\n") == 1,
       "if RUN can't be sent to rank 1, rank 0, which has got it, is interrupted");
    ok(w.nb->cells && !times(&w, "execute_reply") && w.nb->group->rank[0].state == RANK_BUSY,
       "the cell waits until rank 0 has stopped");
    ok(w.nb->group->rank[1].state == RANK_IDLE, "rank 1, which did not get RUN, stays idle");
    done(&w, 2, "error", stopped, "");
    ok(is_over(&w, "the agent on h1 can't be reached") && times(&w, "publish error") == 1,
       "the cell's only error says why RUN could not be sent");
    buf_clear(&w.log);
    w.leave = 0;
    run(&w, "%%distribute\n1");
    captured(&w, "{\"names\": []}");
    port(&w);
    ok(is_over(&w, "the agent on h1 can't be reached") && !times(&w, "send INTERRUPT"),
       "if RUN could be sent to no rank, no rank is interrupted");
    buf_clear(&w.log);
    w.stuck = SPAN_FETCH;
    w.leave = 1;
    run(&w, "%pull x");
    captured(&w, "{\"names\": []}");
    ok(logged(&w, "send INTERRUPT 2\n"), "if FETCH can't be sent to rank 1, rank 0 is interrupted");
    done(&w, 2, "error", stopped, "");
    ok(is_over(&w, "the agent on h1 can't be reached"), "that %%pull ends with the reason");
    world_close(&w);
}

/* A driver or a file system may hold a process for ever. */
static void stuck(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    dispatch_interrupt(w.nb);
    w.now += 2 * NS_PER_S;
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send KILL 2 3"), "a second interrupt kills both ranks (the test's condition)");
    exited(&w, 3, 1, 9);
    pass(&w, 9 * NS_PER_S);
    ok(w.nb->cells != NULL, "a killed process that lives is waited for");
    pass(&w, 2 * NS_PER_S);
    ok(is_over(&w, "rank 0 (pid 1002 on here) did not end 10 s after it was killed"),
       "after 10 s the cell ends and names the process that lives");
    exited(&w, 2, 1, 9);
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send START 4 5"), "the next cell starts new processes");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 4);
    ready(&w, 5);
    done(&w, 4, "ok", "", "");
    done(&w, 5, "ok", "", "");
    buf_clear(&w.log);
    run(&w, "%ranks stop");
    ok(logged(&w, "send KILL 4 5"), "%%ranks stop ends them");
    exited(&w, 4, 1, 15);
    pass(&w, 13 * NS_PER_S);
    ok(is_over(&w, "rank 1 (pid 1005 on here) did not end"),
       "%%ranks stop also ends after the time limit, and names the process that lives");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    late_and_twice();
    nobody_to_answer();
    too_long();
    half_way();
    stuck();
    return plan_done();
}
