/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the plan from the cell's text, and the own group of a script or of --beside. Home expands
 * {name} and $name on the option line first. */
#include <string.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/notebook/debugger.h"

static void show_help(struct cell *c)
{
    struct buf text = BUF_INIT;

    if (buf_addf(&text, "%s%s", c->plan.help,
                 c->plan.help[0] && c->plan.help[strlen(c->plan.help) - 1] == '\n' ? "" : "\n") ==
        0)
        publish_stream(c->nb, c->from.request, 1, buf_slice(&text));
    buf_release(&text);
}

/* A script and a cell with --beside run on ranks of their own, which end with it. */
static int make_own_group(struct cell *c, struct err *err)
{
    struct group *g = group_create(c->nb->group->name, err);

    if (!g)
        return -1;
    c->group = c->nb->script_group = g;
    return 0;
}

/* %ranks and %ranks where publish their results directly, %ranks debug and free have none. */
static bool wants_output(const struct cell *c)
{
    return c->plan.kind != PLAN_RANKS ||
           (c->plan.ranks_do != PLAN_RANKS_TABLE && c->plan.ranks_do != PLAN_RANKS_WHERE &&
            c->plan.ranks_do != PLAN_RANKS_DEBUG && c->plan.ranks_do != PLAN_RANKS_FREE);
}

/* Calls are often in loops: tabs for each would be more outputs than a page shows. */
static enum plan_merge default_merge(const struct cell *c)
{
    const enum plan_merge merge = c->nb->config.cells.merge;

    if (c->plan.kind != PLAN_DISTRIBUTE && c->plan.kind != PLAN_SCRIPT)
        return c->plan.merge;
    return merge == PLAN_PANEL && c->from.is_call ? PLAN_FOLD : merge;
}

/* Ranks get the settings that the kernel has read at its start. */
static void tell_settings(struct cell *c)
{
    char option[DISTRIBUTE_OPTION];

    for (char **e = c->plan.env; e && *e; e++) {
        const size_t n = strcspn(*e, "=");

        if (distribute_option_of(slice_of(*e, n), option))
            output_note(c,
                        "--env %.80s has no effect on these ranks: settings are read when the "
                        "kernel starts; the option %s is for a cell",
                        *e, option);
    }
}

/* why: the error for which home has left the line as it is, or "". It is said where {} or $ are
 * refused. */
static void parse(struct cell *c, struct slice line, const char *why)
{
    struct err err = { "" };

    if (!c->planned &&
        plan_parse(slice_of(c->from.text, c->from.text_size), line, &c->plan, &err) < 0) {
        const bool left = *why && strpbrk(err.text, "{$");

        cell_fail(c, "UsageError", "%s%s%s", err.text,
                  left ? "; nothing in {} and after $ was replaced: " : "", left ? why : "");
        return;
    }
    c->planned = true;
    if (!c->plan.merge_set)
        c->plan.merge = default_merge(c);
    stop_set_timeout(c);
    if (c->plan.kind == PLAN_HELP)
        show_help(c);
    else if ((c->plan.kind == PLAN_SCRIPT || c->plan.beside) && make_own_group(c, &err) < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    else if (wants_output(c) && output_open(c, &err) < 0)
        cell_fail(c, "RuntimeError", "%s", err.text);
    else {
        stop_tell_maxima(c);
        tell_settings(c);
    }
}

void expand_early(struct cell *c)
{
    const struct slice text = slice_of(c->from.text, c->from.text_size);
    struct err err = { "" };
    struct slice line;

    c->planned = plan_peek(text, &line) == 1 && plan_parse(text, line, &c->plan, &err) == 0;
}

static bool wants_expansion(struct slice line)
{
    return slice_has(line, '{') || slice_has(line, '$');
}

void expand_as_it_is(struct cell *c)
{
    struct slice line = { NULL, 0 };

    if (plan_peek(slice_of(c->from.text, c->from.text_size), &line) == 1)
        parse(c, line, "");
}

static void expand_begin(struct cell *c)
{
    struct slice line = { NULL, 0 };

    if (plan_peek(slice_of(c->from.text, c->from.text_size), &line) != 1)
        cell_fail(c, "UsageError", "that is no cell of cellspan's magics");
    else if (!c->from.is_call && wants_expansion(line)) /* IPython expands the line of a call */
        c->from.wants_line = cell_ask_home(c, "cellspan_expand",
                                           json_pack("{s:s%}", "text", line.p, line.n), 0) == 0;
    else
        parse(c, line, "");
}

static void expand_reply(struct cell *c, const struct span *reply, const json_t *content)
{
    (void)reply;
    c->from.wants_line = false;
    if (json_is_string(json_object_get(content, "text")))
        parse(c, text_slice(content, "text"), text_field(content, "why"));
    else
        cell_fail_in_words(c, text_field(content, "ename"), "", text_slice(content, "evalue"));
}

/* %ranks free. A rank that runs something does it after that. */
static void let_go(struct cell *c)
{
    struct span m = { .kind = SPAN_PROBE, .cell = c->id };
    const struct group *g = c->nb->group;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };
    int rc = 0;

    m.v[F_PROBE_WHAT].s = slice_text("let_go");
    m.v[F_PROBE_CONTENT].s = slice_text("{}");
    if (!g->size || !engine_group_lives(g))
        rc = err_set(&err, "%%ranks free: " NO_RANKS_YET);
    else if (c->plan.ranks)
        rc = ranks_parse(&which, c->plan.ranks, group_listed(g), &err);
    else
        rc = ranks_add_range(&which, 0, g->size - 1);
    if (rc < 0 || notebook_send_ranks(c->nb, g, rank_in_set, &which, &m, &err) < 0)
        cell_fail(c, "UsageError", "%s", err.text[0] ? err.text : "out of memory");
    ranks_release(&which);
}

static enum cell_outcome expand_poll(struct cell *c)
{
    struct err err = { "" };

    if (!c->planned)
        return CELL_STAYS;
    if (c->plan.kind == PLAN_HELP)
        return CELL_IS_OVER;
    if (c->plan.kind != PLAN_RANKS)
        return CELL_DONE;
    switch (c->plan.ranks_do) {
    case PLAN_RANKS_TABLE:
        return CELL_IS_TABLE;
    case PLAN_RANKS_WHERE:
        return CELL_IS_WHERE;
    case PLAN_RANKS_LOGS:
        return CELL_IS_LOGS;
    case PLAN_RANKS_CODE:
        return CELL_IS_CODE;
    case PLAN_RANKS_DEBUG:
        if (debugger_command(c->nb, c->plan.ranks, &err) < 0)
            cell_fail(c, "UsageError", "%s", err.text);
        return CELL_IS_OVER;
    case PLAN_RANKS_FREE:
        let_go(c);
        return CELL_IS_OVER;
    default:
        return CELL_DONE;
    }
}

const struct cell_step cell_expanding = { CELL_BEFORE, .begin = expand_begin, .poll = expand_poll,
                                          .reply = expand_reply };
