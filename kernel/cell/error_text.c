/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of errors: one traceback for several ranks, the death of a process, where a rank hangs. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/notices.h"

/* kernel/notebook/debugger.c names cells so while a debugger is attached */
#define DEBUGGED   "\"/tmp/cellspan_"
#define C_FRAMES   10u
#define PERIOD_MAX 4u /* functions that call each other in turn */
#define FOLDED_MIN 6u /* frames; fewer are shown */

bool error_in_cell(struct slice frame)
{
    return slice_holds(frame, "\"<ipython-input-") || slice_holds(frame, DEBUGGED);
}

bool error_in_debugger(struct slice frame)
{
    return slice_holds(frame, "/debugpy/_vendored/");
}

bool error_calls_user(struct slice frame)
{
    static const char *const file[] = { "map_rank", "pxrank", "rank", "rank_calls", "scripts" };
    char end[64];

    for (size_t k = 0; k < sizeof file / sizeof *file; k++) {
        snprintf(end, sizeof end, "/cellspan/_worker/%s.py\", line ", file[k]);
        if (slice_holds(frame, end))
            return true;
    }
    return false;
}

bool error_in_runpy(struct slice frame)
{
    return slice_holds(frame, "<frozen runpy>") || slice_holds(frame, "/runpy.py\"");
}

const char *error_find_cell(const char *text)
{
    const char *a = strstr(text, "File \"<ipython-input-"), *b = strstr(text, "File " DEBUGGED);

    return a && (!b || a < b) ? a : b;
}

/* ---- deaths ---- */

/* Do frames of runpy, which have called a script, lead to ours? */
static bool leads_to_ours(struct slice frames)
{
    struct slice line = slice_line(&frames);

    while (error_in_runpy(line))
        line = slice_line(&frames);
    return error_calls_user(line);
}

/* Where add_lines() is in the frames of a thread. */
struct stack_place {
    bool any;   /* one was shown */
    bool below; /* the next ones are below the user's code */
    bool in_c;  /* ours comes first: it has called a function in C */
};

/* true: this line of faulthandler's stack is not shown: it is a frame below the user's cell,
 * function or script, which is cellspan's, or the list of extension modules. rest: the lines after
 * it. */
static bool is_ours(struct slice line, struct slice rest, struct stack_place *at)
{
    static const char frame[] = "  File \"";
    char text[512];
    bool shown = !at->below;

    snprintf(text, sizeof text, "%.*s", SLICE_ARG(line));
    if (strncmp(text, frame, sizeof frame - 1) != 0) {
        *at = (struct stack_place){ 0 };
        return strncmp(text, "Extension modules:", 18) == 0;
    }
    if (shown && (error_calls_user(line) || (error_in_runpy(line) && leads_to_ours(rest)))) {
        at->below = true;
        at->in_c = !at->any;
        shown = false;
    } else if (shown) {
        at->below = error_in_cell(line) && strstr(text, " in <module>");
        shown = !error_in_debugger(line);
    }
    at->any = at->any || shown;
    return !shown;
}

static void add_lines(json_t *to, struct slice text)
{
    struct stack_place at = { 0 };

    while (text.n) {
        const struct slice line = slice_line(&text);

        if (!is_ours(line, text, &at))
            json_array_append_new(to, json_pack("s+%", "  ", line.p, line.n));
        else if (at.in_c)
            json_array_append_new(to, json_string("    <" ERROR_IN_C ">"));
        at.in_c = false;
    }
}

static bool thread_begins(struct slice text)
{
    return slice_begins(text, "Thread 0x") || slice_begins(text, "Current thread 0x");
}

/* Cuts one thread off *text: its first line, its frames and the empty lines after them. */
static struct slice cut_thread(struct slice *text)
{
    const struct slice from = *text;

    slice_line(text);
    while (slice_begins(*text, "  "))
        slice_line(text);
    while (slice_begins(*text, "\n"))
        slice_line(text);
    return slice_of(from.p, from.n - text->n);
}

/* Is it a thread that cellspan has started, by the frame above that of threading.Thread.run()? */
static bool is_own_thread(struct slice thread)
{
    struct slice line, above = slice_of(thread.p, 0);

    for (slice_line(&thread); thread.n; above = line) {
        line = slice_line(&thread);
        if (slice_holds(line, "/threading.py\"") && slice_holds(line, " in run"))
            return slice_holds(above, "/cellspan/_worker/") ||
                   slice_holds(above, "/cellspan/_jupyter/");
    }
    return false;
}

/* Of the C stack, the innermost frames: the others are the interpreter's. */
static void add_c_stack(json_t *to, struct slice text)
{
    unsigned n = 0;

    while (text.n) {
        struct slice one = text;
        const struct slice line = slice_line(&text);
        const bool frame = slice_holds(line, "[0x");

        one.n -= text.n;
        if (!frame || n++ < C_FRAMES)
            add_lines(to, one);
    }
    if (n > C_FRAMES)
        json_array_append_new(to, json_sprintf("  [... %u more; %%ranks logs shows all of it]",
                                               n - C_FRAMES));
}

static bool has_frames(struct slice thread)
{
    slice_line(&thread);
    return !slice_begins(thread, "  <no Python frame>");
}

static bool same_lines(const json_t *a, const json_t *b)
{
    return a && b && strcmp(json_string_value(a), json_string_value(b)) == 0;
}

/* How many lines after the `period` ones from k on repeat these, if they are frames; else 0. */
static size_t repeated(const json_t *lines, size_t k, size_t period)
{
    size_t n = 0;

    for (size_t i = k; i < k + period; i++)
        if (!json_array_get(lines, i) ||
            !slice_begins(slice_text(json_string_value(json_array_get(lines, i))), "    File \""))
            return 0;
    while (same_lines(json_array_get(lines, k + period + n), json_array_get(lines, k + n)))
        n++;
    return n;
}

/* Leaves out frames that repeat those above them, as a recursion has many. */
static void fold_frames(json_t *lines, size_t from)
{
    for (size_t k = from; k < json_array_size(lines); k++) {
        size_t period = 1, n;

        while (period <= PERIOD_MAX && (n = repeated(lines, k, period)) < FOLDED_MIN)
            period++;
        if (period > PERIOD_MAX)
            continue;
        k += period;
        json_array_set_new(lines, k,
                           json_sprintf("    [... %zu more frames like %s above]", n,
                                        period > 1 ? "these" : "this one"));
        for (; n > 1; n--)
            json_array_remove(lines, k + 1);
    }
}

/* faulthandler lists the threads from the youngest to the main one. The one that crashed comes
 * first here; cellspan's own threads are left out. */
static void add_stack(json_t *to, struct slice text)
{
    const size_t from = json_array_size(to);
    struct slice head = text, all, rest;

    while (text.n && !thread_begins(text))
        slice_line(&text);
    head.n -= text.n;
    all = rest = text;
    add_lines(to, head);
    while (thread_begins(rest)) {
        const struct slice thread = cut_thread(&rest);

        if (slice_begins(thread, "Current"))
            add_lines(to, thread);
    }
    while (thread_begins(all)) {
        const struct slice thread = cut_thread(&all);

        if (!slice_begins(thread, "Current") && !is_own_thread(thread) && has_frames(thread))
            add_lines(to, thread);
    }
    fold_frames(to, from);
    add_c_stack(to, rest);
}

/* How a process ended, to follow its name in a sentence. The agent's own text comes first. */
static int add_cause(const struct span *m, struct buf *out)
{
    const unsigned long status = (unsigned long)m->v[F_EXITED_STATUS].u64;
    const struct slice cause = m->v[F_EXITED_CAUSE].s;
    char name[24];

    if (slice_begins(cause, "killed") || slice_begins(cause, "ended by"))
        return buf_addf(out, "was %.*s", SLICE_ARG(cause));
    if (cause.n)
        return buf_addf(out, "%s%.*s", slice_begins(cause, "is gone") ? "" : "did not come up: ",
                        SLICE_ARG(cause));
    switch (m->v[F_EXITED_CODE].u64) {
    case EXITED_STATUS:
        return buf_addf(out, "ended with exit status %lu", status);
    case EXITED_SIGNAL:
        return buf_addf(out, "was killed by signal %lu (%s)", status, text_signal(status, name));
    default:
        return buf_add_text(out, "did not start");
    }
}

/* The exit status as a shell has it: 128 + the signal for a killed process. */
static int exit_status(const struct span *m)
{
    const int status = (int)(m->v[F_EXITED_STATUS].u64 & 0x7f);

    return m->v[F_EXITED_CODE].u64 == EXITED_SIGNAL   ? 128 + status
           : m->v[F_EXITED_CODE].u64 == EXITED_STATUS ? (int)(m->v[F_EXITED_STATUS].u64 & 0xff)
                                                      : 1;
}

/* gloo ends the process when it receives more than the collective has asked for, so torch raises no
 * exception, which would get such a line on the rank: see torch_errors.py. */
static void hint_sizes(json_t *to, struct slice said)
{
    if (slice_holds(said, "gloo::EnforceNotMet") &&
        (slice_holds(said, "op.preamble.") || slice_holds(said, "op.getOpcode")))
        json_array_append_new(
            to, json_string("ranks have passed tensors of different sizes or types to this "
                            "collective, or have called different ones: print(t.shape, t.dtype) "
                            "before it on each rank"));
}

json_t *error_of_exit(const char *ename, const char *who, const char *where, const struct span *m)
{
    /* the whole sentence; its part that is equal for ranks that died alike */
    struct buf text = BUF_INIT, same = BUF_INIT;
    json_t *error = NULL, *traceback = json_array();

    if (traceback && buf_addf(&text, "%s ", who) == 0 && add_cause(m, &text) == 0 &&
        buf_add_slice(&same, buf_slice(&text)) == 0 &&
        (!where[0] || buf_addf(&text, " (%s)", where) == 0)) {
        json_array_append_new(traceback, json_sprintf("\033[0;31m%s\033[0m: %s", ename, text.p));
        if (m->v[F_EXITED_STDERR].s.n)
            json_array_append_new(traceback, json_string("Its last lines on stderr:"));
        add_lines(traceback, m->v[F_EXITED_STDERR].s);
        if (m->v[F_EXITED_STACK].s.n)
            json_array_append_new(traceback, json_string("Where it was:"));
        add_stack(traceback, m->v[F_EXITED_STACK].s);
        hint_sizes(traceback, m->v[F_EXITED_STDERR].s);
        error = json_pack("{s:s, s:s, s:O, s:s, s:i}", "ename", ename, "evalue", text.p,
                          "traceback", traceback, "how", same.p + strlen(who) + 1, "exit_status",
                          exit_status(m));
    }
    json_decref(traceback);
    buf_release(&text);
    buf_release(&same);
    return error;
}

/* The process was ended from outside, or the machine is gone. */
static bool is_from_outside(const struct span *m)
{
    const uint64_t code = m->v[F_EXITED_CODE].u64, signal = m->v[F_EXITED_STATUS].u64;

    return code == EXITED_UNKNOWN ||
           (code == EXITED_SIGNAL && (signal == SIGTERM || signal == SIGKILL));
}

static void add_notice(json_t *error, const char *text)
{
    json_t *traceback = json_object_get(error, "traceback");

    json_array_append_new(traceback, json_string(text));
    json_object_set_new(error, "evalue", json_sprintf("%s: %s", text_field(error, "evalue"), text));
}

json_t *error_of_death(const struct notebook *nb, const struct rank *r, const struct span *m)
{
    const struct slice gpu = m->v[F_EXITED_GPU].s;
    const char *host = notebook_node_name(nb, r->node);
    const long pid = (long)m->v[F_EXITED_PID].u64; /* 0: it was not started */
    const bool here = r->node == NODE_HERE;        /* else `who` names the host */
    char who[320], number[32] = "", where[1600];
    const bool told = is_from_outside(m) && notices_leaves(nb, r->node);
    const bool left = told &&
                      (m->v[F_EXITED_CODE].u64 == EXITED_UNKNOWN || notices_end(nb, r->node));
    struct buf leaves = BUF_INIT;
    json_t *error;

    if (pid)
        snprintf(number, sizeof number, "pid %ld", pid);
    snprintf(who, sizeof who, here ? "rank %u" : "rank %u on %.255s", r->number, host);
    snprintf(where, sizeof where, "%s%.255s%s%s%s%.*s", here ? "host " : "", here ? host : "",
             here && pid ? ", " : "", number, gpu.n && (here || pid) ? ", " : "", SLICE_ARG(gpu));
    error = error_of_exit(left ? "MachineLeaves" : "RankDied", who, where, m);
    if (error && told && notices_words(nb, r->node, &leaves) == 0)
        add_notice(error, leaves.p);
    buf_release(&leaves);
    return error;
}

/* ---- errors of ranks ---- */

/* The text that is equal for ranks that failed alike: how a process died, or the exception's.
 */
static struct slice shared_text(const json_t *error)
{
    return text_slice(error, json_object_get(error, "how") ? "how" : "evalue");
}

static bool alike(const json_t *a, const json_t *b)
{
    return strcmp(text_field(a, "ename"), text_field(b, "ename")) == 0 &&
           slice_equal(shared_text(a), shared_text(b));
}

/* The error to show first. A death comes before an exception, since a death causes exceptions on
 * other ranks. After the user's interrupt, an interrupted rank comes before a killed one. After a
 * signal for a script, what the script raised is told, and not that the signal ended a rank. */
static struct member *first_cause(struct cell *c)
{
    struct member *found = NULL;
    int best = 0;

    for (size_t k = 0; k < c->n; k++) {
        struct member *m = &c->member[k];
        const bool dead = m->state == MEMBER_DEAD;
        const int weight = m->failed_by_itself  ? (dead ? 4 : 3)
                           : c->stop.interrupts ? (dead ? 1 : 2)
                                                : (dead ? 0 : 1);

        if (m->error && weight > best) {
            found = m;
            best = weight;
        }
    }
    return found;
}

/* cellspan killed it, because it ignored the interrupt. */
static bool was_killed(const struct member *m)
{
    return m->state == MEMBER_DEAD && !m->failed_by_itself;
}

/* The ranks that failed like `cause`, as "ranks 0-2"; sets their `told`. */
static int same_ranks(struct cell *c, const struct member *cause, struct buf *out)
{
    struct ranks same = RANKS_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++) {
        struct member *m = &c->member[k];

        if (m->told || !m->error || m->state != cause->state || !alike(m->error, cause->error))
            continue;
        m->told = true;
        rc = ranks_add(&same, m->rank);
    }
    if (rc == 0)
        rc = ranks_format_words(&same, out);
    ranks_release(&same);
    return rc;
}

static void add_others(struct cell *c, json_t *traceback)
{
    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];
        struct buf who = BUF_INIT, head = BUF_INIT;

        if (m->told || !m->error || !(m->failed_by_itself || c->stop.interrupts))
            continue;
        if (same_ranks(c, m, &who) == 0 &&
            buf_addf(&head, "also on %s: %s%s", who.p,
                     was_killed(m) ? "KeyboardInterrupt" : text_field(m->error, "ename"),
                     was_killed(m) ? ": interrupted, and " : ": ") == 0)
            json_array_append_new(traceback, text_joined(head.p, shared_text(m->error)));
        buf_release(&who);
        buf_release(&head);
    }
}

/* Adds the lines of a rank's error. A rank that was killed because it ignored the interrupt is
 * shown as interrupted, not as dead. */
static void add_traceback(json_t *traceback, const json_t *error, const json_t *interrupted)
{
    json_t *line;
    size_t k;

    json_array_foreach (json_object_get(error, "traceback"), k, line)
        if (k == 0 && interrupted)
            json_array_append_new(traceback, text_joined("\033[0;31mKeyboardInterrupt\033[0m: ",
                                                         text_of(interrupted)));
        else
            json_array_append(traceback, line);
}

static json_t *compose(struct cell *c, const struct member *cause)
{
    const bool killed = was_killed(cause);
    const char *ename = killed ? "KeyboardInterrupt" : text_field(cause->error, "ename");
    json_t *interrupted = killed
                              ? text_joined("interrupted, and ", text_slice(cause->error, "evalue"))
                              : NULL;
    json_t *traceback = json_array(), *error = NULL;
    struct buf who = BUF_INIT;

    if (traceback && same_ranks(c, cause, &who) == 0) {
        if (c->world > 1 &&
            (cause->state != MEMBER_DEAD || strchr(who.p, '-') || strchr(who.p, ',')))
            json_array_append_new(traceback, json_sprintf("\033[0;31m%s\033[0m on %s of %u", ename,
                                                          who.p, c->world));
        add_traceback(traceback, cause->error, interrupted);
        add_others(c, traceback);
        error_add_hints(c, cause, traceback);
        error = json_pack("{s:s, s:O*, s:O, s:O*, s:O*}", "ename", ename, "evalue",
                          killed ? interrupted : json_object_get(cause->error, "evalue"),
                          "traceback", traceback, "exit_status",
                          json_object_get(cause->error, "exit_status"), "raised",
                          c->from.is_call ? json_object_get(cause->error, "raised") : NULL);
    }
    json_decref(interrupted);
    json_decref(traceback);
    buf_release(&who);
    return error;
}

json_t *error_of_cell(struct cell *c)
{
    struct member *cause = first_cause(c);

    if (c->fault.whole)
        return json_incref(c->fault.whole);
    return cause ? compose(c, cause) : NULL;
}

/* It failed by itself, but its error came after the cell's error was shown. If it was interrupted,
 * its error may come from that, unless another rank failed alike. */
static bool failed_late(const struct cell *c, const struct member *m)
{
    return !m->told && m->error &&
           (m->state == MEMBER_FAILED ||
            (m->state == MEMBER_INTERRUPTED && alike(m->error, c->fault.shown)));
}

void error_note_late(struct cell *c)
{
    for (size_t k = 0; k < c->n && c->fault.shown && !c->stop.interrupts; k++) {
        const struct member *m = &c->member[k];
        struct buf who = BUF_INIT;

        if (!failed_late(c, m))
            continue;
        if (same_ranks(c, m, &who) == 0)
            output_note(c, "also on %s: %s: %.*s", who.p, text_field(m->error, "ename"),
                        SLICE_ARG(shared_text(m->error)));
        buf_release(&who);
    }
}

void error_show(struct cell *c, json_t *error)
{
    if (!error || c->fault.shown) {
        json_decref(error);
        return;
    }
    output_flush(c);
    c->fault.shown = error;
    /* for a call, home shows the error of RETURN in its own traceback */
    if (cell_is_published(c))
        publish_json(c->nb, c->from.request, "error", json_deep_copy(error));
}

/* ---- hangs ---- */

/* faulthandler prints "Current thread 0x… (most recent call first):" and then lines of the form
 * '  File "F", line N in f'. The main thread comes last. */
const char *error_main_thread(const char *stack)
{
    const char *at = stack, *found = stack;

    while ((at = strstr(at, "most recent call first")))
        found = at++;
    return found;
}

/* Files of ours that wait in place of torch's C++ code. */
static bool waits_for_torch(struct slice line)
{
    return slice_holds(line, "/cellspan/_worker/store_waits.py\"") ||
           slice_holds(line, "/cellspan/_worker/torch_rendezvous.py\"");
}

/* The innermost frame of the main thread, without frames of the debugger, and without those that
 * wait for torch together with what they have called. NULL: there is none. */
static const char *first_frame(const char *stack)
{
    struct slice text = slice_text(error_main_thread(stack)), line;
    const char *first = NULL;

    while (text.n) {
        line = slice_line(&text);
        if (waits_for_torch(line))
            first = NULL;
        else if (!first && slice_holds(line, "File \"") && !error_in_debugger(line))
            first = strstr(line.p, "File \"");
    }
    return first;
}

/* For example "all_reduce (c10d_logger.py:83), called in line 3 of cell 7". */
int error_place(const char *stack, struct buf *out)
{
    const char *at = stack ? first_frame(stack) : NULL, *cell = at ? error_find_cell(at) : NULL;
    char file[512], name[256];
    unsigned line, count, cell_line;
    struct slice rest;

    if (!at || sscanf(at, "File \"%511[^\"]\", line %u in %255[^\n]", file, &line, name) != 3)
        return buf_add_text(out, "a place that could not be told");
    rest = slice_text(at);
    if (error_calls_user(slice_line(&rest)))
        return buf_add_text(out, ERROR_IN_C);
    if (buf_add_text(out, name) < 0 ||
        (at != cell && buf_addf(out, " (%s:%u)", path_name(file), line) < 0))
        return -1;
    if (cell && sscanf(cell, "File " DEBUGGED "%*[^\"]\", line %u", &cell_line) == 1)
        return buf_addf(out, ", %sline %u of a cell", at != cell ? "called in " : "", cell_line);
    if (!cell ||
        sscanf(cell, "File \"<ipython-input-%u-%*[^\"]\", line %u", &count, &cell_line) != 2)
        return 0;
    return buf_addf(out, ", %sline %u of cell %u", at != cell ? "called in " : "", cell_line,
                    count);
}

void error_note_hangs(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++) {
        struct buf where = BUF_INIT;

        if (c->member[k].state != MEMBER_RUNNING)
            continue;
        if (error_place(c->member[k].stack, &where) == 0)
            output_note(c, "rank %u did not stop after the interrupt and is killed; it was in %s",
                        c->member[k].rank, where.p);
        buf_release(&where);
    }
    output_flush(c);
}
