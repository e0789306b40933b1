/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/ras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parser's state: the communicator whose details it reads, and the count to which "Rank N -- …"
 * lines belong. */
struct reading {
    struct ras_status *s;
    char comm[64], operation[32];
    bool counts;   /* after a line "… different … operation counts" */
    bool troubles; /* in a section DEAD or INCOMPLETE */
    size_t open;   /* index + 1 of the count whose ranks follow; 0: none */
};

void ras_status_release(struct ras_status *s)
{
    for (size_t i = 0; i < s->n; i++)
        buf_release(&s->count[i].who);
    free(s->count);
    buf_release(&s->troubles);
    memset(s, 0, sizeof *s);
}

static struct ras_count *count_add(struct reading *r, unsigned ranks, uint64_t launched)
{
    struct ras_status *s = r->s;
    struct ras_count *more = realloc(s->count, (s->n + 1) * sizeof *more);

    if (!more)
        return NULL;
    s->count = more;
    more += s->n++;
    memset(more, 0, sizeof *more);
    snprintf(more->comm, sizeof more->comm, "%s", r->comm);
    snprintf(more->operation, sizeof more->operation, "%s", r->operation);
    more->ranks = ranks;
    more->launched = launched;
    r->open = s->n;
    return more;
}

/* "#0-0 (27a079b828ff1a75) MISMATCH" */
static bool take_comm(struct reading *r, const char *line)
{
    const char *end;

    if (line[0] != '#' || !(end = strchr(line, ')')))
        return false;
    snprintf(r->comm, sizeof r->comm, "%.*s", (int)(end - line + 1), line);
    r->operation[0] = '\0';
    r->counts = r->troubles = false;
    r->open = 0;
    if (strstr(end, "INCOMPLETE") || strstr(end, "ERROR"))
        r->troubles = true;
    return true;
}

/* "Communicator ranks have different AllReduce operation counts", or "… different collective
 * operation counts" */
static bool take_operation(struct reading *r, const char *line)
{
    static const char before[] = "Communicator ranks have different ";
    const char *at, *end;

    if (!text_begins(line, before) || !(end = strstr(line, " operation counts")))
        return false;
    at = line + strlen(before);
    snprintf(r->operation, sizeof r->operation, "%.*s", (int)(end - at), at);
    if (strcmp(r->operation, "collective") == 0)
        r->operation[0] = '\0';
    r->counts = true;
    r->open = 0;
    return true;
}

/* Parses a line with the counts of ranks. 1: it was one; 0: it was not; -1: out of memory. */
static int take_count(struct reading *r, const char *line)
{
    unsigned n = 0;
    unsigned long long launched = 0;
    struct ras_count *c;
    int end = 0;

    if (!r->counts)
        return 0;
    if (sscanf(line, "%u ranks have launched up to operation %llu", &n, &launched) == 2)
        return count_add(r, n, launched) ? 1 : -1;
    if (sscanf(line, "%u ranks have not launched any operations%n", &n, &end) == 1 && end)
        return count_add(r, n, 0) ? 1 : -1;
    if (sscanf(line, "Rank %u has launched up to operation %llu", &n, &launched) == 2 ||
        (sscanf(line, "Rank %u has not launched any operations%n", &n, &end) == 1 && end)) {
        if (!(c = count_add(r, 1, launched)) || buf_addf(&c->who, "%u", n) < 0)
            return -1;
        r->open = 0;
        return 1;
    }
    if (r->open && sscanf(line, "Rank %u --%n", &n, &end) == 1 && end) {
        c = &r->s->count[r->open - 1];
        return buf_addf(&c->who, "%s%u", c->who.n ? "," : "", n) < 0 ? -1 : 1;
    }
    return 0;
}

/* Copies lines about dead or silent processes, and communicators that lack ranks, unchanged. */
static int take_trouble(struct reading *r, const char *line)
{
    if (strcmp(line, "DEAD") == 0 || strcmp(line, "INCOMPLETE") == 0) {
        r->troubles = true;
        r->counts = false;
        return 0;
    }
    if (!r->troubles || !line[0] || line[0] == '=')
        return 0;
    return buf_addf(&r->s->troubles, "%s\n", line);
}

static int take_line(struct reading *r, const char *line)
{
    int rc;

    while (*line == ' ' || *line == '\t')
        line++;
    if (text_begins(line, "Group ") && strstr(line, "Comms"))
        r->s->running = true;
    if (text_begins(line, "Warnings") || text_begins(line, "Errors")) {
        r->troubles = r->counts = false;
        return 0;
    }
    if (take_comm(r, line) || take_operation(r, line))
        return 0;
    if ((rc = take_count(r, line)) != 0)
        return rc < 0 ? -1 : 0;
    return take_trouble(r, line);
}

int ras_parse(struct slice text, struct ras_status *s, struct err *err)
{
    struct reading r = { .s = s };

    memset(s, 0, sizeof *s);
    while (text.n) {
        const struct slice next = slice_line(&text);
        char line[1024];

        snprintf(line, sizeof line, "%.*s", SLICE_ARG(next));
        if (take_line(&r, line) < 0) {
            ras_status_release(s);
            return err_set(err, "out of memory");
        }
    }
    return 0;
}

static int add_who(const struct ras_count *c, struct buf *out)
{
    if (c->who.n)
        return buf_addf(out, "%s %s", c->ranks == 1 ? "rank" : "ranks", c->who.p);
    return buf_addf(out, "%u ranks", c->ranks);
}

static int add_count(const struct ras_count *c, struct buf *out)
{
    const char *what = c->operation[0] ? c->operation : "operations";

    if (add_who(c, out) < 0)
        return -1;
    if (c->launched == 0)
        return buf_addf(out, " launched no %s", what);
    return buf_addf(out, " launched %llu %s", (unsigned long long)c->launched, what);
}

int ras_words(const struct ras_status *s, struct buf *out)
{
    if (s->running && s->n == 0 && s->troubles.n == 0)
        return buf_add_text(
            out, "NCCL: in each communicator all ranks have launched equally many operations\n");
    for (size_t i = 0; i < s->n; i++) {
        const struct ras_count *c = &s->count[i], *before = i ? c - 1 : NULL;
        const bool same = before && strcmp(before->comm, c->comm) == 0 &&
                          strcmp(before->operation, c->operation) == 0;

        if (same ? buf_add_text(out, "; ") < 0
                 : buf_addf(out, "%sNCCL %s: ", i ? "\n" : "", c->comm) < 0)
            return -1;
        if (add_count(c, out) < 0)
            return -1;
    }
    if (s->n && buf_add_text(out, "\n") < 0)
        return -1;
    for (size_t at = 0; at < s->troubles.n;) {
        const char *line = s->troubles.p + at, *end = strchr(line, '\n');

        if (buf_addf(out, "NCCL: %.*s\n", (int)(end - line), line) < 0)
            return -1;
        at += (size_t)(end - line) + 1;
    }
    return 0;
}
