/* SPDX-License-Identifier: BSD-3-Clause */
/* json_text.c - converts JSON to text and back, and helps to write texts (see notebook.h). */
#include "kernel/notebook/notebook.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "protocol/json_repair.h"

int text_json(struct buf *out, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const int rc = text ? buf_add_text(out, text) : -1;

    free(text);
    json_decref(value);
    return rc;
}

json_t *text_parse(struct slice text)
{
    return json_parse(text, JSON_ALLOW_NUL, NULL);
}

const char *text_field(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

struct slice text_of(const json_t *string)
{
    return json_is_string(string) ? slice_of(json_string_value(string), json_string_length(string))
                                  : slice_text("");
}

struct slice text_slice(const json_t *object, const char *name)
{
    return text_of(json_object_get(object, name));
}

const char *text_display_id(const json_t *content)
{
    return json_string_value(json_object_get(json_object_get(content, "transient"), "display_id"));
}

/* Will a page show its text/html? It prefers the form that a plugin knows, such as a widget's. */
static bool prefers_html(const json_t *data)
{
    static const char *const below[] = {
        "text/plain", "text/html",  "text/latex", "text/markdown",
        "image/png",  "image/jpeg", "image/gif",  "image/svg+xml"
    };
    const char *type;
    json_t *value;

    if (!json_is_string(json_object_get(data, "text/html")))
        return false;
    json_object_foreach ((json_t *)(uintptr_t)data, type, value) {
        bool known = false;

        for (size_t i = 0; i < sizeof below / sizeof *below; i++)
            known = known || strcmp(type, below[i]) == 0;
        if (!known)
            return false;
    }
    return true;
}

/* Does a page show the HTML in a frame of its own? Our CSS does not reach into it. */
static bool is_isolated(const json_t *content)
{
    const json_t *metadata = json_object_get(content, "metadata");

    return json_is_true(json_object_get(metadata, "isolated")) ||
           json_is_true(json_object_get(json_object_get(metadata, "text/html"), "isolated"));
}

bool text_shows_html(const json_t *content)
{
    return prefers_html(json_object_get(content, "data")) && !is_isolated(content);
}

json_t *text_joined(const char *head, struct slice text)
{
    struct buf all = BUF_INIT;
    json_t *joined = NULL;

    if (buf_add_text(&all, head) == 0 && buf_add_slice(&all, text) == 0)
        joined = json_stringn(all.p, all.n);
    buf_release(&all);
    return joined;
}

json_t *text_error(const char *ename, struct slice evalue)
{
    char head[320];

    snprintf(head, sizeof head, "\033[0;31m%.255s\033[0m: ", ename);
    return json_pack("{s:s, s:o, s:[o]}", "ename", ename, "evalue", text_joined("", evalue),
                     "traceback", text_joined(head, evalue));
}

void text_trim(char *text)
{
    const size_t n = strlen(text);

    text[n - utf8_torn_tail(slice_of(text, n))] = '\0';
}

#define LIST_MAX 60u /* bytes of a list of numbers within a sentence */

int text_shorten(struct buf *list, size_t count)
{
    size_t n = LIST_MAX;

    if (list->n <= LIST_MAX)
        return 0;
    while (n > 0 && list->p[n] != ',')
        n--;
    list->n = n;
    return buf_addf(list, ", \xe2\x80\xa6 (%zu in all)", count);
}

bool text_ranks(const struct ranks *ranks, struct buf *out)
{
    const size_t n = ranks_count(ranks);

    return n && ranks_format(ranks, out) == 0 && text_shorten(out, n) == 0;
}

int text_left_out(struct buf *out, size_t lines, size_t displays, unsigned count)
{
    if (lines &&
        buf_addf(
            out,
            "cellspan: %zu line%s left out here, because Jupyter's server lets no more through; %%ranks logs --cell %u shows %s\n",
            lines, lines > 1 ? "s are" : " is", count, lines > 1 ? "them" : "it") < 0)
        return -1;
    return !displays
               ? 0
               : buf_addf(
                     out,
                     "cellspan: %zu display%s left out here, because Jupyter's server lets no more through\n",
                     displays, displays > 1 ? "s are" : " is");
}

const char *text_signal(unsigned long signo, char out[static 24])
{
    static const struct {
        int no;
        const char *name;
    } names[] = {
        { SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },   { SIGQUIT, "SIGQUIT" },
        { SIGILL, "SIGILL" },   { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" },
        { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },   { SIGKILL, "SIGKILL" },
        { SIGSEGV, "SIGSEGV" }, { SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" },
        { SIGTERM, "SIGTERM" }, { SIGUSR1, "SIGUSR1" }, { SIGUSR2, "SIGUSR2" },
        { SIGXCPU, "SIGXCPU" },
    };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((unsigned long)names[k].no == signo)
            return names[k].name;
    snprintf(out, 24, "signal %lu", signo);
    return out;
}
