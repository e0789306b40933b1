/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on other machines: an engine's run that starts, is refused, is interrupted and ends; and on
 * which node each rank is placed. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* ---- it comes ---- */

static void comes(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, ON_TWO);
    ok(logged(&w, "engine ssh (h1,h2) 4") && !times(&w, "START"),
       "the engine is started first, and no rank before its machines are there");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 runs");
    pass(&w, NS_PER_S);
    ok(logged(&w, "cellspan: job 7 waits in the queue") && logged(&w, "job 7 runs"),
       "the engine's messages are shown under the cell");
    ok(times(&w, "waits in the queue") == 1, "a message that the engine repeats is shown once");
    come(&w, 2);
    up(&w, 1);
    ok(!times(&w, "START"), "no rank starts before the last machine is up");
    up(&w, 2);
    ok(logged(&w, "place 2 on 1") && logged(&w, "place 5 on 2"),
       "ranks are placed on the machines in blocks of consecutive numbers");
    ok(logged(&w, "send START 2 3\n") && logged(&w, "send START 4 5\n"),
       "each machine gets a START for its own ranks only");
    ok(logged(&w, "send PORT node 1") && logged(&w, "send CAPTURE 1"),
       "rank 0's machine looks for the free port");
    provide(&w);
    all_ready(&w, 2, 5);
    ok(times(&w, "send RUN") == 2 && sent(&w, "0*2,1*2"),
       "RUN tells all ranks which of them are on which machine");
    ok(sent(&w, "\"MASTER_ADDR\":\"10.0.0.1\"") || sent(&w, "\"MASTER_ADDR\": \"10.0.0.1\""),
       "MASTER_ADDR is an address of rank 0's machine");
    all_done(&w, 2, 5);
    ok(is_over(&w, "\"status\":\"ok\""), "the cell ends well when all ranks are done");
    next(&w, "%%distribute\npass");
    provide(&w);
    ok(!times(&w, "engine ") && !times(&w, "START") && times(&w, "send RUN") == 2,
       "the next cell without --on runs on the same machines");
    all_done(&w, 2, 5);
    next(&w, "%%distribute --on ssh:h1,h2\npass");
    ok(w.nb->cells && !times(&w, "engine "), "the same --on again starts no engine");
    world_close(&w);
}

/* As after a call in fresh processes. */
static void stays_without_ranks(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, ON_TWO);
    come(&w, 2);
    up(&w, 1);
    up(&w, 2);
    provide(&w);
    all_ready(&w, 2, 5);
    all_done(&w, 2, 5);
    next(&w, "%ranks");
    pass(&w, NS_PER_S);
    ok(logged(&w, "group default: 4 ranks") && !times(&w, "holds"),
       "%%ranks with ranks does not name the engine");
    all_exited(&w, 2, 5);
    next(&w, "%ranks");
    pass(&w, NS_PER_S);
    ok(logged(&w, "--on ssh:h1,h2 holds 2 machines since ") &&
           logged(&w, ": %ranks stop frees them"),
       "%%ranks without ranks says what the engine holds, and since when");
    next(&w, "%ranks stop");
    ok(logged(&w, "engine stop 1"), "%%ranks stop ends the engine without ranks, too");
    next(&w, "%ranks");
    ok(!times(&w, "holds"), "then it holds nothing");
    world_close(&w);
}

/* One machine has both families of addresses, the other one of them. */
static void meets(void)
{
    static const struct {
        const char *first, *second, *at;
    } cases[] = {
        { "eth0=10.0.0.1,eth0=fd00::1", "eth0=fd00::2", "\"MASTER_ADDR\":\"fd00::1\"" },
        { "eth0=fd00::1,eth0=10.0.0.1", "eth0=10.0.0.2", "\"MASTER_ADDR\":\"10.0.0.1\"" },
        { "eth0=10.0.0.1,eth0=fd00::1", "eth0=10.0.0.2,eth0=fd00::2",
          "\"MASTER_ADDR\":\"10.0.0.1\"" },
        { "eth0=10.0.0.1", "eth0=fd00::2", "\"MASTER_ADDR\":\"10.0.0.1\"" },
        { NULL, "eth0=fd00::2", "\"MASTER_ADDR\":\"10.0.0.1\"" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct clock clock;
        struct world w;

        home_open(&w, &clock);
        run(&w, ON_TWO);
        come(&w, 2);
        w.node[1].addresses = cases[i].first;
        w.node[2].addresses = cases[i].second;
        up(&w, 1);
        up(&w, 2);
        provide(&w);
        all_ready(&w, 2, 5);
        ok(sent(&w, cases[i].at), "%s and %s meet at %s",
           cases[i].first ? cases[i].first : "(unknown)", cases[i].second, cases[i].at);
        ok(i > 0 || sent(&w, "[fd00::1]:"), "an IPv6 address before a port has brackets");
        world_close(&w);
    }
}

static void absences(struct world *w)
{
    buf_clear(&w->log);
    w->first += 2;
    run(w, "%%distribute --on ssh:a,b,c,d\npass");
    come(w, 4);
    up(w, w->first);
    lost(w, w->first + 1, "it does not answer");
    lost(w, w->first + 2, "it does not answer");
    ok(!times(w, "reply execute_reply"),
       "after a machine has failed, the cell waits a moment for others that fail");
    pass(w, 2 * NS_PER_S);
    ok(is_over(w, "h4, h5 did not come up: it does not answer") && logged(w, "engine stop"),
       "the error names all machines that failed, and a common reason once");
    buf_clear(&w->log);
    w->first -= 2;
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first + 1, "it refuses the login");
    lost(w, w->first, "it does not answer");
    ok(is_over(w,
               "h1, h2 did not come up:\\n  h1: it does not answer\\n  h2: it refuses the login"),
       "machines with different reasons have a line each; no waiting when all have failed");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first,
         "h1: cellspan-agent ended with status 3: cellspan-agent on h1 can't reach the kernel");
    lost(w, w->first + 1,
         "h2: cellspan-agent ended with status 3: cellspan-agent on h2 can't reach the kernel");
    ok(is_over(
           w,
           "h1, h2 did not come up: cellspan-agent ended with status 3: cellspan-agent can't reach the kernel\""),
       "a machine's name is not repeated in the reason");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it refuses the login (ssh: me@10.0.0.1: Permission denied)");
    lost(w, w->first + 1, "it refuses the login (ssh: me@10.0.0.2: Permission denied)");
    ok(is_over(
           w,
           "h1, h2 did not come up: it refuses the login (ssh: me@10.0.0.1: Permission denied)\""),
       "reasons that differ only in ssh's details count as one");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    dispatch_interrupt(w->nb);
    ok(is_over(w, "KeyboardInterrupt"), "an interrupt ends the waiting for machines");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    engine(w, ENGINE_FAILED, "exit status 1");
    ok(is_over(w, "h1 did not come up: it does not answer"),
       "the end of the engine ends the waiting for machines, and the failed machine is named");
}

/* However many there are. */
static void many_absences(void)
{
    static const char *const why[] = { "it does not answer", "it refuses the login" };
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, "%%distribute --on ssh:a*12\npass");
    come(&w, 12);
    for (unsigned k = 12; k-- > 0;)
        lost(&w, w.first + k, why[k % 6 == 1]);
    ok(is_over(&w, "h1, h2, h3, h4, h5, h6, h7, h8 and 4 more did not come up:"
                   "\\n  h1, h3, h4, h5, h6, h7, h9, h10 and 2 more: it does not answer"
                   "\\n  h2, h8: it refuses the login"),
       "of many failed machines only the first are named, also for each reason");
    next(&w, "%%distribute --on ssh:a*12\npass");
    come(&w, 12);
    for (unsigned k = 0; k < 12; k++) {
        char own[16];

        snprintf(own, sizeof own, "reason %u", k);
        lost(&w, w.first + k, own);
    }
    ok(is_over(&w, "\\n  h7: reason 6\\n  h8: reason 7\\n  and 4 more, for other reasons"),
       "of many reasons only the first are given");
    world_close(&w);
}

static void refusals(void)
{
    struct clock clock;
    struct world w;
    char words[8001] = "";

    home_open(&w, &clock);
    w.no_engine = true;
    run(&w, "%%distribute --on nosuch\npass");
    ok(is_over(&w, "EngineError") && logged(&w, "there is no engine nosuch"),
       "the error names an engine that does not exist");
    ok(!w.nb->group->on, "an engine that does not exist is not the group's place afterwards");
    w.no_engine = false;
    next(&w, "%%distribute -n 2\npass");
    ok(is_over(&w, "nosuch did not come up: write --on again (--on local") && !times(&w, "START"),
       "after a failed --on, a cell without --on is refused and starts nothing");
    next(&w, "%%distribute --on slurm:--partition=x\npass");
    ok(logged(&w, "engine slurm (--partition=x) 0"), "another --on may follow at once");
    engine(&w, ENGINE_FAILED, "sbatch: invalid partition x");
    ok(is_over(&w, "invalid partition x") && !times(&w, "engine stop"),
       "the error quotes an engine that failed, and it need not be stopped");
    next(&w, ON_TWO);
    come(&w, 2);
    up(&w, 1);
    lost(&w, 2, "h2: Connection refused");
    ok(is_over(&w, "h2 did not come up: Connection refused") && logged(&w, "engine stop 2"),
       "the error names a machine that was lost before it was up, and the engine is stopped");
    absences(&w);
    next(&w, "%%distribute --on local:here\npass");
    ok(is_over(&w, "takes nothing after the colon"), "--on local:x is refused");
    buf_clear(&w.log);
    memset(words, 'x', 1);
    for (size_t k = 1; k + 2 < sizeof words; k += 2)
        memcpy(words + k, "\u00e9", 2);
    memcpy(words + sizeof words - sizeof " its end.", " its end.", sizeof " its end.");
    run(&w, "%%distribute --on slurm:--partition=x\npass");
    engine(&w, ENGINE_FAILED, words);
    ok(is_over(&w, "\"evalue\":\"x\u00e9") && logged(&w, "\u00e9 its end.\""),
       "a long message of an engine is shown to its last word, which says most");
    world_close(&w);
}

/* What home has changed in its environment goes to the engine, which therefore starts after home's
 * answer. */
static void environments(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.captures = "";
    run(&w, "%%distribute -n 1 --on ray\npass");
    ok(times(&w, "send CAPTURE 1") == 1 && !times(&w, "engine "), "home is asked first");
    captured(&w, "{\"names\": [], \"env\": {\"A\": \"1\", \"B\": null}}");
    ok(logged(&w, "engine ray () 1 {\"A\":\"1\",\"B\":null}"),
       "what it has set and deleted goes to the engine");
    come(&w, 1);
    up(&w, 1);
    port(&w);
    all_ready(&w, 2, 2);
    ok(times(&w, "send CAPTURE") == 1 && times(&w, "send RUN") == 1, "home is asked once");
    all_done(&w, 2, 2);
    next(&w, "%ranks stop");
    exited(&w, 2, 0, 0);
    next(&w, "%%distribute -n 1 --on ray\npass");
    captured(&w, "{\"error\": \"CaptureError: x was not sent\"}");
    ok(is_over(&w, "CaptureError") && !times(&w, "engine "),
       "no engine starts for a cell that can't run");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute --on slurm\npass");
    dispatch_interrupt(w.nb);
    ok(is_over(&w, "KeyboardInterrupt") && logged(&w, "engine stop 1"),
       "an interrupt stops an engine that is still starting");
    up(&w, 1);
    engine(&w, ENGINE_FAILED, "cancelled");
    ok(times(&w, "reply execute_reply") == 1 && !w.nb->cells,
       "later messages of that engine change nothing");
    next(&w, "%%distribute\npass");
    ok(is_over(&w, "slurm did not come up: write --on again"),
       "the next cell without --on is refused and does not run on this machine");
    next(&w, "%ranks stop");
    next(&w, "%%distribute -n 1\npass");
    ok(logged(&w, "send START 2\n"),
       "after %%ranks stop, a cell without --on runs on this machine");
    next(&w, "%ranks stop");
    all_exited(&w, 2, 2);
    next(&w, "%%distribute --timeout 5 --on slurm\npass");
    pass(&w, 6 * NS_PER_S);
    ok(is_over(&w, "TimeoutError") && logged(&w, "engine stop 2"),
       "--timeout stops an engine that is still starting");
    next(&w, "%%distribute --on slurm\npass");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    pass(&w, 3600 * NS_PER_S);
    ok(w.nb->cells || times(&w, "engine stop 3") == 1,
       "an engine that waits in a queue has no time limit");
    world_close(&w);
}

static void moves(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute --on ssh:h3\npass");
    ok(is_over(&w, "--on ssh:h3: the ranks are on ssh:h1,h2 (--fresh"),
       "another --on is refused; the error names both places and --fresh");
    w.no_engine = true;
    next(&w, "%%distribute --fresh --on shh:h3\npass");
    ok(is_over(&w, "there is no engine shh") && !logged(&w, "send KILL"),
       "--fresh with an engine that does not exist ends no ranks");
    w.no_engine = false;
    next(&w, "%%distribute -n 1 --fresh --on ssh:h3\nx");
    captured(&w, "{\"error\": \"CaptureError: x was not sent\"}");
    ok(is_over(&w, "x was not sent") && !logged(&w, "send KILL"),
       "--fresh with a variable that can't be sent ends no ranks");
    next(&w, "%%distribute\npass");
    provide(&w);
    all_done(&w, 2, 5);
    ok(!logged(&w, "send START"), "the next cell runs on the old ranks");
    next(&w, "%%distribute -n 2 --fresh --on ssh:h3\npass");
    ok(logged(&w, "send CAPTURE 1") && !logged(&w, "send KILL"),
       "--fresh asks home first whether the variables can be sent");
    captured(&w, "{\"names\": []}");
    ok(logged(&w, "send KILL 2 3 4 5") && !times(&w, "engine "),
       "after home's answer the old ranks are ended, and the engine is not touched before that");
    w.first = 3;
    all_exited(&w, 2, 5);
    ok(in_order(&w, "engine stop 1", "engine ssh (h3) 2"),
       "when the ranks have ended, the old engine is stopped and the new one started");
    all_up(&w, 1);
    ok(logged(&w, "place 6 on 3") && logged(&w, "send START 6 7"),
       "the new ranks are placed on the new engine's machine");
    provide(&w);
    all_ready(&w, 6, 7);
    ok(sent(&w, "\"127.0.0.1\"") && sent(&w, "0*2"),
       "MASTER_ADDR is 127.0.0.1 if all ranks are on one machine");
    all_done(&w, 6, 7);
    next(&w, "%%distribute --fresh\npass");
    captured(&w, "{\"names\": []}");
    all_exited(&w, 6, 7);
    ok(!times(&w, "engine ") && logged(&w, "send START 8 9"),
       "--fresh without --on keeps the engine and starts new ranks");
    provide(&w);
    all_ready(&w, 8, 9);
    all_done(&w, 8, 9);
    ok(!logged(&w, "new: "), "after --fresh no line says that new ranks have missed cells");
    next(&w, "%ranks stop");
    all_exited(&w, 8, 9);
    ok(is_over(&w, "engine stop 2") && !w.nb->group->on,
       "%%ranks stop stops the engine when the ranks have ended");
    next(&w, "%%distribute -n 1\npass");
    ok(logged(&w, "send START 10\n") && !times(&w, "engine ") && !times(&w, "place "),
       "the next cell without --on starts its ranks on this machine");
    world_close(&w);
}

static void scripts(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%distribute --cwd sub train.py 3");
    captured(&w, "{\"names\": [], \"script\": \"print(1)\"}");
    port(&w);
    ok(logged(&w, "send START 6 7") && logged(&w, "send START 8 9") && logged(&w, "place 6 on 1") &&
           logged(&w, "place 8 on 2"),
       "a script gets new ranks, beside the group's ranks");
    all_ready(&w, 6, 9);
    ok(times(&w, "send RUN") == 2 && sent(&w, "print(1)") && sent(&w, "[\"train.py\",\"3\"]"),
       "RUN carries the script's text and arguments");
    ok(sent(&w, "0*2,1*2"), "the script's ranks are placed on the same machines as the group's");
    all_done(&w, 6, 9);
    ok(w.nb->cells && logged(&w, "send KILL 6 7 8 9"),
       "after DONE the script's processes are told to end");
    pass(&w, 13 * NS_PER_S);
    ok(is_over(&w, "left behind"),
       "processes that do not end are left behind after a time limit, and the cell ends");
    next(&w, "%distribute -r 2 train.py");
    provide(&w);
    ok(logged(&w, "send START 10\n") && logged(&w, "place 10 on 2"),
       "with -r, the one rank of a script is placed where it would be in the whole world");
    all_ready(&w, 10, 10);
    ok(sent(&w, "0*2,1*2"), "its RUN has the layout of the whole world");
    lost(&w, 2, "silence");
    ok(is_over(&w, "RankDied"), "the loss of its machine fails the script's cell");
    world_close(&w);
}

/* ---- who is where ---- */

static void slots(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.node[1].slots = 1;
    w.node[2].slots = 3;
    run(&w, "%%distribute --on ssh:h1,h2*3\npass");
    all_up(&w, 2);
    ok(logged(&w, "place 2 on 1") && logged(&w, "send START 3 4 5\n"),
       "without -n there are as many ranks as slots, placed by the slots");
    provide(&w);
    all_ready(&w, 2, 5);
    ok(sent(&w, "0*1,1*3"), "the layout shows an uneven number of ranks for each machine");
    all_done(&w, 2, 5);
    next(&w, "%%distribute -n 5\npass");
    ok(is_over(&w, "-n 5: there is room for 4 ranks (h1: 1, h2: 3)") && !times(&w, "START"),
       "more ranks than slots are refused");
    world_close(&w);
}

static void grows(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute -n 6\npass");
    ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 2") && !times(&w, "engine "),
       "more ranks are placed evenly on the same machines");
    provide(&w);
    all_ready(&w, 6, 7);
    ok(sent(&w, "0*2,1*2,0*1,1*1"), "in the larger world, living ranks keep their places");
    all_done(&w, 2, 7);
    buf_clear(&w.log);
    exited(&w, 4, 1, 9);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "place 8 on 2"), "a rank that died is started on its old machine again");
    world_close(&w);
}

/* ---- in containers ---- */

static void images(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, "%%distribute --in img\npass");
    ok(is_over(&w, "ranks on this machine run where the notebook does") && !times(&w, "START"),
       "ranks of this machine have no image");
    next(&w, "%%distribute --on ray --in img\npass");
    ok(is_over(&w, "ranks of --on ray can't run in it") && !times(&w, "engine "),
       "nor those of other engines than ssh and slurm");
    next(&w, "%%distribute --on slurm --in=--x\npass");
    ok(is_over(&w, "it begins with a -"), "an option is no image");
    next(&w, "%%distribute -n 1 --on ssh:h1 --in img\npass");
    ok(logged(&w, "engine ssh (h1) in img 1"), "the engine is told of it");
    all_up(&w, 1);
    provide(&w);
    all_ready(&w, 2, 2);
    all_done(&w, 2, 2);
    next(&w, "%%distribute --in other\npass");
    ok(is_over(&w, "--in other: the ranks are in img (--fresh ends them"),
       "ranks stay where they are");
    next(&w, "%%distribute --in none\npass");
    ok(is_over(&w, "--in none: the ranks are in img"), "also if the cell wants none");
    next(&w, "%%distribute --fresh --in none\npass");
    captured(&w, "{\"names\": []}");
    w.first = 2;
    all_exited(&w, 2, 2);
    ok(in_order(&w, "engine stop 1", "engine ssh (h1) 0"), "but with --fresh");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    comes();
    stays_without_ranks();
    meets();
    many_absences();
    refusals();
    images();
    environments();
    interrupts();
    moves();
    scripts();
    slots();
    grows();
    return plan_done();
}
