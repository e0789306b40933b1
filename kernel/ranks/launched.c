/* launched.c - which ranks have launched more collectives of a process group than others. A rank
 * that has launched the 17th waits for those that have launched 16. Each rank's answer to STACKS
 * has a line "launched GROUP N" for each of its groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/ranks/ranks.h"

#define LINE   "launched "
#define GROUPS 64u /* that are compared; others are left out */

/* A process group of some ranks. */
struct launches {
    struct slice group;   /* borrowed of a member */
    uint64_t least;       /* of all its ranks that run or have ended the cell */
    uint64_t least_ended; /* of those that have ended it; UINT64_MAX: none has */
};

bool launched_take(struct member *m, const char *stack)
{
    struct slice text = slice_text(stack), all = { stack, 0 };
    bool changed;

    while (slice_begins(text, LINE)) {
        (void)slice_line(&text);
        all.n = (size_t)(text.p - stack);
    }
    changed = !slice_equal(all, slice_text(m->launched ? m->launched : ""));
    free(m->launched);
    m->launched = all.n ? slice_copy(all) : NULL; /* no memory: as if it had no groups */
    return changed;
}

/* The next group of *text, and its number. false: there is none. */
static bool next_group(struct slice *text, struct slice *group, uint64_t *n)
{
    struct slice line;
    char number[24];

    if (!text->n)
        return false;
    line = slice_line(text);
    line = slice_of(line.p + sizeof LINE - 1, line.n - (sizeof LINE - 1));
    *group = slice_cut(&line, ' ');
    snprintf(number, sizeof number, "%.*s", SLICE_ARG(line));
    *n = strtoull(number, NULL, 10);
    return true;
}

static struct launches *find(struct launches *all, size_t n, struct slice group)
{
    for (size_t i = 0; i < n; i++)
        if (slice_equal(all[i].group, group))
            return &all[i];
    return NULL;
}

static size_t collect(const struct cell *c, struct launches all[static GROUPS])
{
    struct slice text, group;
    size_t count = 0;
    uint64_t n;

    for (size_t k = 0; k < c->n; k++) {
        text = slice_text(c->member[k].launched ? c->member[k].launched : "");
        while (next_group(&text, &group, &n)) {
            struct launches *l = find(all, count, group);

            if (!l && count == GROUPS)
                continue;
            if (!l) {
                l = &all[count++];
                *l = (struct launches){ group, n, UINT64_MAX };
            }
            if (n < l->least)
                l->least = n;
            if (c->member[k].state != MEMBER_RUNNING && n < l->least_ended)
                l->least_ended = n;
        }
    }
    return count;
}

void launched_compare(struct cell *c)
{
    struct launches all[GROUPS];
    const size_t count = collect(c, all);
    struct slice text, group;
    uint64_t n;

    for (size_t k = 0; k < c->n; k++) {
        struct member *m = &c->member[k];

        m->ahead = AHEAD_NOT;
        text = slice_text(m->launched ? m->launched : "");
        while (m->state == MEMBER_RUNNING && next_group(&text, &group, &n)) {
            const struct launches *l = find(all, count, group);

            if (l && l->least_ended < n)
                m->ahead = AHEAD_OF_ENDED;
            else if (l && l->least < n && !m->ahead)
                m->ahead = AHEAD;
        }
    }
}
