/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/cell/idle_release.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/park.h"

struct idle_release {
    uint64_t after_ns; /* 0: never */
    uint64_t since_ns; /* no cell runs, and no rank has sent anything; 0: a cell runs */
    bool ended;        /* the ranks were told to end since */
    bool ending;       /* some of them have not ended yet */
    bool park, keep;
    struct park *parked; /* owned */
};

struct idle_release *idle_release_create(struct notebook *nb, uint64_t after_ns, bool park,
                                         bool keep)
{
    struct idle_release *idle = calloc(1, sizeof *idle);

    if (!idle)
        return NULL;
    *idle = (struct idle_release){ .after_ns = after_ns, .park = park, .keep = keep };
    if ((idle->parked = park_create(nb)))
        return idle;
    free(idle);
    return NULL;
}

void idle_release_destroy(struct idle_release *idle)
{
    if (idle)
        park_destroy(idle->parked);
    free(idle);
}

/* A cell at home counts as well: its user is there, and may need the ranks next. */
static bool is_busy(const struct notebook *nb)
{
    return nb->home.executing || nb->cells || subshells_run(nb);
}

void idle_release_used(struct notebook *nb, uint64_t now)
{
    if (nb->ends.idle->since_ns)
        nb->ends.idle->since_ns = now;
}

uint64_t idle_release_idle(const struct notebook *nb, uint64_t now)
{
    const uint64_t since = nb->ends.idle->since_ns;

    return since && now > since ? now - since : 0;
}

uint64_t idle_release_due(const struct notebook *nb)
{
    const struct idle_release *idle = nb->ends.idle;
    const uint64_t due = park_due(idle->parked);

    if (due != NEVER)
        return due;
    return idle->after_ns && idle->since_ns && !idle->ended && nb->group->gpus &&
                   group_shares_gpus(nb->group)
               ? idle->since_ns + idle->after_ns
               : NEVER;
}

bool idle_release_holds(const struct notebook *nb)
{
    return nb->ends.idle->ending && group_stops(nb->group);
}

/* "15 min", "1.5 h". */
static void write_time(char *out, size_t size, uint64_t ns)
{
    const double s = (double)ns / (double)NS_PER_S;

    if (s < 120)
        snprintf(out, size, "%.4g s", s);
    else if (s < 7200)
        snprintf(out, size, "%.4g min", s / 60);
    else
        snprintf(out, size, "%.4g h", s / 3600);
}

enum said { SAID_ENDED, SAID_PARKED, SAID_KEPT };

/* why: they can't be parked; "": nobody wanted that, or they are. */
static int add_line(const struct notebook *nb, const struct ranks *which, enum said said,
                    const char *why, struct buf *line)
{
    const unsigned n = ranks_count(which), gpus = nb->group->gpus * n;
    const char *cards = gpus == 1 ? "GPU" : "GPUs", *are = gpus == 1 ? "is" : "are";
    struct buf who = BUF_INIT;
    char time[32];
    int rc = ranks_format_words(which, &who);

    write_time(time, sizeof time, nb->ends.idle->after_ns);
    if (rc == 0)
        rc = buf_addf(line, "cellspan: no cell has run for %s, ", time);
    if (rc == 0 && why[0])
        rc = buf_addf(line, "and %s can't be parked (%s), ", who.p, why);
    if (rc == 0 && said == SAID_ENDED)
        rc = buf_addf(line,
                      "so %s %s ended, and %u %s %s free for others (CELLSPAN_GPU_IDLE_RELEASE). "
                      "The next cell on ranks starts new ones, without these ranks' variables\n",
                      who.p, n == 1 ? "has" : "have", gpus, cards, are);
    else if (rc == 0 && said == SAID_PARKED)
        rc = buf_addf(line,
                      "so %s %s parked: %s %u %s %s free for others; the next cell on ranks brings "
                      "%s back (CELLSPAN_GPU_IDLE)\n",
                      who.p, n == 1 ? "is" : "are", n == 1 ? "its" : "their", gpus, cards, are,
                      n == 1 ? "it" : "them");
    else if (rc == 0)
        rc = buf_addf(line, "so %s %s %u %s (CELLSPAN_GPU_IDLE)\n",
                      n == 1 ? "it keeps" : "they keep", n == 1 ? "its" : "their", gpus, cards);
    buf_release(&who);
    return rc;
}

static void tell(struct notebook *nb, const struct ranks *which, enum said said, const char *why)
{
    const struct request *parent = nb->rank_parent ? nb->rank_parent : nb->home.parent;
    struct buf line = BUF_INIT;

    if (ranks_count(which) && add_line(nb, which, said, why, &line) == 0)
        publish_stream(nb, parent, 2, buf_slice(&line));
    buf_release(&line);
}

/* The next cell on ranks waits until they have ended: idle_release_holds(). */
static void stop(struct notebook *nb, const struct ranks *which, unsigned signal, uint64_t grace_ms)
{
    nb->ends.idle->ending = true;
    stop_signal_ranks(nb, nb->group, which, signal, grace_ms);
}

static void end_ranks(struct notebook *nb, const struct ranks *which, const char *why)
{
    if (!ranks_count(which))
        return;
    log_info("ranks", "%u idle ranks are ended", ranks_count(which));
    tell(nb, which, SAID_ENDED, why);
    stop(nb, which, SIGTERM, STOP_GRACE_MS);
}

/* ---- ranks that are parked ---- */

/* Ranks that have only been asked stay, and the time begins anew. true: some move. */
static bool interrupt(struct notebook *nb)
{
    struct idle_release *idle = nb->ends.idle;

    if (park_asks(idle->parked)) {
        idle->ended = false;
        idle->since_ns = 0;
    }
    return park_interrupt(idle->parked);
}

/* Sorts the ranks of the move that live still; those in `lost` can't go on. */
static int sort(const struct notebook *nb, const struct park_outcome *o, struct ranks *moved,
                struct ranks *stayed, struct ranks *lost)
{
    int rc = 0;

    RANKS_EACH (k, &o->all)
        if (rc == 0 && rank_alive(&nb->group->rank[k]))
            rc = ranks_add(ranks_has(&o->lost, (unsigned)k)    ? lost
                           : ranks_has(&o->moved, (unsigned)k) ? moved
                                                               : stayed,
                           (unsigned)k);
    return rc;
}

/* They have left their GPUs, or can't. */
static void have_left(struct notebook *nb, const struct park_outcome *o)
{
    struct ranks moved = RANKS_INIT, stayed = RANKS_INIT, lost = RANKS_INIT;

    if (sort(nb, o, &moved, &stayed, &lost) < 0)
        log_warn("ranks", "out of memory: idle ranks keep their GPUs");
    tell(nb, &moved, SAID_PARKED, "");
    end_ranks(nb, &lost, o->why);
    if (nb->ends.idle->keep)
        tell(nb, &stayed, SAID_KEPT, o->why);
    else
        end_ranks(nb, &stayed, o->why);
    ranks_release(&moved);
    ranks_release(&stayed);
    ranks_release(&lost);
}

/* Its ranks may wait in the queue for their GPUs. On several machines, those that have theirs would
 * keep them meanwhile, and two notebooks could wait for each other. */
static bool may_wait(const struct cell *c)
{
    return c->plan.kind != PLAN_RANKS && park_node(c->nb->ends.idle->parked) >= 0;
}

/* Somebody else has GPUs of these ranks, or comes first. false: nothing is waited for. */
static bool queues(struct cell *c, const struct park_outcome *o, const struct ranks *stayed)
{
    return o->held && !o->stuck[0] && may_wait(c) &&
           gpu_wait_parked(c, (unsigned)park_node(c->nb->ends.idle->parked),
                           ranks_count(stayed) * c->nb->group->gpus, o->ahead, o->why);
}

/* A cell that needs all of them can't run. */
static void fail_to_return(struct cell *c, const struct park_outcome *o, const struct ranks *stayed,
                           const struct ranks *lost)
{
    const bool one = ranks_count(ranks_count(lost) ? lost : stayed) == 1;
    const char *their = one ? "its" : "their", *them = one ? "it" : "them";
    const bool waited = gpu_wait_has_parked(c);
    struct buf who = BUF_INIT;
    char limit[32];

    if (ranks_format_words(ranks_count(lost) ? lost : stayed, &who) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (ranks_count(lost))
        cell_fail(c, "RankDied",
                  "%s could not come back to the GPUs (%s), and %s ended: %s variables are lost. "
                  "The next cell starts %s anew",
                  who.p, o->why, one ? "has" : "have", their, them);
    else if (o->held && o->stuck[0])
        cell_fail(c, "UsageError",
                  "%s. %s, who comes first, waits for GPUs that this notebook's other ranks keep, "
                  "and %s would wait for him: `%%ranks stop` ends all of them",
                  o->why, o->stuck, who.p);
    else if (o->held) /* --fresh alone would find these GPUs held, too */
        cell_fail(
            c, waited ? "RankNotStarted" : "UsageError",
            "%s%s%s%s. So %s %s parked, with %s variables%s: run the cell again later. With --fresh "
            "and one of --no-gpu, --share and --wait it ends %s and starts new ranks",
            waited ? "the cell has waited for " : "", waited ? gpu_wait_limit(c, limit) : "",
            waited ? ", and " : "", o->why, who.p, one ? "stays" : "stay", their,
            may_wait(c) || c->plan.kind == PLAN_RANKS
                ? ""
                : " (they are on several machines, and a cell can wait for the GPUs of one)",
            them);
    else
        cell_fail(c, "RuntimeError",
                  "%s. So %s %s parked, with %s variables: run the cell again later, or with "
                  "--fresh, which ends %s and starts new ranks",
                  o->why, who.p, one ? "stays" : "stay", their, them);
    buf_release(&who);
}

/* c: the cell that needs them; NULL: none does. What could not be restored is gone, and its process
 * can only be killed. */
static void have_returned(struct notebook *nb, struct cell *c, const struct park_outcome *o)
{
    struct ranks moved = RANKS_INIT, stayed = RANKS_INIT, lost = RANKS_INIT;
    const int rc = sort(nb, o, &moved, &stayed, &lost);

    if (ranks_count(&lost))
        stop(nb, &lost, SIGKILL, 0);
    if (c && rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else if (c && (ranks_count(&lost) || ranks_count(&stayed)) &&
             (ranks_count(&lost) || !queues(c, o, &stayed)))
        fail_to_return(c, o, &stayed, &lost);
    nb->ends.idle->ended = false;
    nb->ends.idle->since_ns = 0; /* the time begins anew */
    ranks_release(&moved);
    ranks_release(&stayed);
    ranks_release(&lost);
}

static void settle(struct notebook *nb, struct cell *c)
{
    struct park *p = nb->ends.idle->parked;
    const struct park_outcome *o = park_over(p);

    if (!o)
        return;
    if (o->back) {
        have_returned(nb, c, o);
    } else {
        have_left(nb, o);
        if (park_is_wanted(p) && park_some_away(p))
            park_return(p, c && may_wait(c));
    }
}

static bool needs_group(const struct cell *c)
{
    return !c->from.overlaps && !(cell_own_group(c) && (c->engine.here || c->plan.no_gpu));
}

static void wake(struct notebook *nb, bool wait)
{
    struct park *p = nb->ends.idle->parked;

    if (interrupt(nb) || park_some_away(p))
        park_return(p, wait);
}

bool idle_release_brings_back(struct cell *c, bool waits)
{
    struct notebook *nb = c->nb;

    settle(nb, waits ? c : NULL);
    if (c->bad)
        return true;
    if (!needs_group(c) || (!interrupt(nb) && !park_some_away(nb->ends.idle->parked))) {
        if (gpu_wait_has_parked(c))
            gpu_wait_leave(c);
        return false;
    }
    if (gpu_wait_has_parked(c)) /* it tries again when it is time */
        return true;
    if (!waits)
        output_news(c, "parked ranks come back to their GPUs");
    wake(nb, may_wait(c));
    settle(nb, c); /* perhaps nobody could be told */
    return true;
}

void idle_release_retry(struct cell *c, uint64_t now)
{
    if (gpu_wait_takes_turn(c, now))
        wake(c->nb, may_wait(c));
}

void idle_release_wake(struct notebook *nb)
{
    wake(nb, false);
}

bool idle_release_on_probed(struct notebook *nb, const struct rank *r, const struct span *m)
{
    return park_on_probed(nb->ends.idle->parked, r, m);
}

void idle_release_on_parked(struct notebook *nb, unsigned node, const struct span *m)
{
    park_on_parked(nb->ends.idle->parked, node, m);
}

/* ---- when ---- */

/* Those that live and are not parked yet. */
static int find_idle(const struct notebook *nb, struct ranks *which)
{
    if (group_living(nb->group, which) < 0)
        return -1;
    for (unsigned k = 0; k < nb->group->size; k++)
        if (nb->group->rank[k].parking != PARKING_NOT)
            ranks_remove(which, k);
    return 0;
}

static void release(struct notebook *nb, uint64_t now)
{
    struct ranks which = RANKS_INIT;

    nb->ends.idle->ended = true;
    if (find_idle(nb, &which) < 0)
        log_warn("ranks", "out of memory: idle ranks keep their GPUs");
    else if (nb->ends.idle->park && ranks_count(&which))
        park_begin(nb->ends.idle->parked, &which, now);
    else
        end_ranks(nb, &which, "");
    ranks_release(&which);
}

void idle_release_update(struct notebook *nb, uint64_t now)
{
    struct idle_release *idle = nb->ends.idle;

    park_tick(idle->parked, now);
    if (!nb->cells) /* else the cell that waits takes it */
        settle(nb, NULL);
    idle->ending = idle_release_holds(nb);
    if (is_busy(nb)) {
        idle->since_ns = 0;
        idle->ended = false;
    } else if (!idle->since_ns) {
        idle->since_ns = now;
    } else if (now >= idle_release_due(nb)) {
        release(nb, now);
    }
    if (!nb->cells)
        settle(nb, NULL);
}
