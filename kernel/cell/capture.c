/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks home (CAPTURE) for the variables that the cell reads, the code that goes along, and what
 * home has changed in its own environment, and takes its answer. Home finds these by
 * _capture/capture.py. */
#include <string.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"

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

/* Does an engine start, and does home's code go to these ranks? */
static uint64_t far_flags(const struct cell *c)
{
    const uint64_t starts = engine_is_known(c) ? 0 : CAPTURE_ENGINE;

    if (!c->nb->config.code || group_nodes_are_here(c))
        return starts;
    return starts | CAPTURE_FAR | (c->plan.no_code ? CAPTURE_NO_CODE : 0);
}

int capture_ask(struct cell *c, bool early)
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
                               (early ? CAPTURE_PYTHON : 0) | far_flags(c);
    m.v[F_CAPTURE_COUNT].u64 = c->from.count;
    m.v[F_CAPTURE_RAW].s = slice_of(c->from.text, c->from.text_size);
    m.v[F_CAPTURE_BRING].s = buf_slice(&bring);
    m.v[F_CAPTURE_CALL].u64 = c->from.call;
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

bool capture_is_asked(const struct cell *c)
{
    return c->prep.wants_capture || c->prep.captured;
}

int capture_ask_once(struct cell *c)
{
    return c->plan.kind == PLAN_RANKS || capture_is_asked(c) ? 0 : capture_ask(c, false);
}

/* ---- CAPTURED ---- */

/* -1: the cell has failed. */
static int note_newer(struct cell *c)
{
    if (ledger_newer(c->nb->group, c->prep.captured) == 0)
        return 0;
    return cell_fail(c, "RuntimeError", "out of memory");
}

static void note_lines(struct cell *c, struct slice text)
{
    while (text.n) {
        const struct slice line = slice_line(&text);

        if (line.n)
            output_note(c, "%.*s", SLICE_ARG(line));
    }
}

void capture_note(struct cell *c)
{
    note_lines(c, text_slice(c->prep.captured, NOTES));
}

void capture_fail(struct cell *c, struct slice text)
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

void capture_take(struct cell *c, struct slice text, struct slice notes)
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
        capture_fail(c, error);
        return;
    }
    if (note_newer(c) < 0) /* now: home says it once, and the cell may yet fail or be dropped */
        return;
    if (notes.n && json_object_set_new(names, NOTES, json_stringn_nocheck(notes.p, notes.n)) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
}
