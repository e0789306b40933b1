/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/links.h and worker/collective/figures.h. */
#include "base/links.h"

#include <math.h>

#include "tests/unit/tap.h"
#include "worker/collective/figures.h"

static bool close_to(double got, double want)
{
    return got > want * 0.999999 && got < want * 1.000001;
}

static void every_pair_is_measured_once(void)
{
    for (unsigned n = 0; n <= 17; n++) {
        unsigned seen[17][17] = { { 0 } }, wrong = 0, twice = 0;

        for (unsigned round = 0; round < links_rounds(n); round++) {
            struct link_pair pair[9];
            unsigned busy[17] = { 0 };
            const size_t count = links_round(n, round, pair);

            for (size_t i = 0; i < count; i++) {
                wrong += pair[i].a >= pair[i].b || pair[i].b >= n;
                seen[pair[i].a][pair[i].b]++;
                twice += busy[pair[i].a]++ > 0 || busy[pair[i].b]++ > 0;
            }
        }
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = a + 1; b < n; b++)
                wrong += seen[a][b] != 1;
        is_int(wrong, 0, "%u ranks: each pair stands in one round", n);
        is_int(twice, 0, "%u ranks: no rank twice in a round", n);
    }
    is_int((int64_t)links_round(4, 3, NULL), 0, "a round that is not there has no pairs");
}

static void a_slow_link_is_named(void)
{
    struct link_figure f[6] = { { { 0, 1 }, 50, 1.0, false, 0 },  { { 0, 2 }, 52, 1.1, false, 0 },
                                { { 0, 3 }, 50, 0.3, false, 0 },  { { 1, 2 }, 49, 0.9, false, 0 },
                                { { 1, 3 }, 900, 0.8, false, 0 }, { { 2, 3 }, 0, 0, true, 0 } };
    struct link_medians m;

    is_int(links_judge(f, 6, &m), 0, "six links are judged");
    ok(close_to(m.gbps, 0.9) && close_to(m.us, 50), "by the median of those that work");
    is_int(f[0].state, LINK_GOOD, "an ordinary one is good");
    is_int(f[2].state, LINK_SLOW, "one of a third of the bandwidth is slow");
    is_int(f[4].state, LINK_SLOW, "and one of many times the latency");
    is_int(f[5].state, LINK_DEAD, "one that failed is dead");
    is_int(links_culprit(f, 6), 3, "the rank that is in all of them is named");
    f[4].state = LINK_GOOD;
    f[5].state = LINK_GOOD;
    is_int(links_culprit(f, 6), -1, "one bad link does not tell which end it is");
    for (unsigned i = 0; i < 6; i++)
        f[i].failed = true;
    is_int(links_judge(f, 6, &m), 0, "links that all failed are judged");
    ok(m.gbps >= 0 && m.gbps <= 0, "without a median");
    is_int(links_culprit(f, 6), -1, "and without a culprit");
    f[0].failed = false;
    f[0].us = 180;
    f[1].failed = false;
    f[1].us = 20;
    f[0].gbps = f[1].gbps = 1;
    is_int(links_judge(f, 2, &m), 0, "two links are judged");
    is_int(f[0].state, LINK_GOOD, "noise of some microseconds is not slowness");
}

static void bandwidths_are_nccl_tests(void)
{
    struct figure f;

    figure_fill(&f, COLL_ALL_REDUCE, 4, 1000000, 10, 10000);
    ok(close_to(f.us, 1000) && close_to(f.algbw, 1) && close_to(f.busbw, 1.5),
       "all_reduce: 2(n-1)/n of algbw");
    figure_fill(&f, COLL_BROADCAST, 4, 1000000, 1, 1000);
    ok(close_to(f.algbw, 1) && close_to(f.busbw, 1), "broadcast: busbw is algbw");
    figure_fill(&f, COLL_SEND_RECV, 8, 3000, 2, 6);
    ok(close_to(f.algbw, 1) && close_to(f.busbw, 1), "send_recv too");
    figure_fill(&f, COLL_ALL_REDUCE, 1, 8, 0, 0);
    ok(f.us >= 0 && f.us <= 0 && f.busbw >= 0 && f.busbw <= 0,
       "nothing measured is 0, not infinite");
    is_int(figure_iterations(0, 0), 400, "what takes no time is run 400 times");
    is_int(figure_iterations(100000, 1000000000), 200, "what takes a moment, for 20 ms");
    is_int(figure_iterations(5000000, 1000000000), 20, "what takes longer, 20 times");
    is_int(figure_iterations(100, 550), 5, "else as often as fits");
    is_int(figure_iterations(100, 5), 1, "and once at least");
}

static void wrong_data_are_seen(void)
{
    float v[1000];
    double sum[1000] = { 0 };
    unsigned wrong = 0;

    for (unsigned rank = 0; rank < 21; rank++)
        for (size_t i = 0; i < 1000; i++)
            sum[i] += (double)pattern_input(rank, i);
    for (size_t i = 0; i < 1000; i++)
        wrong += !((double)pattern_sum(21, i) >= sum[i] && (double)pattern_sum(21, i) <= sum[i]);
    is_int(wrong, 0, "the sum that is expected is the sum of what is put in");
    pattern_fill(v, 1000, 4);
    is_int((int64_t)pattern_bad(v, 1000, 0, COLL_SEND_RECV, 5, 9), 0,
           "rank 5 gets what rank 4 sent");
    is_int((int64_t)pattern_bad(v, 1000, 0, COLL_SEND_RECV, 6, 9), 1000,
           "rank 6 would see that it is not rank 5's");
    v[7] += 1;
    v[8] = nanf("");
    is_int((int64_t)pattern_bad(v, 1000, 0, COLL_SEND_RECV, 5, 9), 2,
           "an element that changed is counted, NaN too");
    ok((uint64_t)pattern_sum(65536, 250) == 65536ull * 250 + 65536 / 8 * 28,
       "sums over 65536 ranks are exact");
}

int main(void)
{
    every_pair_is_measured_once();
    a_slow_link_is_named();
    bandwidths_are_nccl_tests();
    wrong_data_are_seen();
    return plan_done();
}
