/* Ranks on other machines: an engine's run that comes, is refused, is interrupted and ends; who is placed where; and
 * machines that are lost in each state of a cell. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define ON_TWO "%%distribute -n 4 --on ssh:h1,h2\npass"
#define INTERRUPTED "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}"
#define GPU "{\"uuid\":\"GPU-1\",\"leased_by\":null}"
#define LEASED "{\"uuid\":\"GPU-2\",\"leased_by\":\"pid 7\"}"

static bool is_over(struct world *w, const char *text)
{
    return !w->nb->cell && times(w, "reply execute_reply") == 1 && logged(w, text);
}

static bool sent(struct world *w, const char *text)
{
    const struct slice all = buf_slice(&w->sent);

    for (size_t at = 0; at + strlen(text) <= all.n; at++)
        if (memcmp(all.p + at, text, strlen(text)) == 0)
            return true;
    return false;
}

/* The cell that runs gets what it waits for besides ranks. */
static void provide(struct world *w)
{
    captured(w, "{\"names\": []}");
    port(w);
}

static void all_done(struct world *w, uint32_t first, uint32_t last)
{
    for (uint32_t k = first; k <= last; k++)
        done(w, k, "ok", "", "");
}

/* Four idle ranks, workers 2 to 5, on nodes 1 and 2; and an empty log. */
static void open_two(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
    run(w, ON_TWO);
    all_up(w, 2);
    provide(w);
    for (uint32_t k = 2; k < 6; k++)
        ready(w, k);
    all_done(w, 2, 5);
    buf_clear(&w->log);
}

/* ---- it comes ---- */

static void comes(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, ON_TWO);
    ok(logged(&w, "engine ssh (h1,h2) 4") && !times(&w, "START"), "the engine is started, and ranks wait for it");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 waits in the queue");
    engine(&w, ENGINE_SAYS, "job 7 runs");
    pass(&w, NS_PER_S);
    ok(logged(&w, "cellspan: job 7 waits in the queue") && logged(&w, "job 7 runs"), "what it says is shown");
    ok(times(&w, "waits in the queue") == 1, "once where it repeats itself");
    come(&w, 2);
    up(&w, 1);
    ok(!times(&w, "START"), "the last machine is waited for");
    up(&w, 2);
    ok(logged(&w, "place 2 on 1") && logged(&w, "place 5 on 2"), "then ranks are placed in blocks");
    ok(logged(&w, "send START 2 3\n") && logged(&w, "send START 4 5\n"), "and each machine is told of its own");
    ok(logged(&w, "send PORT node 1") && logged(&w, "send CAPTURE 1"), "the port is asked of rank 0's machine");
    provide(&w);
    for (uint32_t k = 2; k < 6; k++)
        ready(&w, k);
    ok(times(&w, "send RUN") == 2 && sent(&w, "0*2,1*2"), "all get the layout");
    ok(sent(&w, "\"MASTER_ADDR\":\"10.0.0.1\"") || sent(&w, "\"MASTER_ADDR\": \"10.0.0.1\""), "and meet where all reach rank 0");
    all_done(&w, 2, 5);
    ok(is_over(&w, "\"status\":\"ok\""), "and the cell ends");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    provide(&w);
    ok(!times(&w, "engine ") && !times(&w, "START") && times(&w, "send RUN") == 2, "the next cell needs no --on");
    all_done(&w, 2, 5);
    buf_clear(&w.log);
    run(&w, "%%distribute --on ssh:h1,h2\npass");
    ok(w.nb->cell && !times(&w, "engine "), "and may give the same");
    world_close(&w);
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
    ok(is_over(w, "h4, h5 did not come up: it does not answer") && logged(w, "engine stop"), "and all are named, a reason once");
    buf_clear(&w->log);
    w->first -= 2;
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    lost(w, w->first + 1, "it refuses the login");
    ok(is_over(w, "did not come up:\\n  h1: it does not answer\\n  h2: it refuses the login"), "or each with its own, at once when none is left");
    buf_clear(&w->log);
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "h1: cellspan-agent ended with status 3: cellspan-agent on h1 can't reach the kernel");
    lost(w, w->first + 1, "h2: cellspan-agent ended with status 3: cellspan-agent on h2 can't reach the kernel");
    ok(is_over(w, "h1, h2 did not come up: cellspan-agent ended with status 3: cellspan-agent can't reach the kernel\""),
       "and each machine once, whoever names it");
    buf_clear(&w->log);
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    notebook_interrupt(w->nb);
    ok(is_over(w, "KeyboardInterrupt"), "an interrupt ends the wait");
    buf_clear(&w->log);
    run(w, "%%distribute --on ssh:a,b\npass");
    come(w, 2);
    lost(w, w->first, "it does not answer");
    engine(w, ENGINE_FAILED, "exit status 1");
    ok(is_over(w, "h1 did not come up: it does not answer"), "and so does the end of the engine");
}

static void refusals(void)
{
    struct clock clock;
    struct world w;
    char words[8001] = "";

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    w.no_engine = true;
    run(&w, "%%distribute --on nosuch\npass");
    ok(is_over(&w, "EngineError") && logged(&w, "there is no engine nosuch"), "an engine that is not there is named");
    ok(!w.nb->group->on, "and is not where the next cell is");
    w.no_engine = false;
    buf_clear(&w.log);
    run(&w, "%%distribute --on slurm:--partition=x\npass");
    ok(logged(&w, "engine slurm (--partition=x) 0"), "another may be tried at once");
    engine(&w, ENGINE_FAILED, "sbatch: invalid partition x");
    ok(is_over(&w, "invalid partition x") && !times(&w, "engine stop"), "one that refuses is quoted, and is gone by itself");
    buf_clear(&w.log);
    run(&w, ON_TWO);
    come(&w, 2);
    up(&w, 1);
    lost(&w, 2, "h2: Connection refused");
    ok(is_over(&w, "h2 did not come up: Connection refused") && logged(&w, "engine stop 2"), "a machine that never comes is named");
    absences(&w);
    buf_clear(&w.log);
    run(&w, "%%distribute --on local:here\npass");
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
    notebook_interrupt(w.nb);
    ok(is_over(&w, "KeyboardInterrupt") && logged(&w, "engine stop 1"), "an interrupt ends what is still starting");
    up(&w, 1);
    engine(&w, ENGINE_FAILED, "cancelled");
    ok(times(&w, "reply execute_reply") == 1 && !w.nb->cell, "and nobody minds what it says later");
    buf_clear(&w.log);
    run(&w, "%%distribute --timeout 5 --on slurm\npass");
    pass(&w, 6 * NS_PER_S);
    ok(is_over(&w, "TimeoutError") && logged(&w, "engine stop 2"), "so does --timeout");
    buf_clear(&w.log);
    run(&w, "%%distribute --on slurm\npass");
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
    ok(is_over(&w, "--on ssh:h3: the ranks are on ssh:h1,h2 (--fresh"), "another --on names both, and the way out");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2 --fresh --on ssh:h3\npass");
    ok(logged(&w, "send KILL 2 3 4 5") && !times(&w, "engine "), "which ends the ranks");
    w.first = 3;
    for (uint32_t k = 2; k < 6; k++)
        exited(&w, k, 1, 15);
    ok(in_order(&w, "engine stop 1", "engine ssh (h3) 2"), "then the engine, and starts the other");
    all_up(&w, 1);
    ok(logged(&w, "place 6 on 3") && logged(&w, "send START 6 7"), "on whose machines the ranks start");
    provide(&w);
    ready(&w, 6);
    ready(&w, 7);
    ok(sent(&w, "\"127.0.0.1\"") && sent(&w, "0*2"), "a world on one machine meets there");
    all_done(&w, 6, 7);
    buf_clear(&w.log);
    run(&w, "%%distribute --fresh\npass");
    exited(&w, 6, 1, 15);
    exited(&w, 7, 1, 15);
    ok(!times(&w, "engine ") && logged(&w, "send START 8 9"), "--fresh alone keeps the allocation");
    provide(&w);
    ready(&w, 8);
    ready(&w, 9);
    all_done(&w, 8, 9);
    ok(!logged(&w, "new: "), "and nobody misses what ran before");
    buf_clear(&w.log);
    run(&w, "%ranks stop");
    exited(&w, 8, 1, 15);
    exited(&w, 9, 1, 15);
    ok(is_over(&w, "engine stop 2") && !w.nb->group->on, "%%ranks stop gives it back");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 1\npass");
    ok(logged(&w, "send START 10\n") && !times(&w, "engine ") && !times(&w, "place "), "and the next ranks are here");
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
    ok(times(&w, "send RUN") == 2 && sent(&w, "print(1)") && sent(&w, "[\"train.py\",\"3\"]"), "the text of a script goes along");
    world_close(&w);
}

/* ---- who is where ---- */

static void slots(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    w.node[1].slots = 1;
    w.node[2].slots = 3;
    run(&w, "%%distribute --on ssh:h1,h2*3\npass");
    all_up(&w, 2);
    ok(logged(&w, "place 2 on 1") && logged(&w, "send START 3 4 5\n"), "slots say how many there are, and where");
    provide(&w);
    for (uint32_t k = 2; k < 6; k++)
        ready(&w, k);
    ok(sent(&w, "0*1,1*3"), "unevenly as well");
    all_done(&w, 2, 5);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 5\npass");
    ok(is_over(&w, "-n 5: there is room for 4 ranks (h1: 1, h2: 3)") && !times(&w, "START"), "and more are refused");
    world_close(&w);
}

static void gpus(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    w.gpus[1] = "{\"gpus\":[" GPU "," LEASED "]}";
    w.gpus[2] = "{\"gpus\":[" GPU "]}";
    run(&w, "%%distribute -n 3 --on ssh:h1,h2\npass");
    all_up(&w, 2);
    ok(logged(&w, "-n 3: there are 2 GPUs (h1: 1 free of 2; held: GPU 0 by pid 7, h2: 1) for 3 ranks; --no-gpu runs without, --share"),
       "too few GPUs are counted, and what helps is said");
    ok(!w.nb->cell && !times(&w, "START") && !times(&w, "engine stop"), "nothing starts, and the machines stay");
    buf_clear(&w.log);
    run(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "send START 2\n") && logged(&w, "send START 3\n"), "-n gpu is one for each on all machines");
    provide(&w);
    ready(&w, 2);
    ready(&w, 3);
    ok(sent(&w, "CELLSPAN_GPUS"), "and they know that they have one");
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(!times(&w, "send GPUS"), "nobody is asked where nobody starts");
    provide(&w);
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 4 --no-gpu\npass");
    ok(is_over(&w, "--no-gpu: GPUs are held by ranks 0-1, which live (--fresh ends them and starts anew)"),
       "what ranks hold they keep");
    buf_clear(&w.log);
    run(&w, "%%distribute --gpus 2\npass");
    ok(is_over(&w, "--gpus 2: 1 GPU each is held by ranks 0-1"), "and how many");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 4 --no-gpu --fresh\npass");
    exited(&w, 2, 1, 15);
    exited(&w, 3, 1, 15);
    ok(!times(&w, "send GPUS") && times(&w, "send START") == 2, "--no-gpu neither asks nor counts");
    world_close(&w);
    world_open(&w, &clock);
    run(&w, "%%distribute --gpus 2 -n 1\npass");
    ok(is_over(&w, "--gpus 2: there is no GPU on here"), "GPUs that are asked for must be there");
    w.gpus[0] = "{\"gpus\":[" GPU "," LEASED "]}";
    buf_clear(&w.log);
    run(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "there is no GPU on here"), "a machine without is asked once");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":null,\"why\":\"the GPU driver does not answer\"}";
    run(&w, "%%distribute --gpus 1 -n 1\npass");
    ok(is_over(&w, "no GPU on here (leave --gpus out to run without); here: the GPU driver does not answer"), "why is told");
    w.gpus[0] = "{\"gpus\":[" GPU "]}";
    buf_clear(&w.log);
    run(&w, "%%distribute -n gpu\npass");
    ok(times(&w, "send GPUS") == 1 && times(&w, "send START") == 1, "a machine that could not tell is asked again");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":[],\"why\":\"no driver: reboot\"}";
    run(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "no GPU on here (give a number, as in -n 4); here: no driver: reboot"), "with -n gpu too");
    world_close(&w);
    world_open(&w, &clock);
    w.silent = true;
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send GPUS node 0") && !times(&w, "START") && logged(&w, "send CAPTURE"), "home captures while GPUs are looked for");
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
    ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 2") && !times(&w, "engine "), "a world that grows fills what is free");
    provide(&w);
    ready(&w, 6);
    ready(&w, 7);
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

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, ON_TWO);
    all_up(&w, 2);
    ready(&w, 2);
    ready_as(&w, 4, "3.9.18");
    ok(is_over(&w, "rank 2: Python on h2 is 3.9.18, the notebook's is 3.11.7") && logged(&w, "CELLSPAN_REMOTE_PYTHON"),
       "another Python is refused, with both versions and what helps");
    ok(logged(&w, "send KILL 4 5"), "and its ranks end");
    buf_clear(&w.log);
    ready_as(&w, 5, "3.9.18");
    ok(!times(&w, "reply"), "once");
    world_close(&w);
}

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
    ok(logged(&w, "rank 2 on h2 is gone: it was not heard of for 10 s (pid 1004)") && logged(&w, "on ranks 2-3 of 4"),
       "the ranks of a machine that is lost are dead, with their host, named once");
    ok(logged(&w, "send INTERRUPT 2 3"), "and the others are interrupted");
    done(&w, 2, "error", INTERRUPTED, "");
    done(&w, 3, "error", INTERRUPTED, "");
    ok(is_over(&w, "RankDied"), "the cell is over");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "place 6 on 1") && logged(&w, "place 7 on 1") && !times(&w, "engine "), "the next one starts them where there is room");
    pass(&w, NS_PER_S);
    ok(logged(&w, "h2 is lost: ranks 2-3 start on h1"), "and says so");
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
    lost(&w, 2, "h2: cellspan-agent ended with status 137: cellspan-agent on h2 was killed by signal 9 (Killed)");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 2 on h2 is gone: cellspan-agent ended with status 137: cellspan-agent was killed by signal 9 (Killed) (pid 1004)"),
       "an agent's last words don't name its machine again");
    world_close(&w);
    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    lost(&w, 2, "cellspan-agent on h21 said something");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 2 on h2 is gone: cellspan-agent on h21 said something (pid 1004)"), "another one's name stays");
    world_close(&w);
}

static void lost_without_room(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    w.node[1].slots = w.node[2].slots = 1;
    run(&w, "%%distribute --on ssh:h1*1,h2*1\npass");
    all_up(&w, 2);
    provide(&w);
    ready(&w, 2);
    ready(&w, 3);
    all_done(&w, 2, 3);
    lost(&w, 2, "it was not heard of for 10 s");
    pass(&w, NS_PER_S);
    ok(logged(&w, "rank 1 on h2 is gone") && logged(&w, "no cell was running on it"), "an idle machine's loss is told");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send KILL 2\n"), "without room for its ranks on the others");
    w.first = 3;
    exited(&w, 2, 1, 15);
    ok(in_order(&w, "engine stop 1", "engine ssh (h1*1,h2*1) 2"), "all starts afresh");
    w.node[3].slots = w.node[4].slots = 1;
    all_up(&w, 2);
    pass(&w, NS_PER_S);
    ok(logged(&w, "starts afresh, and the variables of all ranks are gone"), "which is said");
    captured(&w, "{\"names\": []}");
    ok(times(&w, "send CAPTURE") == 1, "home is asked once");
    port(&w);
    ready(&w, 4);
    ready(&w, 5);
    ok(times(&w, "send RUN") == 2 && logged(&w, "place 5 on 4"), "and the cell runs");
    world_close(&w);
}

static void lost_while_starting(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, ON_TWO);
    all_up(&w, 2);
    ready(&w, 2);
    lost(&w, 2, "it was powered off");
    ok(is_over(&w, "RankNotStarted") && logged(&w, "it was powered off"), "a machine that is lost while its ranks start fails the cell");
    buf_clear(&w.log);
    w.silent = true;
    run(&w, ON_TWO);
    ok(w.nb->cell && times(&w, "send GPUS") == 0, "which is known to have no GPU, the other one");
    world_close(&w);
    world_open(&w, &clock);
    w.silent = true;
    run(&w, ON_TWO);
    all_up(&w, 2);
    lost(&w, 2, "it was powered off");
    w.silent = false;
    captured(&w, "{\"names\": []}");
    ok(w.nb->cell && logged(&w, "send START 2 3 4 5"), "one that is lost before they start leaves them to the others");
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
    ok(is_over(&w, "rank 0 on h1 is gone: Slurm ended job 7: TIMEOUT"), "an engine that ends takes all along, and says why");
    buf_clear(&w.log);
    w.first = 3;
    run(&w, "%%distribute\npass");
    ok(logged(&w, "engine ssh (h1,h2) 4") && !times(&w, "engine stop"), "the next cell starts it again");
    w.node[3].name = w.node[4].name = "";
    all_up(&w, 2);
    provide(&w);
    for (uint32_t k = 6; k < 10; k++)
        ready(&w, k);
    all_done(&w, 6, 9);
    pass(&w, NS_PER_S);
    ok(is_over(&w, "their variables are gone"), "and says what is gone");
    buf_clear(&w.log);
    lost(&w, 3, "x");
    lost(&w, 4, "x");
    w.first = 5;
    run(&w, "%%distribute\npass");
    ok(in_order(&w, "engine stop 2", "engine ssh (h1,h2) 4"), "so it does when every machine is lost");
    world_close(&w);
}

static void lost_while_stopping(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%ranks stop");
    exited(&w, 2, 1, 15);
    exited(&w, 3, 1, 15);
    lost(&w, 2, "it fell over");
    ok(is_over(&w, "engine stop 1"), "who is lost while he is stopped is stopped");
    world_close(&w);
}

/* ---- collectives are cut ---- */

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
    ok(logged(&w, "send SEVER 2 3\n") && logged(&w, "send SEVER 4 5\n"), "each machine is asked for its ends");
    said_ends(&w, 1, "ends-of-one");
    ok(times(&w, "send SEVER") == 2, "all are waited for");
    said_ends(&w, 2, "ends-of-two");
    ok(times(&w, "send SEVER") == 4 && sent(&w, "ends-of-one"), "and each is told those of the others");
    world_close(&w);
    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    done(&w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    pass(&w, 300 * NS_PER_MS);
    pass(&w, 300 * NS_PER_MS);
    buf_clear(&w.log);
    said_ends(&w, 1, "ends-of-one");
    pass(&w, 1000 * NS_PER_MS);
    ok(times(&w, "send SEVER") == 0, "a slow network has its time");
    pass(&w, 300 * NS_PER_MS);
    ok(times(&w, "send SEVER") == 2 && sent(&w, "ends-of-one"), "not for long");
    said_ends(&w, 2, "ends-of-two");
    ok(times(&w, "send SEVER") == 2, "and who comes late comes to nothing");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    comes();
    refusals();
    interrupts();
    moves();
    scripts();
    slots();
    gpus();
    grows();
    versions();
    lost_while_running();
    named_once();
    lost_without_room();
    lost_while_starting();
    lost_all();
    lost_while_stopping();
    cuts();
    return plan_done();
}
