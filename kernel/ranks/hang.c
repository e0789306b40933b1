/* SPDX-License-Identifier: BSD-3-Clause */
/* A notice about a cell whose ranks seem to wait for each other for ever, with the rank that the
 * others wait for. The kernel samples the ranks' stacks from time to time. A notice names the ranks
 * if no rank has moved for CELLSPAN_HANG_NOTICE, and either some ranks wait in a collective while
 * others are elsewhere, or all wait in the same collective. It also names living ranks that don't
 * run the cell: a process group of another world may wait for them. If all ranks certainly wait for
 * those, the notice comes after 5 s already (ABSENT_NS).
 *
 * A wait has no end if each rank that runs the cell is in a collective which a rank that has ended
 * the cell has not launched, or if all ranks are in collectives that don't fit together. A notice
 * says so, and if nothing changes the cell fails later (FAILS_AFTER). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/prompts.h"
#include "kernel/ranks/ranks.h"

/* samples before a notice; it is unlikely that all of them find a loop at the same place */
#define SAMPLES 4u

/* how long a sample waits for ranks that do not answer, before the next one is taken */
#define ANSWERS_NS (4 * NS_PER_S)

/* The cell fails when its ranks have waited this many times as long as before the notice. */
#define FAILS_AFTER 5u

#define UNLIKE                                                                                     \
    "These ranks have launched as many collectives as the others, so probably one called another " \
    "collective, or one with another shape or type, and what it got is wrong"

#define DIFFERENT                                                                                  \
    "All ranks must call the same collectives in the same order. A model in "                      \
    "DistributedDataParallel calls some, so one rank alone must call model.module"

/* If all ranks of a cell certainly wait for ranks that run nothing, the notice comes after
 * ABSENT_NS. So that it is in time, there is a sample every ABSENT_EACH_NS until ABSENT_UNTIL_NS
 * have passed since the cell began. */
#define ABSENT_NS       (5 * NS_PER_S)
#define ABSENT_EACH_NS  (3 * NS_PER_S)
#define ABSENT_UNTIL_NS (20 * NS_PER_S)

#define NEED_ABSENT                                                                                \
    ". All ranks of a process group must call it: interrupt the cell, and run it on all of them"

struct cell_hang {
    struct stack_sample *samples; /* owned, n of them: the members' */
    size_t n;
    uint64_t begun_ns;
    uint64_t due_ns;       /* the next sample, without the time at breakpoints; NEVER: off */
    uint64_t limit_ns;     /* the longest normal wait */
    uint64_t id;           /* the message number of the last sample; 0: none yet */
    size_t asked;          /* ranks that run and have not answered it */
    size_t asked_ended;    /* ranks that have ended the cell and have not */
    uint64_t asked_ns;     /* when they were asked */
    bool noticed;          /* a notice was shown */
    uint64_t away_ns;      /* machines that are silent since then were named again */
    uint64_t ended_ns;     /* when a rank that has ended the cell was seen to launch more */
    uint64_t announced_ns; /* when a notice said that the cell fails; 0: none has */
    char nccl[256];        /* a line of NCCL's from it: ranks have launched unequal counts; or "" */
};

void hang_release(struct cell *c)
{
    if (!c->hang)
        return;
    for (size_t k = 0; k < c->hang->n; k++) {
        free(c->hang->samples[k].place);
        free(c->hang->samples[k].launched);
        free(c->hang->samples[k].call);
        free(c->hang->samples[k].called_in);
    }
    free(c->hang->samples);
    free(c->hang);
    c->hang = NULL;
}

/* The time does not count in which a worker was stopped at a breakpoint. */
static uint64_t now_of(const struct cell *c)
{
    return notebook_now(c->nb) - c->stop.at_breakpoints_ns;
}

/* Are there living ranks that don't run this cell, and do they run nothing else? */
static bool has_idle_absent(const struct cell *c)
{
    bool found = false;

    for (unsigned k = 0; c->n < c->group->size && k < c->group->size; k++) {
        const struct rank *r = &c->group->rank[k];

        if (!rank_alive(r) || ranks_has(&c->to, k))
            continue;
        if (cell_on(c->nb, r->worker))
            return false;
        found = true;
    }
    return found;
}

static void next_sample(struct cell *c)
{
    struct cell_hang *h = c->hang;
    const uint64_t now = now_of(c), usual = now + h->limit_ns / SAMPLES;

    h->due_ns = !h->noticed && now - h->begun_ns < ABSENT_UNTIL_NS && has_idle_absent(c)
                    ? clock_earlier(usual, now + ABSENT_EACH_NS)
                    : usual;
}

/* Ranks run it, and nothing has happened that ends it. */
static bool is_open(const struct cell *c)
{
    return cell_runs(c) && c->hang->due_ns != NEVER && !c->stop.stopping && !c->stop.decided &&
           !c->stop.ending && !c->bad;
}

void hang_begin(struct cell *c)
{
    const uint64_t ns = c->nb->config.hang_notice_ns;

    if (!ns || (c->plan.kind != PLAN_DISTRIBUTE && c->plan.kind != PLAN_SCRIPT))
        return;
    if (!(c->hang = calloc(1, sizeof *c->hang)) ||
        !(c->hang->samples = calloc(c->n + 1, sizeof *c->hang->samples))) {
        hang_release(c);
        log_warn("hang", "out of memory: nobody sees whether ranks wait for each other");
        return;
    }
    for (c->hang->n = 0; c->hang->n < c->n; c->hang->n++)
        c->member[c->hang->n].sample = &c->hang->samples[c->hang->n];
    c->hang->limit_ns = ns;
    c->hang->begun_ns = now_of(c);
    next_sample(c);
}

void hang_put_off(struct cell *c)
{
    if (hang_due(c) == NEVER)
        return;
    next_sample(c);
    c->hang->id = 0;
    for (size_t k = 0; k < c->n; k++) {
        free(c->member[k].sample->place);
        c->member[k].sample->place = NULL;
        c->member[k].sample->heard_ns = 0;
        c->member[k].collective[0] = '\0';
    }
}

uint64_t hang_due(const struct cell *c)
{
    return !c->hang || c->hang->due_ns == NEVER ? NEVER
                                                : c->hang->due_ns + c->stop.at_breakpoints_ns;
}

/* What the main thread waits for. If the user's cell called torch.distributed, it is in a
 * collective; in torch.cuda, it may wait for a GPU that is. */
static enum sample_waits waits(const char *stack)
{
    const char *main_thread = error_main_thread(stack), *cell = error_find_cell(main_thread);

    for (const char *at = main_thread; (at = strstr(at, "/torch/")); at++)
        if (cell && at > cell)
            return WAITS_NOT;
        else if (strncmp(at, "/torch/distributed/", 19) == 0)
            return WAITS_IN_COLLECTIVE;
        else if (strncmp(at, "/torch/cuda/", 12) == 0)
            return WAITS_FOR_GPU;
    return WAITS_NOT;
}

/* In a collective, or for a GPU that is in one. */
static bool is_waiting(const struct member *m)
{
    return m->state == MEMBER_RUNNING && m->sample->place &&
           (m->sample->waits || (m->sample->operation && m->sample->ahead));
}

/* Keeps the first line such as "NCCL #0-0 (…): 3 ranks launched 64 AllReduce; rank 1 launched 60
 * AllReduce". It is needed for a rank that waits for its GPU in x.item(), for example: its stack
 * has no frame of torch. */
static void keep_nccl(struct cell *c, const char *stack)
{
    const char *line = strstr(stack, "\nNCCL says:\n");

    for (line = line ? strstr(line, "\nNCCL #") : NULL; line && !c->hang->nccl[0];
         line = strstr(line, "\nNCCL #")) {
        const int n = (int)strcspn(++line, "\n");

        snprintf(c->hang->nccl, sizeof c->hang->nccl, "%.*s", n, line);
        if (!strstr(c->hang->nccl, " launched "))
            c->hang->nccl[0] = '\0';
    }
}

static void note_stack(struct cell *c, struct member *m, const char *stack)
{
    const bool launched = collectives_note(m, stack, now_of(c));
    const bool runs = m->state == MEMBER_RUNNING;
    size_t *const asked = runs ? &c->hang->asked : &c->hang->asked_ended;
    struct buf place = BUF_INIT;

    m->sample->heard_ns = now_of(c);
    keep_nccl(c, stack);
    *asked -= !m->sample->answered && *asked;
    m->sample->answered = true;
    if (!runs) {
        if (launched)
            c->hang->ended_ns = now_of(c);
        return;
    }
    if (error_place(stack, &place) < 0 || !place.p) {
        buf_release(&place);
        return;
    }
    if (!m->sample->place || launched || strcmp(m->sample->place, place.p) != 0) {
        free(m->sample->place);
        m->sample->place = buf_take(&place);
        m->sample->place_ns = now_of(c);
    }
    collectives_rest(m, now_of(c) - m->sample->place_ns, c->hang->limit_ns / SAMPLES);
    m->sample->waits = waits(stack);
    m->sample->stopped = strncmp(stack, SPAN_STACK_STOPPED, sizeof SPAN_STACK_STOPPED - 1) == 0;
    m->sample->reported = m->sample->reported && m->sample->stopped;
    buf_release(&place);
}

/* The rank has been at the same place for at least ns, or has ended. */
static bool has_not_moved(const struct cell *c, const struct member *m, uint64_t ns)
{
    return m->state != MEMBER_RUNNING ||
           (m->sample->answered && m->sample->place && now_of(c) - m->sample->place_ns >= ns);
}

static bool none_has_moved(const struct cell *c, uint64_t ns)
{
    for (size_t k = 0; k < c->n; k++)
        if (!has_not_moved(c, &c->member[k], ns))
            return false;
    return true;
}

static bool same_place(const struct member *a, const struct member *b)
{
    return b->state == MEMBER_RUNNING && b->sample->place &&
           strcmp(a->sample->place, b->sample->place) == 0;
}

/* A rank at the place where most ranks wait; NULL: no rank waits. */
static const struct member *find_waiting(const struct cell *c)
{
    const struct member *found = NULL;
    size_t most = 0;

    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];
        size_t n = 0;

        if (!is_waiting(m))
            continue;
        for (size_t j = 0; j < c->n; j++)
            n += same_place(m, &c->member[j]);
        if (n > most) {
            most = n;
            found = m;
        }
        if (most > c->n / 2)
            break;
    }
    return found;
}

static int add_ranks(const struct cell *c, const struct member *waiting, bool there,
                     struct buf *out)
{
    struct ranks some = RANKS_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (same_place(waiting, &c->member[k]) == there)
            rc = ranks_add(&some, c->member[k].rank);
    rc = rc < 0 ? rc : ranks_format_words(&some, out);
    ranks_release(&some);
    return rc;
}

/* The first rank at another place; NULL: there is none. */
static const struct member *find_elsewhere(const struct cell *c, const struct member *waiting)
{
    for (size_t k = 0; k < c->n; k++)
        if (!same_place(waiting, &c->member[k]))
            return &c->member[k];
    return NULL;
}

/* Adds "; rank 2 does not run this cell": living ranks that take no part. */
static int add_absent(const struct cell *c, struct buf *out)
{
    struct ranks some = RANKS_INIT;
    bool others = false;
    size_t n;
    int rc = 0;

    for (unsigned k = 0; rc == 0 && k < c->group->size; k++)
        if (rank_alive(&c->group->rank[k]) && !ranks_has(&c->to, k)) {
            rc = ranks_add(&some, k);
            others = others || cell_on(c->nb, c->group->rank[k].worker);
        }
    n = ranks_count(&some);
    if (rc == 0 && n) {
        rc = buf_add_text(out, "; ");
        rc = rc < 0 ? rc : ranks_format_words(&some, out);
        rc = rc < 0 ? rc
                    : buf_add_text(out, n > 1 ? " don't run this cell" : " does not run this cell");
        if (rc == 0 && ranks_next(&some, 0) >= (long)c->world)
            rc = buf_addf(out, ", whose world has %u", c->world);
        if (rc == 0 && others)
            rc = buf_add_text(out, n > 1 ? ", some of them run other cells" : ", but another one");
    }
    ranks_release(&some);
    return rc < 0 ? rc : buf_add_text(out, "");
}

static bool all_others_ended(const struct cell *c, const struct member *waiting)
{
    if (waiting->sample->waits == WAITS_FOR_GPU)
        return false;
    for (size_t k = 0; k < c->n; k++)
        if (!same_place(waiting, &c->member[k]) && c->member[k].state == MEMBER_RUNNING)
            return false;
    return true;
}

static const struct member *first_running(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING)
            return &c->member[k];
    return NULL;
}

/* true: each rank that runs waits for one that has ended the cell. */
static bool waits_for_ended(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING &&
            (!c->member[k].sample->operation || c->member[k].sample->ahead != AHEAD_OF_ENDED))
            return false;
    return first_running(c) != NULL;
}

static bool has_no_end(const struct cell *c)
{
    return waits_for_ended(c) || collectives_differ(c);
}

/* Has a notice about this wait said that the cell fails? */
static bool is_announced(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING &&
            c->member[k].sample->place_ns > c->hang->announced_ns)
            return false;
    return c->hang->announced_ns > c->hang->ended_ns;
}

static double seconds_to_failure(const struct cell *c)
{
    return (double)(FAILS_AFTER * c->hang->limit_ns) / 1e9;
}

/* Has each rank told its counts, and has no one that ended launched fewer than those that wait? */
static bool launched_as_many(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (!c->member[k].sample->answered || !c->member[k].sample->counts ||
            c->member[k].sample->ahead)
            return false;
    return true;
}

/* Does it wait for ranks that have ended the cell, and have launched as many collectives? */
static bool ended_unlike(const struct cell *c, const struct member *waiting)
{
    return !has_no_end(c) && waiting->sample->operation && all_others_ended(c, waiting) &&
           launched_as_many(c);
}

/* What follows if all ranks that are elsewhere have ended the cell. */
static int add_outcome(const struct cell *c, const struct member *waiting, struct buf *out)
{
    if (collectives_differ(c))
        return buf_addf(out,
                        ". These are different collectives of one process group, and none of them "
                        "can end: the cell fails when the ranks have waited for %.0f s. " DIFFERENT,
                        seconds_to_failure(c));
    if (!has_no_end(c) && !(waiting->sample->operation && all_others_ended(c, waiting)))
        return buf_add_text(out, "");
    if (buf_add_text(out,
                     ". Ranks that have ended the cell do not join the collective any more: ") < 0)
        return -1;
    return has_no_end(c)
               ? buf_addf(out, "the cell fails when they have waited for %.0f s. " ERROR_UNEQUAL,
                          seconds_to_failure(c))
               : buf_addf(out, "interrupt the cell. %s",
                          ended_unlike(c, waiting) ? UNLIKE : ERROR_UNEQUAL);
}

/* How long all ranks that run have been where they are, as far as samples know. */
static double seconds_waited(const struct cell *c)
{
    uint64_t since = 0;

    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING && c->member[k].sample->place_ns > since)
            since = c->member[k].sample->place_ns;
    return clock_whole_seconds(now_of(c) - since);
}

/* elsewhere NULL: all ranks are at the same place. */
static void tell(struct cell *c, const struct member *waiting, const struct member *elsewhere)
{
    const double s = seconds_waited(c);
    const bool unlike = elsewhere && ended_unlike(c, waiting);
    struct buf who = BUF_INIT, others = BUF_INIT, absent = BUF_INIT, outcome = BUF_INIT,
               calls = BUF_INIT;

    if (add_ranks(c, waiting, true, &who) < 0 || add_ranks(c, waiting, false, &others) < 0 ||
        add_absent(c, &absent) < 0 || add_outcome(c, waiting, &outcome) < 0 ||
        buf_add_text(&calls, "") < 0 ||
        collectives_add_calls(c, waiting, unlike ? ": " : ". Their calls differ: ", unlike,
                              &calls) < 0)
        log_warn("hang", "out of memory");
    else if (!elsewhere)
        output_note(
            c,
            "for %.4g s %s waited in %s, and no rank of this cell is elsewhere%s%s%s (%%ranks where shows all stacks)",
            s, who.p, waiting->sample->place, absent.p ? absent.p : "",
            absent.p && *absent.p && collectives_need_absent(c) ? NEED_ABSENT : "", calls.p);
    else
        output_note(
            c, "for %.4g s %s waited in %s, but %s %s %s%s%s%s%s (%%ranks where shows all stacks)",
            s, who.p, waiting->sample->place, others.p,
            strchr(others.p, '-') || strchr(others.p, ',') ? "are elsewhere, the first" : "is",
            elsewhere->state == MEMBER_RUNNING ? "in " : "",
            elsewhere->state == MEMBER_RUNNING ? elsewhere->sample->place
                                               : "at the end of the cell already",
            absent.p ? absent.p : "", outcome.p ? outcome.p : "", calls.p);
    buf_release(&who);
    buf_release(&others);
    buf_release(&absent);
    buf_release(&outcome);
    buf_release(&calls);
}

static void notice(struct cell *c)
{
    const struct member *waiting = find_waiting(c),
                        *elsewhere = waiting ? find_elsewhere(c, waiting) : NULL;

    if (waiting && !elsewhere && waiting->sample->waits == WAITS_FOR_GPU)
        waiting = NULL; /* all wait for their GPUs: that is normal work */
    if (!waiting && !c->hang->nccl[0])
        return;
    c->hang->noticed = true;
    if (elsewhere || (waiting && !c->hang->nccl[0]))
        tell(c, waiting, elsewhere);
    else
        output_note(
            c,
            "for %.4g s no rank has made progress, and some have launched fewer NCCL operations than others: %s "
            "(%%ranks where shows all stacks)",
            seconds_waited(c), c->hang->nccl);
}

static int add_ranks_that(const struct cell *c, bool run, struct buf *out)
{
    struct ranks some = RANKS_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if ((c->member[k].state == MEMBER_RUNNING) == run)
            rc = ranks_add(&some, c->member[k].rank);
    rc = rc < 0 ? rc : ranks_format_words(&some, out);
    ranks_release(&some);
    return rc;
}

/* Ranks wait in collectives that don't fit together. */
static void fail_of_different(struct cell *c)
{
    const struct member *waiting = find_waiting(c),
                        *other = waiting ? find_elsewhere(c, waiting) : NULL;
    struct buf who = BUF_INIT, others = BUF_INIT;

    if (!other || add_ranks(c, waiting, true, &who) < 0 ||
        add_ranks(c, waiting, false, &others) < 0)
        cell_fail(c, "TimeoutError", "the ranks waited in different collectives. " DIFFERENT);
    else
        cell_fail(c, "TimeoutError", "for %.4g s %s waited in %s, and %s in %s. " DIFFERENT,
                  seconds_waited(c), who.p, waiting->sample->place, others.p, other->sample->place);
    buf_release(&who);
    buf_release(&others);
}

static void fail_of_ended(struct cell *c)
{
    const struct member *waiting = first_running(c);
    struct buf who = BUF_INIT, ended = BUF_INIT;

    if (add_ranks_that(c, true, &who) < 0 || add_ranks_that(c, false, &ended) < 0)
        cell_fail(c, "MemoryError", "out of memory");
    else
        cell_fail(
            c, "TimeoutError",
            "for %.4g s %s waited%s in %s, but %s ended the cell without that collective. " ERROR_UNEQUAL,
            seconds_waited(c), who.p, all_others_ended(c, waiting) ? "" : ", the first",
            waiting->sample->place, ended.p);
    buf_release(&who);
    buf_release(&ended);
}

static void judge_samples(struct cell *c)
{
    const uint64_t soon = clock_earlier(c->hang->limit_ns, ABSENT_NS);

    if (stopped_ranks_tell(c, now_of(c), c->hang->limit_ns) || c->group->size < 2)
        return;
    collectives_compare(c);
    if (!c->hang->noticed && has_idle_absent(c) && collectives_need_absent(c) &&
        none_has_moved(c, soon))
        notice(c);
    if (!none_has_moved(c, c->hang->limit_ns))
        return;
    if (has_no_end(c) && !is_announced(c)) {
        c->hang->announced_ns = now_of(c);
        notice(c);
    } else if (!c->hang->noticed) {
        notice(c);
    } else if (has_no_end(c) && none_has_moved(c, FAILS_AFTER * c->hang->limit_ns) &&
               now_of(c) - c->hang->announced_ns >= c->hang->limit_ns) {
        (collectives_differ(c) ? fail_of_different : fail_of_ended)(c);
    }
}

void hang_tick(struct cell *c, uint64_t now)
{
    struct span m = { .kind = SPAN_STACKS };

    if (now < hang_due(c))
        return;
    if (prompts_wait(c)) {
        hang_put_off(c);
        return;
    }
    next_sample(c);
    /* a machine that is away is named instead of its processes, which can't answer */
    if (is_open(c) && !away_nodes_remind(c, c->hang->limit_ns, &c->hang->away_ns))
        silent_ranks_tell(c, now_of(c), c->hang->limit_ns);
    if (c->hang->id && c->hang->asked == 0 && c->hang->asked_ended && is_open(c))
        judge_samples(c); /* some that have ended do not answer */
    if (!is_open(c) ||
        (c->hang->asked + c->hang->asked_ended && now_of(c) - c->hang->asked_ns < ANSWERS_NS))
        return;
    c->hang->asked_ns = now_of(c);
    c->hang->asked = c->hang->asked_ended = 0;
    c->hang->nccl[0] = '\0';
    for (size_t k = 0; k < c->n; k++) {
        const bool runs = c->member[k].state == MEMBER_RUNNING;

        c->member[k].sample->answered = false;
        if (!c->member[k].sample->heard_ns)
            c->member[k].sample->heard_ns = now_of(c);
        c->hang->asked += runs;
        c->hang->asked_ended += !runs && cell_member_lives(c, &c->member[k]);
    }
    m.cell = c->hang->id = notebook_next_cell(c->nb);
    cell_send_living(c, &m);
}

bool hang_on_stack(struct cell *c, uint32_t worker, const struct span *m)
{
    struct member *member = cell_worker(c, worker);
    char *text;

    if (!c->hang || !c->hang->id || m->cell != c->hang->id)
        return false;
    if (member && (text = slice_copy(m->v[F_STACK_TEXT].s))) {
        note_stack(c, member, text);
        free(text);
        if (is_open(c) && c->hang->asked == 0 && c->hang->asked_ended == 0)
            judge_samples(c);
    }
    return true;
}
