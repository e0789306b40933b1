/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of the bar's style hide what is not chosen, and only where the page is made as
 * JupyterLab's is. So a page without them (another client, an untrusted notebook, GitHub) shows all
 * texts, each under the name of its rank. Every rule starts at the cell's output area, so that two
 * views of one cell can show different tabs. */
#include <string.h>

#include "kernel/merge/panel_private.h"

#define AREA ".jp-OutputArea"

/* What all panels share. The bar itself has display:none; only the rules show it, so it is hidden
 * where they have no effect. "<!--" in a style is ignored by pages. nbconvert --sanitize-html,
 * which shows tags as text, takes everything from "<!--" to "-->" as a comment and so drops the
 * bar. */
static const char style[] =
    "<style><!--"
    ".jp-OutputArea .cellspan-tabs{display:flex!important}"
    ".cellspan-tabs{flex-wrap:wrap;align-items:baseline;margin:0 0 4px;"
    "border-bottom:1px solid var(--jp-border-color2,#bdbdbd);"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-ui-font-size1,13px);"
    "line-height:1.6}"
    ".cellspan-tabs span{padding:0 4px 0 8px;opacity:.7}"
    ".cellspan-tabs label{position:relative;padding:1px 8px;border-bottom:2px solid transparent}"
    ".cellspan-tabs label:hover{background:var(--jp-layout-color2,rgba(128,128,128,.2))}"
    ".cellspan-tabs label:has(:checked)"
    "{border-color:var(--jp-brand-color1,#1976d2);font-weight:600}"
    ".cellspan-tabs label:has(:focus-visible)"
    "{outline:2px solid var(--jp-brand-color1,#1976d2);outline-offset:-2px}"
    ".cellspan-tabs label::before{content:\"\";display:inline-block;width:.5em;height:.5em;"
    "margin-right:.4em;border-radius:50%;"
    "background:var(--cellspan-state,var(--jp-brand-color1,#1976d2))}"
    ".cellspan-tabs input{position:absolute;inset:0;width:100%;height:100%;margin:0;opacity:0;"
    "cursor:pointer}"
    ".cellspan-says{margin:0 0 2px!important;opacity:.8;font-size:var(--jp-ui-font-size1,13px)}"
    ".cellspan-says~pre{font-size:var(--jp-code-font-size,13px)!important}"
    ".cellspan-err{display:block;background:var(--jp-rendermime-error-background,#fdd)}"
    ".cellspan-whose{font-family:var(--jp-code-font-family,monospace);"
    "font-size:var(--jp-code-font-size,13px);opacity:.8}" AREA
    "-child:has(.cellspan-tabs){order:-2}";

/* ---- the bar ---- */

/* "a" or the rank's number: what the classes of a tab end in. */
static int add_key(long rank, struct buf *out)
{
    return rank < 0 ? buf_add_text(out, "a") : buf_addf(out, "%ld", rank);
}

/* Appends format's text, in which %N is the panel's name and %K the tab's key. */
static int add_rule(const char *rule, const char *name, long rank, struct buf *out)
{
    for (const char *at; (at = strchr(rule, '%')); rule = at + 2)
        if (buf_add(out, rule, (size_t)(at - rule)) < 0 ||
            (at[1] == 'N' ? buf_add_text(out, name) : add_key(rank, out)) < 0)
            return -1;
    return buf_add_text(out, rule);
}

/* r: the button of a tab, t: its label, b: its text, m: a mark inside a display's HTML, n: a mark
 * in an output before the display. */
static const char hides[] = AREA ":has(.%N-r%K:checked) .%N-b:not(.%N-b%K){display:none}";
static const char hides_displays[] = AREA
    ":has(.%N-r%K:checked) " AREA "-child:has(.%N-m:not(.%N-m%K))," AREA
    ":has(.%N-r%K:checked) " AREA "-child:has(.%N-n:not(.%N-m%K))+" AREA "-child"
    "{display:none}";
/* In the tab of a rank, its displays need no label. */
static const char hides_marks[] = AREA ":has(.%N-r:checked) .%N-m," AREA ":has(.%N-r:checked) " AREA
                                       "-child:has(.%N-n){display:none}";
static const char colours[] = AREA
    ":has(.%N-b%K.cellspan-well) .%N-t%K{--cellspan-state:var(--jp-success-color1,#388e3c)}" AREA
    ":has(.%N-b%K.cellspan-bad) .%N-t%K{--cellspan-state:var(--jp-error-color1,#d32f2f)}";

static int add_style(const struct panel_views *v, struct buf *out)
{
    if (buf_add_text(out, style) < 0 || add_rule(hides_marks, v->name, -1, out) < 0)
        return -1;
    for (size_t i = 0; i < v->n; i++) {
        const long rank = v->tab[i].rank;

        if (add_rule(hides, v->name, rank, out) < 0 ||
            (rank >= 0 && add_rule(hides_displays, v->name, rank, out) < 0) ||
            add_rule(colours, v->name, rank, out) < 0)
            return -1;
    }
    return buf_add_text(out, "</style>");
}

/* JupyterLab would take the arrow keys for itself without its attribute to leave them alone. */
static int add_button(const struct panel_views *v, long rank, struct buf *out)
{
    if (add_rule(
            rank < 0
                ? "<label class=\"%N-t%K\"><input type=\"radio\" name=\"%N\" class=\"%N-r%K\""
                : "<label class=\"%N-t%K\"><input type=\"radio\" name=\"%N\" class=\"%N-r %N-r%K\"",
            v->name, rank, out) < 0 ||
        buf_add_text(out, " data-lm-suppress-shortcuts=\"true\"") < 0)
        return -1;
    if (rank < 0)
        return buf_add_text(out, " checked>All</label>");
    return buf_addf(out, " aria-label=\"rank %ld\">%ld</label>", rank, rank);
}

/* Enter would send a form and leave the page, if its first button were not disabled. */
int panel_html_bar(const struct panel_views *v, struct buf *out)
{
    int rc = add_style(v, out);

    if (rc == 0)
        rc = buf_add_text(
            out,
            "<form class=\"cellspan-tabs\" role=\"radiogroup\" aria-label=\"ranks\" method=\"dialog\""
            " style=\"display:none\"><button disabled hidden></button>");
    for (size_t i = 0; rc == 0 && i < v->n; i++) {
        rc = add_button(v, v->tab[i].rank, out);
        if (rc == 0 && i == 0)
            rc = buf_add_text(out, "<span>rank</span>");
    }
    if (rc == 0 && v->ranks >= v->n)
        rc = buf_addf(out, "<span>%zu more are in All</span>", v->ranks - v->n + 1);
    return rc < 0 ? rc : buf_add_text(out, "</form><style>--></style>\n");
}

/* ---- the texts ---- */

/* The first rank whose word is that of rank i. */
static size_t first_alike(const struct panel_views *v, size_t i)
{
    size_t first = 0;

    while (strcmp(v->does[first].word, v->does[i].word) != 0)
        first++;
    return first;
}

/* "rank 2 failed, ranks 0-1,3 done": the ranks that are bad come first. */
static int add_states(const struct panel_views *v, struct buf *out)
{
    struct ranks same = RANKS_INIT;
    bool any = false;
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < 2 * v->ranks; at++) {
        const size_t i = at % v->ranks;
        const bool bad = v->does[i].kind == PANEL_BAD;

        if (bad != (at < v->ranks) || first_alike(v, i) < i)
            continue;
        ranks_clear(&same);
        for (size_t k = i; rc == 0 && k < v->ranks; k++)
            if (strcmp(v->does[k].word, v->does[i].word) == 0)
                rc = ranks_add(&same, v->does[k].rank);
        if (rc == 0 && any)
            rc = buf_add_text(out, ", ");
        any = true;
        if (rc == 0 && (rc = ranks_format_words(&same, out)) == 0)
            rc = buf_addf(out, " %s", v->does[i].word);
    }
    ranks_release(&same);
    return rc;
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

#define NEXT_LINE "</div><div class=\"cellspan-says\">"

/* What stands above the text of a tab. earlier: lines that are not shown. */
static int add_head(const struct panel_views *v, const struct panel_view *t, size_t earlier,
                    struct buf *out)
{
    int rc = buf_add_text(out, "<div class=\"cellspan-says\"><b>");

    if (rc == 0)
        rc = t->rank < 0 ? buf_add_text(out, "All</b> ") : buf_addf(out, "rank %ld</b> ", t->rank);
    if (rc == 0)
        rc = t->rank < 0 ? add_states(v, out) : buf_add_text(out, t->word);
    if (rc == 0 && earlier) {
        rc = buf_addf(out, NEXT_LINE "%zu earlier line%s: <code>%%ranks logs ", earlier,
                      plural(earlier));
        if (rc == 0 && t->rank >= 0)
            rc = buf_addf(out, "-r %ld ", t->rank);
        if (rc == 0)
            rc = buf_addf(out, "--cell %u</code>", v->count);
    }
    if (rc == 0 && t->left_out)
        rc = buf_addf(out, NEXT_LINE "%zu display%s left out: <code>--merge fold</code> shows more",
                      t->left_out, t->left_out == 1 ? " is" : "s are");
    return rc < 0 ? rc : buf_add_text(out, "</div>");
}

/* The bars stand below the lines; they get a part of the room. */
static int add_bars(const struct panel_view *t, bool html, size_t most, struct buf *out)
{
    struct tab_lines bars = { .keep = most / 4 };
    size_t earlier;
    int rc = tab_lines_add(&bars, 1, t->bars);

    if (rc == 0)
        rc = html ? tab_lines_html(&bars, most / 4, out, &earlier)
                  : tab_lines_plain(&bars, most / 4, out);
    tab_lines_release(&bars);
    return rc;
}

static int end_line(struct buf *out)
{
    return out->n && out->p[out->n - 1] != '\n' ? buf_add_text(out, "\n") : 0;
}

static int add_body(const struct panel_views *v, const struct panel_view *t, struct buf *room,
                    struct buf *out)
{
    static const char *const classes[] = {
        [PANEL_GOES_ON] = "", [PANEL_WELL] = " cellspan-well", [PANEL_BAD] = " cellspan-bad"
    };
    size_t earlier;

    buf_clear(room);
    if (tab_lines_html(t->tail, t->most, room, &earlier) < 0 ||
        (t->bars.n && (end_line(room) < 0 || add_bars(t, true, t->most, room) < 0)))
        return -1;
    if (add_rule("<div class=\"%N-b %N-b%K jp-RenderedText", v->name, t->rank, out) < 0 ||
        buf_addf(out, "%s\">", classes[t->kind]) < 0 || add_head(v, t, earlier, out) < 0)
        return -1;
    if (room->n && (buf_add_text(out, "<pre>") < 0 || buf_add_slice(out, buf_slice(room)) < 0 ||
                    buf_add_text(out, "</pre>") < 0))
        return -1;
    return buf_add_text(out, "</div>\n");
}

int panel_html_texts(const struct panel_views *v, struct buf *out)
{
    struct buf room = BUF_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < v->n; i++)
        rc = add_body(v, &v->tab[i], &room, out);
    buf_release(&room);
    return rc;
}

int panel_html_plain(const struct panel_views *v, size_t most, struct buf *out)
{
    const struct panel_view *all = &v->tab[0];

    if (tab_lines_plain(all->tail, most, out) < 0)
        return -1;
    return all->bars.n ? (end_line(out) < 0 ? -1 : add_bars(all, false, most, out)) : 0;
}

int panel_html_marker(const char *name, unsigned rank, bool next, struct buf *out)
{
    return add_rule(next ? "<div class=\"cellspan-whose %N-m %N-n %N-m%K\">"
                         : "<div class=\"cellspan-whose %N-m %N-m%K\">",
                    name, rank, out) < 0
               ? -1
               : buf_addf(out, "[%u]</div>\n", rank);
}
