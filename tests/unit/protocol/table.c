/* SPDX-License-Identifier: BSD-3-Clause */
/* README.md's tables, span_table.c, span_fields.h and span_flags.h agree. */
#include <ctype.h>
#include <stdlib.h>

#include "protocol/span_flags.h"
#include "tests/unit/protocol/kinds.h"
#include "tests/unit/protocol/source.h"
#include "tests/unit/tap.h"

static const char *const type_words[] = { "u64", "str", "bytes", "list" };

static const struct way {
    enum span_way way;
    const char *text;
} ways[] = {
    { SPAN_KERNEL_TO_AGENT, "K→A" },  { SPAN_AGENT_TO_KERNEL, "A→K" },
    { SPAN_AGENT_TO_AGENT, "A→A" },   { SPAN_KERNEL_TO_WORKER, "K→W" },
    { SPAN_WORKER_TO_KERNEL, "W→K" }, { SPAN_AGENT_TO_WORKER, "A→W" },
    { SPAN_WORKER_TO_AGENT, "W→A" },
};

/* The ways in a cell of README.md's table, "K→A, A→W"; 0: it has something else. */
static unsigned ways_read(const char *cell, size_t n)
{
    unsigned found = 0;
    size_t at = 0, size;

    for (; at < n; at += size + strspn(cell + at + size, ", ")) {
        size_t i = 0;

        at += strspn(cell + at, " ");
        while (i < sizeof ways / sizeof *ways &&
               strncmp(cell + at, ways[i].text, strlen(ways[i].text)) != 0)
            i++;
        if (i == sizeof ways / sizeof *ways)
            return 0;
        size = strlen(ways[i].text);
        found |= ways[i].way;
    }
    return found;
}

/* The row as README.md writes it, but for its ways: "| 9 | STACK |" and " text str 262144 |". */
static int write_row(const struct span_info *info, struct buf *start, struct buf *fields)
{
    if (buf_addf(start, "| %u | %s |", (unsigned)info->kind, info->name) < 0)
        return -1;
    for (unsigned i = 0; i < info->n; i++) {
        const struct span_field *f = &info->field[i];

        if (buf_addf(fields, "%s %s %s", i ? "," : "", f->name, type_words[f->type]) < 0 ||
            (f->type != SPAN_U64 && buf_addf(fields, " %zu", f->max) < 0))
            return -1;
    }
    return buf_add_text(fields, " |");
}

static void check_row(const struct span_info *info, const char *readme)
{
    struct buf start = BUF_INIT, fields = BUF_INIT, line = BUF_INIT;
    const char *at;

    if (write_row(info, &start, &fields) == 0) {
        at = strstr(readme, start.p);
        ok(at != NULL, "README.md has a row '%s'", start.p);
        if (at && buf_add(&line, at + start.n, strcspn(at + start.n, "\n")) == 0) {
            const char *bar = strchr(line.p, '|');

            is_text(bar ? bar + 1 : NULL, fields.p, "with the fields of %s", info->name);
            ok(bar && ways_read(line.p, (size_t)(bar - line.p)) == info->ways, "and with its ways");
        }
    }
    buf_release(&start);
    buf_release(&fields);
    buf_release(&line);
}

static void the_readme_has_every_row(const char *readme)
{
    const struct span_info *info;
    unsigned rows = 0, kinds = 0;

    for (; (info = kind_at(kinds)); kinds++) {
        check_row(info, readme);
        ok(span_info((unsigned)info->kind) == info && span_info_named(info->name) == info,
           "%s is found by number and by name", info->name);
        is_int(info->thread != SPAN_THREAD_NONE,
               (info->ways & (SPAN_KERNEL_TO_WORKER | SPAN_AGENT_TO_WORKER)) != 0,
               "%s has a thread if it is for workers", info->name);
        ok(info->n <= SPAN_FIELDS_MAX, "%s has at most SPAN_FIELDS_MAX fields", info->name);
    }
    for (const char *at = strstr(readme, "<!-- kinds:"); at; at = strchr(at + 1, '\n'))
        rows += at[0] == '\n' && at[1] == '|' && isdigit((unsigned char)at[3]);
    is_int(rows, kinds, "README.md has no other rows");
    ok(!span_info(0) && !span_info(255) && !span_info_named("NONE"), "nothing else is found");
}

/* Does the text at *at name F_KIND_FIELD? Moves *at behind it. */
static bool names_field(const char **at, const struct span_info *info, unsigned i)
{
    char want[128];
    size_t n;

    snprintf(want, sizeof want, "F_%s_%s", info->name, info->field[i].name);
    for (char *c = want; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    n = strlen(want);
    while (**at && strncmp(*at, "F_", 2) != 0)
        (*at)++;
    if (strncmp(*at, want, n) != 0 || isalnum((unsigned char)(*at)[n]) || (*at)[n] == '_') {
        diag("want %s at '%.40s'", want, *at);
        return false;
    }
    *at += n;
    return true;
}

static void the_enumerators_are_in_order(const char *header)
{
    const char *at = strstr(header, "\nenum");
    const struct span_info *info;
    bool good = at != NULL;

    for (unsigned k = 0; good && (info = kind_at(k)); k++)
        for (unsigned i = 0; good && i < info->n; i++) {
            if (i == 0 && (at = strstr(at, "enum {")) == NULL)
                good = false;
            good = good && names_field(&at, info, i);
        }
    ok(good, "span_fields.h names every field in the table's order, kind by kind");
    ok(good && !strstr(at, "F_"), "and no other");
}

static const struct flag {
    enum span_kind kind;
    const char *field, *name;
    unsigned value;
} flags[] = {
#define ROW(kind, field, name, value) { SPAN_##kind, #field, #name, value },
    SPAN_FLAGS(ROW)
};

static bool has_field(const struct span_info *info, const char *name)
{
    unsigned i = 0;

    while (i < info->n && strcmp(info->field[i].name, name) != 0)
        i++;
    return i < info->n;
}

static void the_readme_has_every_flag(const char *readme)
{
    const size_t n_flags = sizeof flags / sizeof flags[0];
    unsigned rows = 0;
    char row[256];

    for (const struct flag *flag = flags; flag < flags + n_flags; flag++) {
        const struct span_info *info = span_info((unsigned)flag->kind);
        const size_t n = info ? strlen(info->name) : 0;

        if (!ok(info && has_field(info, flag->field) && strncmp(flag->name, info->name, n) == 0 &&
                    flag->name[n] == '_',
                "%s is named after its kind, which has a field %s", flag->name, flag->field))
            continue;
        snprintf(row, sizeof row, "\n| %s | %s | %s | %u | ", info->name, flag->field, flag->name,
                 flag->value);
        ok(strstr(readme, row) != NULL, "README.md has a row '%s'", row + 1);
    }
    for (const char *at = strstr(readme, "<!-- flags:"); at && strncmp(at, "\n## ", 4) != 0;
         at = strchr(at + 1, '\n'))
        rows += at[0] == '\n' && at[1] == '|' && isupper((unsigned char)at[3]);
    is_int(rows, n_flags, "README.md has no other flags");
}

int main(void)
{
    char *readme = source_read("protocol/README.md");
    char *header = source_read("protocol/span_fields.h");

    if (ok(readme && header, "README.md and span_fields.h can be read")) {
        the_readme_has_every_row(readme);
        the_readme_has_every_flag(readme);
        the_enumerators_are_in_order(header);
    }
    free(readme);
    free(header);
    return plan_done();
}
