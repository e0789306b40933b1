/* Ranks on other machines: an engine's run that starts, is refused, is interrupted and ends; and on
 * which node each rank is placed. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define GPU    "{\"uuid\":\"GPU-1\",\"leased_by\":null}"
#define LEASED "{\"uuid\":\"GPU-2\",\"leased_by\":\"pid 7\"}"

/* ---- it comes ---- */

static void comes(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, ON_TWO);
    ok(logged(&w, "engine ssh (h1,h2) 4") && !times(&w, "START"),
       "the engine is started, and ranks wait for it");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 runs");
    pass(&w, NS_PER_S);
    ok(logged(&w, "cellspan: job 7 waits in the queue") && logged(&w, "job 7 runs"),
       "what it says is shown");
    ok(times(&w, "waits in the queue") == 1, "once where it repeats itself");
    come(&w, 2);
    up(&w, 1);
    ok(!times(&w, "START"), "the last machine is waited for");
    up(&w, 2);
    ok(logged(&w, "place 2 on 1") && logged(&w, "place 5 on 2"), "then ranks are placed in blocks");
    ok(logged(&w, "send START 2 3\n") && logged(&w, "send START 4 5\n"),
       "and each machine is told of its own");
    ok(logged(&w, "send PORT node 1") && logged(&w, "send CAPTURE 1"),
       "the port is asked of rank 0's machine");
    provide(&w);
    all_ready(&w, 2, 5);
    ok(times(&w, "send RUN") == 2 && sent(&w, "0*2,1*2"), "all get the layout");
    ok(sent(&w, "\"MASTER_ADDR\":\"10.0.0.1\"") || sent(&w, "\"MASTER_ADDR\": \"10.0.0.1\""),
       "and meet where all reach rank 0");
    all_done(&w, 2, 5);
    ok(is_over(&w, "\"status\":\"ok\""), "and the cell ends");
    next(&w, "%%distribute\npass");
    provide(&w);
    ok(!times(&w, "engine ") && !times(&w, "START") && times(&w, "send RUN") == 2,
       "the next cell needs no --on");
    all_done(&w, 2, 5);
    next(&w, "%%distribute --on ssh:h1,h2\npass");
    ok(w.nb->cell && !times(&w, "engine "), "and may give the same");
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
        ok(i > 0 || sent(&w, "[fd00::1]:"), "with brackets where a port follows");
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
    ok(!times(w, "reply execute_reply"), "for a moment others may fail as well");
    pass(w, 2 * NS_PER_S);
    ok(is_over(w, "h4, h5 did not come up: it does not answer") && logged(w, "engine stop"),
       "and all are named, a reason once");
    buf_clear(&w->log);
    w->first -= 2;
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first + 1, "it refuses the login");
    lost(w, w->first, "it does not answer");
    ok(is_over(w,
               "h1, h2 did not come up:\\n  h1: it does not answer\\n  h2: it refuses the login"),
       "or each with its own, in their order, at once when none is left");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first,
         "h1: cellspan-agent ended with status 3: cellspan-agent on h1 can't reach the kernel");
    lost(w, w->first + 1,
         "h2: cellspan-agent ended with status 3: cellspan-agent on h2 can't reach the kernel");
    ok(is_over(
           w,
           "h1, h2 did not come up: cellspan-agent ended with status 3: cellspan-agent can't reach the kernel\""),
       "and each machine once, whoever names it");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it refuses the login (ssh: me@10.0.0.1: Permission denied)");
    lost(w, w->first + 1, "it refuses the login (ssh: me@10.0.0.2: Permission denied)");
    ok(is_over(
           w,
           "h1, h2 did not come up: it refuses the login (ssh: me@10.0.0.1: Permission denied)\""),
       "a reason of many is said once, whatever ssh says of each");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    dispatch_interrupt(w->nb);
    ok(is_over(w, "KeyboardInterrupt"), "an interrupt ends the wait");
    next(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    engine(w, ENGINE_FAILED, "exit status 1");
    ok(is_over(w, "h1 did not come up: it does not answer"), "and so does the end of the engine");
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
       "of many the first are named, behind each reason too");
    next(&w, "%%distribute --on ssh:a*12\npass");
    come(&w, 12);
    for (unsigned k = 0; k < 12; k++) {
        char own[16];

        snprintf(own, sizeof own, "reason %u", k);
        lost(&w, w.first + k, own);
    }
    ok(is_over(&w, "\\n  h7: reason 6\\n  h8: reason 7\\n  and 4 more, for other reasons"),
       "and the first reasons");
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
       "an engine that is not there is named");
    ok(!w.nb->group->on, "and is not where the next cell is");
    w.no_engine = false;
    next(&w, "%%distribute -n 2\npass");
    ok(is_over(&w, "nosuch did not come up: write --on again (--on local") && !times(&w, "START"),
       "nor does it run where the user did not ask for it");
    next(&w, "%%distribute --on slurm:--partition=x\npass");
    ok(logged(&w, "engine slurm (--partition=x) 0"), "another may be tried at once");
    engine(&w, ENGINE_FAILED, "sbatch: invalid partition x");
    ok(is_over(&w, "invalid partition x") && !times(&w, "engine stop"),
       "one that refuses is quoted, and is gone by itself");
    next(&w, ON_TWO);
    come(&w, 2);
    up(&w, 1);
    lost(&w, 2, "h2: Connection refused");
    ok(is_over(&w, "h2 did not come up: Connection refused") && logged(&w, "engine stop 2"),
       "a machine that never comes is named");
    absences(&w);
    next(&w, "%%distribute --on local:here\npass");
    ok(is_over(&w, "takes nothing after the colon"), "local takes no specification");
    buf_clear(&w.log);
    memset(words, 'x', 1);
    for (size_t k = 1; k + 2 < sizeof words; k += 2)
        memcpy(words + k, "\u00e9", 2);
    run(&w, "%%distribute --on slurm:--partition=x\npass");
    engine(&w, ENGINE_FAILED, words);
    ok(is_over(&w, "\"evalue\":\"x\u00e9"), "long words are cut, but within no character");
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
       "an interrupt ends what is still starting");
    up(&w, 1);
    engine(&w, ENGINE_FAILED, "cancelled");
    ok(times(&w, "reply execute_reply") == 1 && !w.nb->cell, "and nobody minds what it says later");
    next(&w, "%%distribute\npass");
    ok(is_over(&w, "slurm did not come up: write --on again"),
       "nor is anything run elsewhere instead");
    next(&w, "%ranks stop");
    next(&w, "%%distribute -n 1\npass");
    ok(logged(&w, "send START 2\n"), "before %%ranks stop, after which all begins anew");
    next(&w, "%ranks stop");
    all_exited(&w, 2, 2);
    next(&w, "%%distribute --timeout 5 --on slurm\npass");
    pass(&w, 6 * NS_PER_S);
    ok(is_over(&w, "TimeoutError") && logged(&w, "engine stop 2"), "so does --timeout");
    next(&w, "%%distribute --on slurm\npass");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    pass(&w, 3600 * NS_PER_S);
    ok(w.nb->cell || times(&w, "engine stop 3") == 1, "a queue may take its time");
    world_close(&w);
}

static void moves(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute --on ssh:h3\npass");
    ok(is_over(&w, "--on ssh:h3: the ranks are on ssh:h1,h2 (--fresh"),
       "another --on names both, and the way out");
    w.no_engine = true;
    next(&w, "%%distribute --fresh --on shh:h3\npass");
    ok(is_over(&w, "there is no engine shh") && !logged(&w, "send KILL"),
       "one that is not there ends no ranks");
    w.no_engine = false;
    next(&w, "%%distribute -n 1 --fresh --on ssh:h3\nx");
    captured(&w, "{\"error\": \"CaptureError: x was not sent\"}");
    ok(is_over(&w, "x was not sent") && !logged(&w, "send KILL"),
       "nor does a variable that can't travel");
    next(&w, "%%distribute\npass");
    provide(&w);
    all_done(&w, 2, 5);
    ok(!logged(&w, "send START"), "and all goes on with the ranks that there are");
    next(&w, "%%distribute -n 2 --fresh --on ssh:h3\npass");
    ok(logged(&w, "send CAPTURE 1") && !logged(&w, "send KILL"),
       "home says first what it can send");
    captured(&w, "{\"names\": []}");
    ok(logged(&w, "send KILL 2 3 4 5") && !times(&w, "engine "), "which ends the ranks");
    w.first = 3;
    all_exited(&w, 2, 5);
    ok(in_order(&w, "engine stop 1", "engine ssh (h3) 2"), "then the engine, and starts the other");
    all_up(&w, 1);
    ok(logged(&w, "place 6 on 3") && logged(&w, "send START 6 7"),
       "on whose machines the ranks start");
    provide(&w);
    all_ready(&w, 6, 7);
    ok(sent(&w, "\"127.0.0.1\"") && sent(&w, "0*2"), "a world on one machine meets there");
    all_done(&w, 6, 7);
    next(&w, "%%distribute --fresh\npass");
    captured(&w, "{\"names\": []}");
    all_exited(&w, 6, 7);
    ok(!times(&w, "engine ") && logged(&w, "send START 8 9"), "--fresh alone keeps the allocation");
    provide(&w);
    all_ready(&w, 8, 9);
    all_done(&w, 8, 9);
    ok(!logged(&w, "new: "), "and nobody misses what ran before");
    next(&w, "%ranks stop");
    all_exited(&w, 8, 9);
    ok(is_over(&w, "engine stop 2") && !w.nb->group->on, "%%ranks stop gives it back");
    next(&w, "%%distribute -n 1\npass");
    ok(logged(&w, "send START 10\n") && !times(&w, "engine ") && !times(&w, "place "),
       "and the next ranks are here");
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
       "a script has ranks of its own, beside those of the same numbers");
    all_ready(&w, 6, 9);
    ok(times(&w, "send RUN") == 2 && sent(&w, "print(1)") && sent(&w, "[\"train.py\",\"3\"]"),
       "the text of a script goes along");
    ok(sent(&w, "0*2,1*2"), "its world stands where they stand");
    all_done(&w, 6, 9);
    ok(w.nb->cell && logged(&w, "send KILL 6 7 8 9"), "who has said DONE is to end");
    pass(&w, 13 * NS_PER_S);
    ok(is_over(&w, "left behind"), "who can't is left behind");
    next(&w, "%distribute -r 2 train.py");
    provide(&w);
    ok(logged(&w, "send START 10\n") && logged(&w, "place 10 on 2"),
       "one that takes part alone stands where it belongs");
    all_ready(&w, 10, 10);
    ok(sent(&w, "0*2,1*2"), "in a world of all");
    lost(&w, 2, "silence");
    ok(is_over(&w, "RankDied"), "with its machine it is lost");
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
       "slots say how many there are, and where");
    provide(&w);
    all_ready(&w, 2, 5);
    ok(sent(&w, "0*1,1*3"), "unevenly as well");
    all_done(&w, 2, 5);
    next(&w, "%%distribute -n 5\npass");
    ok(is_over(&w, "-n 5: there is room for 4 ranks (h1: 1, h2: 3)") && !times(&w, "START"),
       "and more are refused");
    world_close(&w);
}

static void gpus(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.gpus[1] = "{\"gpus\":[" GPU "," LEASED "]}";
    w.gpus[2] = "{\"gpus\":[" GPU "]}";
    run(&w, "%%distribute -n 3 --on ssh:h1,h2\npass");
    all_up(&w, 2);
    ok(logged(
           &w,
           "-n 3: there are 2 GPUs (h1: 1 free of 2; held: GPU 0 by pid 7, h2: 1) for 3 ranks; --no-gpu runs without GPUs, --share"),
       "too few GPUs are counted, and what helps is said");
    ok(!w.nb->cell && !times(&w, "START") && !times(&w, "engine stop"),
       "nothing starts, and the machines stay");
    next(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "send START 2\n") && logged(&w, "send START 3\n"),
       "-n gpu is one for each on all machines");
    provide(&w);
    all_ready(&w, 2, 3);
    ok(sent(&w, "CELLSPAN_GPUS"), "and they know that they have one");
    all_done(&w, 2, 3);
    next(&w, "%%distribute\npass");
    ok(!times(&w, "send GPUS"), "nobody is asked where nobody starts");
    provide(&w);
    all_done(&w, 2, 3);
    next(&w, "%%distribute -n 4 --no-gpu\npass");
    ok(is_over(
           &w,
           "--no-gpu: ranks 0-1 were started with GPUs (--fresh ends them and starts new ones)"),
       "what ranks hold they keep");
    next(&w, "%%distribute --gpus 2\npass");
    ok(is_over(&w, "--gpus 2: ranks 0-1 were started with 1 GPU each"), "and how many");
    next(&w, "%%distribute -n 3 --fresh\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "-n 3: there are 2 GPUs") && !times(&w, "KILL"),
       "--fresh with too many ranks for the GPUs is refused before the old ranks end");
    next(&w, "%%distribute -n gpu --fresh --on local\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "-n gpu: there is no GPU on here") && !times(&w, "KILL"),
       "and so is a move to this machine, if it has no GPU");
    next(&w, "%%distribute -n 4 --no-gpu --fresh\npass");
    captured(&w, "{\"names\": []}");
    all_exited(&w, 2, 3);
    ok(!times(&w, "send GPUS") && times(&w, "send START") == 2, "--no-gpu neither asks nor counts");
    world_close(&w);
}

static void gpus_that_are_not_known(void)
{
    static const char unknown[] = "{\"gpus\":null,\"why\":\"the GPU driver does not answer\"}";
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.gpus[0] = unknown;
    run(&w, "%%distribute -n 2\npass");
    ok(logged(
           &w,
           "the GPUs of here could not be listed (the GPU driver does not answer): ranks start there without GPUs") &&
           times(&w, "send START") == 1,
       "ranks to which nobody promised a GPU start without, which is told");
    world_close(&w);
    home_open(&w, &clock);
    w.gpus[0] = unknown;
    run(&w, "%%distribute -n 2 --no-gpu\npass");
    ok(times(&w, "send START") == 1 && !times(&w, "GPU driver"),
       "where none is wanted there is nothing to tell");
    world_close(&w);
}

static void gpus_of_one_machine(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute --gpus 2 -n 1\npass");
    ok(is_over(&w, "--gpus 2: there is no GPU on here"), "GPUs that are asked for must be there");
    w.gpus[0] = "{\"gpus\":[" GPU "," LEASED "]}";
    next(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "there is no GPU on here"), "a machine without is asked once");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":null,\"why\":\"the GPU driver does not answer\"}";
    run(&w, "%%distribute --gpus 1 -n 1\npass");
    ok(is_over(
           &w,
           "no GPU on here (leave --gpus out to run without); here: the GPU driver does not answer"),
       "why is told");
    w.gpus[0] = "{\"gpus\":[" GPU "]}";
    next(&w, "%%distribute -n gpu\npass");
    ok(times(&w, "send GPUS") == 1 && times(&w, "send START") == 1,
       "a machine that could not tell is asked again");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":[],\"why\":\"no driver: reboot\"}";
    run(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "no GPU on here (give a number, as in -n 4); here: no driver: reboot"),
       "with -n gpu too");
    world_close(&w);
    world_open(&w, &clock);
    w.silent = true;
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send GPUS node 0") && !times(&w, "START") && logged(&w, "send CAPTURE"),
       "home captures while GPUs are looked for");
    pass(&w, START_LIMIT_NS + NS_PER_S);
    ok(is_over(&w, "here did not say in 120 s which GPUs it has"), "for so long");
    world_close(&w);
}

static void grows(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute -n 6\npass");
    ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 2") && !times(&w, "engine "),
       "a world that grows fills what is free");
    provide(&w);
    all_ready(&w, 6, 7);
    ok(sent(&w, "0*2,1*2,0*1,1*1"), "and its living ranks stay where they are");
    all_done(&w, 2, 7);
    buf_clear(&w.log);
    exited(&w, 4, 1, 9);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "place 8 on 2"), "a rank that died starts where it was");
    world_close(&w);
}

static void versions(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, ON_TWO);
    all_up(&w, 2);
    ready(&w, 2);
    ready_as(&w, 4, "3.9.18");
    ok(is_over(&w, "rank 2: Python on h2 is 3.9.18, the notebook's is 3.11.7") &&
           logged(&w, "CELLSPAN_REMOTE_PYTHON"),
       "another Python is refused, with both versions and what helps");
    ok(logged(&w, "send KILL 4 5"), "and its ranks end");
    buf_clear(&w.log);
    ready_as(&w, 5, "3.9.18");
    ok(!times(&w, "reply"), "once");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    comes();
    meets();
    many_absences();
    refusals();
    interrupts();
    moves();
    scripts();
    slots();
    gpus();
    gpus_that_are_not_known();
    gpus_of_one_machine();
    grows();
    versions();
    return plan_done();
}
