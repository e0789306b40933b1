/* The table of the ranks, as text and as HTML. */
#include "kernel/status/status.h"

#include "base/clock.h"
#include "tests/unit/tap.h"

static const struct status_rank rows[] = {
    { 0, "running", "node0", 4711, UINT64_C(229) << 20, 72 * NS_PER_S, NULL, 3 },
    { 1, "waiting", "node0", 4712, UINT64_C(1536) << 20, 0, NULL, 12 },
    { 10, "dead", NULL, 0, 0, 0, NULL, 0 },
};

static void text_is_aligned(void)
{
    struct buf out = BUF_INIT;

    is_int(status_text(rows, 3, "default", &out), 0, "a table is written");
    is_text(out.p,
            "group default: 3 ranks\n"
            "rank  state    node    pid   memory  in cell  cells\n"
            "   0  running  node0  4711  229 MiB     1:12      3\n"
            "   1  waiting  node0  4712  1.5 GiB              12\n"
            "  10  dead                                        0\n",
            "columns stand under their names, empty ones are left out");
    buf_release(&out);
}

static void a_group_without_ranks_is_one_line(void)
{
    struct buf out = BUF_INIT;

    ok(status_text(NULL, 0, "default", &out) == 0, "no ranks are no error");
    is_text(out.p, "group default: no ranks\n", "as text");
    buf_clear(&out);
    ok(status_html(NULL, 0, "default", &out) == 0, "nor as HTML");
    is_text(out.p, "<div class=\"cellspan-ranks\">group default: no ranks</div>\n", "one element");
    buf_release(&out);
}

static void html_is_escaped(void)
{
    const struct status_rank odd = { 0, "<b>", "a&b\"'", 1, 1, 3661 * NS_PER_S, "H100\n0", 1 };
    struct buf out = BUF_INIT;

    is_int(status_html(&odd, 1, "<script>", &out), 0, "odd names are written");
    ok(strstr(out.p, "&lt;b&gt;") && strstr(out.p, "a&amp;b&quot;&#39;") &&
           strstr(out.p, "group &lt;script&gt;: 1 rank"),
       "escaped");
    ok(!strstr(out.p, "<b>") && !strstr(out.p, "<script>"), "not as they are");
    ok(strstr(out.p, "1:01:01") && strstr(out.p, "H100 0"), "hours, and no control characters");
    buf_release(&out);
}

static void long_names_are_cut_at_characters(void)
{
    struct status_rank r = { 0, "idle", NULL, 1, 0, 0, NULL, 0 };
    struct buf out = BUF_INIT;
    char name[400];

    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "\xc3\xa4", 3);
    name[398] = '\0';
    r.node = name;
    ok(status_text(&r, 1, "g", &out) == 0, "a long name is written");
    ok(strstr(out.p, "\xc3\xa4  ") && !strstr(out.p, "\xc3 "), "cut behind a whole character");
    buf_release(&out);
}

int main(void)
{
    text_is_aligned();
    a_group_without_ranks_is_one_line();
    html_is_escaped();
    long_names_are_cut_at_characters();
    return plan_done();
}
