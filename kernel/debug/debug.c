/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' requests, one after the other: each is answered here, or by one worker, or by all. */
#include "kernel/debug/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/murmur2.h"

#define ANSWER_LIMIT_NS (5 * NS_PER_S) /* a worker that does not answer for this long is named */
#define NEVER           UINT64_MAX
#define NOBODY          (-2)

/* ---- answers ---- */

static json_t *respond(struct debug *d, const json_t *request, bool success, json_t *body)
{
    return json_pack("{s:s, s:I, s:O, s:O, s:b, s:o}", "type", "response", "seq",
                     (json_int_t)++d->seq, "request_seq", json_object_get(request, "seq"),
                     "command", json_object_get(request, "command"), "success", success, "body",
                     body ? body : json_object());
}

/* Ends the active request; takes answer. */
static void answer(struct debug *d, json_t *content)
{
    struct asked_of *of = d->active.of;

    d->active.of = NULL;
    json_decref(d->active.answer);
    d->active.answer = NULL;
    d->active.due_ns = NEVER;
    lines_out(d, of->message, content);
    d->ops.reply(d->ops.arg, of->request, content ? content : json_object());
    json_decref(of->message);
    free(of);
}

/* ---- the end of a request ---- */

static void forget(struct debug *d)
{
    d->started = d->attached = false;
    json_object_clear(d->breaks);
    json_object_clear(d->texts);
    d->restate_ns = NEVER;
    for (struct debug_session *s = d->sessions; s; s = s->next) {
        session_runs(d, s);
        s->attached = s->steps = false;
        s->attaching = s->order = 0;
    }
}

static void note_silent(struct debug *d)
{
    struct buf text = BUF_INIT;
    size_t n = 0;

    for (struct debug_session *s = d->sessions; s; s = s->next) {
        char name[32];

        if (!s->asked)
            continue;
        n += buf_addf(&text, "%s%s", n ? ", " : "", session_name(s, name)) == 0;
        s->asked = 0;
        s->silent = true;
    }
    if (n && buf_addf(&text, " %s not answer the debugger", n > 1 ? "do" : "does") == 0) {
        d->ops.note(d->ops.arg, text.p);
        if (!d->active.answer) {
            d->active.answer = respond(d, d->active.of->message, false, NULL);
            json_object_set_new(d->active.answer, "message", json_string(text.p));
        }
    }
    buf_release(&text);
}

/* All have answered, or the time is over. */
void debug_end_request(struct debug *d)
{
    const char *command = answers_command(d);
    json_t *said;

    note_silent(d);
    if (answers_sets_breaks(command))
        answers_note_lines(d);
    if (strcmp(command, "disconnect") == 0 || strcmp(command, "terminate") == 0)
        forget(d);
    said = json_incref(d->active.answer);
    if (!said) /* nobody could be asked */
        said = respond(d, d->active.of->message, false, NULL);
    json_object_set_new(said, "seq", json_integer((json_int_t)++d->seq));
    json_object_set(said, "request_seq", json_object_get(d->active.of->message, "seq"));
    json_object_set(said, "command", json_object_get(d->active.of->message, "command"));
    answer(d, said);
}

static void asked(struct debug *d, struct debug_session *s, uint64_t seq)
{
    s->asked = seq;
    d->active.waiting += seq != 0;
}

/* ---- requests, by command ---- */

static void ask_one(struct debug *d, struct debug_session *s, const char *command,
                    json_t *arguments)
{
    if (s)
        asked(d, s, session_ask(d, s, command, arguments));
    else
        json_decref(arguments);
}

static void ask_all(struct debug *d, const char *command)
{
    d->active.joins = true;
    for (struct debug_session *s = d->sessions; s; s = s->next) {
        json_t *arguments;

        if (!session_knows(s) && s->rank != DEBUG_HOME)
            continue;
        arguments = json_deep_copy(answers_arguments(d));
        /* it does this later; nobody waits for it */
        if (s->silent || (s->attaching && s->rank != DEBUG_HOME))
            (void)session_ask(d, s, command, arguments);
        else
            asked(d, s, session_ask(d, s, command, arguments));
    }
}

static void do_initialize(struct debug *d)
{
    if (debug_is_stopped(d)) { /* of a client before this one */
        debug_release(d);
        d->ops.note(d->ops.arg, "the debugger was switched on again: home and the ranks that were "
                                "stopped at a breakpoint go on");
    }
    json_decref(d->initialize);
    d->initialize = json_incref(answers_arguments(d));
    d->started = true;
    ask_one(d, d->sessions, "initialize", json_deep_copy(d->initialize));
}

static void do_attach(struct debug *d)
{
    json_decref(d->attach);
    d->attach = json_incref(answers_arguments(d));
    d->attached = d->active.joins = true;
    for (struct debug_session *s = d->sessions; s; s = s->next) {
        s->attaching = session_attach(d, s);
        asked(d, s, s->attaching);
    }
}

static void do_disconnect(struct debug *d)
{
    ask_all(d, "disconnect");
}

static void do_all(struct debug *d)
{
    if (answers_sets_breaks(answers_command(d)))
        answers_note_breaks(d);
    ask_all(d, answers_command(d));
}

static void do_configured(struct debug *d)
{
    d->active.answer = respond(d, d->active.of->message, true, NULL);
}

static json_t *stopped_threads(const struct debug *d)
{
    const struct debug_session *first = session_focus(d);
    json_t *list = json_array();

    for (const struct debug_session *s = d->sessions; s; s = s->next) {
        json_t *id = json_object_get(json_object_get(s->stopped, "body"), "threadId");

        if (s->stopped && s == first)
            json_array_insert(list, 0, id);
        else if (s->stopped)
            json_array_append(list, id);
    }
    return list;
}

static void do_info(struct debug *d)
{
    json_t *body = json_pack("{s:b, s:s, s:I, s:s, s:s, s:o, s:o, s:b, s:[s], s:b}", "isStarted",
                             d->started, "hashMethod", "Murmur2", "hashSeed",
                             (json_int_t)MURMUR2_SEED, "tmpFilePrefix", d->prefix, "tmpFileSuffix",
                             ".py", "breakpoints", answers_breaks(d), "stoppedThreads",
                             stopped_threads(d), "richRendering", 1, "exceptionPaths",
                             "Python Exceptions", "copyToGlobals", 1);

    d->active.answer = respond(d, d->active.of->message, true, body);
}

static void do_dump(struct debug *d)
{
    const json_t *code = json_object_get(answers_arguments(d), "code");
    json_t *path = worker_file_name(d, slice_of(json_string_value(code), json_string_length(code)));

    json_object_set(d->texts, json_string_value(path), (json_t *)code);
    d->active.answer = respond(d, d->active.of->message, true,
                               json_pack("{s:o}", "sourcePath", path));
}

/* The session that a request is for: named by the ids, else session_focus(). For `continue`,
 * JupyterLab always names thread 1; if that one is not stopped, the session that clients were told
 * about is used. */
static struct debug_session *target_session(struct debug *d, const char *command, json_t *arguments)
{
    const long slot = ids_in(arguments);
    struct debug_session *s = slot >= 0 ? session_of_slot(d, slot) : session_focus(d);

    if (strcmp(command, "continue") != 0 || (s && s->stopped) || !debug_is_stopped(d))
        return s;
    s = d->shown ? d->shown : session_focus(d);
    json_object_set_new(arguments, "threadId",
                        json_copy(
                            json_object_get(json_object_get(s->stopped, "body"), "threadId")));
    (void)ids_in(arguments);
    return s;
}

static void do_one(struct debug *d)
{
    json_t *arguments = json_deep_copy(answers_arguments(d));
    const char *command = answers_command(d);
    struct debug_session *s = target_session(d, command, arguments);

    if (s && (strcmp(command, "next") == 0 || strncmp(command, "step", 4) == 0))
        s->steps = true;
    ask_one(d, s, command, arguments);
}

static void do_source(struct debug *d)
{
    json_t *text = json_object_get(d->texts, answers_path(answers_arguments(d)));

    if (text)
        d->active.answer = respond(d, d->active.of->message, true,
                                   json_pack("{s:O}", "content", text));
    else
        do_one(d);
}

/* early: also before a client has attached */
static const struct {
    const char *command;
    void (*f)(struct debug *d);
    bool early;
} table[] = {
    { "initialize", do_initialize, true },
    { "debugInfo", do_info, true },
    { "inspectVariables", do_one, true },
    { "richInspectVariables", do_one, true },
    { "modules", do_one, true },
    { "copyToGlobals", do_one, true },
    { "attach", do_attach, false },
    { "configurationDone", do_configured, false },
    { "disconnect", do_disconnect, false },
    { "terminate", do_disconnect, false },
    { "dumpCell", do_dump, false },
    { "source", do_source, false },
    { "setBreakpoints", do_all, false },
    { "setExceptionBreakpoints", do_all, false },
    { "setFunctionBreakpoints", do_all, false },
    { "threads", do_all, false },
    { NULL, do_one, false },
};

static void begin(struct debug *d, uint64_t now)
{
    const char *command = answers_command(d);
    size_t k = 0;

    d->ops.begin(d->ops.arg, d->active.of->request);
    lines_in(d, d->active.of->message);
    d->active.waiting = 0;
    d->active.joins = false;
    d->active.due_ns = now + ANSWER_LIMIT_NS;
    while (table[k].command && (!command || strcmp(table[k].command, command) != 0))
        k++;
    if (!command || (!d->started && !table[k].early))
        answer(d, json_object()); /* as ipykernel's */
    else
        table[k].f(d);
    if (d->active.of && d->active.waiting == 0)
        debug_end_request(d);
}

void debug_next(struct debug *d, uint64_t now)
{
    while (!d->active.of && d->first) {
        d->active.of = d->first;
        if (!(d->first = d->first->next))
            d->last = &d->first;
        begin(d, now);
    }
}

void debug_request(struct debug *d, void *request, const json_t *content, uint64_t now)
{
    struct asked_of *of = calloc(1, sizeof *of);
    json_t *message = json_deep_copy(content);

    if (!of || !message) {
        free(of);
        json_decref(message);
        d->ops.begin(d->ops.arg, request);
        d->ops.reply(d->ops.arg, request, json_object());
        return;
    }
    if (!json_is_object(json_object_get(message, "arguments")))
        json_object_set_new(message, "arguments", json_object());
    of->request = request;
    of->message = message;
    *d->last = of;
    d->last = &of->next;
    debug_next(d, now);
}

/* ---- messages ---- */

static void attached(struct debug *d, struct debug_session *s, const json_t *message)
{
    const json_t *main = json_object_get(json_object_get(message, "body"), "mainThread");
    const char *why = json_string_value(json_object_get(message, "message"));
    struct buf text = BUF_INIT;
    char name[32];

    s->attached = json_is_true(json_object_get(message, "success"));
    s->main = json_integer_value(main);
    if (!s->attached && buf_addf(&text, "%s is not debugged: %s", session_name(s, name),
                                 why ? why : "its debugger refused") == 0)
        d->ops.note(d->ops.arg, text.p);
    buf_release(&text);
}

static void response(struct debug *d, struct debug_session *s, json_t *message, uint64_t now)
{
    const uint64_t seq = (uint64_t)json_integer_value(json_object_get(message, "request_seq"));

    if (seq && seq == s->attaching) { /* also if it is late */
        s->attaching = 0;
        attached(d, s, message);
    }
    if (d->active.of && seq && seq == s->asked) {
        s->asked = 0;
        d->active.waiting--;
        answers_join(d, s, json_incref(message));
        if (d->active.waiting == 0)
            debug_end_request(d);
        debug_next(d, now);
    }
    json_decref(message);
}

void debug_message(struct debug *d, uint32_t worker, json_t *message, uint64_t now)
{
    struct debug_session *s = session_of(d, worker);
    const char *type = json_string_value(json_object_get(message, "type"));

    if (s)
        s->silent = false;
    if (!s || !type)
        json_decref(message);
    else if (strcmp(type, "event") == 0)
        session_event(d, s, message, now);
    else
        response(d, s, message, now);
}

/* ---- time ---- */

static void restate(struct debug *d)
{
    struct debug_session *first = session_focus(d);
    json_t *again;

    d->restate_ns = NEVER;
    if (!first || !first->stopped || first == d->shown)
        return;
    d->shown = first;
    again = json_copy(first->stopped);
    json_object_set_new(again, "seq", json_integer((json_int_t)++d->seq));
    d->ops.event(d->ops.arg, again);
}

void debug_tick(struct debug *d, uint64_t now)
{
    if (now >= d->restate_ns)
        restate(d);
    if (d->active.of && now >= d->active.due_ns) {
        debug_end_request(d);
        debug_next(d, now);
    }
}

uint64_t debug_due(const struct debug *d)
{
    return clock_earlier(d->restate_ns, d->active.of ? d->active.due_ns : NEVER);
}

/* ---- create and destroy ---- */

struct debug *debug_create(const struct debug_ops *ops, const char *prefix)
{
    struct debug *d = calloc(1, sizeof *d);

    if (!d)
        return NULL;
    d->ops = *ops;
    d->last = &d->first;
    d->chosen = NOBODY;
    d->restate_ns = d->active.due_ns = NEVER;
    d->initialize = json_object();
    d->breaks = json_object();
    d->texts = json_object();
    if ((d->prefix = strdup(prefix)) && d->initialize && d->breaks && d->texts)
        return d;
    debug_destroy(d);
    return NULL;
}

void debug_destroy(struct debug *d)
{
    if (!d)
        return;
    if (d->active.of)
        answer(d, json_object());
    while (d->first) {
        d->active.of = d->first;
        d->first = d->first->next;
        answer(d, json_object());
    }
    while (d->sessions) {
        struct debug_session *s = d->sessions;

        d->sessions = s->next;
        json_decref(s->stopped);
        free(s);
    }
    json_decref(d->initialize);
    json_decref(d->attach);
    json_decref(d->breaks);
    json_decref(d->texts);
    free(d->prefix);
    free(d);
}
