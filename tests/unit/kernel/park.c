/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle ranks leave their GPUs, and the next cell brings them back (CELLSPAN_GPU_IDLE=park). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define GPUS2  "{\"gpus\":[{\"uuid\":\"GPU-1\"},{\"uuid\":\"GPU-2\"}]}"
#define IDLE_S UINT64_C(900)
#define BOTH(state)                                                                                \
    "{\"workers\":[[2,\"" state "\"],[3,\"" state "\"]],\"why\":null,\"held\":false}"
#define WHY(state, why)                                                                            \
    "{\"workers\":[[2,\"" state "\"],[3,\"" state "\"]],\"why\":\"" why "\",\"held\":false}"
#define PARKED                                                                                     \
    "cellspan: no cell has run for 15 min, so ranks 0-1 are parked: their 2 GPUs are free for "    \
    "others; the next cell on ranks brings them back (CELLSPAN_GPU_IDLE)"

static uint64_t asked; /* the number of the last question */

/* The world opens with these settings. */
static void open_with(struct world *w, struct clock *clock, bool keep,
                      void (*open)(struct world *w, struct clock *clock))
{
    const struct dispatch_config usual = world_config;

    world_config.gpu_idle_ns = IDLE_S * NS_PER_S;
    world_config.gpu_park = true;
    world_config.gpu_keep = keep;
    open(w, clock);
    world_config = usual;
}

/* Two idle ranks with a GPU each, workers 2 and 3; the log is empty. */
static void open_gpus(struct world *w, struct clock *clock, bool keep)
{
    open_with(w, clock, keep, home_open);
    w->gpus[0] = GPUS2;
    begin_two(w);
    all_done(w, 2, 3);
    buf_clear(&w->log);
}

static void can_leave(struct world *w, uint32_t worker, const char *content)
{
    struct span m = { .kind = SPAN_PROBED, .cell = asked };

    m.v[F_PROBED_STATUS].s = slice_text("ok");
    m.v[F_PROBED_CONTENT].s = slice_text(content);
    say(w, worker, m);
}

static void agent_says(struct world *w, const char *said)
{
    struct span m = { .kind = SPAN_PARK, .cell = asked };

    m.v[F_PARK_SAID].s = slice_text(said);
    say(w, 0, m);
}

static void ask_ranks(struct world *w)
{
    pass(w, (IDLE_S + 1) * NS_PER_S);
    asked = w->last.cell;
}

/* Until their agent is told. */
static void leave(struct world *w)
{
    ask_ranks(w);
    can_leave(w, 2, "{\"nccl\": false}");
    can_leave(w, 3, "{\"nccl\": false}");
    asked = w->last.cell;
}

static void park(struct world *w)
{
    leave(w);
    agent_says(w, BOTH("parked"));
    buf_clear(&w->log);
}

static void cell(struct world *w)
{
    run(w, "%%distribute\npass");
    provide(w);
    asked = w->last.cell;
}

static void away_and_back(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    pass(&w, (IDLE_S - 1) * NS_PER_S);
    ok(!times(&w, "send PROBE"), "before that time they stay");
    leave(&w);
    ok(times(&w, "send PROBE 2 3") == 1 && times(&w, "send PARK 2 3") == 1 &&
           !times(&w, "are parked"),
       "then ranks are asked, and their agent is told");
    agent_says(&w, BOTH("parked"));
    ok(logged(&w, PARKED) && !times(&w, "send KILL"), "when they are gone, a line says so");
    buf_clear(&w.log);
    run(&w, "%ranks");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "parked"), "the table, too");
    pass(&w, 3 * IDLE_S * NS_PER_S);
    ok(!times(&w, "cellspan: ") && !times(&w, "send P"), "and nothing more happens");
    cell(&w);
    ok(times(&w, "send PARK 2 3") == 1 && !times(&w, "send RUN") &&
           logged(&w, "parked ranks come back to their GPUs"),
       "a cell brings them back");
    agent_says(&w, BOTH("running"));
    provide(&w);
    ok(times(&w, "send RUN") == 2 && !times(&w, "send START") && !times(&w, "are new"),
       "and runs on them, with their variables");
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    leave(&w);
    agent_says(&w, BOTH("parked"));
    ok(logged(&w, PARKED), "later they leave again");
    world_close(&w);
}

static void those_that_can_not(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    leave(&w);
    agent_says(&w, WHY("running", "memory is full"));
    ok(logged(&w, "cellspan: no cell has run for 15 min, and ranks 0-1 can't be parked (memory is "
                  "full), so ranks 0-1 have ended, and 2 GPUs are free for others") &&
           times(&w, "send KILL 2 3") == 1,
       "they end");
    world_close(&w);

    open_gpus(&w, &clock, true);
    leave(&w);
    agent_says(&w, WHY("running", "memory is full"));
    ok(logged(&w, "can't be parked (memory is full), so they keep their 2 GPUs") &&
           !times(&w, "send KILL"),
       "or stay, if that was set");
    cell(&w);
    ok(times(&w, "send RUN") == 2, "for the next cell");
    world_close(&w);

    open_gpus(&w, &clock, true);
    ask_ranks(&w);
    can_leave(&w, 3, "{\"nccl\": false}");
    pass(&w, 6 * NS_PER_S);
    ok(logged(&w, "(rank 0 does not answer)") && !times(&w, "send PARK"),
       "a rank that is busy with something else");
    world_close(&w);

    open_gpus(&w, &clock, true);
    leave(&w);
    agent_says(&w, "{\"workers\":[[2,\"parked\"],[3,\"lost\"]],\"why\":\"rank 1: broken\"}");
    ok(logged(&w, "so rank 0 is parked: its 1 GPU is free") && times(&w, "send KILL 3") == 1 &&
           logged(&w, "and rank 1 can't be parked (rank 1: broken), so rank 1 has ended"),
       "one that is lost ends in any case");
    world_close(&w);
}

static void communicators(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    ask_ranks(&w);
    can_leave(&w, 2, "{\"nccl\": false}");
    can_leave(&w, 3, "{\"nccl\": true}");
    {
        struct span m;
        struct err err;

        ok(span_decode(&m, w.sent.p, w.sent.n, &err) == 0 && m.kind == SPAN_PARK &&
               m.v[F_PARK_HOW].u64 == PARK_NCCL,
           "the agent is told of communicators");
        span_release(&m);
    }
    world_close(&w);

    open_with(&w, &clock, true, open_two);
    w.nb->group->gpus = 1;
    ask_ranks(&w);
    for (uint32_t worker = 2; worker <= 5; worker++)
        can_leave(&w, worker, "{\"nccl\": true}");
    ok(logged(&w, "(they have NCCL communicators between machines)") && !times(&w, "send PARK"),
       "between machines nothing moves them");
    world_close(&w);
}

static void a_cell_meanwhile(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    ask_ranks(&w);
    can_leave(&w, 2, "{\"nccl\": false}");
    cell(&w);
    ok(times(&w, "send RUN") == 2 && !times(&w, "send PARK"),
       "ranks that were only asked stay for a cell");
    world_close(&w);

    open_gpus(&w, &clock, false);
    leave(&w);
    run(&w, "%%distribute\npass");
    provide(&w);
    ok(!times(&w, "send RUN") && times(&w, "send PARK") == 1, "it waits for those that leave");
    agent_says(&w, BOTH("parked"));
    ok(times(&w, "send PARK") == 2, "to bring them back");
    asked = w.last.cell;
    agent_says(&w, BOTH("running"));
    provide(&w);
    ok(times(&w, "send RUN") == 2, "then it runs");
    world_close(&w);

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    ask(&w, "interrupt_request", "{}");
    ok(logged(&w, "the cell waited for parked ranks to come back") && !w.nb->cells,
       "an interrupt ends a cell that waits");
    agent_says(&w, BOTH("running"));
    cell(&w);
    ok(times(&w, "send RUN") == 2, "the next one has its ranks");
    world_close(&w);

    open_gpus(&w, &clock, false);
    park(&w);
    run(&w, "%ranks stop");
    ok(times(&w, "send KILL 2 3") == 1 && !times(&w, "send PARK"),
       "%%ranks stop ends parked ranks");
    all_exited(&w, 2, 3);
    ok(!w.nb->cells, "at once");
    world_close(&w);

    open_gpus(&w, &clock, false);
    park(&w);
    exited(&w, 2, EXITED_SIGNAL, SIGKILL);
    exited(&w, 3, EXITED_SIGNAL, SIGKILL);
    cell(&w);
    settle(&w);
    ok(times(&w, "send START") == 1 && !times(&w, "send PARK"), "those that died are started anew");
    world_close(&w);
}

/* That a machine goes: a rank's function may need its GPUs. */
static void notice(struct world *w)
{
    struct span m = { .kind = SPAN_NOTICE, .v[F_NOTICE_SECONDS].u64 = 600 };

    m.v[F_NOTICE_TEXT].s = slice_text("spot");
    dispatch_message(w->nb, 0, SPAN_WORKER_NONE, &m);
}

static void a_notice_meanwhile(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    ask_ranks(&w);
    can_leave(&w, 2, "{\"nccl\": false}");
    notice(&w);
    can_leave(&w, 3, "{\"nccl\": false}");
    ok(!times(&w, "send PARK"), "ranks that were only asked stay for a notice");
    buf_clear(&w.log);
    leave(&w);
    ok(times(&w, "send PROBE 2 3") == 1 && times(&w, "send PARK 2 3") == 1,
       "and are asked again when it is time");
    notice(&w);
    ok(times(&w, "send PARK") == 1, "those that are leaving can't turn round");
    agent_says(&w, BOTH("parked"));
    ok(times(&w, "send PARK 2 3") == 2, "but come back then");
    asked = w.last.cell;
    agent_says(&w, BOTH("running"));
    cell(&w);
    ok(times(&w, "send RUN") == 2 && times(&w, "send PARK") == 2, "so a cell finds them there");
    all_done(&w, 2, 3);
    buf_clear(&w.log);
    leave(&w);
    agent_says(&w, BOTH("parked"));
    ok(logged(&w, PARKED) && times(&w, "send PARK") == 1, "later they leave again, and stay away");
    world_close(&w);
}

#define HELD(more)                                                                                 \
    "{\"workers\":[[2,\"parked\"],[3,\"parked\"]],\"why\":\"GPU 0 is held by ann\"," more          \
    "\"held\":true}"
#define QUEUE(ahead) "\"queue\":{\"ahead\":" ahead ",\"why\":\"\",\"stuck\":\"\"},"

/* The last message, which is a PARK: its flags. */
static uint64_t how(struct world *w)
{
    struct span m;
    struct err err;
    uint64_t flags = 0;

    if (span_decode(&m, w->sent.p, w->sent.n, &err) == 0 && m.kind == SPAN_PARK)
        flags = m.v[F_PARK_HOW].u64;
    span_release(&m);
    return flags;
}

static void those_whose_gpus_are_held(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    ok(how(&w) == (PARK_BACK | PARK_WAIT), "the agent gets in the queue if it must");
    agent_says(&w, HELD(QUEUE("1")));
    pass(&w, NS_PER_S / 4);
    ok(w.nb->cells && logged(&w, "waits for 2 GPUs: 2nd in the queue, for at most 24 h: its ranks "
                                 "are parked, and GPU 0 is held by ann"),
       "a cell waits for the GPUs of its ranks, and says so");
    buf_clear(&w.log);
    for (unsigned quarter = 0; quarter < 2; quarter++)
        pass(&w, NS_PER_S / 4);
    ok(!times(&w, "send PARK"), "it does not ask at once");
    pass(&w, NS_PER_S / 2);
    ok(times(&w, "send PARK 2 3") == 1 && how(&w) == (PARK_BACK | PARK_WAIT), "but in a second");
    for (unsigned minute = 0; minute < 30; minute++)
        pass(&w, 60 * NS_PER_S);
    ok(times(&w, "send PARK") == 1, "and not twice, while there is no answer");
    asked = w.last.cell;
    agent_says(&w, HELD(QUEUE("0")));
    ok(!times(&w, "for at most"), "the line is not repeated");
    pass(&w, 2 * NS_PER_S);
    asked = w.last.cell;
    agent_says(&w, BOTH("running"));
    provide(&w);
    ok(times(&w, "send RUN") == 2, "then it runs, with its variables");
    all_done(&w, 2, 3);
    pass(&w, 5 * NS_PER_S);
    ok(!w.nb->cells && times(&w, "send PARK") == 2, "and nothing is left");
    world_close(&w);
}

static void with_a_time_to_wait(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    park(&w);
    run(&w, "%%distribute --wait 5s\npass");
    asked = w.last.cell;
    agent_says(&w, HELD(QUEUE("0")));
    pass(&w, NS_PER_S / 4);
    ok(logged(&w, "1st in the queue, for at most 5 s: "), "with --wait it does so for that time");
    for (unsigned second = 0; second < 5 && w.nb->cells; second++) {
        pass(&w, NS_PER_S);
        asked = w.last.cell;
        agent_says(&w, HELD(QUEUE("0")));
    }
    ok(is_over(&w, "RankNotStarted") &&
           logged(&w, "the cell has waited for 5 s, and GPU 0 is held by ann. So ranks 0-1 stay "
                      "parked, with their variables: run the cell again later. With --fresh and "
                      "one of --no-gpu, --share and --wait it ends them and starts new ranks") &&
           times(&w, "send GPUS") == 1,
       "then it says who holds the GPUs, and what to do, and leaves the queue");
    world_close(&w);
}

static void that_leave_the_queue(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    agent_says(&w, HELD(QUEUE("0")));
    buf_clear(&w.log);
    ask(&w, "interrupt_request", "{}");
    ok(logged(&w, "the cell waited for parked ranks to come back") && !w.nb->cells &&
           times(&w, "send GPUS") == 1,
       "an interrupt leaves the queue, too");
    pass(&w, 5 * NS_PER_S);
    ok(!times(&w, "send PARK"), "and nobody asks any more");
    cell(&w);
    agent_says(&w, HELD(QUEUE("0")));
    buf_clear(&w.log);
    exited(&w, 2, EXITED_SIGNAL, SIGKILL);
    exited(&w, 3, EXITED_SIGNAL, SIGKILL);
    pass(&w, 2 * NS_PER_S);
    settle(&w);
    ok(times(&w, "send START") == 1 && !times(&w, "send PARK"),
       "nobody waits for those that died meanwhile: others start");
    world_close(&w);
}

static void that_would_wait_for_ever(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    agent_says(&w, HELD("\"queue\":{\"ahead\":1,\"why\":\"\",\"stuck\":\"bob (pid 7)\"},"));
    ok(is_over(&w, "UsageError") && logged(&w, "bob (pid 7), who comes first, waits for GPUs that "
                                               "this notebook's other ranks keep"),
       "one that would wait for ever is refused");
    world_close(&w);
}

static void node_says(struct world *w, unsigned node, const char *said)
{
    struct span m = { .kind = SPAN_PARK, .cell = asked };

    m.v[F_PARK_SAID].s = slice_text(said);
    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

static void those_on_several_machines(void)
{
    struct clock clock;
    struct world w;

    open_with(&w, &clock, false, open_two);
    w.nb->group->gpus = 1;
    ask_ranks(&w);
    for (uint32_t worker = 2; worker <= 5; worker++)
        can_leave(&w, worker, "{\"nccl\": false}");
    asked = w.last.cell;
    node_says(&w, 1, "{\"workers\":[[2,\"parked\"],[3,\"parked\"]],\"why\":null}");
    node_says(&w, 2, "{\"workers\":[[4,\"parked\"],[5,\"parked\"]],\"why\":null}");
    cell(&w);
    ok(how(&w) == PARK_BACK, "on several machines nobody gets in a queue");
    node_says(&w, 1, "{\"workers\":[[2,\"running\"],[3,\"running\"]],\"why\":null}");
    node_says(&w, 2,
              "{\"workers\":[[4,\"parked\"],[5,\"parked\"]],\"why\":\"GPU 0 is held by ann\","
              "\"held\":true}");
    ok(is_over(&w, "UsageError") &&
           logged(&w, "GPU 0 is held by ann. So ranks 2-3 stay parked, with their variables (they "
                      "are on several machines, and a cell can wait for the GPUs of one): run"),
       "the cell fails, and says why");
    world_close(&w);
}

static void failed_returns(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    agent_says(&w, WHY("parked", "no room"));
    ok(is_over(&w, "RuntimeError") && logged(&w, "no room. So ranks 0-1 stay parked"),
       "what nobody holds is not waited for");
    buf_clear(&w.log);
    cell(&w);
    agent_says(&w, BOTH("running"));
    provide(&w);
    ok(times(&w, "send RUN") == 2, "the next one tries again");
    world_close(&w);

    open_gpus(&w, &clock, false);
    park(&w);
    cell(&w);
    agent_says(&w, "{\"workers\":[[2,\"running\"],[3,\"lost\"]],\"why\":\"rank 1: no restore\"}");
    ok(is_over(&w, "RankDied") && times(&w, "send KILL 3") == 1 &&
           logged(&w, "rank 1 could not come back to the GPUs (rank 1: no restore), and has ended: "
                      "its variables are lost"),
       "what is lost is named, and its process ends");
    buf_clear(&w.log);
    cell(&w);
    settle(&w);
    ok(!times(&w, "send START"), "the next cell waits for that end");
    exited(&w, 3, EXITED_SIGNAL, SIGKILL);
    settle(&w);
    ready(&w, 4);
    provide(&w);
    ok(times(&w, "send START") == 1 && logged(&w, "rank 1 is new: its variables are gone"),
       "and starts it");
    world_close(&w);

    open_gpus(&w, &clock, false);
    park(&w);
    w.stuck = SPAN_PARK;
    w.leave = 0;
    cell(&w);
    ok(is_over(&w, "the agent on h1 can't be reached"), "an agent that can't be told");
    world_close(&w);
}

int main(void)
{
    away_and_back();
    those_that_can_not();
    communicators();
    a_cell_meanwhile();
    a_notice_meanwhile();
    those_whose_gpus_are_held();
    with_a_time_to_wait();
    that_leave_the_queue();
    that_would_wait_for_ever();
    those_on_several_machines();
    failed_returns();
    return plan_done();
}
