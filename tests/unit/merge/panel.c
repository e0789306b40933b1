/* SPDX-License-Identifier: BSD-3-Clause */
/* The tabs of --merge panel: colours as HTML, the last lines, the bar and the texts. */
#include <stdlib.h>

#include "base/utf8.h"
#include "kernel/merge/merge.h"
#include "kernel/merge/panel_private.h"
#include "tests/unit/tap.h"

static uint64_t now_ns;

static uint64_t now_of(void *arg)
{
    (void)arg;
    return now_ns;
}

static const struct clock test_clock = { .now_ns = now_of };

/* ---- colours ---- */

static void check_colours(void)
{
    static const struct {
        const char *text, *html;
    } cases[] = {
        { "plain <b> & \"quoted\"\tand a line\n",
          "plain &lt;b&gt; &amp; \"quoted\"\tand a line\n" },
        { "\033[31mred\033[0m no", "<span class=\"ansi-red-fg\">red</span> no" },
        { "\033[31mred", "<span class=\"ansi-red-fg\">red</span>" },
        { "\033[1;32mgo\033[22m on\033[m",
          "<span class=\"ansi-green-intense-fg ansi-bold\">go</span><span class=\"ansi-green-fg\"> "
          "on</span>" },
        { "\033[4;43;96mx",
          "<span class=\"ansi-cyan-intense-fg ansi-yellow-bg ansi-underline\">x</span>" },
        { "\033[7mx", "<span class=\"ansi-default-inverse-fg ansi-default-inverse-bg\">x</span>" },
        { "\033[31;7mx", "<span class=\"ansi-default-inverse-fg ansi-red-bg\">x</span>" },
        { "\033[38;5;9mx", "<span class=\"ansi-red-intense-fg\">x</span>" },
        { "\033[38;5;208mx", "<span class=\"\" style=\"color:#ff8700;\">x</span>" },
        { "\033[48;5;255mx", "<span class=\"\" style=\"background-color:#eeeeee;\">x</span>" },
        { "\033[38;2;1;2;300mx", "<span class=\"\" style=\"color:#01022c;\">x</span>" },
        { "\033[31m\033[0m\033[32m<", "<span class=\"ansi-green-fg\">&lt;</span>" },
        { "a\033[2Kb\033[?25lc\033[", "abc" },
        { "\033]8;;http://x\033\\link\033]8;;\a.", "link." },
        { "\033[38;5mx\033[38mx\033[;;;mx", "xxx" },
        { "\a\bbell\r\n\x7f\033", "bell\n" },
        { "\033", "" },
        { "\033]unended", "" },
        { "\033\xc3\xa9", "\xc3\xa9" },
    };
    struct buf got = BUF_INIT;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf_clear(&got);
        if (buf_add_text(&got, "") < 0 || ansi_html(slice_text(cases[i].text), &got) < 0)
            ok(false, "memory");
        is_text(got.p, cases[i].html, "case %zu of the escape sequences", i);
    }
    buf_release(&got);
}

/* ---- the last lines ---- */

static void add(struct tab_lines *t, unsigned stream, const char *text)
{
    if (tab_lines_add(t, stream, slice_text(text)) < 0)
        ok(false, "memory");
}

static void html_is(const struct tab_lines *t, size_t most, const char *want, size_t lines,
                    const char *sentence)
{
    struct buf got = BUF_INIT;
    size_t earlier = 99;

    if (buf_add_text(&got, "") < 0 || tab_lines_html(t, most, &got, &earlier) < 0)
        ok(false, "memory");
    is_text(got.p, want, "%s", sentence);
    is_int((long)earlier, (long)lines, "%s: the earlier lines", sentence);
    buf_release(&got);
}

static void check_lines(void)
{
    struct tab_lines t = { .keep = 10 };
    struct buf plain = BUF_INIT;
    char *const large = malloc(100001);

    html_is(&t, 100, "", 0, "nothing was printed");
    add(&t, 1, "out\n");
    add(&t, 2, "err");
    add(&t, 1, "out");
    html_is(&t, 1000, "out\n<span class=\"cellspan-err\">err</span>\nout", 0,
            "stderr has a class, and each stream begins a line");
    if (tab_lines_plain(&t, 1000, &plain) < 0)
        ok(false, "memory");
    is_text(plain.p, "out\nerr\nout", "as text it has none");
    buf_release(&plain);
    html_is(&t, 4, "out", 1, "only what fits");
    for (int i = 0; i < 1000; i++)
        add(&t, 1, "line\n");
    ok(t.text.n <= 20, "it keeps at most twice as much as it must");
    html_is(&t, 12, "line\nline\n", 999, "older lines are counted");
    tab_lines_clear(&t);
    html_is(&t, 100, "", 0, "after it was cleared");
    if (large) {
        memset(large, 'x', 100000);
        memcpy(large + 99990, "\n\xc3\xa9tail", 8);
        large[99998] = '\0';
        add(&t, 2, large);
        html_is(&t, 100, "<span class=\"cellspan-err\">\xc3\xa9tail</span>", 1,
                "of a large text only the end");
        free(large);
    }
    tab_lines_clear(&t);
    add(&t, 1, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    html_is(&t, 3, "\xc3\xa9", 0, "a long line is cut between two characters");
    tab_lines_clear(&t);
    add(&t, 1, "<<<<\n");
    html_is(&t, 8, "&lt;\n", 0, "markup counts as it is written");
    tab_lines_release(&t);
}

/* ---- the panel ---- */

static struct panel *panel_of(unsigned ranks)
{
    struct ranks world = RANKS_INIT;
    struct err err = { "" };
    struct panel *p;

    if (ranks_add_range(&world, 0, ranks - 1) < 0)
        abort();
    p = panel_create("csX", 7, &world, &test_clock, &err);
    ranks_release(&world);
    if (!p)
        abort();
    return p;
}

static void print(struct panel *p, unsigned rank, const char *text)
{
    struct err err = { "" };

    if (panel_lines(p, rank, 1, 0, slice_text(text), &err) < 0)
        ok(false, "%s", err.text);
}

static void texts(struct panel *p, struct buf *plain, struct buf *html)
{
    struct err err = { "" };

    buf_clear(plain);
    buf_clear(html);
    if (panel_tick(p, &err) < 0 || panel_flush(p, &err) < 0 || buf_add_text(plain, "") < 0 ||
        panel_text(p, plain, html) < 0)
        ok(false, "the texts");
}

static void has(const struct buf *text, const char *part, const char *sentence)
{
    ok(strstr(text->p, part) != NULL, "%s", sentence);
    if (!strstr(text->p, part))
        printf("# no %s in %s\n", part, text->p);
}

static void check_panel(void)
{
    struct panel *p = panel_of(3);
    struct buf plain = BUF_INIT, html = BUF_INIT, bar = BUF_INIT;

    ok(!panel_changed(p) && panel_due_ns(p) == UINT64_MAX, "at first nothing has changed");
    print(p, 1, "\033[31mone\033[0m <i>\n");
    ok(panel_changed(p), "a line changes it");
    if (panel_all(p, 1, slice_text("[1] one\n")) < 0)
        ok(false, "memory");
    panel_state(p, 0, "done", PANEL_WELL);
    panel_state(p, 1, "failed", PANEL_BAD);
    panel_state(p, 2, "done", PANEL_WELL);
    texts(p, &plain, &html);
    ok(!panel_changed(p), "what was written is not written again");
    panel_state(p, 1, "failed", PANEL_BAD);
    ok(!panel_changed(p), "the same state is no change");
    is_text(plain.p, "[1] one\n", "the text is that of all ranks");
    has(&html, "<b>All</b> rank 1 failed, ranks 0,2 done", "failed ranks come first");
    has(&html, "csX-b csX-ba jp-RenderedText cellspan-bad\"", "All is as bad as one of them");
    has(&html, "csX-b csX-b1 jp-RenderedText cellspan-bad\"", "a failed rank has a class");
    has(&html, "csX-b csX-b0 jp-RenderedText cellspan-well\"", "one that is done has another");
    has(&html,
        "<b>rank 1</b> failed</div><pre><span class=\"ansi-red-fg\">one</span> &lt;i&gt;\n</pre>",
        "its lines are escaped");
    has(&html, "<b>rank 2</b> done</div></div>", "a rank that printed nothing has no lines");
    if (panel_bar(p, &bar) < 0)
        ok(false, "memory");
    has(&bar, "class=\"csX-ra\" data-lm-suppress-shortcuts=\"true\" checked>All", "All is chosen");
    has(&bar, "class=\"csX-r csX-r2\"", "each rank has a button");
    ok(!strstr(bar.p, "csX-r3") && !strstr(bar.p, " id="), "no more, and without ids");
    ok(!strstr(strstr(bar.p, "<!--") + 4, "<!--"), "one comment begins");
    has(&bar, "</form><style>--></style>", "and it ends after the form");
    panel_clear(p, 1);
    panel_left_out(p, 1);
    texts(p, &plain, &html);
    has(&html, "<b>rank 1</b> failed</div><div class=\"cellspan-says\">1 display is left out",
        "a cleared tab has no lines; displays that are left out are counted");
    buf_release(&plain);
    buf_release(&html);
    buf_release(&bar);
    panel_destroy(p);
}

static void check_bars(void)
{
    struct panel *p = panel_of(2);
    struct buf plain = BUF_INIT, html = BUF_INIT;
    struct err err = { "" };

    print(p, 0, "before\n");
    if (panel_lines(p, 0, 2, LINES_PROGRESS, slice_text("\r 10%\r 50%"), &err) < 0 ||
        panel_bars(p, slice_text("[0] 50%")) < 0 || panel_text(p, &plain, &html) < 0)
        ok(false, "memory");
    has(&html, "<pre>before\n 50%", "a bar stands below the lines");
    has(&html, "[0] 50%", "and in All");
    texts(p, &plain, &html);
    has(&html, "<pre>before\n 50%\n</pre>", "its last state becomes a line");
    buf_release(&plain);
    buf_release(&html);
    panel_destroy(p);
}

/* Jupyter's server and pages set the limit. */
static void check_size(void)
{
    struct panel *p = panel_of(200);
    struct buf plain = BUF_INIT, html = BUF_INIT, bar = BUF_INIT;
    size_t size = 0;

    for (unsigned r = 0; r < 200; r++)
        for (int i = 0; i < 2000; i++)
            print(p, r, "\033[1;31m<<<<<<<<\033[0m \\\\ \"\"\n");
    for (int i = 0; i < 20000; i++)
        if (panel_all(p, i % 2 ? 1 : 2, slice_text("\033[31m&&&&&&&&&&&&&&\033[0m\n")) < 0)
            ok(false, "memory");
    texts(p, &plain, &html);
    for (size_t i = 0; i < html.n; i++)
        size += 1u + (html.p[i] == '"' || html.p[i] == '\\' || html.p[i] == '\n');
    for (size_t i = 0; i < plain.n; i++)
        size += plain.p[i] == '\033' ? 6u : 1u + (plain.p[i] == '\n');
    ok(size < 620000 && size > 100000, "the texts have %zu bytes in JSON", size);
    has(&html, "--cell 7</code>", "the rest is in the logs");
    has(&html, "<code>%ranks logs -r 127 --cell 7</code>", "of each rank");
    if (panel_bar(p, &bar) < 0)
        ok(false, "memory");
    ok(bar.n < 100000, "the bar has %zu bytes", bar.n);
    has(&bar, "<span>72 more are in All</span>", "ranks without a tab are counted");
    buf_release(&plain);
    buf_release(&html);
    buf_release(&bar);
    panel_destroy(p);
}

static void check_marker(void)
{
    struct panel *p = panel_of(2);
    struct buf html = BUF_INIT;

    if (panel_marker(p, 1, true, &html) < 0 || panel_marker(p, 0, false, &html) < 0)
        ok(false, "memory");
    is_text(html.p,
            "<div class=\"cellspan-whose csX-m csX-n csX-m1\">[1]</div>\n"
            "<div class=\"cellspan-whose csX-m csX-m0\">[0]</div>\n",
            "a mark names the rank");
    buf_release(&html);
    panel_destroy(p);
}

/* ---- whatever is printed ---- */

static uint32_t random_next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static int starts(const char *p, const char *what)
{
    return strncmp(p, what, strlen(what)) == 0;
}

/* Is it UTF-8 without control characters, in which each tag that opens also closes? */
static bool is_sound(const struct buf *html)
{
    int spans = 0, divs = 0;

    for (size_t i = 0; i < html->n; i++) {
        const char *p = html->p + i;

        if (((unsigned char)*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7f)
            return false;
        spans += starts(p, "<span") - starts(p, "</span");
        divs += starts(p, "<div") - starts(p, "</div");
        if (spans < 0 || divs < 0)
            return false;
    }
    return spans == 0 && divs == 0 && utf8_is_valid(buf_slice(html));
}

static void check_anything(void)
{
    static const char *const bits[] = { "\033[", "31m",  "38;5;",  "208m", "\033]8;;", "\a", "\r",
                                        "\n",    "<",    "</pre>", "&",    "\"",       "\\", "\xc3",
                                        "\xa9",  "\xff", "\033[A", "x",    " 10%|",    "0m", "\b" };
    uint32_t seed = 20;

    for (int round = 0; round < 100; round++) {
        struct panel *p = panel_of(3);
        struct buf plain = BUF_INIT, html = BUF_INIT;
        struct err err = { "" };

        for (int i = 0; i < 300; i++) {
            const char *bit = bits[random_next(&seed) % (sizeof bits / sizeof *bits)];
            const uint32_t how = random_next(&seed);

            now_ns += how % 50 * NS_PER_MS;
            if (panel_lines(p, how % 4, how / 4 % 2 + 1, how / 8 % 2 ? LINES_PROGRESS : 0,
                            slice_text(bit), &err) < 0 ||
                panel_tick(p, &err) < 0)
                ok(false, "%s", err.text);
            if (how % 64 == 0)
                panel_clear(p, how / 64 % 3);
        }
        texts(p, &plain, &html);
        if (!is_sound(&html))
            ok(false, "round %d: %s", round, html.p);
        buf_release(&plain);
        buf_release(&html);
        panel_destroy(p);
    }
    ok(true, "whatever ranks print, the HTML is sound");
}

int main(void)
{
    check_colours();
    check_lines();
    check_panel();
    check_bars();
    check_size();
    check_marker();
    check_anything();
    return plan_done();
}
