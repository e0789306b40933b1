/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts line numbers for VS Code, which, like ipykernel, removes empty lines at the start of a
 * cell. Everywhere else a line number counts from the first line of the cell on the page. */
#include <ctype.h>
#include <string.h>

#include "kernel/debug/private.h"

static bool is_blank(struct slice line)
{
    while (line.n && isspace((unsigned char)*line.p))
        line = slice_of(line.p + 1, line.n - 1);
    return line.n == 0;
}

/* How many empty lines the cell of this file begins with; 0: all are, or it is no cell's. */
static json_int_t empty_lines(const struct debug *d, const char *path)
{
    const json_t *text = json_object_get(d->texts, path);
    struct slice rest = slice_of(json_string_value(text), json_string_length(text));
    json_int_t n = 0;

    while (rest.n) {
        if (!is_blank(slice_line(&rest)))
            return n;
        n++;
    }
    return 0;
}

static bool is_vscode(const struct debug *d)
{
    const char *id = json_string_value(json_object_get(d->initialize, "clientID"));

    return id && strcmp(id, "vscode") == 0;
}

static void shift(json_t *row, json_int_t by)
{
    static const char *const name[] = { "line", "endLine" };

    for (size_t k = 0; by && k < sizeof name / sizeof *name; k++) {
        const json_t *line = json_object_get(row, name[k]);

        if (json_is_integer(line))
            json_object_set_new(row, name[k], json_integer(json_integer_value(line) + by));
    }
}

static void shift_all(json_t *rows, json_int_t by)
{
    json_t *row;
    size_t k;

    json_array_foreach (rows, k, row)
        shift(row, by);
}

static bool is(const json_t *message, const char *command)
{
    const char *own = json_string_value(json_object_get(message, "command"));

    return own && strcmp(own, command) == 0;
}

void lines_in(const struct debug *d, json_t *request)
{
    json_t *arguments = json_object_get(request, "arguments");

    if (is(request, "setBreakpoints") && is_vscode(d))
        shift_all(json_object_get(arguments, "breakpoints"),
                  empty_lines(d, answers_path(arguments)));
}

void lines_out(const struct debug *d, const json_t *request, json_t *answer)
{
    json_t *body = json_object_get(answer, "body"), *frame;
    size_t k;

    if (!is_vscode(d))
        return;
    if (is(request, "setBreakpoints"))
        shift_all(json_object_get(body, "breakpoints"),
                  -empty_lines(d, answers_path(json_object_get(request, "arguments"))));
    else if (is(request, "stackTrace"))
        json_array_foreach (json_object_get(body, "stackFrames"), k, frame)
            shift(frame, -empty_lines(d, answers_path(frame)));
}
