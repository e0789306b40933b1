/* SPDX-License-Identifier: BSD-3-Clause */
/* pure.c - the state machines of kernel and agent run without sockets, processes and a clock. This
 * program is linked with their objects and without ZeroMQ (tests/unit/Local.mk). It is a simulator:
 * it provides requests and a log (pure_requests.c), a clock, the callbacks of cell_ops.h
 * (kernel/double.c) and what the agent's I/O files do (agent/seam.c). network/ is the network
 * between a kernel and its agents.
 *
 * With arguments it only runs rounds of chance: see rounds_option() of network/fleet.h. */
#include <signal.h>
#include <stdlib.h>

#include "base/blob.h"
#include "base/le.h"
#include "base/log.h"
#include "tests/unit/agent/sim.h"
#include "tests/unit/network/fleet.h"
#include "tests/unit/protocol/kinds.h"
#include "tests/unit/tap.h"

/* ---- what it runs ---- */

static void a_cell_runs(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    next(&w, "%%distribute\n1");
    provide(&w);
    ok(logged(&w, "send RUN 2") && logged(&w, "send RUN 3"), "a cell starts on two ranks");
    all_done(&w, 2, 3);
    ok(is_over(&w, "\"status\":\"ok\""), "and ends when both are done");
    world_close(&w);
}

static void time_is_given(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    next(&w, "%%distribute --timeout 1h\nwait()");
    provide(&w);
    pass(&w, 3599 * NS_PER_S);
    ok(!times(&w, "send INTERRUPT"), "a cell may run for an hour");
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send INTERRUPT"), "and is interrupted a second after it, in no time at all");
    world_close(&w);
}

/* ---- kernel and agent ---- */

/* A cell on two ranks, which run it: workers 2 and 3. */
static void begin(struct sim *s, struct world *w, struct clock *clock)
{
    world_open(w, clock);
    sim_open(s, w, clock, NODE_HERE);
    sim_run(s, "%%distribute -n 2\nprint(1); 7");
    sim_captured(s, "{\"names\": []}");
    sim_turn(s);
}

static void end(struct sim *s, struct world *w)
{
    if (!sim_close(s))
        ok(false, "the agent closes every socket and pipe");
    world_close(w);
}

static void a_whole_run(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    begin(&s, &w, &clock);
    ok(sim_logged(&s, "order: 2\norder: 3\n"), "START becomes orders to a zygote");
    ok(sim_logged(&s, "from 2: READY") && sim_logged(&s, "from 3: READY"),
       "READY of its ranks reaches the kernel");
    ok(sim_logged(&s, "to 2: RUN") && sim_logged(&s, "to 3: RUN"), "RUN reaches both ranks");
    sim_prints(&s, 2, 1, "not the last line\nthe last");
    sim_done(&s, 3, "ok", "", "");
    sim_done(&s, 2, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    sim_turn(&s);
    ok(in_order(&w, "not the last line", "execute_result") &&
           in_order(&w, "the last", "execute_result"),
       "what a rank printed comes before its value, with a line that has no end");
    ok(is_over(&w, "\"text/plain\":\"7\""), "and the cell ends with the value");
    end(&s, &w);
}

static void a_rank_dies(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    begin(&s, &w, &clock);
    sim_prints(&s, 3, 2, "last words\n");
    sim_dies(&s, 3, SIGSEGV);
    sim_done(&s, 2, "ok", "", "");
    sim_turn(&s);
    ok(is_over(&w, "SIGSEGV") && logged(&w, "last words"),
       "the cell ends with the signal of a rank that died, and its last words");
    sim_run(&s, "%%distribute\n1");
    ok(sim_logged(&s, "order: 4") && sim_logged(&s, "from 4: READY"), "the next cell gets another");
    end(&s, &w);
}

/* Its process ends before the agent knows which rank it is. */
static void a_rank_dies_early(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    s.silent = s.mute = true;
    sim_run(&s, "%%distribute -n 2\n1");
    sim_captured(&s, "{\"names\": []}");
    sim_dies(&s, 3, SIGBUS);
    sim_turn(&s);
    ok(!strstr(s.log.p, "EXITED"), "a process has died that no rank is known to be");
    s.silent = false;
    sim_turn(&s);
    sim_pass(&s, NS_PER_S);
    ok(logged(&w, "rank 1 did not come up: python3 was killed by signal"),
       "when the zygote names it, the rank has ended by that signal");
    end(&s, &w);
}

static void a_zygote_dies(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    s.idle = true;
    sim_run(&s, "%%distribute -n 2\n1");
    sim_captured(&s, "{\"names\": []}");
    sim_turn(&s);
    sim_prints(&s, 0, 2, "ImportError: torch\n");
    sim_dies(&s, 0, SIGABRT);
    sim_turn(&s);
    sim_pass(&s, NS_PER_S);
    ok(is_over(&w, "the process that ranks are forked from") && logged(&w, "ImportError: torch"),
       "ranks that a dead zygote did not fork end with its death and its last words");
    end(&s, &w);
}

static void a_rank_breaks_the_protocol(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    begin(&s, &w, &clock);
    sim_says(&s, 3, (struct span){ .kind = SPAN_KILL, .v[F_KILL_SIGNAL].u64 = 9 }, -1);
    sim_done(&s, 2, "ok", "", "");
    sim_turn(&s);
    ok(sim_logged(&s, "signal 9 to 3"), "who sends what is not for it to send is killed");
    ok(is_over(&w, "it sent KILL"), "and the cell says how it broke the protocol");
    end(&s, &w);
}

static void only_what_is_for_workers_reaches_them(void)
{
    const struct span_info *info;
    struct clock clock;
    struct world w;
    struct sim s;
    char said[64];

    begin(&s, &w, &clock);
    for (unsigned i = 0; (info = kind_at(i)); i++) {
        const bool passes = info->ways & SPAN_KERNEL_TO_WORKER;

        if (info->ways & SPAN_KERNEL_TO_AGENT)
            continue;
        s.log.n = 0;
        sim_tells(&s, (struct span){ .kind = info->kind, .worker = 3 });
        sim_turn(&s);
        snprintf(said, sizeof said, "to 3: %s", info->name);
        is_int(s.log.n && sim_logged(&s, said), passes, "the agent %s %s",
               passes ? "passes on" : "keeps", info->name);
    }
    end(&s, &w);
}

/* Two ranks on a node of an engine; its agent is the simulated one, and home is elsewhere. */
static void begin_there(struct sim *s, struct world *w, struct clock *clock)
{
    home_open(w, clock);
    sim_open(s, w, clock, 1);
    w->captures = CAPTURES_X;
    run(w, "%%distribute -n 2 --on ssh:h1\nprint(x)");
    all_up(w, 1);
    sim_turn(s);
}

/* The variables are on their way to the node: BIND waits for them, and RUN behind it. */
static void pack_there(struct sim *s, struct world *w)
{
    sim_tells(s, (struct span){ .kind = SPAN_EXPECT, .blob = w->blob, .blob_size = 100 });
    packed(w, w->nb->cells->id, "");
    sim_turn(s);
}

static void a_cell_waits_for_a_blob(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    begin_there(&s, &w, &clock);
    ok(logged(&w, "send PACK"), "ranks on another node are up");
    pack_there(&s, &w);
    ok(logged(&w, "send RUN 2") && !strstr(s.log.p, "to 2: RUN") && !strstr(s.log.p, "to 2: BIND"),
       "RUN waits at the agent for a blob that is on its way");
    buf_clear(&s.log);
    dispatch_interrupt(w.nb);
    sim_turn(&s);
    ok(sim_logged(&s, "from 2: DONE") && sim_logged(&s, "from 3: DONE"),
       "the agent answers an interrupt for a cell that the ranks did not get");
    ok(is_over(&w, "KeyboardInterrupt") && !strstr(s.log.p, "to 2: RUN"),
       "the cell is over, and no rank gets it");
    end(&s, &w);
}

static void a_blob_comes(void)
{
    static const char bytes[100];
    struct span chunk = { .kind = SPAN_CHUNK, .v[F_CHUNK_DATA].s = slice_of(bytes, sizeof bytes) };
    struct clock clock;
    struct world w;
    struct sim s;

    begin_there(&s, &w, &clock);
    pack_there(&s, &w);
    chunk.blob = w.blob;
    chunk.blob_size = sizeof bytes;
    sim_tells(&s, chunk);
    sim_turn(&s);
    ok(sim_logged(&s, "to 2: BIND with blob \nto 2: RUN"),
       "it comes, and both leave in their order");
    sim_done(&s, 2, "ok", "", "");
    sim_done(&s, 3, "ok", "", "");
    sim_turn(&s);
    ok(is_over(&w, "\"status\":\"ok\""), "and the cell runs");
    end(&s, &w);
}

static void a_blob_does_not_come(void)
{
    struct clock clock;
    struct world w;
    struct sim s;
    char number[8];

    begin_there(&s, &w, &clock);
    pack_there(&s, &w);
    le_put(number, sizeof number, w.blob);
    sim_tells(&s, (struct span){ .kind = SPAN_DROP, .v[F_DROP_BLOBS].s = slice_of(number, 8) });
    sim_turn(&s);
    ok(sim_logged(&s, "to 2: BIND the node that had it is gone\nto 2: RUN"),
       "ranks are told why a blob does not come, and then get RUN");
    end(&s, &w);
}

/* A blob of home goes to the ranks of the same node through the agent's table. */
static void a_blob_is_here(void)
{
    struct span m = { .kind = SPAN_PACKED, .blob_size = 5 };
    struct err err = { "" };
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    sim_run(&s, "%%distribute -n 2\nprint(x)");
    sim_captured(&s, CAPTURES_X);
    sim_turn(&s);
    m.cell = w.nb->cells->id;
    m.blob = w.blob;
    sim_says(&s, SPAN_WORKER_HOME, m, blob_of("x", "bytes", 5, &err));
    sim_turn(&s);
    ok(sim_logged(&s, "to 2: BIND with blob") && sim_logged(&s, "to 3: BIND with blob"),
       "home's blob is handed to both ranks");
    sim_says(&s, 3, (struct span){ .kind = SPAN_PUBLISH, .blob = 9, .blob_size = 9 }, -1);
    sim_done(&s, 2, "ok", "", "");
    sim_turn(&s);
    ok(is_over(&w, "it announced 9 bytes and sent none"), "a rank must send what it announces");
    end(&s, &w);
}

static void a_node_without_gpus(void)
{
    char ranks[8] = { 0 };
    struct span m = { .kind = SPAN_START, .worker = 9 };
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(ranks, 4);
    m.v[F_START_PYTHON].s = slice_text("python3");
    m.v[F_START_GPUS].u64 = 1;
    sim_tells(&s, m);
    sim_turn(&s);
    ok(sim_logged(&s, "from 9: EXITED there is no GPU") && !strstr(s.log.p, "order"),
       "a rank that gets no GPU is not forked, and EXITED says why");
    m.v[F_START_RANKS].s = slice_of(ranks, 8);
    sim_tells(&s, m);
    sim_turn(&s);
    ok(sim_logged(&s, "from 9: EXITED START names 1 workers and 2 ranks"), "nor is a torn START");
    end(&s, &w);
}

static void credit(void)
{
    const size_t much = (size_t)WORKER_CREDIT_FIRST;
    struct clock clock;
    struct world w;
    struct sim s;
    char *text = malloc(much + 1);

    begin(&s, &w, &clock);
    memset(text, 'x', much);
    text[much - 1] = '\n';
    text[much] = '\0';
    sim_prints(&s, 2, 1, text);
    sim_turn(&s);
    sim_prints(&s, 2, 1, "more\n");
    sim_done(&s, 2, "ok", "", "");
    sim_done(&s, 3, "ok", "", "");
    sim_turn(&s);
    ok(!strstr(s.log.p, "from 2: DONE") && w.nb->cells, "a rank without credit waits");
    sim_tells(&s, (struct span){ .kind = SPAN_CREDIT, .worker = 2, .v[F_CREDIT_BYTES].u64 = 100 });
    sim_turn(&s);
    ok(is_over(&w, "more"), "and goes on with it");
    free(text);
    end(&s, &w);
}

/* ---- time ---- */

static void sockets_without_room(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    sim_run(&s, "%%distribute -n 2\nprint(1)");
    s.full = true;
    sim_captured(&s, "{\"names\": []}");
    sim_turn(&s);
    ok(logged(&w, "send RUN 3") && !strstr(s.log.p, "to 3: RUN"), "RUN waits for room in a socket");
    s.full = false;
    sim_turn(&s);
    ok(sim_logged(&s, "to 3: RUN"), "and leaves when there is room");
    sim_hangs_up(&s, 3);
    sim_done(&s, 2, "ok", "", "");
    sim_turn(&s);
    ok(!strstr(s.log.p, "signal"), "a rank that closes its socket may take a moment to end");
    sim_pass(&s, 999 * NS_PER_MS);
    ok(!strstr(s.log.p, "signal"), "not quite a second");
    sim_pass(&s, NS_PER_MS);
    ok(sim_logged(&s, "signal 9 to 3"), "then it is killed");
    ok(is_over(&w, "it closed its connection to the agent"), "and the cell says why");
    end(&s, &w);
}

static void kill_with_grace(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    begin(&s, &w, &clock);
    s.stubborn = true;
    sim_tells(&s, (struct span){ .kind = SPAN_KILL,
                                 .worker = 3,
                                 .v[F_KILL_SIGNAL].u64 = SIGTERM,
                                 .v[F_KILL_GRACE_MS].u64 = 2000 });
    sim_turn(&s);
    ok(sim_logged(&s, "signal 15 to 3"), "KILL with grace sends its signal");
    sim_pass(&s, 1999 * NS_PER_MS);
    ok(!strstr(s.log.p, "signal 9"), "and waits as long as it says");
    sim_pass(&s, NS_PER_MS);
    ok(sim_logged(&s, "signal 9 to 3"), "before it kills");
    sim_pass(&s, 60 * NS_PER_S);
    ok(!strstr(s.log.p, "EXITED"), "a process that takes its time to die is waited for");
    sim_dies(&s, 3, SIGKILL);
    sim_turn(&s);
    ok(sim_logged(&s, "from 3: EXITED"), "and then its end is told");
    sim_done(&s, 2, "ok", "", "");
    sim_turn(&s);
    ok(is_over(&w, "SIGKILL"), "as a death by SIGKILL");
    end(&s, &w);
}

static void an_hour(void)
{
    struct clock clock;
    struct world w;
    struct sim s;

    world_open(&w, &clock);
    sim_open(&s, &w, &clock, NODE_HERE);
    sim_run(&s, "%%distribute -n 2 --timeout 1h\nwait()");
    sim_captured(&s, "{\"names\": []}");
    sim_turn(&s);
    sim_pass(&s, 3599 * NS_PER_S);
    ok(!strstr(s.log.p, "INTERRUPT"), "a cell may run for an hour");
    sim_pass(&s, 2 * NS_PER_S);
    ok(sim_logged(&s, "to 2: INTERRUPT"), "and its ranks are interrupted a second later");
    sim_pass(&s, 60 * NS_PER_S);
    ok(sim_logged(&s, "cut ranks"), "then cut off from each other");
    ok(sim_logged(&s, "stacks") && sim_logged(&s, "signal 9 to 2"), "asked for stacks, and killed");
    ok(is_over(&w, "Timeout"), "and the cell is over, in no time at all");
    end(&s, &w);
}

/* ---- sessions on a network on which everything goes wrong ---- */

static const struct rounds rounds_first = { .seed = 1, .steps = 20000, .rounds = 150 };

static void whatever_happens(void)
{
    struct fleet_counts c;
    char why[400];

    ok(rounds_run(&rounds_first, &c, why) && c.steps >= rounds_first.steps * rounds_first.rounds,
       "sessions hold in three million steps of chance %s", why);
    ok(c.resumes > 1000 && c.resets > 1000 && c.forgotten > 1000 && c.cuts > 1000 && c.stops > 1000,
       "they were resumed, reset, forgotten, cut off and stopped a thousand times each");
    ok(c.second_key > 10 && c.refused > 100 && c.thieves > 1000 && c.full > 1000 && c.lost > 100 &&
           c.given_up > 100,
       "and the rarer things came about: the key before (%llu), refusals (%llu), thieves, full "
       "sessions, losses (%llu, %llu)",
       (unsigned long long)c.second_key, (unsigned long long)c.refused, (unsigned long long)c.lost,
       (unsigned long long)c.given_up);
    ok(c.engines > 1000 && c.children > 500 && c.orphans > 200,
       "agents were reached by way of others (%llu), and lost their parents (%llu)",
       (unsigned long long)c.children, (unsigned long long)c.orphans);
    ok(c.beside > 1000 && c.held > 1000 && c.told > 10,
       "sockets dialed beside others (%llu), and while an endpoint said nothing (%llu); children "
       "heard from parents that the network is out (%llu)",
       (unsigned long long)c.beside, (unsigned long long)c.held, (unsigned long long)c.told);
    ok(cells_survive(20, why), "cells go on while their connections break %s", why);
}

/* Each of the faults that a test plants is found in so many steps as the rounds above. */
static void planted_faults(void)
{
    for (unsigned i = PLANTED_NONE + 1; i < PLANTED_KINDS; i++) {
        struct rounds r = rounds_first;
        struct fleet_counts c;
        char why[400];

        r.planted = (enum planted)i;
        ok(!rounds_run(&r, &c, why) && planted_is_found(r.planted, why), "%s is found %s",
           planted_name(r.planted), why);
    }
}

static int replay(int argc, char **argv)
{
    struct rounds r = rounds_first;
    struct fleet_counts c;
    char why[400];

    for (int i = 1; i < argc; i += 2)
        if (!argv[i + 1] || rounds_option(&r, argv[i], argv[i + 1]) < 0) {
            fprintf(stderr, "usage: %s [--seed N] [--steps N] [--rounds N] [--plant NAME]\n",
                    argv[0]);
            return 2;
        }
    (void)alarm(0);
    ok(rounds_run(&r, &c, why), "sessions hold %s", why);
    diag("%llu steps", (unsigned long long)c.steps);
    return plan_done();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return replay(argc, argv);
    a_cell_runs();
    time_is_given();
    a_whole_run();
    a_rank_dies();
    a_rank_dies_early();
    a_zygote_dies();
    a_rank_breaks_the_protocol();
    only_what_is_for_workers_reaches_them();
    a_cell_waits_for_a_blob();
    a_blob_comes();
    a_blob_does_not_come();
    a_blob_is_here();
    a_node_without_gpus();
    credit();
    sockets_without_room();
    kill_with_grace();
    an_hour();
    whatever_happens();
    planted_faults();
    return plan_done();
}
