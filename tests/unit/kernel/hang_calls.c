/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks wait for one another since they call a collective with different shapes or types: the
 * notice has what each calls. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define IN(function)                                                                               \
    "Current thread 0x02 (most recent call first):\n"                                              \
    "  File \"/x/torch/distributed/distributed_c10d.py\", line 979 in " function "\n"              \
    "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n"
#define ONE(n)    "launched 0/2/0000aaaa " n "\ncpu 5000\n"
#define HALF(n)   "launched 1/1/0000bbbb " n "\ncpu 5000\n"
#define CALLS(it) "call " it "\n"
#define AT_REST                                                                                    \
    "Current thread 0x02 (most recent call first):\n"                                              \
    "  File \"/x/cellspan/_worker/worker.py\", line 90 in wait\n"

/* The ranks answer with these until there was a notice. */
static void looks(struct world *w, const char *two, const char *three)
{
    for (unsigned k = 0; k < 5; k++) {
        uint64_t asked;

        buf_clear(&w->sent);
        pass(w, 15 * NS_PER_S);
        asked = w->last.cell;
        stack(w, 2, asked, two);
        stack(w, 3, asked, three);
    }
    pass(w, NS_PER_S);
}

static void ranks_answer_so(struct world *w, struct clock *clock, const char *two,
                            const char *three)
{
    world_open(w, clock);
    begin_two(w);
    looks(w, two, three);
}

static void calls_that_differ_are_told(void)
{
    static const char small[] = IN("all_reduce") ONE("15") CALLS("all_reduce of float32 (2,)");
    struct clock clock;
    struct world w;

    ranks_answer_so(&w, &clock, small,
                    IN("all_reduce") ONE("15") CALLS("all_reduce of float32 (4,)"));
    ok(logged(
           &w,
           "no rank of this cell is elsewhere. Their calls differ: rank 0 in all_reduce of float32 (2,), "
           "rank 1 in all_reduce of float32 (4,) (%ranks where"),
       "ranks at one place that call a collective with different shapes are told apart");
    world_close(&w);
    ranks_answer_so(&w, &clock, small, small);
    ok(logged(&w, "no rank of this cell is elsewhere (%ranks where"),
       "nothing is said of equal calls");
    world_close(&w);
    ranks_answer_so(&w, &clock, small,
                    IN("all_reduce") ONE("16") CALLS("all_reduce of float32 (4,)"));
    ok(logged(&w, "ranks 0-1 waited in all_reduce") && !logged(&w, "calls differ"),
       "the next collective may have another shape");
    world_close(&w);
    ranks_answer_so(&w, &clock, small,
                    IN("all_reduce") HALF("15") CALLS("all_reduce of float32 (4,)"));
    ok(logged(&w, "ranks 0-1 waited in all_reduce") && !logged(&w, "calls differ"),
       "and so may that of another process group");
    world_close(&w);
}

static void who_has_left_is_told(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "ok", "", "");
    looks(&w, AT_REST ONE("15"), IN("all_reduce") ONE("15") CALLS("all_reduce of float32 (4,)"));
    ok(logged(
           &w,
           "and what it got is wrong: rank 1 in all_reduce of float32 (4,); rank 0 has left it (%ranks where"),
       "a rank that has ended the cell has left the collective");
    world_close(&w);
}

#define OF_LOW(n, m) "launched 0/4/0000aaaa " n "\nlaunched 1/2/0000bbbb " m "\n"
#define LOW          "called in 1/2/0000bbbb\n"
#define WHOLE        "called in 0/4/0000aaaa\n"

static void calls_in_several_groups_are_told(void)
{
    static const char low[] = IN("all_reduce") OF_LOW("15", "4")
        CALLS("all_reduce of float32 (4,) with ranks 0-1") LOW;
    struct clock clock;
    struct world w;

    ranks_answer_so(&w, &clock, low, IN("barrier") OF_LOW("16", "3") CALLS("barrier") WHOLE);
    ok(logged(&w, ". The calls: rank 0 in all_reduce of float32 (4,) with ranks 0-1, which rank 1 "
                  "has not called; rank 1 in barrier, which rank 0 has not called (%ranks where"),
       "each call has its group, and who is missing there");
    world_close(&w);
    ranks_answer_so(&w, &clock, low,
                    IN("barrier") OF_LOW("16", "3") "sent\n" CALLS("barrier") WHOLE);
    ok(logged(&w, "with ranks 0-1; rank 1 in barrier (%ranks where"),
       "counts prove nothing if a rank has sent to another one");
    world_close(&w);
    ranks_answer_so(&w, &clock, low,
                    IN("all_reduce") OF_LOW("15", "4")
                        CALLS("all_reduce of float32 (2,) with ranks 0-1") LOW);
    ok(logged(&w, "rank 0 in all_reduce of float32 (4,) with ranks 0-1; rank 1 in all_reduce of "
                  "float32 (2,) with ranks 0-1 (%ranks where"),
       "shapes that differ in a subgroup are told");
    world_close(&w);
    ranks_answer_so(&w, &clock, low, low);
    ok(logged(&w, "ranks 0-1 waited in all_reduce") && !logged(&w, "The calls"),
       "nothing is said of equal calls in a subgroup");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "ok", "", "");
    looks(&w, AT_REST OF_LOW("15", "3"), low);
    ok(logged(&w, ". The calls: rank 1 in all_reduce of float32 (4,) with ranks 0-1, which rank 0 "
                  "has not called (%ranks where"),
       "a rank that has ended the cell is missing, too");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 3, "ok", "", "");
    looks(&w, low, AT_REST OF_LOW("15", "3"));
    ok(logged(&w, ". The calls: rank 0 in all_reduce of float32 (4,) with ranks 0-1, which rank 1 "
                  "has not called (%ranks where"),
       "also if it is the last one");
    world_close(&w);
}

/* From the second look on. */
static void the_status_says_who_is_in_a_collective(void)
{
    static const char in[] = IN("all_reduce") ONE("15") CALLS("all_reduce of float32 (2,)");
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    for (unsigned k = 0; k < 3; k++) {
        const char *second = k < 2 ? in : IN("barrier") ONE("16") CALLS("barrier");

        buf_clear(&w.sent);
        pass(&w, 15 * NS_PER_S);
        stack(&w, 2, w.last.cell, in);
        stack(&w, 3, w.last.cell, second);
        ok(strcmp(w.nb->cells->member[0].collective, k ? "all_reduce" : "") == 0 &&
               strcmp(w.nb->cells->member[1].collective, k == 1 ? "all_reduce" : "") == 0,
           "the status names a collective where the rank was twice: %u", k);
    }
    world_close(&w);
}

int main(void)
{
    calls_in_several_groups_are_told();
    the_status_says_who_is_in_a_collective();
    calls_that_differ_are_told();
    who_has_left_is_told();
    return plan_done();
}
