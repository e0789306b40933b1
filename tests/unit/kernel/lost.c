/* Ranks on other machines that are lost, in each state of a cell; and collectives that are cut. */
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
    ok(logged(&w, "rank 2 on h2 is gone: it was not heard of for 10 s (pid 1004)") && logged(&w, "on ranks 2-3 of 4"),
       "the ranks of a machine that is lost are dead, with their host, named once");
    ok(logged(&w, "send INTERRUPT 2 3"), "and the others are interrupted");
    done(&w, 2, "error", INTERRUPTED, "");
    done(&w, 3, "error", INTERRUPTED, "");
    ok(is_over(&w, "RankDied"), "the cell is over");
    next(&w, "%%distribute\npass");
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

    home_open(&w, &clock);
    w.node[1].slots = w.node[2].slots = 1;
    run(&w, "%%distribute --on ssh:h1*1,h2*1\npass");
    all_up(&w, 2);
    provide(&w);
    all_ready(&w, 2, 3);
    all_done(&w, 2, 3);
    lost(&w, 2, "it was not heard of for 10 s");
    pass(&w, NS_PER_S);
    ok(logged(&w, "rank 1 on h2 is gone") && logged(&w, "no cell was running on it"), "an idle machine's loss is told");
    next(&w, "%%distribute\npass");
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
    all_ready(&w, 4, 5);
    ok(times(&w, "send RUN") == 2 && logged(&w, "place 5 on 4"), "and the cell runs");
    world_close(&w);
}

static void lost_while_starting(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
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
    all_ready(&w, 6, 9);
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
    all_exited(&w, 2, 3);
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
    lost_while_running();
    named_once();
    lost_without_room();
    lost_while_starting();
    lost_all();
    lost_while_stopping();
    cuts();
    return plan_done();
}
