/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines that will be gone soon: the step in which ranks meet, what they are sent, and what the
 * user reads. */
#include "kernel/cell/meeting.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* ---- the meeting alone ---- */

static struct step_meeting meeting_of(uint32_t n)
{
    struct step_meeting m = MEETING_INIT;

    for (uint32_t k = 0; k < n; k++)
        if (meeting_add(&m, 2 + k, k) < 0)
            abort();
    meeting_begin(&m, false);
    return m;
}

static bool says(const struct step_meeting *m, const char *text)
{
    struct buf out = BUF_INIT;
    const bool so = meeting_words(m, "save", &out) == 0 && strcmp(out.p, text) == 0;

    if (!so)
        printf("# %s\n", out.p);
    buf_release(&out);
    return so;
}

static void the_step(void)
{
    struct step_meeting m = meeting_of(2);

    meeting_counted(&m, 2, 7);
    ok(!meeting_next(&m), "no step is chosen before each rank has told its count");
    meeting_counted(&m, 3, 9);
    ok(meeting_next(&m) && m.state == MEETING_GOES && m.step == 10 && !meeting_next(&m),
       "it is the one after the highest count");
    meeting_there(&m, 3);
    ok(!meeting_next(&m), "the first rank waits there");
    meeting_there(&m, 2);
    ok(meeting_next(&m) && m.state == MEETING_RUNS && !m.between, "when all are there, all run");
    meeting_ran(&m, 2);
    ok(!meeting_next(&m) && says(&m, "the checkpoint is not whole: save() had not ended on rank 1"),
       "it is not whole before all have");
    meeting_ran(&m, 3);
    ok(meeting_next(&m) && m.state == MEETING_OVER &&
           says(&m, "the checkpoint is whole: save() has run on all 2 ranks, in step 10"),
       "then it is");
    meeting_ended(&m, 3, false);
    ok(!meeting_next(&m) && m.rank[1].state == HAS_RUN_IT, "a death later changes nothing");
    meeting_release(&m);
}

static void the_end_of_the_cell(void)
{
    struct step_meeting m = meeting_of(2);

    meeting_ended(&m, 2, true);
    ok(!meeting_next(&m), "a rank that has ended the cell waits for the others' ends");
    meeting_ended(&m, 3, true);
    ok(meeting_next(&m) && m.state == MEETING_RUNS && m.between, "then all run between cells");
    meeting_failed(&m, 3, slice_text("OSError: full"));
    meeting_ran(&m, 2);
    ok(meeting_next(&m) &&
           says(&m, "the checkpoint is not whole: save() failed on rank 1: OSError: full"),
       "an exception is told");
    meeting_release(&m);
    m = meeting_of(2);
    meeting_counted(&m, 2, 3);
    meeting_counted(&m, 3, 3);
    (void)meeting_next(&m);
    meeting_there(&m, 2);
    meeting_ended(&m, 3, true);
    ok(meeting_next(&m) && m.state == MEETING_OFF &&
           says(&m,
                "save() did not run: rank 1 ended the cell before step 4, in which others were"),
       "if one has ended it and another is in the step, they can't meet");
    meeting_release(&m);
}

static void no_meeting(void)
{
    struct step_meeting m = meeting_of(3);

    meeting_counted(&m, 2, 0);
    meeting_counted(&m, 3, 0);
    meeting_counted(&m, 4, 0);
    (void)meeting_next(&m);
    meeting_there(&m, 3);
    meeting_late(&m);
    ok(m.state == MEETING_OFF && !meeting_next(&m) &&
           says(
               &m,
               "save() did not run: ranks 0,2 had not called cellspan.step() within half of the time"),
       "when the time is over, it names the ranks that are late");
    meeting_release(&m);
    m = meeting_of(2);
    meeting_ended(&m, 3, false);
    ok(meeting_next(&m) && m.state == MEETING_OFF &&
           says(&m, "save() did not run: the cell failed"),
       "a rank that fails ends it");
    meeting_release(&m);
}

/* ---- in a notebook ---- */

static void met(struct world *w, uint32_t worker, uint64_t what, uint64_t step, const char *text)
{
    struct span m = { .kind = SPAN_MET,
                      .cell = w->nb->cells ? w->nb->cells->id : 0,
                      .v[F_MET_WHAT].u64 = what,
                      .v[F_MET_STEP].u64 = step };

    m.v[F_MET_TEXT].s = slice_text(text);
    say(w, worker, m);
}

static void notice(struct world *w, unsigned node, uint64_t seconds, const char *text)
{
    struct span m = { .kind = SPAN_NOTICE, .v[F_NOTICE_SECONDS].u64 = seconds };

    m.v[F_NOTICE_TEXT].s = slice_text(text);
    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

/* Four ranks on two machines run a cell, and have a function. */
static void begin(struct world *w, struct clock *clock)
{
    open_two(w, clock);
    run(w, "%%distribute\npass");
    provide(w);
    for (uint32_t worker = 2; worker < 6; worker++)
        met(w, worker, MET_HAS, 0, "save");
    buf_clear(&w->log);
}

static void counted(struct world *w)
{
    for (uint32_t worker = 2; worker < 6; worker++)
        met(w, worker, MET_COUNT, worker, "");
}

static void in_a_cell(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 120, "spot\n");
    notice(&w, 1, 120, "spot ");
    ok(times(&w, "send COUNT") == 4, "each rank is asked for its count, once");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "cellspan: h2, h1 will be gone in 120 s: spot"),
       "machines of which one hears at the same time share a line");
    counted(&w);
    ok(times(&w, "send MEET") == 4, "all are told the step");
    buf_clear(&w.log);
    for (uint32_t worker = 2; worker < 6; worker++)
        met(&w, worker, MET_THERE, 6, "");
    ok(times(&w, "send MEET") == 4, "when all are there, each is told to run");
    for (uint32_t worker = 2; worker < 6; worker++)
        met(&w, worker, MET_RAN, 0, "");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "the checkpoint is whole: save() has run on all 4 ranks, in step 6"),
       "a line says that it is whole");
    buf_clear(&w.log);
    notice(&w, 2, 30, "SIGTERM");
    pass(&w, 300 * NS_PER_MS);
    ok(times(&w, "send") == 0 && logged(&w, "h2 will be gone in 30 s: SIGTERM"),
       "a second notice is shown if it says more, and does not repeat the function");
    lost(&w, 2, "it was powered off");
    pass(&w, 300 * NS_PER_MS);
    done(&w, 2, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    done(&w, 3, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(is_over(&w, "MachineLeaves") &&
           logged(&w, "h2 was to leave (SIGTERM); the checkpoint is whole"),
       "the cell's error is of its own kind, and says what came of the checkpoint");
    world_close(&w);
}

static void too_late(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 60, "spot");
    counted(&w);
    met(&w, 2, MET_THERE, 6, "");
    pass(&w, 29 * NS_PER_S);
    ok(!times(&w, "did not run"), "ranks have half of the time");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "save() did not run: ranks 1-3 had not called cellspan.step()") &&
           times(&w, "send MEET") == 4,
       "then all go on, and a line says so");
    world_close(&w);
}

static void without_a_function(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    buf_clear(&w.log);
    notice(&w, 1, 60, "");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "h1 will be gone in 60 s") && times(&w, "send") == 0,
       "without a function there is only the line");
    lost(&w, 1, "it was powered off");
    pass(&w, 300 * NS_PER_MS);
    done(&w, 4, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    done(&w, 5, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(is_over(&w, "MachineLeaves") && logged(&w, "h1 was to leave"), "and the error's kind");
    world_close(&w);
}

static void a_signal_says_less_than_an_engine(void)
{
    struct clock clock;
    struct world w;
    struct span m = { .kind = SPAN_NOTICE, .v = { [F_NOTICE_SECONDS].u64 = 30 } };

    m.v[F_NOTICE_SIGNAL].u64 = 1;
    m.v[F_NOTICE_TEXT].s = slice_text("SIGTERM has come");
    begin(&w, &clock);
    notice(&w, 2, 30, "Slurm ends job 7");
    dispatch_message(w.nb, 2, SPAN_WORKER_NONE, &m);
    dispatch_message(w.nb, 1, SPAN_WORKER_NONE, &m);
    pass(&w, 300 * NS_PER_MS);
    pass(&w, 300 * NS_PER_MS); /* lines leave one after the other */
    ok(logged(&w, "h2 will be gone in 30 s: Slurm ends job 7") &&
           logged(&w, "h1 will be gone in 30 s: SIGTERM has come"),
       "the name of a signal takes no other text's place");
    buf_clear(&w.log);
    notice(&w, 1, 30, "Slurm ends job 8");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "h1 will be gone in 30 s: Slurm ends job 8"), "another text takes its place");
    world_close(&w);
}

static void between_cells(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    all_done(&w, 2, 5);
    met(&w, 5, MET_LACKS, 0, "");
    buf_clear(&w.log);
    notice(&w, 2, 60, "spot");
    ok(times(&w, "send MEET") == 3 && times(&w, "send COUNT") == 0,
       "if no cell runs, those that have a function run it at once");
    exited(&w, 2, 1, 9);
    met(&w, 3, MET_RAN, 0, "");
    met(&w, 4, MET_RAN, 0, "");
    ok(logged(&w, "the checkpoint is not whole: save() had not ended on rank 0"),
       "a rank that dies in it is named");
    world_close(&w);
    begin(&w, &clock);
    done(&w, 2, "ok", "{}", "");
    notice(&w, 2, 60, "spot");
    counted(&w);
    buf_clear(&w.log);
    all_done(&w, 3, 5);
    ok(times(&w, "send MEET") == 4, "ranks that end the cell before the step run it then");
    world_close(&w);
}

static void a_cell_that_fails(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 0, 60, "spot");
    ok(times(&w, "send COUNT") == 4, "without the notebook's machine no rank can go on");
    counted(&w);
    met(&w, 3, MET_THERE, 6, "");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "save() did not run: the cell failed") && times(&w, "send MEET") == 4,
       "an interrupt ends the meeting, and no rank waits any more");
    world_close(&w);
}

/* All ranks tell their counts, meet and run the function. */
static void all_ran(struct world *w)
{
    counted(w);
    for (uint32_t worker = 2; worker < 6; worker++)
        met(w, worker, MET_THERE, 6, "");
    for (uint32_t worker = 2; worker < 6; worker++)
        met(w, worker, MET_RAN, 0, "");
}

static void in_a_later_cell(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 86400, "spot");
    all_ran(&w);
    notice(&w, 1, 60, "spot");
    ok(times(&w, "send COUNT") == 4, "in the same cell the checkpoint is new enough");
    all_done(&w, 2, 5);
    next(&w, "%%distribute\npass");
    provide(&w);
    buf_clear(&w.log);
    notice(&w, 1, 60, "again");
    ok(times(&w, "send COUNT") == 4, "a notice in a later cell has ranks meet again");
    counted(&w);
    ok(times(&w, "send MEET") == 4, "in a step of that cell");
    world_close(&w);
    begin(&w, &clock);
    notice(&w, 2, 600, "spot");
    all_ran(&w);
    all_done(&w, 2, 5);
    buf_clear(&w.log);
    notice(&w, 2, 500, "again");
    ok(times(&w, "send MEET") == 0, "after the cell, the same machine's notice does not repeat it");
    notice(&w, 1, 500, "spot");
    ok(times(&w, "send MEET") == 4, "another machine's does: the cell had gone on");
    notice(&w, 1, 400, "spot");
    ok(times(&w, "send MEET") == 4, "while the function runs, no notice starts it anew");
    world_close(&w);
}

static void after_one_that_is_off(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 60, "spot");
    counted(&w);
    pass(&w, 29 * NS_PER_S);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "save() did not run: "), "ranks come too late");
    buf_clear(&w.log);
    notice(&w, 1, 120, "spot");
    ok(times(&w, "send COUNT") == 4, "another notice has them try again");
    all_ran(&w);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "the checkpoint is whole"), "and this time they are there");
    world_close(&w);
}

static void a_machine_that_is_gone(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 600, "spot");
    all_ran(&w);
    all_done(&w, 2, 5);
    lost(&w, 2, "it was powered off");
    buf_clear(&w.log);
    notice(&w, 1, 600, "spot");
    ok(times(&w, "send MEET") == 2, "the ranks that are left run it for the next machine");
    world_close(&w);
}

/* Rank 2, on h1 or h2, is ended by a signal; the others end the cell. */
static void one_is_killed(struct world *w, uint64_t signal)
{
    exited(w, 4, 1, signal);
    pass(w, 300 * NS_PER_MS);
    for (uint32_t worker = 2; worker < 6; worker++)
        if (worker != 4)
            done(w, worker, "error", "{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}", "");
}

static void a_rank_that_is_killed(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 1, 600, "spot");
    notice(&w, 2, 600, "spot");
    all_ran(&w);
    one_is_killed(&w, 9);
    ok(is_over(&w, "\"ename\":\"RankDied\"") && !times(&w, "MachineLeaves") &&
           logged(&w, " was to leave (spot); the checkpoint is whole"),
       "a rank that is killed long before its machine goes has died; the notice is told");
    world_close(&w);
    begin(&w, &clock);
    notice(&w, 1, 60, "spot");
    notice(&w, 2, 60, "spot");
    all_ran(&w);
    pass(&w, 55 * NS_PER_S);
    one_is_killed(&w, 15);
    ok(is_over(&w, "MachineLeaves"), "near the end of the time its machine goes");
    world_close(&w);
}

/* Only rank 0, on h1, has a function. */
static void a_function_elsewhere(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    for (uint32_t worker = 3; worker < 6; worker++)
        met(&w, worker, MET_LACKS, 0, "");
    notice(&w, 2, 600, "spot");
    ok(times(&w, "send COUNT") == 1, "a rank writes a checkpoint for another rank's machine");
    all_done(&w, 2, 5);
    ok(times(&w, "send MEET") == 1, "and it alone is told to");
    world_close(&w);
    begin(&w, &clock);
    for (uint32_t worker = 3; worker < 6; worker++)
        met(&w, worker, MET_LACKS, 0, "");
    all_done(&w, 2, 5);
    buf_clear(&w.log);
    notice(&w, 2, 600, "spot");
    ok(times(&w, "send MEET") == 1, "also between cells");
    world_close(&w);
}

static void given_by_all(struct world *w)
{
    for (uint32_t worker = 2; worker < 6; worker++)
        met(w, worker, MET_HAS, 0, "save");
}

/* The machine's notice is there before any function is. */
static void begin_told(struct world *w, struct clock *clock)
{
    open_two(w, clock);
    run(w, "%%distribute\npass");
    provide(w);
    notice(w, 2, 120, "spot");
    pass(w, 300 * NS_PER_MS);
    buf_clear(&w->log);
}

static void given_after_the_notice(void)
{
    struct clock clock;
    struct world w;

    begin_told(&w, &clock);
    for (uint32_t worker = 2; worker < 5; worker++)
        met(&w, worker, MET_HAS, 0, "save");
    ok(!times(&w, "send COUNT"), "ranks wait for one that has not given its function yet");
    met(&w, 5, MET_HAS, 0, "save");
    ok(times(&w, "send COUNT") == 4, "when all have, they meet");
    all_ran(&w);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "the checkpoint is whole: save() has run on all 4 ranks, in step 6"),
       "as if the function had come before the notice");
    all_done(&w, 2, 5);
    next(&w, "%%distribute\npass");
    provide(&w);
    buf_clear(&w.log);
    given_by_all(&w);
    pass(&w, 40 * NS_PER_S);
    ok(!times(&w, "send COUNT"), "a later cell does not write over that checkpoint");
    world_close(&w);
    begin_told(&w, &clock);
    met(&w, 2, MET_HAS, 0, "save");
    pass(&w, 28 * NS_PER_S);
    ok(!times(&w, "send COUNT"), "if only some give one, the others have a quarter of the time");
    pass(&w, 3 * NS_PER_S);
    ok(times(&w, "send COUNT") == 1, "then those meet that have one");
    world_close(&w);
    begin_told(&w, &clock);
    met(&w, 2, MET_HAS, 0, "save");
    all_done(&w, 2, 5);
    pass(&w, 31 * NS_PER_S);
    ok(times(&w, "send MEET") == 1, "if the cell has ended, they run it at once");
    world_close(&w);
}

static void given_again_after_one_that_is_off(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    notice(&w, 2, 600, "spot");
    pass(&w, 301 * NS_PER_S);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "save() did not run: "), "ranks come too late");
    buf_clear(&w.log);
    given_by_all(&w);
    ok(!times(&w, "send COUNT"), "in the same cell they don't try again");
    all_done(&w, 2, 5);
    next(&w, "%%distribute\npass");
    provide(&w);
    given_by_all(&w);
    ok(times(&w, "send COUNT") == 4, "in a later cell they do");
    world_close(&w);
}

static void gone_before_the_cell(void)
{
    struct clock clock;
    struct world w;

    begin(&w, &clock);
    all_done(&w, 2, 5);
    notice(&w, 2, 60, "spot");
    next(&w, "%%distribute\npass");
    lost(&w, 2, "it was powered off");
    pass(&w, 300 * NS_PER_MS);
    ok(is_over(&w, "MachineLeaves") && !times(&w, "\"ename\":\"RankDied\"") &&
           logged(&w, "before the cell could run"),
       "a machine that leaves before the cell runs is no rank that has died");
    world_close(&w);
}

int main(void)
{
    the_step();
    the_end_of_the_cell();
    no_meeting();
    in_a_cell();
    too_late();
    without_a_function();
    a_signal_says_less_than_an_engine();
    between_cells();
    a_cell_that_fails();
    in_a_later_cell();
    after_one_that_is_off();
    a_machine_that_is_gone();
    a_rank_that_is_killed();
    a_function_elsewhere();
    given_after_the_notice();
    given_again_after_one_that_is_off();
    gone_before_the_cell();
    return plan_done();
}
