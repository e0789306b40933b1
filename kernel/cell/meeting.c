/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/cell/meeting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_set.h"

void meeting_release(struct step_meeting *m)
{
    free(m->rank);
    free(m->said);
    *m = (struct step_meeting)MEETING_INIT;
}

int meeting_add(struct step_meeting *m, uint32_t worker, unsigned rank)
{
    if (m->n == m->room) {
        const size_t room = m->room ? 2 * m->room : 8;
        struct step_rank *more = realloc(m->rank, room * sizeof *more);

        if (!more)
            return -1;
        m->rank = more;
        m->room = room;
    }
    m->rank[m->n++] = (struct step_rank){ .worker = worker, .rank = rank };
    return 0;
}

struct step_rank *meeting_rank(const struct step_meeting *m, uint32_t worker)
{
    for (size_t k = 0; k < m->n; k++)
        if (m->rank[k].worker == worker)
            return &m->rank[k];
    return NULL;
}

void meeting_begin(struct step_meeting *m, bool between)
{
    m->between = between;
    m->state = between ? MEETING_RUNS : MEETING_COUNTS;
}

static bool is_open(const struct step_meeting *m)
{
    return m->state == MEETING_COUNTS || m->state == MEETING_GOES || m->state == MEETING_RUNS;
}

void meeting_counted(struct step_meeting *m, uint32_t worker, uint64_t steps)
{
    struct step_rank *g = meeting_rank(m, worker);

    if (!g || m->state != MEETING_COUNTS)
        return;
    g->counted = true;
    g->steps = steps;
}

void meeting_there(struct step_meeting *m, uint32_t worker)
{
    struct step_rank *g = meeting_rank(m, worker);

    if (g && m->state == MEETING_GOES && g->state == AT_CELL)
        g->state = AT_STEP;
}

void meeting_ran(struct step_meeting *m, uint32_t worker)
{
    struct step_rank *g = meeting_rank(m, worker);

    if (g && m->state == MEETING_RUNS)
        g->state = HAS_RUN_IT;
}

void meeting_failed(struct step_meeting *m, uint32_t worker, struct slice error)
{
    struct step_rank *g = meeting_rank(m, worker);

    if (!g || m->state != MEETING_RUNS)
        return;
    g->state = HAS_FAILED;
    if (!m->said) {
        m->said = slice_copy(error);
        m->said_by = g->rank;
    }
}

void meeting_ended(struct step_meeting *m, uint32_t worker, bool well)
{
    struct step_rank *g = meeting_rank(m, worker);

    if (!g || !is_open(m) || g->state == HAS_RUN_IT || g->state == HAS_FAILED)
        return;
    if (!well)
        g->state = IS_GONE;
    else if (m->state != MEETING_RUNS)
        g->state = HAS_ENDED;
}

static void call_off(struct step_meeting *m, enum meeting_why why)
{
    m->state = MEETING_OFF;
    m->why = why;
}

void meeting_late(struct step_meeting *m)
{
    if (m->state == MEETING_COUNTS || m->state == MEETING_GOES)
        call_off(m, MEETING_LATE);
}

static size_t count(const struct step_meeting *m, enum step_rank_state state)
{
    size_t n = 0;

    for (size_t k = 0; k < m->n; k++)
        n += m->rank[k].state == state;
    return n;
}

/* Chooses the step. false: a rank has not told its count. */
static bool choose(struct step_meeting *m)
{
    uint64_t most = 0;

    for (size_t k = 0; k < m->n; k++) {
        if (!m->rank[k].counted)
            return false;
        most = m->rank[k].steps > most ? m->rank[k].steps : most;
    }
    m->step = most + 1;
    return true;
}

static bool gather(struct step_meeting *m)
{
    const size_t there = count(m, AT_STEP), ended = count(m, HAS_ENDED);
    const bool counted = m->state == MEETING_COUNTS && choose(m);

    if (count(m, IS_GONE))
        call_off(m, MEETING_FAILED);
    else if (ended == m->n)
        meeting_begin(m, true);
    else if (there == m->n)
        m->state = MEETING_RUNS;
    else if (there && ended)
        call_off(m, MEETING_ENDED);
    else if (counted)
        m->state = MEETING_GOES;
    else
        return false;
    return true;
}

bool meeting_next(struct step_meeting *m)
{
    if (m->state == MEETING_COUNTS || m->state == MEETING_GOES)
        return gather(m);
    if (m->state != MEETING_RUNS ||
        count(m, HAS_RUN_IT) + count(m, HAS_FAILED) + count(m, IS_GONE) < m->n)
        return false;
    m->state = MEETING_OVER;
    return true;
}

/* ---- words ---- */

/* "ranks 0-2", of those of which it is true */
static int add_ranks(const struct step_meeting *m, bool (*is)(const struct step_rank *),
                     struct buf *out)
{
    struct ranks r = RANKS_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < m->n; k++)
        if (is(&m->rank[k]))
            rc = ranks_add(&r, m->rank[k].rank);
    if (rc == 0)
        rc = buf_add_text(out, ranks_count(&r) == 1 ? "rank " : "ranks ");
    if (rc == 0)
        rc = ranks_format(&r, out);
    ranks_release(&r);
    return rc;
}

static bool is_absent(const struct step_rank *g)
{
    return g->state == AT_CELL;
}

static bool has_ended(const struct step_rank *g)
{
    return g->state == HAS_ENDED;
}

static bool has_not_run(const struct step_rank *g)
{
    return g->state != HAS_RUN_IT && g->state != HAS_FAILED;
}

static int add_why(const struct step_meeting *m, const char *fn, struct buf *out)
{
    int rc = buf_addf(out, "%s() did not run: ", fn);

    if (rc < 0)
        return -1;
    if (m->why == MEETING_FAILED)
        return buf_add_text(out, "the cell failed");
    if (m->why == MEETING_ENDED) {
        rc = add_ranks(m, has_ended, out);
        return rc < 0
                   ? -1
                   : buf_addf(out, " ended the cell before step %" PRIu64 ", in which others were",
                              m->step);
    }
    rc = add_ranks(m, is_absent, out);
    return rc < 0 ? -1
                  : buf_add_text(out, " had not called cellspan.step() within half of the time");
}

static int add_where(const struct step_meeting *m, struct buf *out)
{
    return m->between ? 0 : buf_addf(out, ", in step %" PRIu64, m->step);
}

int meeting_words(const struct step_meeting *m, const char *fn, struct buf *out)
{
    int rc;

    if (m->state == MEETING_OFF)
        return add_why(m, fn, out);
    if (m->said)
        return buf_addf(out, "the checkpoint is not whole: %s() failed on rank %u: %s", fn,
                        m->said_by, m->said);
    if (m->n == count(m, HAS_RUN_IT)) {
        rc = buf_addf(out, "the checkpoint is whole: %s() has run on ", fn);
        rc = rc < 0 || m->n == 1 ? rc : buf_add_text(out, "all ");
        rc = rc < 0 ? -1 : buf_addf(out, "%zu rank%s", m->n, m->n == 1 ? "" : "s");
        return rc < 0 ? -1 : add_where(m, out);
    }
    rc = buf_addf(out, "the checkpoint is not whole: %s() had not ended on ", fn);
    return rc < 0 ? -1 : add_ranks(m, has_not_run, out);
}
