/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm messages: which process gets those of pages, and what becomes of those of ranks. */
#include <stdlib.h>

#include "kernel/notebook/debugger.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define OPEN(id, value)                                                                            \
    "{\"comm_id\":\"" id "\",\"target_name\":\"jupyter.widget\",\"data\":{\"state\":{"             \
    "\"_model_name\":\"M\",\"value\":" value "},\"buffer_paths\":[]}}"
#define UPDATE(id, value)                                                                          \
    "{\"comm_id\":\"" id "\",\"data\":{\"method\":\"update\",\"state\":{\"value\":" value "}}}"
#define CUSTOM(id) "{\"comm_id\":\"" id "\",\"data\":{\"method\":\"custom\",\"content\":{}}}"

/* A cell on ranks 0 and 1 in which rank 1 opens a widget. */
static void one_widget(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    begin_two(w);
    publishes(w, 3, "comm_open", OPEN("c", "1"));
}

static void served(struct world *w, uint32_t worker, uint64_t cell)
{
    say(w, worker,
        (struct span){ .kind = SPAN_REPLY,
                       .cell = cell,
                       .v[F_REPLY_STATUS].s = slice_text("ok"),
                       .v[F_REPLY_CONTENT].s = slice_text("{}") });
}

static void routes(void)
{
    struct clock clock;
    struct world w;
    uint64_t cell;

    one_widget(&w, &clock);
    ok(logged(&w, "publish comm_open"), "a rank's comm reaches the page");
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    ask(&w, "comm_msg", UPDATE("c", "7"));
    ok(logged(&w, "send COMM 3") && in_order(&w, "busy", "send COMM 3") && !strstr(w.log.p, "idle"),
       "the page's message goes to that rank, and the page waits");
    cell = w.last.cell;
    served(&w, 3, cell);
    ok(logged(&w, "idle") && !w.nb->comms.unanswered, "until the rank has served it");
    buf_clear(&w.log);
    ask(&w, "comm_msg", UPDATE("unknown", "7"));
    ok(logged(&w, "send REQUEST 1"), "home gets the others");
    buf_clear(&w.log);
    ask(&w, "comm_close", "{\"comm_id\":\"c\",\"data\":{}}");
    ok(logged(&w, "send COMM 3") && comms_count(w.nb->comms.table) == 0, "a page may close it");
    world_close(&w);
}

static void control(void)
{
    struct clock clock;
    struct world w;

    one_widget(&w, &clock);
    publishes(&w, SPAN_WORKER_HOME, "comm_open", OPEN("h", "2"));
    publishes(&w, 3, "comm_msg", UPDATE("c", "5"));
    buf_clear(&w.log);
    ask(&w, "comm_info_request", "{}");
    ok(logged(&w, "reply comm_info_reply") && logged(&w, "\"c\":{\"target_name\"") &&
           logged(&w, "\"h\":{\"target_name\"") && !strstr(w.log.p, "send"),
       "comm_info_request is answered while all are busy");
    ask(&w, "comm_open",
        "{\"comm_id\":\"k\",\"target_name\":\"jupyter.widget.control\",\"data\":{}}");
    ask(&w, "comm_msg", "{\"comm_id\":\"k\",\"data\":{\"method\":\"request_states\"}}");
    ok(logged(&w, "update_states") && logged(&w, "\"value\":5") && logged(&w, "\"value\":2") &&
           !strstr(w.log.p, "send"),
       "and so is request_states, from the copies");
    publishes(&w, 3, "comm_open", "{\"comm_id\":\"bad\",\"target_name\":\"jupyter.widget\"}");
    buf_clear(&w.log);
    ask(&w, "comm_msg", "{\"comm_id\":\"k\",\"data\":{\"method\":\"request_states\"}}");
    ok(logged(&w, "update_states") && logged(&w, "\"value\":5") && !strstr(w.log.p, "bad"),
       "a widget without a copy, of a busy rank, does not hide the others");
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    ask(&w, "comm_msg", "{\"comm_id\":\"k\",\"data\":{\"method\":\"request_states\"}}");
    ok(logged(&w, "comm_close"), "of an idle rank, the page asks for it");
    world_close(&w);
}

static void deaths(void)
{
    struct clock clock;
    struct world w;

    one_widget(&w, &clock);
    for (unsigned k = 0; k < 3; k++)
        publishes(&w, 3, k ? "update_display_data" : "display_data",
                  "{\"data\":{\"text/plain\":\"old\",\"application/vnd.jupyter.widget-view+json\":"
                  "{\"model_id\":\"c\"}},\"metadata\":{},\"transient\":{\"display_id\":\"d\"}}");
    ask(&w, "comm_msg", UPDATE("c", "7"));
    buf_clear(&w.log);
    exited(&w, 3, 1, 9);
    ok(logged(&w, "publish comm_close {\"comm_id\":\"c\""), "a dead rank's comms are closed");
    ok(logged(&w, "7 (rank 1 has ended)") && logged(&w, "\"display_id\":\"d\""),
       "its widget's display becomes text");
    is_int(times(&w, "(rank 1 has ended)"), 1, "once, though the rank has updated the display");
    ok(logged(&w, "idle") && !w.nb->comms.unanswered, "nobody waits for its answer any more");
    world_close(&w);
}

#define SHOWS(text) "{\"data\":{\"text/plain\":\"" text "\"},\"metadata\":{},\"transient\":{}}"

/* Each rank shows two displays; those of the ranks come mixed. */
static void displays_stand_by_rank(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    buf_clear(&w.log);
    publishes(&w, 3, "display_data", SHOWS("slider of 1"));
    publishes(&w, 2, "display_data", SHOWS("slider of 0"));
    publishes(&w, 3, "display_data", SHOWS("output of 1"));
    publishes(&w, 2, "display_data", SHOWS("output of 0"));
    pass(&w, NS_PER_S);
    ok(in_order(&w, "slider of 0", "output of 0") && in_order(&w, "output of 0", "slider of 1") &&
           in_order(&w, "slider of 1", "output of 1"),
       "displays that come mixed stand together, by rank");
    ok(in_order(&w, "[1]", "slider of 1") && times(&w, "[1]") == 1 && times(&w, "[0]") == 0,
       "those of a rank have one label, the first rank's none");
    buf_clear(&w.log);
    publishes(&w, 3, "display_data", SHOWS("third of 1"));
    pass(&w, NS_PER_S);
    ok(logged(&w, "third of 1") && times(&w, "[1]") == 0,
       "a later one stands under the same label");
    publishes(&w, 3, "comm_open", OPEN("c", "1"));
    publishes(&w, 3, "display_data", SHOWS("fourth of 1"));
    publishes(&w, 3, "comm_close", "{\"comm_id\":\"c\",\"data\":{}}");
    ok(in_order(&w, "fourth of 1", "publish comm_close"), "a widget is shown before it is closed");
    buf_clear(&w.log);
    publishes(&w, 3, "display_data", SHOWS("last of 1"));
    all_done(&w, 2, 3);
    ok(in_order(&w, "last of 1", "execute_reply"), "all are shown before the cell ends");
    world_close(&w);
}

static void line_of(struct world *w, uint32_t worker, const char *line)
{
    say(w, worker,
        (struct span){ .kind = SPAN_LINES,
                       .v[F_LINES_STREAM].u64 = 1,
                       .v[F_LINES_DATA].s = slice_text(line) });
}

/* Ranks show something, print a line, and show more. */
static void lines_after_displays_wait(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    buf_clear(&w.log);
    line_of(&w, 3, "before\n");
    publishes(&w, 3, "display_data", SHOWS("first of 1"));
    line_of(&w, 3, "between\n");
    line_of(&w, 2, "before\n");
    publishes(&w, 3, "display_data", SHOWS("second of 1"));
    publishes(&w, 2, "display_data", SHOWS("first of 0"));
    line_of(&w, 2, "between\n");
    publishes(&w, 2, "display_data", SHOWS("second of 0"));
    pass(&w, NS_PER_S);
    ok(in_order(&w, "[0-1] before", "first of 0") && in_order(&w, "first of 0", "first of 1"),
       "a line before displays is folded, and a line after one ends no wait");
    ok(in_order(&w, "first of 1", "[0-1] between") && in_order(&w, "between", "second of 0") &&
           in_order(&w, "second of 0", "second of 1"),
       "lines stay between the displays of their ranks");
    buf_clear(&w.log);
    publishes(&w, 3, "display_data", SHOWS("third of 1"));
    line_of(&w, 3, "last\n");
    ok(!logged(&w, "last"), "a line waits");
    for (int i = 0; i < 5; i++)
        pass(&w, NS_PER_S / 10);
    ok(in_order(&w, "third of 1", "last"), "not for long");
    buf_clear(&w.log);
    publishes(&w, 3, "display_data", SHOWS("fourth of 1"));
    line_of(&w, 3, "the end\n");
    all_done(&w, 2, 3);
    ok(in_order(&w, "fourth of 1", "the end") && in_order(&w, "the end", "execute_reply"),
       "all of it is shown before the cell ends");
    world_close(&w);
}

/* Callbacks of two ranks set values in loops, each under a request of its own. */
static void alternating(void)
{
    struct clock clock;
    struct world w;
    uint64_t cell;

    one_widget(&w, &clock);
    publishes(&w, 2, "comm_open", OPEN("b", "1"));
    all_done(&w, 2, 3);
    ask(&w, "comm_msg", UPDATE("c", "7"));
    cell = w.last.cell;
    ask(&w, "comm_msg", UPDATE("b", "7"));
    buf_clear(&w.log);
    for (unsigned k = 0; k < 10 * COMM_SLOT_MAX; k++)
        say(&w, 2 + k % 2,
            (struct span){ .kind = SPAN_PUBLISH,
                           .cell = k % 2 ? cell : w.last.cell,
                           .v[F_PUBLISH_TYPE].s = slice_text("comm_msg"),
                           .v[F_PUBLISH_CONTENT].s = slice_text(k % 2 ? UPDATE("c", "5")
                                                                      : UPDATE("b", "5")) });
    ok(times(&w, "publish comm_msg") <= COMM_SLOT_MAX, "updates of two requests are merged too");
    world_close(&w);
}

/* A rank with very many comms ends: Jupyter's server would drop so many messages at once. */
static void many(void)
{
    struct clock clock;
    struct world w;
    char content[200];
    unsigned slots = 0;

    one_widget(&w, &clock);
    for (unsigned k = 0; k < 4 * COMM_SLOT_MAX; k++) {
        snprintf(content, sizeof content, OPEN("many%u", "1"), k);
        publishes(&w, 3, "comm_open", content);
    }
    buf_clear(&w.log);
    exited(&w, 3, 1, 9);
    ok(times(&w, "publish comm_close") <= COMM_SLOT_MAX && comms_count(w.nb->comms.table) == 0,
       "comms are closed at a rate");
    for (; slots < 9 && w.nb->comms.closing; slots++) {
        const unsigned before = times(&w, "publish comm_close");

        ok(w.due <= w.now + COMM_SLOT_NS, "the next ones are due");
        pass(&w, COMM_SLOT_NS);
        ok(times(&w, "publish comm_close") - before <= COMM_SLOT_MAX, "a few at a time");
    }
    is_int(times(&w, "publish comm_close"), 4 * COMM_SLOT_MAX + 1, "until pages know of all");
    world_close(&w);
}

static void merging(void)
{
    struct clock clock;
    struct world w;
    unsigned sent;

    one_widget(&w, &clock);
    buf_clear(&w.log);
    for (unsigned k = 0; k < 2 * COMM_SLOT_MAX; k++)
        publishes(&w, 3, "comm_msg", UPDATE("c", "5"));
    publishes(&w, 3, "comm_msg", UPDATE("c", "6"));
    sent = (unsigned)times(&w, "publish comm_msg");
    ok(sent <= COMM_SLOT_MAX && !strstr(w.log.p, "\"value\":6"), "too many updates wait");
    publishes(&w, 3, "comm_msg", CUSTOM("c"));
    ok(in_order(&w, "\"value\":6", "custom"), "before another message they leave, as one");
    buf_clear(&w.log);
    publishes(&w, 3, "comm_msg", UPDATE("c", "8"));
    ok(!strstr(w.log.p, "publish"), "the next one waits again");
    pass(&w, COMM_SLOT_NS);
    ok(logged(&w, "\"value\":8"), "until the next slot");
    for (unsigned k = 0; k < 2 * COMM_SLOT_MAX; k++)
        publishes(&w, 3, "comm_msg", UPDATE("c", "9"));
    buf_clear(&w.log);
    all_done(&w, 2, 3);
    ok(in_order(&w, "\"value\":9", "execute_reply"), "before the cell's end all have left");
    world_close(&w);
}

/* Jupyter's server counts messages, but of streams alone their bytes. */
static void large(void)
{
    static char bytes[3 << 20];
    struct span m = { .kind = SPAN_PUBLISH };
    struct slice list[1] = { slice_of(bytes, sizeof bytes) };
    struct clock clock;
    struct world w;

    world_config.server = 1;
    one_widget(&w, &clock);
    output_limit_count(w.nb->output_limit, 100);
    m.cell = w.nb->cells->id;
    m.v[F_PUBLISH_TYPE].s = slice_text("comm_msg");
    m.v[F_PUBLISH_CONTENT].s = slice_text(UPDATE("c", "5"));
    m.v[F_PUBLISH_BUFFERS].list.item = list;
    m.v[F_PUBLISH_BUFFERS].list.n = 1;
    buf_clear(&w.log);
    for (unsigned k = 0; k < 2; k++)
        say(&w, 3, m);
    publishes(&w, 3, "comm_msg", UPDATE("c", "6"));
    is_int(times(&w, "publish comm_msg"), 3, "large updates hold nothing back");
    ok(output_limit_fits(w.nb->output_limit, LIMIT_TEXT, 1900000), "and leave text its room");
    for (unsigned k = 0; k < 2600; k++)
        output_limit_count(w.nb->output_limit, 0);
    publishes(&w, 3, "comm_msg", UPDATE("c", "7"));
    ok(!strstr(w.log.p, "\"value\":7"), "too many messages do");
    world_close(&w);
    world_config.server = 0;
}

static void callbacks(void)
{
    struct clock clock;
    struct world w;
    uint64_t cell;

    one_widget(&w, &clock);
    all_done(&w, 2, 3);
    ask(&w, "comm_msg", UPDATE("c", "7"));
    cell = w.last.cell;
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 3"), "an interrupt reaches a rank's callback");
    run(&w, "%%distribute\npass");
    provide(&w);
    pass(&w, 1);
    buf_clear(&w.log);
    pass(&w, 4 * NS_PER_S);
    ok(!strstr(w.log.p, "INTERRUPT"), "a cell waits a while for a callback");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "send INTERRUPT 3") && !strstr(w.log.p, "send INTERRUPT 2"),
       "then the callback is interrupted");
    pass(&w, 60 * NS_PER_S);
    ok(times(&w, "send INTERRUPT 3") == 1, "once");
    served(&w, 3, cell);
    buf_clear(&w.log);
    ask(&w, "comm_msg", UPDATE("c", "8"));
    pass(&w, 60 * NS_PER_S);
    ok(!strstr(w.log.p, "INTERRUPT"), "what waits for the cell is not interrupted");
    world_close(&w);
}

/* A callback prints without end, a line a message: pages get few messages. */
static void prints(void)
{
    struct clock clock;
    struct world w;

    one_widget(&w, &clock);
    all_done(&w, 2, 3);
    ask(&w, "comm_msg", UPDATE("c", "7"));
    buf_clear(&w.log);
    for (unsigned k = 0; k < 1000; k++)
        say(&w, 3,
            (struct span){ .kind = SPAN_LINES,
                           .v[F_LINES_STREAM].u64 = 1,
                           .v[F_LINES_DATA].s = slice_text("tick\n") });
    ok(times(&w, "publish stream") <= 2, "lines of a callback are gathered");
    pass(&w, NS_PER_S);
    ok(times(&w, "publish stream") <= 4 && times(&w, "tick") > 2, "and shown at a rate");
    served(&w, 3, w.last.cell);
    ok(logged(&w, "idle"), "before the page is told that it is over");
    world_close(&w);
}

/* A cell waits for a callback, and somebody stands at a breakpoint. */
static void breakpoints(void)
{
    struct clock clock;
    struct world w;

    one_widget(&w, &clock);
    all_done(&w, 2, 3);
    ask(&w, "debug_request", "{\"seq\":1,\"type\":\"request\",\"command\":\"debugInfo\"}");
    run(&w, "%%distribute\npass");
    provide(&w);
    w.nb->debugger->since_ns = w.now;
    ask(&w, "comm_msg", UPDATE("c", "7"));
    ok(w.due > w.now, "nothing is due while it stands");
    w.nb->debugger->since_ns = NEVER;
    pass(&w, 1);
    w.nb->debugger->since_ns = w.now;
    w.now += 60 * NS_PER_S;
    buf_clear(&w.log);
    pass(&w, 1);
    pass(&w, 1);
    ok(!w.log.n || !strstr(w.log.p, "INTERRUPT"), "that time does not count");
    pass(&w, 6 * NS_PER_S);
    ok(logged(&w, "send INTERRUPT 3"), "then the limit goes on");
    world_close(&w);
}

/* A machine acknowledges nothing: what pages send to its ranks is not kept without end. */
static void a_machine_that_takes_nothing(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    publishes(&w, 2, "comm_open", OPEN("a", "1"));
    publishes(&w, 5, "comm_open", OPEN("c", "1"));
    buf_clear(&w.log);
    w.node[2].full = true;
    for (unsigned k = 0; k < 100; k++)
        ask(&w, "comm_msg", UPDATE("c", "7"));
    is_int(times(&w, "send COMM 5"), 0, "a page's messages are not sent to its ranks");
    ok(times(&w, "idle") == 100 && !w.nb->comms.unanswered, "and the page does not wait for them");
    is_int(times(&w, "h2 is slow to take what was sent to it"), 1, "a line says so, once");
    pass(&w, 6 * NS_PER_S);
    ask(&w, "comm_msg", CUSTOM("c"));
    is_int(times(&w, "h2 is slow to take what was sent to it"), 2, "and again if it goes on");
    buf_clear(&w.log);
    ask(&w, "comm_msg", UPDATE("a", "7"));
    ok(logged(&w, "send COMM 2"), "ranks on other machines get theirs");
    ask(&w, "comm_open",
        "{\"comm_id\":\"k\",\"target_name\":\"jupyter.widget.control\",\"data\":{}}");
    ask(&w, "comm_msg", "{\"comm_id\":\"k\",\"data\":{\"method\":\"request_states\"}}");
    ok(logged(&w, "\"c\":") && times(&w, "\"value\":7") == 1,
       "what the rank did not get is not in its state");
    buf_clear(&w.log);
    ask(&w, "comm_close", "{\"comm_id\":\"c\",\"data\":{}}");
    ok(logged(&w, "send COMM 5"), "that a comm is closed is told");
    world_close(&w);
}

/* Four idle ranks on two machines, and a client that has switched the debugger on. */
static void open_debugger(struct world *w, struct clock *clock)
{
    struct span m = { .kind = SPAN_DEBUGGED };

    m.v[F_DEBUGGED_MESSAGE].s = slice_text(
        "{\"type\":\"response\",\"request_seq\":1,\"success\":true,\"command\":\"initialize\"}");
    open_two(w, clock);
    w->nb->home.no_debugger = false;
    ask(w, "debug_request",
        "{\"seq\":1,\"type\":\"request\",\"command\":\"initialize\",\"arguments\":{}}");
    say(w, SPAN_WORKER_HOME, m);
}

/* One of its ranks does not start, so the others are killed, and the cell does not wait for that.
 */
static void the_debugger_forgets_the_ranks_of_a_script_that_fails(void)
{
    struct clock clock;
    struct world w;

    open_debugger(&w, &clock);
    ask(&w, "debug_request",
        "{\"seq\":2,\"type\":\"request\",\"command\":\"attach\",\"arguments\":{}}");
    run(&w, "%distribute train.py");
    captured(&w, "{\"names\": [], \"script\": \"print(1)\"}");
    port(&w);
    ready(&w, 6);
    ok(logged(&w, "send DEBUG 6"), "a script's rank is debugged");
    exited(&w, 7, 1, 1);
    ok(is_over(&w, "RankNotStarted") && logged(&w, "send KILL 6 8 9"), "the script fails");
    pass(&w, 60 * NS_PER_S); /* `attach` is over */
    buf_clear(&w.log);
    ask(&w, "debug_request",
        "{\"seq\":3,\"type\":\"request\",\"command\":\"threads\",\"arguments\":{}}");
    is_int(times(&w, "send DEBUG 6"), 0, "then nobody asks it, also before it has ended");
    all_exited(&w, 6, 6);
    world_close(&w);
}

static void a_debugger_of_a_machine_that_takes_nothing(void)
{
    struct clock clock;
    struct world w;

    open_debugger(&w, &clock);
    w.node[2].full = true;
    buf_clear(&w.log);
    ask(&w, "debug_request",
        "{\"seq\":2,\"type\":\"request\",\"command\":\"attach\",\"arguments\":{}}");
    ok(times(&w, "send DEBUG") > 0 && !strstr(w.log.p, "send DEBUG 4") &&
           !strstr(w.log.p, "send DEBUG 5"),
       "the debugger asks ranks of other machines");
    ok(logged(&w, "h2 is slow to take what was sent to it"), "and a line says so");
    world_close(&w);
}

int main(void)
{
    routes();
    control();
    deaths();
    displays_stand_by_rank();
    lines_after_displays_wait();
    many();
    alternating();
    merging();
    large();
    callbacks();
    prints();
    breakpoints();
    a_machine_that_takes_nothing();
    the_debugger_forgets_the_ranks_of_a_script_that_fails();
    a_debugger_of_a_machine_that_takes_nothing();
    return plan_done();
}
