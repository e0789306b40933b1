/* SPDX-License-Identifier: BSD-3-Clause */
/* Subshells: their own queues beside the main shell's, and what happens when they are deleted,
 * interrupted or without home. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define ONE "run-1" /* the first one's id */

static void open_one(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    ask(w, "create_subshell_request", "{}");
    ok(logged(w, "send SUBSHELL 1") && !times(w, "create_subshell_reply"),
       "home makes the thread before the reply");
    replied(w, w->last.cell, "ok", "{\"status\":\"ok\",\"subshell_id\":\"" ONE "\"}");
    ok(logged(w, "reply create_subshell_reply {\"status\":\"ok\",\"subshell_id\":\"" ONE "\"}"),
       "the reply has the id");
    buf_clear(&w->log);
}

static void cell_in(struct world *w, const char *id, const char *code)
{
    char content[256];

    snprintf(content, sizeof content, "{\"code\":\"%s\"}", code);
    ask_in(w, id, "execute_request", content);
}

static void prints(struct world *w, uint64_t cell, const char *content)
{
    struct span m = { .kind = SPAN_PUBLISH, .cell = cell };

    m.v[F_PUBLISH_TYPE].s = slice_text("stream");
    m.v[F_PUBLISH_CONTENT].s = slice_text(content);
    m.v[F_PUBLISH_METADATA].s = slice_text("{}");
    say(w, SPAN_WORKER_HOME, m);
}

static void runs_beside_the_main_shell(void)
{
    struct clock clock;
    struct world w;
    uint64_t main, first;

    open_one(&w, &clock);
    run(&w, "main");
    main = w.nb->home.executing->cell;
    cell_in(&w, ONE, "first");
    first = w.nb->home.subshells.first->executing->cell;
    ok(times(&w, "send REQUEST") == 1 && times(&w, "send SUBSHELL") == 1 && first != main,
       "both shells' cells run at once");
    ok(logged(&w, "\"execution_count\":2") && w.nb->home.executing->count == 1,
       "they are numbered together");
    cell_in(&w, ONE, "second");
    ok(times(&w, "send SUBSHELL") == 1, "a second cell of the subshell waits");
    ask_in(&w, ONE, "complete_request", "{\"code\":\"x\"}");
    ok(times(&w, "send SUBSHELL") == 2, "a completion does not");
    prints(&w, first, "{\"name\":\"stderr\",\"text\":\"hi\"}");
    ok(logged(&w, "publish stream {\"name\":\"stderr\",\"text\":\"hi\"}"), "its text is shown");
    prints(&w, first, "{\"name\":\"stdout\",\"text\":\"last\"}");
    buf_clear(&w.log);
    replied(&w, first, "ok", "{\"status\":\"ok\"}");
    ok(in_order(&w, "last", "reply execute_reply") &&
           in_order(&w, "execute_reply", "send SUBSHELL"),
       "the last of it before the reply; then the second cell runs");
    ok(dispatch_is_occupied(w.nb) == OCCUPIED, "the kernel is busy with both");
    replied(&w, main, "ok", "{\"status\":\"ok\"}");
    ok(dispatch_is_occupied(w.nb) == OCCUPIED_SUBSHELLS, "with the subshell's cell");
    world_close(&w);
}

static void an_error_aborts_its_own_queue(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    run(&w, "main");
    run(&w, "main's next");
    cell_in(&w, ONE, "fails");
    cell_in(&w, ONE, "behind");
    buf_clear(&w.log);
    replied(&w, w.nb->home.subshells.first->executing->cell, "error", "{\"status\":\"error\"}");
    ok(times(&w, "aborted") == 1 && w.nb->queue.n == 1 && !w.nb->home.subshells.first->executing,
       "only the cells that wait in the same subshell are aborted");
    world_close(&w);
}

static void deleted(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    ask(&w, "list_subshell_request", "{}");
    ok(logged(&w, "\"subshell_id\":[\"" ONE "\"]"), "it is listed");
    cell_in(&w, ONE, "runs");
    cell_in(&w, ONE, "waits");
    buf_clear(&w.log);
    ask(&w, "delete_subshell_request", "{\"subshell_id\":\"" ONE "\"}");
    ok(in_order(&w, "aborted", "reply delete_subshell_reply {\"status\":\"ok\"}") &&
           logged(&w, "send SUBSHELL"),
       "one that is busy: answered at once, and what waits is aborted");
    cell_in(&w, ONE, "late");
    ok(logged(&w, "Unknown subshell_id '" ONE "'") && !logged(&w, "publish error"),
       "it takes no cell any more");
    ask(&w, "list_subshell_request", "{}");
    ok(logged(&w, "\"subshell_id\":[]"), "it is not listed any more");
    replied(&w, w.nb->home.subshells.first->executing->cell, "ok", "{\"status\":\"ok\"}");
    ok(times(&w, "reply execute_reply {\"status\":\"ok\"}") == 1 && !w.nb->home.subshells.first,
       "its cell ends, and then it is gone");
    ask(&w, "create_subshell_request", "{}");
    replied(&w, w.last.cell, "ok", "{}");
    buf_clear(&w.log);
    ask(&w, "delete_subshell_request", "{\"subshell_id\":\"run-2\"}");
    ok(!times(&w, "delete_subshell_reply") && !w.nb->home.subshells.first,
       "one that is idle: the reply waits for its thread's end");
    replied(&w, w.last.cell, "ok", "{\"status\":\"ok\"}");
    ok(logged(&w, "reply delete_subshell_reply {\"status\":\"ok\"}"), "and comes then");
    ask(&w, "delete_subshell_request", "{\"subshell_id\":\"run-2\"}");
    ok(logged(&w, "Unknown subshell_id 'run-2'"), "an unknown id is an error");
    world_close(&w);
}

static void deleted_while_its_cell_fails(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    cell_in(&w, ONE, "fails");
    cell_in(&w, ONE, "behind");
    buf_clear(&w.log);
    w.deletes = ONE;
    replied(&w, w.nb->home.subshells.first->executing->cell, "error", "{\"status\":\"error\"}");
    ok(logged(&w, "kept") && times(&w, "aborted") == 1 &&
           times(&w, "reply execute_reply {\"status\":\"error\"}") == 1,
       "a subshell that is deleted while its cell's error is handled stays until then");
    ok(!w.nb->home.subshells.first, "and is gone afterwards");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    cell_in(&w, ONE, "runs");
    run(&w, "main");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(times(&w, "send INTERRUPT") == 1 && !times(&w, "send SUBSHELL"),
       "an interrupt is for the main shell's cell");
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(!times(&w, "send INTERRUPT") && times(&w, "send SUBSHELL") == 1 &&
           sent(&w, "interrupt_request"),
       "if that is idle, for the subshells' cells");
    world_close(&w);
}

static void without_home(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    cell_in(&w, ONE, "runs");
    cell_in(&w, ONE, "waits");
    ask(&w, "create_subshell_request", "{}");
    buf_clear(&w.log);
    exited(&w, SPAN_WORKER_HOME, EXITED_STATUS, 3);
    ok(logged(&w, "reply execute_reply") && logged(&w, "aborted") &&
           logged(&w, "reply create_subshell_reply"),
       "when home dies, all its requests are answered");
    ask(&w, "list_subshell_request", "{}");
    ok(logged(&w, "\"subshell_id\":[\"" ONE "\"]"),
       "a subshell stays, but one that was not made yet");
    ready(&w, SPAN_WORKER_HOME);
    buf_clear(&w.log);
    cell_in(&w, ONE, "again");
    ok(times(&w, "send SUBSHELL") == 1, "the next home gets its cells");
    world_close(&w);
}

static void prompts_stay(void)
{
    struct span m = { .kind = SPAN_INPUT, .v[F_INPUT_ID].u64 = 1 };
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    cell_in(&w, ONE, "input()");
    m.cell = w.nb->home.subshells.first->executing->cell;
    m.v[F_INPUT_PROMPT].s = slice_text("name? ");
    say(&w, SPAN_WORKER_HOME, m);
    run(&w, "main");
    ok(logged(&w, "ask name? ") && w.nb->prompts.first,
       "a prompt of a subshell's cell stays when the main shell begins a cell");
    world_close(&w);
}

static void comms(void)
{
    struct clock clock;
    struct world w;

    open_one(&w, &clock);
    run(&w, "main");
    buf_clear(&w.log);
    ask_in(&w, ONE, "comm_msg", "{\"comm_id\":\"c\"}");
    ask_in(&w, "no such", "comm_msg", "{\"comm_id\":\"c\"}");
    ok(!times(&w, "send") && w.nb->queue.n == 2,
       "comm messages wait for the main shell, whatever subshell they name");
    w.nb->home.subshells.comms = true;
    ask_in(&w, ONE, "comm_msg", "{\"comm_id\":\"c\"}");
    ok(times(&w, "send SUBSHELL") == 1, "unless the setting says otherwise");
    world_close(&w);
}

/* The first of these comm messages comes while home runs a cell, the second one later. */
static void comms_stay_in_order(void)
{
    struct clock clock;
    struct world w;
    struct span m = { .kind = SPAN_CALL };

    open_one(&w, &clock);
    run(&w, "main");
    run(&w, "%%distribute -n 2\n1");
    ask(&w, "comm_msg", "{\"comm_id\":\"first\"}");
    buf_clear(&w.log);
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    ok(w.nb->cells && w.nb->queue.n == 0 && logged(&w, "send REQUEST 1"),
       "one that waits goes to home when a cell on ranks begins");
    world_close(&w);
    open_one(&w, &clock);
    cell_in(&w, ONE, "%%distribute -n 2\\n1");
    run(&w, "main");
    ask(&w, "comm_msg", "{\"comm_id\":\"first\"}");
    m.cell = w.nb->home.subshells.first->executing->cell;
    m.v[F_CALL_TEXT].s = slice_text("%%distribute -n 2\n1");
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_ASYNC;
    m.v[F_CALL_CALL].u64 = 7;
    say(&w, SPAN_WORKER_HOME, m);
    ask(&w, "comm_msg", "{\"comm_id\":\"second\"}");
    ok(w.nb->cells && w.nb->queue.n == 2 && w.nb->home.executing,
       "a subshell's cell on ranks lets none overtake what waits for the main shell's");
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    ok(w.nb->queue.n == 0 && sent(&w, "second"), "they go when that has ended");
    world_close(&w);
}

static void calls(void)
{
    struct clock clock;
    struct world w;
    struct span m = { .kind = SPAN_CALL };

    open_one(&w, &clock);
    cell_in(&w, ONE, "%%distribute -n 2\\n1");
    ok(times(&w, "send SUBSHELL") == 1 && !w.nb->cells,
       "a distributed cell of a subshell goes to its thread");
    m.cell = w.nb->home.subshells.first->executing->cell;
    m.v[F_CALL_TEXT].s = slice_text("%%distribute -n 2\n1");
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_ASYNC;
    m.v[F_CALL_CALL].u64 = 7;
    say(&w, SPAN_WORKER_HOME, m);
    ok(w.nb->cells && w.nb->cells->from.count == 1,
       "and is a call of that thread, with its number");
    run(&w, "main");
    ok(w.nb->home.executing, "the main shell begins its cells while ranks start for it");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 1") && logged(&w, "send RETURN"), "an interrupt ends both");
    world_close(&w);
}

int main(void)
{
    runs_beside_the_main_shell();
    an_error_aborts_its_own_queue();
    deleted();
    deleted_while_its_cell_fails();
    interrupts();
    without_home();
    prompts_stay();
    comms();
    comms_stay_in_order();
    calls();
    return plan_done();
}
