/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the kernel answers without home: kernel_info, and completion and help within
 * cellspan's magics. */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/utf8.h"
#include "kernel/notebook/notebook.h"
#include "magics/plan.h"

#define PROTOCOL "5.5" /* version of Jupyter's protocol */

static json_t *language(const struct notebook *nb)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:i}, s:s}", "name", "python", "version",
                     nb->config.python_version, "mimetype", "text/x-python", "file_extension",
                     ".py", "pygments_lexer", "ipython3", "codemirror_mode", "name", "ipython",
                     "version", 3, "nbconvert_exporter", "python");
}

/* Until home has started, nobody knows whether its Python has debugpy; it usually has. */
static json_t *features(const struct notebook *nb)
{
    return json_pack("[s, s*]", "kernel subshells", nb->home.no_debugger ? NULL : "debugger");
}

void info_reply(struct notebook *nb, struct request *r)
{
    json_t *banner =
        json_sprintf("cellspan %s: Python %s, and %%%%distribute -n 4 runs a cell on four ranks",
                     PACKAGE_VERSION, nb->config.python_version);

    reply_json(nb, r, "kernel_info_reply",
               json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:[{s:s, s:s}], s:o, s:b}", "status", "ok",
                         "protocol_version", PROTOCOL, "implementation", "cellspan",
                         "implementation_version", PACKAGE_VERSION, "language_info", language(nb),
                         "banner", banner, "help_links", "text", "Python Reference", "url",
                         "https://docs.python.org/3", "supported_features", features(nb),
                         "debugger", !nb->home.no_debugger));
}

void info_ready(struct notebook *nb, const struct span *ready)
{
    const struct slice version = ready->v[F_READY_PYTHON].s;
    char *text = version.n ? slice_copy(version) : NULL;

    if (!text)
        return;
    free(nb->config.python_version);
    nb->config.python_version = text;
}

/* The request's code; *at: the cursor as a byte offset (clients count characters), or the end of
 * the code if the request has no cursor. */
static struct slice code_of(const struct request *r, size_t *at)
{
    const struct slice code = text_slice(request_content(r), "code");
    const json_t *cursor = json_object_get(request_content(r), "cursor_pos");

    *at = json_is_integer(cursor) && json_integer_value(cursor) >= 0
              ? utf8_offset(code, (size_t)json_integer_value(cursor))
              : code.n;
    return code;
}

static void answer(struct notebook *nb, struct request *r, const char *type, json_t *content)
{
    nb->ops.status(nb->ops.arg, r, "busy");
    reply_json(nb, r, type, content);
    nb->ops.status(nb->ops.arg, r, "idle");
}

bool info_complete(struct notebook *nb, struct request *r)
{
    struct buf matches = BUF_INIT;
    size_t at, start;
    const struct slice code = code_of(r, &at);
    const bool ours = complete_cell(code, at, nb->group->size, &matches, &start) == 1;

    if (ours)
        answer(nb, r, "complete_reply",
               json_pack("{s:s, s:o, s:I, s:I, s:{}}", "status", "ok", "matches",
                         text_parse(buf_slice(&matches)), "cursor_start",
                         (json_int_t)utf8_width(slice_of(code.p, start)), "cursor_end",
                         (json_int_t)utf8_width(slice_of(code.p, at)), "metadata"));
    buf_release(&matches);
    return ours;
}

bool info_inspect(struct notebook *nb, struct request *r)
{
    size_t at;
    const struct slice code = code_of(r, &at);
    const char *magic = plan_at(code, at);
    char *help = magic ? help_text(magic) : NULL;

    if (help)
        answer(nb, r, "inspect_reply",
               json_pack("{s:s, s:b, s:{s:s}, s:{}}", "status", "ok", "found", 1, "data",
                         "text/plain", help, "metadata"));
    free(help);
    return help != NULL;
}
