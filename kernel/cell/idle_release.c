/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/cell/idle_release.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_stops.h"

struct idle_release {
    uint64_t after_ns; /* 0: never */
    uint64_t since_ns; /* no cell runs, and no rank has sent anything; 0: a cell runs */
    bool ended;        /* the ranks were told to end since */
    bool ending;       /* some of them have not ended yet */
};

struct idle_release *idle_release_create(uint64_t after_ns)
{
    struct idle_release *idle = calloc(1, sizeof *idle);

    if (idle)
        idle->after_ns = after_ns;
    return idle;
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

static void tell(struct notebook *nb, const struct ranks *which)
{
    const struct request *parent = nb->rank_parent ? nb->rank_parent : nb->home.parent;
    const unsigned gpus = nb->group->gpus * ranks_count(which);
    const bool one = ranks_count(which) == 1;
    struct buf who = BUF_INIT, line = BUF_INIT;
    char time[32];

    write_time(time, sizeof time, nb->ends.idle->after_ns);
    if (ranks_format_words(which, &who) == 0 &&
        buf_addf(&line,
                 "cellspan: no cell has run for %s, so %s %s ended, and %u GPU%s %s free for "
                 "others (CELLSPAN_GPU_IDLE_RELEASE). The next cell on ranks starts new ones, "
                 "without these ranks' variables\n",
                 time, who.p, one ? "has" : "have", gpus, gpus == 1 ? "" : "s",
                 gpus == 1 ? "is" : "are") == 0)
        publish_stream(nb, parent, 2, buf_slice(&line));
    buf_release(&who);
    buf_release(&line);
}

static void end_ranks(struct notebook *nb)
{
    struct ranks which = RANKS_INIT;

    nb->ends.idle->ended = true;
    if (group_living(nb->group, &which) < 0) {
        log_warn("ranks", "out of memory: idle ranks keep their GPUs");
    } else if (ranks_count(&which)) {
        log_info("ranks", "%u idle ranks are ended", ranks_count(&which));
        tell(nb, &which);
        nb->ends.idle->ending = true;
        stop_signal_ranks(nb, nb->group, &which, SIGTERM, STOP_GRACE_MS);
    }
    ranks_release(&which);
}

void idle_release_update(struct notebook *nb, uint64_t now)
{
    struct idle_release *idle = nb->ends.idle;

    idle->ending = idle_release_holds(nb);
    if (is_busy(nb)) {
        idle->since_ns = 0;
        idle->ended = false;
    } else if (!idle->since_ns) {
        idle->since_ns = now;
    } else if (now >= idle_release_due(nb)) {
        end_ranks(nb);
    }
}
