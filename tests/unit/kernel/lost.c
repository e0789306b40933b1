/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on other machines that are lost, in each state of a cell; and connections that are cut so
 * that collectives return. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define INTERRUPTED "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}"

/* ---- machines are lost ---- */

static void lost_while_running(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    lost(&w, 2, "it was not heard of for 10 s");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 2 on h2 is gone: it was not heard of for 10 s (pid 1004)") &&
           logged(&w, "on ranks 2-3 of 4"),
       "when a machine is lost, its ranks count as dead; the error names them and the host once");
    ok(logged(&w, "send INTERRUPT 2 3"), "the ranks on other machines are interrupted");
    done(&w, 2, "error", INTERRUPTED, "");
    done(&w, 3, "error", INTERRUPTED, "");
    ok(is_over(&w, "RankDied"), "the cell ends with RankDied when the other ranks have stopped");
    next(&w, "%%distribute\npass");
    ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 1") && !times(&w, "engine "),
       "the next cell starts the lost ranks on the machine that is left");
    pass(&w, NS_PER_S);
    ok(logged(&w, "h2 is lost: ranks 2-3 start on h1"), "a line says where they start");
    world_close(&w);
}

/* Another machine comes in place of a lost one. */
static void replaced(void)
{
    struct clock clock;
    struct world w;

    for (unsigned comes = 0; comes < 2; comes++) {
        open_two(&w, &clock);
        run(&w, "%%distribute\npass");
        provide(&w);
        lost(&w, 2, "its container ended");
        w.node[3] = (struct node){ .number = 3,
                                   .state = NODE_ASKED,
                                   .engine = w.engine,
                                   .index = 1,
                                   .name = "h3",
                                   .address = "10.0.0.3",
                                   .addresses = "eth0=10.0.0.3" };
        dispatch_replaced(w.nb, 2, 3);
        done(&w, 2, "error", INTERRUPTED, "");
        done(&w, 3, "error", INTERRUPTED, "");
        ok(is_over(&w, "RankDied"), "a cell that runs on the old one ends");
        next(&w, "%%distribute\npass");
        pass(&w, NS_PER_S);
        ok(!times(&w, "START") && times(&w, "the cell waits for it") == 1,
           "the next cell waits for the new one, and says so once");
        if (!comes) {
            lost(&w, 3, "it did not come up");
            ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 1"),
               "if it does not come, ranks start on the machine that is left");
        } else {
            up(&w, 3);
            ok(logged(&w, "place 6 on 3") && logged(&w, "place 7 on 3") && !times(&w, "engine "),
               "the lost ranks start on it");
        }
        ok(times(&w, "START") == 1, "and no others");
        world_close(&w);
    }
}

/* A machine acknowledges nothing. */
static void full(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    w.node[2].full = true;
    run(&w, "%%distribute --ranks 0-1\npass");
    provide(&w);
    ok(logged(&w, "send RUN 3"), "a cell on another machine does not wait for it");
    done(&w, 0 + 2, "ok", "{}", "");
    done(&w, 3, "ok", "{}", "");
    next(&w, "%%distribute\npass");
    provide(&w);
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, "send RUN") && times(&w, "h2 is slow to take what was sent to it") == 1,
       "a cell that needs it waits, and says so once");
    w.node[2].full = false;
    pass(&w, 300 * NS_PER_MS);
    provide(&w);
    ok(logged(&w, "send RUN 3 4 5"), "until there is room again");
    world_close(&w);
    open_two(&w, &clock);
    w.node[2].full = true;
    run(&w, "%%distribute\npass");
    provide(&w);
    lost(&w, 2, "it was not heard of for 10 s");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "place 6 on 1"), "if it is lost, ranks start on the machine that is left");
    world_close(&w);
    open_two(&w, &clock);
    w.node[2].full = true;
    run(&w, "%%distribute\npass");
    provide(&w);
    ask(&w, "interrupt_request", "{}");
    ok(is_over(&w, "KeyboardInterrupt"), "an interrupt ends the cell that waits");
    world_close(&w);
}

/* Whoever tells of it names the machine; the user reads that once. */
static void named_once(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    lost(
        &w, 2,
        "h2: cellspan-agent ended with status 137: cellspan-agent on h2 was killed by signal 9 (Killed)");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(
           &w,
           "rank 2 on h2 is gone: cellspan-agent ended with status 137: cellspan-agent was killed by signal 9 (Killed) (pid 1004)"),
       "the machine's name is removed from its agent's last message");
    world_close(&w);
    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    lost(&w, 2, "cellspan-agent on h21 said something");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 2 on h2 is gone: cellspan-agent on h21 said something (pid 1004)"),
       "the name of another machine is not removed");
    world_close(&w);
}

/* The last line of a launcher says how it ended. */
static void its_last_line_is_shown(void)
{
    static const char end[] = "\nmpirun ended with status 1";
    struct clock clock;
    struct world w;
    char words[6001];

    for (unsigned idle = 0; idle < 2; idle++) {
        memset(words, 'x', sizeof words);
        memcpy(words + sizeof words - sizeof end, end, sizeof end);
        open_two(&w, &clock);
        run(&w, "%%distribute\npass");
        provide(&w);
        if (idle)
            all_done(&w, 2, 5);
        lost(&w, 2, words);
        pass(&w, NS_PER_S);
        ok(logged(&w, idle ? "mpirun ended with status 1 (pid 1004) (no cell was running on it)"
                           : "mpirun ended with status 1 (pid 1004)"),
           "of a long reason the end is shown too%s", idle ? ", also when no cell runs" : "");
        world_close(&w);
    }
}

static void lost_without_room(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.node[1].slots = w.node[2].slots = 1;
    run(&w, "%%distribute --on ssh:h1*1,h2*1\npass");
    all_up(&w, 2);
    provide(&w);
    all_ready(&w, 2, 3);
    all_done(&w, 2, 3);
    lost(&w, 2, "it was not heard of for 10 s");
    pass(&w, NS_PER_S);
    ok(logged(&w, "rank 1 on h2 is gone") && logged(&w, "no cell was running on it"),
       "the loss of a machine whose ranks are idle is reported");
    next(&w, "%%distribute\npass");
    ok(logged(&w, "send KILL 2\n"),
       "if the other machines have no room, the ranks that are left are ended");
    w.first = 3;
    exited(&w, 2, 1, 15);
    ok(in_order(&w, "engine stop 1", "engine ssh (h1*1,h2*1) 2"),
       "then the engine is stopped and started again");
    w.node[3].slots = w.node[4].slots = 1;
    all_up(&w, 2);
    pass(&w, NS_PER_S);
    ok(logged(&w, "is started again, and the variables of all ranks are gone"),
       "a line says that the variables of all ranks are gone");
    captured(&w, "{\"names\": []}");
    ok(times(&w, "send CAPTURE") == 1, "home looks for the cell's variables only once");
    port(&w);
    all_ready(&w, 4, 5);
    ok(times(&w, "send RUN") == 2 && logged(&w, "place 5 on 4"), "the cell runs on the new ranks");
    world_close(&w);
}

static void lost_while_starting(void)
{
    struct clock clock;
    struct world w;

    start_two(&w, &clock);
    lost(&w, 2, "it was powered off");
    ok(is_over(&w, "RankNotStarted") && logged(&w, "it was powered off"),
       "a machine that is lost while its ranks start fails the cell, with the reason");
    buf_clear(&w.log);
    w.silent = true;
    run(&w, ON_TWO);
    ok(w.nb->cells && times(&w, "send GPUS") == 0,
       "the machine that is left is not asked for GPUs again, since it has none");
    world_close(&w);
    world_open(&w, &clock);
    w.silent = true;
    run(&w, ON_TWO);
    all_up(&w, 2);
    lost(&w, 2, "it was powered off");
    w.silent = false;
    captured(&w, "{\"names\": []}");
    ok(w.nb->cells && logged(&w, "send START 2 3 4 5"),
       "if a machine is lost before ranks are placed, they are all placed on the other one");
    world_close(&w);
}

static void lost_all(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    engine(&w, ENGINE_FAILED, "Slurm ended job 7: TIMEOUT");
    pass(&w, 300 * NS_PER_MS);
    ok(is_over(&w, "rank 0 on h1 is gone: Slurm ended job 7: TIMEOUT"),
       "when an engine ends, all its ranks count as dead, with the engine's reason");
    buf_clear(&w.log);
    w.first = 3;
    run(&w, "%%distribute\npass");
    ok(logged(&w, "engine ssh (h1,h2) 4") && !times(&w, "engine stop"),
       "the next cell starts the engine again, and need not stop it");
    w.node[3].name = w.node[4].name = "";
    all_up(&w, 2);
    provide(&w);
    all_ready(&w, 6, 9);
    all_done(&w, 6, 9);
    pass(&w, NS_PER_S);
    ok(is_over(&w, "their variables are gone"), "a line says that the ranks' variables are gone");
    buf_clear(&w.log);
    lost(&w, 3, "x");
    lost(&w, 4, "x");
    w.first = 5;
    run(&w, "%%distribute\npass");
    ok(in_order(&w, "engine stop 2", "engine ssh (h1,h2) 4"),
       "when every machine is lost, the next cell stops the engine and starts it again");
    world_close(&w);
}

/* The connections of both have ended. Why, the engine will say. */
static void lost_soon(void)
{
    struct clock clock;
    struct world w;

    for (unsigned fresh = 0; fresh < 2; fresh++) {
        open_two(&w, &clock);
        w.node[1].leaving = w.node[2].leaving = true;
        run(&w, fresh ? "%%distribute --fresh\npass" : "%%distribute\npass");
        ok(w.nb->cells && !times(&w, "send "), "nothing is sent to machines that are lost soon");
        lost(&w, 1, "the session was stopped");
        lost(&w, 2, "the session was stopped");
        captured(&w, "{\"names\": []}");
        ok(in_order(&w, "engine stop 1", "engine ssh (h1,h2) "),
           "the cell waits until they are, and starts the engine again");
        world_close(&w);
    }
    open_two(&w, &clock);
    w.node[1].leaving = true;
    run(&w, "%%distribute\npass");
    dispatch_interrupt(w.nb);
    ok(is_over(&w, "KeyboardInterrupt"), "an interrupt ends the waiting");
    next(&w, "%ranks stop");
    all_exited(&w, 2, 5);
    ok(is_over(&w, "engine stop 1"), "%%ranks stop does not wait for it");
    world_close(&w);
}

/* The cell does not run there, but needs a port of it. */
static void the_machine_of_rank_0(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute -r 2-3\npass");
    captured(&w, "{\"names\": []}");
    ok(logged(&w, "send PORT node 1"), "rank 0's machine is asked for a port");
    lost(&w, 1, "it fell over");
    ok(is_over(&w, "h1, the machine of rank 0, was lost before the cell ran: run the cell again"),
       "a cell does not wait for a lost machine's port");
    world_close(&w);
    open_two(&w, &clock);
    run(&w, "%%distribute -r 2-3\npass");
    captured(&w, "{\"names\": []}");
    pass(&w, START_LIMIT_NS + NS_PER_S);
    ok(is_over(&w, "h1, the machine of rank 0, did not say in 120 s which port is free"),
       "nor for ever for one that is silent");
    world_close(&w);
}

static void lost_while_stopping(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%ranks stop");
    all_exited(&w, 2, 3);
    lost(&w, 2, "it fell over");
    ok(is_over(&w, "engine stop 1"),
       "%%ranks stop also ends when the machine of stopping ranks is lost");
    world_close(&w);
}

/* ---- collectives are cut ---- */

/* Ends and connections, as long as they are, in letters. */
#define ONE     "one-one-one-one-11"
#define TWO     "two-two-two-two-22"
#define TRACKER "tracker-tracker-33"
/* The letters of two addresses as IPv6. */
#define TWO_IP     "7477:6f2d:7477:6f2d:7477:6f2d:7477:6f2d"
#define TRACKER_IP "docker0=7472:6163:6b65:722d:7472:6163:6b65:722d"

static void cuts(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    done(&w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    pass(&w, 300 * NS_PER_MS);
    buf_clear(&w.log);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "send CUT_RANKS 2 3\n") && logged(&w, "send CUT_RANKS 4 5\n"),
       "before connections are cut, each machine is asked for the ends of its ranks' connections");
    said_connections(&w, 1, ONE TWO ONE TRACKER);
    ok(times(&w, "send CUT_RANKS") == 2, "nothing is cut before the last machine has answered");
    said_connections(&w, 2, TWO ONE);
    ok(times(&w, "send CUT_RANKS") == 4 && sent(&w, ONE TWO),
       "then each machine is told the connections between the machines");
    ok(!sent(&w, TRACKER), "a connection whose other end is at none of these ranks is not cut");
    world_close(&w);
    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    done(&w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    pass(&w, 300 * NS_PER_MS);
    pass(&w, 300 * NS_PER_MS);
    buf_clear(&w.log);
    said_connections(&w, 1, ONE TWO ONE TRACKER);
    pass(&w, 1000 * NS_PER_MS);
    ok(times(&w, "send CUT_RANKS") == 0, "a machine that has not answered yet is waited for");
    pass(&w, 300 * NS_PER_MS);
    ok(times(&w, "send CUT_RANKS") == 2 && sent(&w, ONE TWO ONE TRACKER),
       "after a time limit, the cut is sent, and the silent machine gets all connections");
    said_connections(&w, 2, TWO ONE);
    ok(times(&w, "send CUT_RANKS") == 2, "a late answer has no effect");
    world_close(&w);
}

/* A machine that fell silent can't say its ends, and does not close them either. */
static void cuts_what_leads_to_silence(void)
{
    struct clock clock;
    struct world w;

    for (int silent = 0; silent < 2; silent++) {
        open_two(&w, &clock);
        w.node[1].addresses = "eth0=10.0.0.1," TRACKER_IP;
        w.node[2].addresses = "eth0=10.0.0.2," TRACKER_IP ",eth1=" TWO_IP;
        w.node[2].may_hold_connections = silent;
        run(&w, "%%distribute\npass");
        provide(&w);
        lost(&w, 2, "it was not heard of");
        pass(&w, 300 * NS_PER_MS);
        buf_clear(&w.log);
        pass(&w, 300 * NS_PER_MS);
        ok(times(&w, "send CUT_RANKS 2 3\n") == 1,
           silent ? "who is left is asked for its ends" : "who is left cuts what it sees");
        said_connections(&w, 1, ONE TWO ONE TRACKER);
        is_int(times(&w, "send CUT_RANKS"), 1 + silent,
               "the number of CUT_RANKS messages that follow is right");
        ok(sent(&w, TWO ONE) == silent && !sent(&w, TRACKER),
           silent
               ? "those to the silent machine are cut, but none to an address that others have, too"
               : "the connections of one that could say goodbye are closed already");
        world_close(&w);
    }
}

/* n connections of the node to nobody that we know, and one more. */
static char *many(char node, size_t n, const char *last)
{
    char *text = malloc(36 * n + strlen(last) + 1);

    if (!text)
        abort();
    for (size_t k = 0; k < n; k++)
        snprintf(text + 36 * k, 37, "%c-%016u%018u", node, (unsigned)k, (unsigned)k);
    strcpy(text + 36 * n, last);
    return text;
}

static void begin_cut(struct world *w, struct clock *clock, const char *ends[3])
{
    home_open(w, clock);
    run(w, "%%distribute -n 3 --on ssh:h1,h2,h3\npass");
    all_up(w, 3);
    provide(w);
    all_ready(w, 2, 4);
    done(w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    pass(w, 300 * NS_PER_MS);
    pass(w, 300 * NS_PER_MS);
    buf_clear(&w->log);
    for (unsigned k = 0; k < 3; k++)
        if (ends[k])
            said_connections(w, k + 1, ends[k]);
}

/* Three machines with 1.5 MiB of connections, and a message holds 1 MiB. */
static void cuts_many(void)
{
    char *one = many('a', 20000, ONE TWO), *two = many('b', 20000, TWO ONE),
         *full = many('c', 29126, ONE TWO);
    const char *all[3] = { one, two, one }, *late[3] = { one, two, NULL },
               *most[3] = { full, two, two };
    struct clock clock;
    struct world w;

    begin_cut(&w, &clock, all);
    ok(times(&w, "send CUT_RANKS") == 3 && !times(&w, "can be cut"),
       "three machines with many connections are each sent one cut");
    ok(sent(&w, TWO ONE), "the connection between them is in it");
    world_close(&w);
    begin_cut(&w, &clock, late);
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send CUT_RANKS") == 3 &&
           logged(&w, "more connections between the machines than can be cut"),
       "a machine that has not answered gets as many connections as a message holds, and the user is told that there are more");
    world_close(&w);
    begin_cut(&w, &clock, most);
    ok(times(&w, "send CUT_RANKS") == 3 &&
           logged(&w, "more connections between the machines than can be cut"),
       "a machine with more connections than a message holds is reported, too");
    world_close(&w);
    free(one);
    free(two);
    free(full);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    the_machine_of_rank_0();
    lost_while_running();
    replaced();
    full();
    named_once();
    its_last_line_is_shown();
    lost_without_room();
    lost_while_starting();
    lost_all();
    lost_soon();
    lost_while_stopping();
    cuts();
    cuts_what_leads_to_silence();
    cuts_many();
    return plan_done();
}
