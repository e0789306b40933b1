/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins the answers of several workers, and keeps what clients have set. */
#include <stdio.h>
#include <string.h>

#include "kernel/debug/private.h"

const char *answers_command(const struct debug *d)
{
    return json_string_value(json_object_get(d->active.of->message, "command"));
}

json_t *answers_arguments(const struct debug *d)
{
    return json_object_get(d->active.of->message, "arguments");
}

/* ---- what all answer ---- */

/* A breakpoint counts as set if it is on one worker. */
static void join_breakpoints(json_t *body, const json_t *more)
{
    json_t *one, *rows = json_object_get(body, "breakpoints");
    size_t k;

    json_array_foreach (rows, k, one) {
        const json_t *other = json_array_get(json_object_get(more, "breakpoints"), k);

        if (!json_is_true(json_object_get(one, "verified")) &&
            json_is_true(json_object_get(other, "verified")))
            json_object_update(one, (json_t *)other);
    }
}

static void name_threads(const struct debug_session *s, json_t *body)
{
    char name[32], text[256];
    json_t *row;
    size_t k;

    json_array_foreach (json_object_get(body, "threads"), k, row) {
        const json_int_t id = json_integer_value(json_object_get(row, "id"));

        if (s->rank == DEBUG_HOME)
            continue;
        if (id == id_out(s->main, s->slot))
            snprintf(text, sizeof text, "%s", session_name(s, name));
        else
            snprintf(text, sizeof text, "%s: %.200s", session_name(s, name),
                     json_string_value(json_object_get(row, "name")));
        json_object_set_new(row, "name", json_string(text));
    }
}

static bool is_fine(const json_t *answer)
{
    return json_is_true(json_object_get(answer, "success"));
}

/* The combined answer is home's; if home answered with an error, another worker's. */
void answers_join(struct debug *d, struct debug_session *s, json_t *more)
{
    json_t *body = json_object_get(more, "body"), *before = d->active.answer, *so_far;

    ids_out(body, s->slot);
    if (strcmp(answers_command(d), "threads") == 0)
        name_threads(s, body);
    if (!before) {
        d->active.answer = more;
        return;
    }
    if (is_fine(more) && (!is_fine(before) || s->rank == DEBUG_HOME)) {
        d->active.answer = more;
        more = before;
    }
    so_far = json_object_get(d->active.answer, "body");
    body = json_object_get(more, "body");
    join_breakpoints(so_far, body);
    if (json_object_get(so_far, "threads"))
        json_array_extend(json_object_get(so_far, "threads"), json_object_get(body, "threads"));
    json_decref(more);
}

/* ---- what clients have set ---- */

const char *answers_path(const json_t *arguments)
{
    const char *path = json_string_value(
        json_object_get(json_object_get(arguments, "source"), "path"));

    return path ? path : "";
}

bool answers_sets_breaks(const char *command)
{
    return strcmp(command, "setBreakpoints") == 0 ||
           strcmp(command, "setExceptionBreakpoints") == 0 ||
           strcmp(command, "setFunctionBreakpoints") == 0;
}

void answers_note_breaks(struct debug *d)
{
    const char *path = answers_path(answers_arguments(d));
    json_t *key = json_sprintf("%s:%s", answers_command(d), path);
    const json_t *rows = json_object_get(answers_arguments(d), "breakpoints");

    if (key && json_is_array(rows) && json_array_size(rows) == 0)
        json_object_del(d->breaks, json_string_value(key));
    else if (key)
        json_object_set_new(d->breaks, json_string_value(key),
                            json_pack("{s:s, s:O}", "command", answers_command(d), "arguments",
                                      answers_arguments(d)));
    json_decref(key);
}

json_t *answers_breaks(const struct debug *d)
{
    json_t *list = json_array(), *request;
    const char *name;

    json_object_foreach (d->breaks, name, request) {
        const json_t *arguments = json_object_get(request, "arguments");
        json_t *rows = json_object_get(arguments, "breakpoints");

        if (rows && *answers_path(arguments))
            json_array_append_new(list, json_pack("{s:s, s:O}", "source", answers_path(arguments),
                                                  "breakpoints", rows));
    }
    return list;
}

void answers_note_lines(struct debug *d)
{
    const json_t *set = json_object_get(json_object_get(d->active.answer, "body"), "breakpoints");
    json_t *rows = json_object_get(answers_arguments(d), "breakpoints"), *row;
    size_t k;

    json_array_foreach (rows, k, row) {
        json_t *line = json_object_get(json_array_get(set, k), "line");

        if (json_is_integer(line))
            json_object_set(row, "line", line);
    }
}
