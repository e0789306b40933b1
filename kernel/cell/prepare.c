/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares a cell: its ranks, the variables that it reads from home, and a port for its world. All
 * three are asked for at once. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/live_status.h"

#define NOTES "notes" /* a key of c->prep.captured: lines to show when its names are sent */

/* ---- CAPTURE ---- */

static int add_joined(struct buf *out, char **names)
{
    for (size_t k = 0; names && names[k]; k++)
        if (buf_addf(out, "%s%s", k ? "," : "", names[k]) < 0)
            return -1;
    return 0;
}

/* Adds the script's path, as home finds it, if ranks may run on nodes without the file. Home
 * reads the file, and RUN carries its text. */
static int add_script(const struct cell *c, struct buf *out)
{
    const char *script = c->plan.argv ? c->plan.argv[0] : NULL;

    if (c->plan.kind != PLAN_SCRIPT || !script || strcmp(script, "-m") == 0 || !c->nb->group->on)
        return 0;
    if (script[0] != '/' && c->plan.cwd && buf_addf(out, "%s/", c->plan.cwd) < 0)
        return -1;
    return buf_add_text(out, script);
}

/* Before ranks of this machine end, home looks for what the cell names on this machine. Variables
 * of --env may change what the folder's name means, so home can't tell then. */
static void add_paths(const struct cell *c, struct span *m)
{
    const char *script = c->plan.kind == PLAN_SCRIPT && c->plan.argv ? c->plan.argv[0] : NULL;

    if (!group_nodes_are_here(c) || c->plan.env)
        return;
    m->v[F_CAPTURE_CWD].s = slice_text(c->plan.cwd);
    if (script && strcmp(script, "-m") != 0)
        m->v[F_CAPTURE_SCRIPT].s = slice_text(script);
}

/* What --with names, as JSON. */
static int add_bring(const struct cell *c, struct buf *out)
{
    json_t *list = c->plan.with ? json_array() : NULL;

    for (size_t k = 0; list && c->plan.with[k]; k++)
        if (json_array_append_new(list, json_string(c->plan.with[k])) < 0) {
            json_decref(list);
            return -1;
        }
    return c->plan.with ? text_json(out, list) : 0;
}

/* Does home's code go to these ranks? */
static uint64_t code_flags(const struct cell *c)
{
    if (!c->nb->config.code || group_nodes_are_here(c))
        return 0;
    return CAPTURE_FAR | (c->plan.no_code ? CAPTURE_NO_CODE : 0);
}

/* early: before ranks of this machine end. -1: the cell has failed. */
static int ask_capture(struct cell *c, bool early)
{
    struct span m = { .kind = SPAN_CAPTURE, .worker = SPAN_WORKER_HOME, .cell = c->id };
    const bool looks = c->plan.kind == PLAN_DISTRIBUTE || c->plan.kind == PLAN_PUSH;
    struct buf names = BUF_INIT, script = BUF_INIT, bring = BUF_INIT;
    int rc = add_joined(&names, c->plan.kind == PLAN_PUSH ? c->plan.names : c->plan.capture);

    if (rc == 0)
        rc = add_script(c, &script);
    if (rc == 0)
        rc = add_bring(c, &bring);
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    m.v[F_CAPTURE_CODE].s = script.n ? buf_slice(&script)
                                     : slice_of(c->plan.body, c->plan.body ? c->plan.body_size : 0);
    m.v[F_CAPTURE_NAMES].s = buf_slice(&names);
    m.v[F_CAPTURE_FLAGS].u64 = (looks && !c->plan.no_capture ? 0 : CAPTURE_NONE) |
                               (cell_is_stored(c) ? CAPTURE_RECORD : 0) |
                               (script.n ? CAPTURE_SCRIPT : 0) |
                               (c->plan.kind == PLAN_PUSH ? CAPTURE_PUSH : 0) |
                               (early ? CAPTURE_PYTHON : 0) | code_flags(c);
    m.v[F_CAPTURE_COUNT].u64 = c->from.count;
    m.v[F_CAPTURE_RAW].s = slice_of(c->from.text, c->from.text_size);
    m.v[F_CAPTURE_BRING].s = buf_slice(&bring);
    if (early)
        add_paths(c, &m);
    c->prep.wants_capture = true;
    if (rc == 0)
        rc = cell_send_home(c, &m);
    buf_release(&names);
    buf_release(&script);
    buf_release(&bring);
    return rc;
}

bool prepare_has_asked(const struct cell *c)
{
    return c->prep.wants_capture || c->prep.captured;
}

/* -1: the cell has failed. */
static int note_newer(struct cell *c)
{
    if (ledger_newer(c->nb->group, c->prep.captured) == 0)
        return 0;
    return cell_fail(c, "RuntimeError", "out of memory");
}

/* ---- checks before anything is started or stopped ---- */

int prepare_parse_ranks(const struct cell *c, unsigned n, struct ranks *which, struct err *err)
{
    const bool there = !cell_own_group(c) && c->nb->group->asked == n;

    return ranks_parse_world(which, c->plan.ranks, n, there, err);
}

static int refuse(struct cell *c)
{
    const unsigned n = c->plan.per_node            ? 0 /* it depends on the number of nodes */
                       : c->plan.n != PLAN_N_UNSET ? c->plan.n
                                                   : c->nb->group->asked;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };
    int rc = 0;

    if (c->plan.with && !c->nb->config.code)
        rc = err_set(&err, "--with %s: CELLSPAN_CODE=never keeps files here: leave one of them out",
                     c->plan.with[0]);
    else if (c->plan.kind == PLAN_PULL && c->nb->group->asked == 0)
        rc = err_set(&err, "%%pull: " NO_RANKS_YET);
    else if (n && n <= GROUP_MAX && c->plan.ranks)
        rc = prepare_parse_ranks(c, n, &which, &err);
    ranks_release(&which);
    if (rc < 0)
        cell_fail(c, "UsageError", "%s", err.text);
    return rc < 0 ? -1 : engine_choose(c);
}

/* %ranks check and %ranks restart take the world as it is. */
static void refuse_without_world(struct cell *c)
{
    const bool checks = c->plan.ranks_do == PLAN_RANKS_CHECK;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };

    if (!c->world)
        cell_fail(c, "UsageError", "%%ranks %s: " NO_RANKS_YET,
                  ranks_command_name(c->plan.ranks_do));
    else if (checks && c->plan.ranks && ranks_parse(&which, c->plan.ranks, c->world, &err) < 0)
        cell_fail(c, "UsageError", "%s", err.text);
    ranks_release(&which);
}

static void prepare_choose_begin(struct cell *c)
{
    live_open(c);
    if (c->plan.kind == PLAN_RANKS)
        c->world = c->nb->group->asked;
    if (c->plan.kind != PLAN_RANKS)
        (void)refuse(c);
    else if (c->plan.ranks_do != PLAN_RANKS_STOP)
        refuse_without_world(c);
}

/* --fresh: all ranks will end, so the number of ranks and the engine may change. */
static void reset_for_fresh(struct cell *c)
{
    if (c->engine.moves || c->plan.n != PLAN_N_UNSET || c->plan.per_node)
        c->nb->group->asked = 0;
    if (engine_is_torn(c->nb))
        engine_move(c);
}

static enum cell_outcome prepare_choose_poll(struct cell *c)
{
    if (c->plan.kind == PLAN_RANKS)
        return c->plan.ranks_do == PLAN_RANKS_CHECK ? CELL_DONE : CELL_ENDS_RANKS;
    if (!c->plan.fresh)
        return CELL_DONE;
    if (engine_group_lives(c->nb->group))
        return CELL_ASKS_FIRST;
    reset_for_fresh(c);
    return CELL_ENDS_RANKS;
}

static void prepare_ask_begin(struct cell *c)
{
    if (ask_capture(c, true) == 0)
        start_try_begin(c);
}

static enum cell_outcome prepare_ask_poll(struct cell *c)
{
    if (c->prep.wants_capture || !start_try_poll(c) || c->bad)
        return CELL_STAYS;
    reset_for_fresh(c);
    return CELL_DONE;
}

/* ---- ranks, variables and a port ---- */

static void prepare_begin(struct cell *c)
{
    if (c->plan.kind != PLAN_RANKS && !prepare_has_asked(c) && ask_capture(c, false) < 0)
        return;
    if (gpu_memory_begin(c) == 0)
        start_begin(c);
}

static bool is_starting(const struct cell *c, const struct member *m)
{
    return c->group->rank[m->rank].state == RANK_STARTING;
}

static enum cell_outcome prepare_poll(struct cell *c)
{
    if (!start_poll(c))
        return CELL_ENDS_RANKS;
    if (c->bad || c->prep.wants_gpus || c->prep.wants_capture || c->prep.wants_port ||
        cell_some_member(c, is_starting) || !gpu_memory_poll(c))
        return CELL_STAYS;
    if (c->plan.kind == PLAN_RANKS)
        return c->plan.ranks_do == PLAN_RANKS_CHECK ? CELL_IS_CHECK : CELL_IS_OVER;
    if (follow_tell(c) < 0)
        return CELL_STAYS;
    return CELL_DONE;
}

/* ---- PACK ---- */

static int ask_pack(struct cell *c, const struct vars_bundle *s)
{
    struct span m = { .kind = SPAN_PACK,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .blob = notebook_next_blobs(c->nb, 1) };

    m.v[F_PACK_NAMES].s = slice_text(s->names);
    return cell_send_home(c, &m);
}

static void note_lines(struct cell *c, struct slice text)
{
    while (text.n) {
        const struct slice line = slice_line(&text);

        if (line.n)
            output_note(c, "%.*s", SLICE_ARG(line));
    }
}

static void prepare_send_begin(struct cell *c)
{
    struct err err = { "" };

    note_lines(c, text_slice(c->prep.captured, NOTES));
    if (vars_plan_bundles(c->group, &c->to, c->prep.captured, &c->send.bundles, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    for (size_t k = 0; k < c->send.bundles.n; k++)
        if (ask_pack(c, &c->send.bundles.item[k]) < 0)
            return;
}

static enum cell_outcome prepare_send_poll(struct cell *c)
{
    return c->send.bundles.sent == c->send.bundles.n ? CELL_DONE : CELL_STAYS;
}

/* ---- answers ---- */

/* text: "CaptureError: lock was not sent"; the part before the colon becomes the ename. */
static void fail_in_words_of_python(struct cell *c, struct slice text)
{
    char ename[64] = "RuntimeError";
    const char *colon = memchr(text.p, ':', text.n);
    const size_t n = colon ? (size_t)(colon - text.p) : 0;

    if (n && n < sizeof ename && !memchr(text.p, ' ', n)) {
        memcpy(ename, text.p, n);
        ename[n] = '\0';
        text = slice_of(colon + 1, text.n - n - 1);
    }
    while (text.n && text.p[0] == ' ')
        text = slice_of(text.p + 1, text.n - 1);
    cell_fail_in_words(c, ename, "", text);
}

void prepare_use_captured(struct cell *c, struct slice text, struct slice notes)
{
    json_t *names = text_parse(text);
    const struct slice error = text_slice(names, "error");

    c->prep.wants_capture = false;
    json_decref(c->prep.captured);
    c->prep.captured = names ? names : json_null();
    if (!names) {
        cell_fail(c, "RuntimeError", "what home said of the cell's variables could not be read");
        return;
    }
    if (error.n) {
        note_lines(c, notes);
        fail_in_words_of_python(c, error);
        return;
    }
    if (note_newer(c) < 0) /* now: home says it once, and the cell may yet fail or be dropped */
        return;
    if (notes.n && json_object_set_new(names, NOTES, json_stringn_nocheck(notes.p, notes.n)) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
}

static void on_packed(struct cell *c, const struct span *m)
{
    if (c->send.bundles.sent == c->send.bundles.n) { /* nothing is waited for */
        notebook_drop(c->nb, m->blob_size ? m->blob : 0);
        return;
    }
    if (m->v[F_PACKED_ERROR].s.n) {
        fail_in_words_of_python(c, m->v[F_PACKED_ERROR].s);
        return;
    }
    broadcast_packed(c, m);
}

void prepare_on_message(struct cell *c, unsigned node, const struct span *m)
{
    if (m->cell != c->id)
        return;
    if (m->kind == SPAN_CAPTURED && c->prep.wants_capture) {
        prepare_use_captured(c, m->v[F_CAPTURED_NAMES].s, m->v[F_CAPTURED_WARNINGS].s);
    } else if (m->kind == SPAN_PACKED) {
        on_packed(c, m);
    } else if (m->kind == SPAN_PORT) {
        start_on_port(c, node, m);
    }
}

const struct cell_step cell_choosing = { CELL_BEFORE, .begin = prepare_choose_begin,
                                         .poll = prepare_choose_poll };

const struct cell_step cell_asking = { CELL_BEFORE, .begin = prepare_ask_begin,
                                       .poll = prepare_ask_poll, .late = start_late };

const struct cell_step cell_starting = {
    CELL_BEFORE,        .begin = prepare_begin,         .poll = prepare_poll,
    .late = start_late, .probed = gpu_memory_on_probed, .ready = start_on_ready
};

const struct cell_step cell_sending = { CELL_BEFORE, .begin = prepare_send_begin,
                                        .poll = prepare_send_poll, .late = broadcast_late,
                                        .probed = broadcast_on_probed };
