/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the ranks, as text and as HTML. */
#include "kernel/status/status.h"

#include <stdio.h>

#include "base/clock.h"
#include "tests/unit/tap.h"

static const struct status_rank rows[] = {
    { .rank = 0,
      .state = "running",
      .node = "node0",
      .pid = 4711,
      .memory = UINT64_C(229) << 20,
      .cpu_known = true,
      .cpu = 396,
      .in_cell_ns = 72 * NS_PER_S,
      .cells = 3 },
    { .rank = 1,
      .state = "waiting",
      .node = "node0",
      .pid = 4712,
      .memory = UINT64_C(1536) << 20,
      .cells = 12 },
    { .rank = 10, .state = "dead" },
};

static void text_is_aligned(void)
{
    struct buf out = BUF_INIT;

    is_int(status_text(rows, 3, "group default", &out), 0, "a table is written");
    is_text(out.p,
            "group default: 3 ranks\n"
            "rank  state    node    pid   memory    cpu  in cell  cells\n"
            "   0  running  node0  4711  229 MiB  396 %     1:12      3\n"
            "   1  waiting  node0  4712  1.5 GiB                     12\n"
            "  10  dead                                               0\n",
            "columns stand under their names, empty ones are left out");
    buf_release(&out);
}

static void a_group_without_ranks_is_one_line(void)
{
    struct buf out = BUF_INIT;

    ok(status_text(NULL, 0, "group default", &out) == 0, "no ranks are no error");
    is_text(out.p, "group default: no ranks\n", "as text");
    buf_clear(&out);
    ok(status_html(NULL, 0, "group default", &out) == 0, "nor as HTML");
    is_text(out.p, "<div class=\"cellspan-ranks\">group default: no ranks</div>\n", "one element");
    buf_release(&out);
}

static void html_is_escaped(void)
{
    const struct status_rank odd = { .state = "<b>",
                                     .node = "a&b\"'",
                                     .pid = 1,
                                     .memory = 1,
                                     .in_cell_ns = 3661 * NS_PER_S,
                                     .gpu = "H100\n0",
                                     .cells = 1 };
    struct buf out = BUF_INIT;

    is_int(status_html(&odd, 1, "group <script>", &out), 0, "odd names are written");
    ok(strstr(out.p, "&lt;b&gt;") && strstr(out.p, "a&amp;b&quot;&#39;") &&
           strstr(out.p, "group &lt;script&gt;: 1 rank"),
       "escaped");
    ok(!strstr(out.p, "<b>") && !strstr(out.p, "<script>"), "not as they are");
    ok(strstr(out.p, "1:01:01") && strstr(out.p, "H100 0"), "hours, and no control characters");
    buf_release(&out);
}

static void long_names_are_cut_at_characters(void)
{
    struct status_rank r = { .state = "idle", .pid = 1 };
    struct buf out = BUF_INIT;
    char name[400];

    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa4", 3);
    name[398] = '\0';
    r.node = name;
    ok(status_text(&r, 1, "group g", &out) == 0, "a long name is written");
    ok(strstr(out.p, "\xc3\xa4  ") && !strstr(out.p, "\xc3 "), "cut behind a whole character");
    buf_release(&out);
}

static void gpus_have_columns(void)
{
    const struct status_rank with[] = {
        { .rank = 0,
          .state = "idle",
          .node = "h1",
          .pid = 7,
          .gpu = "0",
          .gpu_used = UINT64_C(12) << 30,
          .gpu_total = UINT64_C(80) << 30,
          .gpu_use = 93,
          .gpu_others = 2 },
        { .rank = 1,
          .state = "idle",
          .node = "h2",
          .pid = 8,
          .gpu = "1",
          .gpu_use = -1,
          .gpu_others = -1 },
    };
    struct buf out = BUF_INIT;

    is_int(status_text(with, 2, "group default", &out), 0, "a table with GPUs is written");
    is_text(out.p,
            "group default: 2 ranks\n"
            "rank  state  node  pid  gpu        gpu memory  gpu use  others on it  cells\n"
            "   0  idle   h1      7  0    12 GiB of 80 GiB     93 %  2                 0\n"
            "   1  idle   h2      8  1                                                 0\n",
            "what is not known is blank");
    buf_release(&out);
}

static void check_cell(const struct status_cell *s, const char *want, const char *what)
{
    struct buf out = BUF_INIT;

    ok(status_cell_text(s, &out) == 0, "the state of a cell is written");
    is_text(out.p, want, "%s", what);
    buf_release(&out);
}

static void ranks_in_one_state_share_a_line(void)
{
    struct status_rank four[] = {
        { .rank = 0, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
        { .rank = 1, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
        { .rank = 2, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
        { .rank = 3, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
    };
    struct status_cell s = { .rows = four, .n = 4, .elapsed_ns = 12 * NS_PER_S };
    struct buf html = BUF_INIT;

    check_cell(&s, "ranks 0-3 running 0:12 (vm)\n", "all alike are one line");
    s.as_of = "2026-11-21 14:03:07";
    check_cell(&s, "ranks 0-3 running 0:12 (vm), as of 2026-11-21 14:03:07\n",
               "with the time of day when that was so");
    four[2].state = "done";
    four[2].in_cell_ns = 0;
    four[3].node = "<h2>";
    check_cell(&s,
               "ranks 0-1,3 running 0:12 (vm, <h2>), as of 2026-11-21 14:03:07\nrank 2 done (vm)\n",
               "a line for each state, with its nodes");
    ok(status_cell_html(&s, &html) == 0 && strstr(html.p, "(vm, &lt;h2&gt;)") &&
           strstr(html.p, "\nrank 2 done (vm)</div>"),
       "and as HTML");
    four[2].state = "failed";
    s.over = true;
    check_cell(&s, "ranks 0-1,3 running, rank 2 failed in 0:12",
               "at the end one line is left, also of a failure");
    buf_release(&html);
}

static void items_are_counted_above_the_ranks(void)
{
    struct status_rank two[] = {
        { .rank = 0, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
        { .rank = 1, .state = "running", .node = "vm", .in_cell_ns = 12 * NS_PER_S },
    };
    struct status_cell s = { .rows = two,
                             .n = 2,
                             .elapsed_ns = 12 * NS_PER_S,
                             .counts = true,
                             .count = { .done = 37, .of = 200 } };
    struct buf html = BUF_INIT;

    check_cell(&s, "37 of 200\nranks 0-1 running 0:12 (vm)\n", "what is done stands first");
    s.count.failed = 2;
    s.count.again = 3;
    check_cell(&s, "37 of 200, 2 failed, 3 tried again\nranks 0-1 running 0:12 (vm)\n",
               "with what has failed, and what was tried again");
    ok(status_cell_html(&s, &html) == 0 &&
           strstr(html.p, "<progress value=\"37\" max=\"200\"></progress> 37 of 200, 2 failed"),
       "and as a bar");
    s.count = (struct status_count){ .done = 37 };
    check_cell(&s, "37 so far\nranks 0-1 running 0:12 (vm)\n", "nobody knows how many will come");
    buf_clear(&html);
    ok(status_cell_html(&s, &html) == 0 && !strstr(html.p, "<progress"), "then there is no bar");
    s.over = true;
    two[0].state = two[1].state = "done";
    s.count.of = 37;
    s.count.failed = 1;
    check_cell(&s, "37 of 37, 1 failed: ranks 0-1 done in 0:12", "it stays in the line at the end");
    buf_clear(&html);
    ok(status_cell_html(&s, &html) == 0 && !strstr(html.p, "<progress"), "without a bar");
    buf_release(&html);
}

static void ranks_with_gpus_have_a_table(void)
{
    const struct status_rank two[] = {
        { .rank = 0,
          .state = "running",
          .node = "h1",
          .in_cell_ns = 12 * NS_PER_S,
          .gpu = "0",
          .gpu_used = UINT64_C(1) << 30,
          .gpu_total = UINT64_C(80) << 30,
          .gpu_use = 5 },
        { .rank = 1, .state = "done", .node = "h2" },
    };
    struct status_cell s = {
        .rows = two, .n = 2, .elapsed_ns = 12 * NS_PER_S, .as_of = "2026-11-21 14:03:07"
    };
    struct buf html = BUF_INIT;

    check_cell(&s,
               "2 ranks, 0:12: 1 running, 1 done, as of 2026-11-21 14:03:07\n"
               "rank  state         node  gpu         gpu memory  gpu use\n"
               "   0  running 0:12  h1    0    1.0 GiB of 80 GiB      5 %\n"
               "   1  done          h2\n",
               "with state, node and GPU");
    ok(status_cell_html(&s, &html) == 0 &&
           strstr(html.p, "<td style=\"text-align:left\">running 0:12</td>"),
       "and as HTML");
    s.left_ns = 850 * NS_PER_S;
    check_cell(&s,
               "2 ranks, 0:12: 1 running, 1 done, as of 2026-11-21 14:03:07, ends in 0:14:10\n"
               "rank  state         node  gpu         gpu memory  gpu use\n"
               "   0  running 0:12  h1    0    1.0 GiB of 80 GiB      5 %\n"
               "   1  done          h2\n",
               "with the end of their job");
    s.over = true;
    check_cell(&s, "rank 0 running, rank 1 done in 0:12", "and one line at the end");
    buf_clear(&html);
    ok(status_cell_html(&s, &html) == 0 &&
           strstr(html.p, ">rank 0 running, rank 1 done in 0:12</div>") &&
           !strstr(html.p, "<table>"),
       "in HTML, too");
    buf_release(&html);
}

static void many_ranks_share_lines(void)
{
    static struct status_rank many[8192];
    struct status_cell s = { .rows = many, .n = 8192, .elapsed_ns = 9 * NS_PER_S };
    struct buf out = BUF_INIT;
    static char node[8192][8];

    for (unsigned k = 0; k < 8192; k++) {
        snprintf(node[k], sizeof node[k], "h%u", k / 100);
        many[k] = (struct status_rank){ .rank = k,
                                        .state = k < 8000    ? "running"
                                                 : k == 8191 ? "<failed>"
                                                             : "done",
                                        .node = node[k],
                                        .in_cell_ns = k < 8000 ? 9 * NS_PER_S : 0,
                                        .gpu_use = -1 };
    }
    check_cell(
        &s,
        "ranks 0-7999 running 0:09 (h0, h1, h2, \xe2\x80\xa6)\nranks 8000-8190 done (h80, h81)\nrank 8191 <failed> (h81)\n",
        "one line for each state, which names few nodes");
    for (unsigned k = 0; k < 8000; k += 2)
        many[k].state = "waiting", many[k].in_cell_ns = 0;
    s.over = true;
    check_cell(
        &s,
        "4000 ranks waiting, 4000 ranks running, ranks 8000-8190 done, rank 8191 <failed> in 0:09",
        "nor many numbers");
    s.over = false;
    for (unsigned k = 0; k < 40; k++)
        many[k] = (struct status_rank){ .rank = k,
                                        .state = "running",
                                        .node = "h",
                                        .in_cell_ns = 9 * NS_PER_S,
                                        .gpu = "0",
                                        .gpu_total = UINT64_C(80) << 30,
                                        .gpu_used = UINT64_C(1) << (30 + k % 3),
                                        .gpu_use = (int)k };
    s.n = 40;
    check_cell(
        &s, "ranks 0-39 running 0:09 (h)\ngpu memory 1.0 GiB to 4.0 GiB of 80 GiB, use 0 to 39 %\n",
        "GPUs by the least and the most");
    many[3].gpu_others = 2;
    check_cell(
        &s,
        "ranks 0-39 running 0:09 (h)\ngpu memory 1.0 GiB to 4.0 GiB of 80 GiB, use 0 to 39 %, others on that of 1 rank\n",
        "and whether others are on them");
    s.n = 8192;
    ok(status_cell_html(&s, &out) == 0 && out.n < 1000 && strstr(out.p, "rank 8191 &lt;failed&gt;"),
       "small, and escaped");
    buf_release(&out);
}

int main(void)
{
    gpus_have_columns();
    ranks_in_one_state_share_a_line();
    items_are_counted_above_the_ranks();
    ranks_with_gpus_have_a_table();
    many_ranks_share_lines();
    text_is_aligned();
    a_group_without_ranks_is_one_line();
    html_is_escaped();
    long_names_are_cut_at_characters();
    return plan_done();
}
