/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines at the end of a rank's error: what to do when it lacks a name, which is a NameError, or
 * when its machine lacks a module; and which ranks had returned already when a collective of
 * torch's failed. */
#include <stdio.h>
#include <string.h>

#include "kernel/cell/error_text.h"

/* The name in "name 'loss' is not defined", which a near name may follow; "": it is another
 * error. */
static struct slice missing_name(const json_t *error)
{
    static const char before[] = "name '", after[] = "' is not defined", near[] = ". Did you mean";
    struct slice rest = text_slice(error, "evalue"), name;

    if (strcmp(text_field(error, "ename"), "NameError") != 0 || !slice_begins(rest, before))
        return slice_text("");
    rest = slice_of(rest.p + sizeof before - 1, rest.n - (sizeof before - 1));
    name = slice_cut(&rest, '\'');
    if (!slice_begins(rest, after + 1))
        return slice_text("");
    rest = slice_of(rest.p + sizeof after - 2, rest.n - (sizeof after - 2));
    return rest.n == 0 || slice_begins(rest, near) ? name : slice_text("");
}

static void add_line(json_t *traceback, struct buf *line)
{
    if (line->n)
        json_array_append_new(traceback, json_string(line->p));
    buf_release(line);
}

static bool is_pulled_list(const struct cell *c, struct slice name)
{
    size_t k;
    json_t *one;

    json_array_foreach (json_object_get(c->prep.captured, "lists"), k, one)
        if (slice_equal(text_of(one), name))
            return true;
    return false;
}

static void hint_list(const struct cell *c, struct slice name, json_t *traceback)
{
    struct buf line = BUF_INIT;

    if (is_pulled_list(c, name) &&
        buf_addf(&line,
                 "home has %.*s, but %%pull and --gather make a list, which is not sent by "
                 "itself: %%push %.*s",
                 SLICE_ARG(name), SLICE_ARG(name)) < 0)
        buf_clear(&line);
    add_line(traceback, &line);
}

/* Home has the name, but can't send its value: it may be a function that has asked for it. */
static void hint_unsent(const struct cell *c, struct slice name, json_t *traceback)
{
    struct buf line = BUF_INIT;
    size_t k;
    json_t *row;

    json_array_foreach (json_object_get(c->prep.captured, "unsent"), k, row) {
        const struct slice why = text_of(json_array_get(row, 1));

        if (slice_equal(text_of(json_array_get(row, 0)), name) &&
            buf_addf(&line, "home's %.*s can't be sent (%.*s)", SLICE_ARG(name), SLICE_ARG(why)) <
                0)
            buf_clear(&line);
    }
    add_line(traceback, &line);
}

/* A rank binds no name by itself, but many people write these. */
static void hint_place(struct slice name, json_t *traceback)
{
    static const struct {
        const char *name, *call, *variable;
    } places[] = {
        { "rank", "rank", "RANK" },
        { "RANK", "rank", "RANK" },
        { "local_rank", "local_rank", "LOCAL_RANK" },
        { "LOCAL_RANK", "local_rank", "LOCAL_RANK" },
        { "world_size", "world_size", "WORLD_SIZE" },
        { "WORLD_SIZE", "world_size", "WORLD_SIZE" },
    };
    struct buf line = BUF_INIT;

    for (size_t k = 0; k < sizeof places / sizeof *places; k++)
        if (slice_is(name, places[k].name) &&
            buf_addf(&line, "import cellspan; %s = cellspan.%s(), or int(os.environ['%s'])",
                     places[k].name, places[k].call, places[k].variable) < 0)
            buf_clear(&line);
    add_line(traceback, &line);
}

/* What to do: the magic again for these ranks. A call, and %gather, write a %pull into a name of
 * their own, which the user has not seen. */
static int add_pull(const struct cell *c, const char *which, struct buf *out)
{
    static const char own[] = "_cellspan_";
    int rc;

    if (c->plan.into && strncmp(c->plan.into, own, sizeof own - 1) == 0)
        return buf_addf(out, "-r %s, or ranks='%s', takes these", which, which);
    rc = buf_addf(out, "%%pull -r %s", which);
    for (char **name = c->plan.names; rc == 0 && *name; name++)
        rc = buf_addf(out, " %s", *name);
    if (rc == 0 && c->plan.into)
        rc = buf_addf(out, " --into %s", c->plan.into);
    return rc;
}

/* %pull: some ranks have the names. */
static void hint_others(const struct cell *c, struct slice name, json_t *traceback)
{
    struct ranks have = RANKS_INIT;
    struct buf line = BUF_INIT, who = BUF_INIT, which = BUF_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (c->member[k].state == MEMBER_OK)
            rc = ranks_add(&have, c->member[k].rank);
    if (rc == 0 && ranks_count(&have) &&
        (ranks_format_words(&have, &who) < 0 || ranks_format(&have, &which) < 0 ||
         buf_addf(&line, "%s %s %.*s: ", who.p, ranks_count(&have) > 1 ? "have" : "has",
                  SLICE_ARG(name)) < 0 ||
         add_pull(c, which.p, &line) < 0))
        buf_clear(&line);
    add_line(traceback, &line);
    buf_release(&who);
    buf_release(&which);
    ranks_release(&have);
}

/* The rank has named the error: see torch_errors.py. A rank that ends when it returns, as that of a
 * script does, closes its connections. */
static void hint_returned(const struct cell *c, json_t *traceback)
{
    struct ranks ended = RANKS_INIT;
    struct buf line = BUF_INIT, who = BUF_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (c->member[k].state == MEMBER_OK)
            rc = ranks_add(&ended, c->member[k].rank);
    if (rc == 0 && ranks_count(&ended) &&
        (ranks_format_words(&ended, &who) < 0 ||
         buf_addf(&line, "%s had returned already, without that collective. " ERROR_UNEQUAL,
                  who.p) < 0))
        buf_clear(&line);
    add_line(traceback, &line);
    buf_release(&who);
    ranks_release(&ended);
}

/* The module in "No module named 'helper'"; "": it is another error. */
static struct slice missing_module(const json_t *error)
{
    static const char before[] = "No module named '";
    struct slice said = text_slice(error, "evalue");
    size_t n = 0;

    if (strcmp(text_field(error, "ename"), "ModuleNotFoundError") != 0 ||
        !slice_begins(said, before))
        return slice_text("");
    said = slice_of(said.p + sizeof before - 1, said.n - (sizeof before - 1));
    while (n < said.n && said.p[n] != '\'' && said.p[n] != '.')
        n++;
    if (n < said.n && said.p[n] == '.') /* Python has found the package around it */
        return slice_text("");
    return slice_of(said.p, n);
}

/* Does the error say already why a module of home's did not come? _code/finders.py writes it. */
static bool says_why(const json_t *error)
{
    return strstr(text_field(error, "evalue"), "': the notebook has it, but ") != NULL;
}

/* What the user has said about the notebook's own modules. */
static const char *own_modules(const struct cell *c)
{
    if (!c->nb->config.code)
        return ". CELLSPAN_CODE=never keeps the notebook's own modules here";
    if (c->plan.no_code)
        return ". --no-code of this cell keeps the notebook's own modules here";
    return ", and the notebook's own modules";
}

/* Home may have it: packages that are installed there are not on other machines. */
static void hint_module(const struct cell *c, const struct member *m, json_t *traceback)
{
    const struct slice module = missing_module(m->error);
    const unsigned node = c->group->rank[m->rank].node;
    struct buf line = BUF_INIT;

    if (!module.n || node == NODE_HERE || says_why(m->error))
        return;
    if (buf_addf(&line, "%s has no %.*s: ranks there import what is installed there%s",
                 notebook_node_name(c->nb, node), SLICE_ARG(module), own_modules(c)) < 0)
        buf_clear(&line);
    add_line(traceback, &line);
}

void error_add_hints(const struct cell *c, const struct member *m, json_t *traceback)
{
    const struct slice name = missing_name(m->error);

    if (strcmp(text_field(m->error, "about"), "closed") == 0)
        hint_returned(c, traceback);
    hint_module(c, m, traceback);
    if (!name.n)
        return;
    if (c->plan.kind == PLAN_PULL)
        hint_others(c, name, traceback);
    else {
        hint_list(c, name, traceback);
        hint_unsent(c, name, traceback);
        hint_place(name, traceback);
    }
}
