/* SPDX-License-Identifier: BSD-3-Clause */
/* collectives.c - which ranks wait in a collective of torch's that others have not launched. A rank
 * that has launched the 17th of its process group waits for those that have launched 16. Each
 * rank's answer to STACKS has a line "launched GROUP N" for each of its groups. A line "alone" says
 * that there is one group, and nothing but collectives was launched in it. A line "call all_reduce
 * of float32 (4,)" has what the main thread calls. If there are several groups, "called in GROUP"
 * has the one of this call, and "sent" says that counts prove little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/cell/error_text.h"
#include "kernel/ranks/ranks.h"

#define LINE         "launched "
#define CALL         "\ncall "
#define CALLED_IN    "\ncalled in "
#define COMPARED_MAX 64u /* process groups; others are left out */
#define CALLS_MAX    8u  /* different calls that a notice names */

/* A process group of some ranks. */
struct launches {
    struct slice group;   /* borrowed of a member */
    uint64_t least;       /* of all its ranks that run the cell or have ended it well */
    uint64_t least_ended; /* of those that have ended it; UINT64_MAX: none has */
};

/* What a function may be waiting for. Two ranks with no bit in common wait for different things. */
enum operation {
    ALL_GATHER = 1,
    ALL_REDUCE = 2,
    ALL_TO_ALL = 4,
    BARRIER = 8,
    BROADCAST = 16,
    GATHER = 32,
    REDUCE = 64,
    REDUCE_SCATTER = 128,
    SCATTER = 256,
    OF_DDP = ALL_GATHER | ALL_REDUCE | BROADCAST,
    UNKNOWN = 511
};

/* The operation for which the main thread waits, by its innermost function; 0: it may not be in a
 * collective. backward() may also compute, so the thread must have rested. */
static unsigned operation_of(const char *stack, bool rested)
{
#define C10D "/torch/distributed/distributed_c10d.py"
    static const struct {
        const char *file, *function; /* NULL: any */
        unsigned operation;
    } frames[] = {
        { "/torch/autograd/graph.py", "_engine_run_backward",
          OF_DDP }, /* DDP's hooks; it must be the first */
        { "/torch/nn/parallel/distributed.py", "_pre_forward", BROADCAST }, /* of its buckets */
        { "/torch/nn/parallel/distributed.py", "_distributed_broadcast_coalesced", BROADCAST },
        { "/torch/nn/parallel/distributed.py", NULL, OF_DDP },
        { "/cellspan/_dropin/horovod/_works.py", "wait", UNKNOWN },
        { "/torch/distributed/utils.py", "_sync_params_and_buffers", BROADCAST },
        { C10D, "all_gather", ALL_GATHER },
        { C10D, "all_gather_coalesced", ALL_GATHER },
        { C10D, "all_gather_into_tensor", ALL_GATHER },
        { C10D, "all_gather_single", ALL_GATHER },
        { C10D, "all_reduce", ALL_REDUCE },
        { C10D, "all_reduce_coalesced", ALL_REDUCE },
        { C10D, "all_to_all", ALL_TO_ALL },
        { C10D, "all_to_all_single", ALL_TO_ALL },
        { C10D, "barrier", BARRIER },
        { C10D, "broadcast", BROADCAST },
        { C10D, "gather", GATHER },
        { C10D, "reduce", REDUCE },
        { C10D, "reduce_scatter", REDUCE_SCATTER },
        { C10D, "reduce_scatter_single", REDUCE_SCATTER },
        { C10D, "reduce_scatter_tensor", REDUCE_SCATTER },
        { C10D, "scatter", SCATTER },
    };
#undef C10D
    struct slice text = slice_text(error_main_thread(stack)), line;
    char file[512], name[256], frame[800];

    (void)slice_line(&text);
    line = slice_line(&text);
    snprintf(frame, sizeof frame, "%.*s", SLICE_ARG(line));
    if (sscanf(frame, "  File \"%511[^\"]\", line %*u in %255[^\n]", file, name) != 2)
        return 0;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        const size_t n = strlen(file), tail = strlen(frames[i].file);

        if (n >= tail && strcmp(file + n - tail, frames[i].file) == 0 &&
            (!frames[i].function || strcmp(name, frames[i].function) == 0))
            return i > 0 || rested ? frames[i].operation : 0;
    }
    return 0;
}

/* The lines of the groups, which follow the main thread's stack: nothing, if the rank has none. */
static struct slice lines_of(const char *stack)
{
    const char *from = strstr(error_main_thread(stack), "\n" LINE);
    struct slice text, lines;

    if (!from)
        return slice_of(stack, 0);
    text = slice_text(++from);
    lines = slice_of(from, 0);
    while (slice_begins(text, LINE)) {
        (void)slice_line(&text);
        lines.n = (size_t)(text.p - from);
    }
    return lines;
}

/* A copy of the rest of the line that begins so, with a line break before it. NULL: there is none.
 */
static char *rest_of_line(const char *stack, const char *begin)
{
    const char *line = strstr(error_main_thread(stack), begin);
    struct slice text = slice_text(line ? line + strlen(begin) : "");

    return line ? slice_copy(slice_line(&text)) : NULL;
}

/* Has the main thread computed for less than a tenth of the time since the last answer? */
static bool has_rested(struct member *m, const char *stack, uint64_t now)
{
    const char *line = strstr(error_main_thread(stack), "\ncpu ");
    const uint64_t cpu = line ? strtoull(line + 5, NULL, 10) * NS_PER_MS : 0,
                   old = m->sample->cpu_ns, since = m->sample->cpu_at_ns;

    m->sample->cpu_ns = cpu;
    m->sample->cpu_at_ns = now;
    return cpu && old && cpu >= old && cpu - old < (now - since) / 10;
}

/* Does the rank wait in init_process_group() for others? It waits in files of ours. */
static bool joins_group(const char *main_thread)
{
    return strstr(main_thread, "/cellspan/_worker/torch_rendezvous.py\"") ||
           (strstr(main_thread, "/cellspan/_worker/store_waits.py\"") &&
            strstr(main_thread, "/torch/distributed/rendezvous.py\""));
}

bool collectives_note(struct member *m, const char *stack, uint64_t now)
{
    const struct slice lines = lines_of(stack);
    const bool changed = lines.n && m->sample->launched &&
                         !slice_equal(lines, slice_text(m->sample->launched));
    const bool rested = has_rested(m, stack, now);

    m->sample->state = m->state;
    m->sample->operation = operation_of(stack, rested);
    m->sample->joins = joins_group(error_main_thread(stack));
    m->sample->alone = rested && strstr(error_main_thread(stack), "\nalone\n") &&
                       !strstr(error_main_thread(stack), "\nbackground\n");
    m->sample->counts = false;
    free(m->sample->call);
    m->sample->call = rest_of_line(stack, CALL);
    free(m->sample->called_in);
    m->sample->called_in = rest_of_line(stack, CALLED_IN);
    m->sample->sent = strstr(error_main_thread(stack), "\nsent\n");
    if (lines.n) {
        free(m->sample->launched);
        m->sample->launched = slice_copy(lines);
        /* without memory it counts as silent; threads that go on may launch more */
        m->sample->counts = m->sample->launched &&
                            !(m->state == MEMBER_OK &&
                              strstr(error_main_thread(stack), "\nbackground\n"));
    }
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

/* A rank that has not answered this time, or has ended the cell since, may have launched more. */
static bool counts(const struct member *m)
{
    return m->sample->answered && m->sample->counts && m->sample->state == m->state &&
           (m->state == MEMBER_RUNNING || m->state == MEMBER_OK);
}

static void add(struct launches *l, uint64_t n, bool ended)
{
    if (n < l->least)
        l->least = n;
    if (ended && n < l->least_ended)
        l->least_ended = n;
}

static size_t collect(const struct cell *c, struct launches all[static COMPARED_MAX])
{
    struct slice text, group;
    size_t count = 0;
    uint64_t n;

    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];

        text = slice_text(counts(m) ? m->sample->launched : "");
        while (next_group(&text, &group, &n)) {
            struct launches *l = find(all, count, group);

            if (!l && count < COMPARED_MAX) {
                l = &all[count++];
                *l = (struct launches){ group, UINT64_MAX, UINT64_MAX };
            }
            if (l)
                add(l, n, m->state == MEMBER_OK);
        }
    }
    return count;
}

/* Does it certainly wait in a collective of its only group, of which this line tells? */
static bool is_certain(const struct member *m, struct slice *group, uint64_t *n)
{
    struct slice text = slice_text(m->sample->launched ? m->sample->launched : "");

    return m->state == MEMBER_RUNNING && counts(m) && m->sample->operation && m->sample->alone &&
           next_group(&text, group, n) && !text.n;
}

/* The size of this group, such as 4 of 0/4/2a3070ce. */
static size_t size_of(struct slice group)
{
    char number[24];

    (void)slice_cut(&group, '/');
    snprintf(number, sizeof number, "%.*s", SLICE_ARG(group));
    return strtoull(number, NULL, 10);
}

bool collectives_need_absent(const struct cell *c)
{
    struct slice group;
    bool running = false;
    uint64_t n;

    for (size_t k = 0; k < c->n; k++) {
        const struct member *m = &c->member[k];

        if (m->state != MEMBER_RUNNING)
            continue;
        running = true;
        if (!m->sample->joins && (!is_certain(m, &group, &n) || size_of(group) <= c->n))
            return false;
    }
    return running;
}

/* The collectives of a group end in the order in which they were launched. If all ranks have
 * launched the same number, each waits for its last one, and all of these must be the same
 * operation. If some have launched fewer and wait in a barrier, the others either have left this
 * barrier, or have called something else in its place. They can't have left it: a barrier ends on a
 * rank when all ranks have called it. Then it ends on all of them, since it waits for no data. */
bool collectives_differ(const struct cell *c)
{
    unsigned common = UNKNOWN, of_least = 0, of_others = 0;
    uint64_t least = UINT64_MAX, n;
    struct slice group, first;

    if (c->n < 2 || !is_certain(&c->member[0], &first, &least) || size_of(first) != c->n)
        return false;
    for (size_t k = 0; k < c->n; k++) {
        if (!is_certain(&c->member[k], &group, &n) || !slice_equal(group, first))
            return false;
        least = n < least ? n : least;
    }
    for (size_t k = 0; k < c->n; k++) {
        const unsigned operation = c->member[k].sample->operation;

        (void)is_certain(&c->member[k], &group, &n);
        common &= operation;
        *(n == least ? &of_least : &of_others) |= operation;
    }
    return of_others ? of_least == BARRIER && !(of_others & BARRIER) : !common;
}

void collectives_compare(struct cell *c)
{
    struct launches all[COMPARED_MAX];
    const size_t count = collect(c, all);
    struct slice text, group;
    uint64_t n;

    for (size_t k = 0; k < c->n; k++) {
        struct member *m = &c->member[k];

        m->sample->ahead = AHEAD_NOT;
        text = slice_text(counts(m) && m->state == MEMBER_RUNNING ? m->sample->launched : "");
        while (next_group(&text, &group, &n)) {
            const struct launches *l = find(all, count, group);

            if (l && l->least_ended < n)
                m->sample->ahead = AHEAD_OF_ENDED;
            else if (l && l->least < n && !m->sample->ahead)
                m->sample->ahead = AHEAD;
        }
    }
}

/* The number of the collective that it has launched last in this group, its only one; 0: unknown */
static uint64_t last_in(const struct member *m, struct slice group)
{
    struct slice text = slice_text(counts(m) ? m->sample->launched : ""), own;
    uint64_t n;

    return next_group(&text, &own, &n) && !text.n && slice_equal(own, group) ? n : 0;
}

/* Is it in the n-th collective of this group? */
static bool is_in(const struct member *m, struct slice group, uint64_t n)
{
    return m->state == MEMBER_RUNNING && m->sample->call && last_in(m, group) == n;
}

static bool has_left(const struct member *m, struct slice group, uint64_t n)
{
    const uint64_t last = last_in(m, group);

    return last > n || (last == n && m->state == MEMBER_OK);
}

/* Adds "rank 0 in all_reduce of float32 (2,)": those from k on that call what k calls. */
static int add_alike(const struct cell *c, size_t k, struct slice group, uint64_t n,
                     struct buf *out)
{
    const char *call = c->member[k].sample->call;
    struct ranks alike = RANKS_INIT;
    int rc = 0;

    for (size_t j = k; rc == 0 && j < c->n; j++)
        if (is_in(&c->member[j], group, n) && strcmp(c->member[j].sample->call, call) == 0)
            rc = ranks_add(&alike, c->member[j].rank);
    rc = rc < 0 ? rc : ranks_format_words(&alike, out);
    ranks_release(&alike);
    return rc < 0 ? rc : buf_addf(out, " in %s", call);
}

/* Adds "; rank 2 has left it". */
static int add_left(const struct cell *c, struct slice group, uint64_t n, struct buf *out)
{
    struct ranks left = RANKS_INIT;
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < c->n; k++)
        if (has_left(&c->member[k], group, n))
            rc = ranks_add(&left, c->member[k].rank);
    if (rc == 0 && ranks_count(&left)) {
        rc = buf_add_text(out, "; ");
        rc = rc < 0 ? rc : ranks_format_words(&left, out);
        rc = rc < 0 ? rc : buf_addf(out, " %s left it", ranks_count(&left) > 1 ? "have" : "has");
    }
    ranks_release(&left);
    return rc;
}

/* Has a rank before the k-th one called what k calls? */
static bool is_told(const struct cell *c, size_t k, struct slice group, uint64_t n)
{
    for (size_t j = 0; j < k; j++)
        if (is_in(&c->member[j], group, n) &&
            strcmp(c->member[j].sample->call, c->member[k].sample->call) == 0)
            return true;
    return false;
}

/* ---- several groups ---- */

/* How many collectives it has launched in this group; false: nobody knows. */
static bool launched_in(const struct member *m, struct slice group, uint64_t *n)
{
    struct slice text = slice_text(counts(m) && !m->sample->sent ? m->sample->launched : ""), own;

    while (next_group(&text, &own, n))
        if (slice_equal(own, group))
            return true;
    return false;
}

static bool calls_in_group(const struct member *m)
{
    return m->state == MEMBER_RUNNING && m->sample->answered && m->sample->call &&
           m->sample->called_in;
}

/* Are these in the same collective, and have launched as many in its group? */
static bool calls_as(const struct member *a, const struct member *b)
{
    uint64_t na = 0, nb = 0;

    return calls_in_group(a) && calls_in_group(b) &&
           strcmp(a->sample->call, b->sample->call) == 0 &&
           strcmp(a->sample->called_in, b->sample->called_in) == 0 &&
           launched_in(a, slice_text(a->sample->called_in), &na) ==
               launched_in(b, slice_text(b->sample->called_in), &nb) &&
           na == nb;
}

static bool is_first(const struct cell *c, size_t k)
{
    for (size_t j = 0; j < k; j++)
        if (calls_as(&c->member[k], &c->member[j]))
            return false;
    return calls_in_group(&c->member[k]);
}

/* Adds ", which rank 1 has not called": who has launched fewer in that group. */
static int add_missing(const struct cell *c, const struct member *m, struct buf *out)
{
    const struct slice group = slice_text(m->sample->called_in);
    struct ranks missing = RANKS_INIT;
    uint64_t own, n;
    int rc = 0;

    for (size_t k = 0; rc == 0 && launched_in(m, group, &own) && k < c->n; k++)
        if (launched_in(&c->member[k], group, &n) && n < own)
            rc = ranks_add(&missing, c->member[k].rank);
    if (rc == 0 && ranks_count(&missing)) {
        rc = buf_add_text(out, ", which ");
        rc = rc < 0 ? rc : ranks_format_words(&missing, out);
        rc = rc < 0 ? rc
                    : buf_addf(out, " %s not called", ranks_count(&missing) > 1 ? "have" : "has");
    }
    ranks_release(&missing);
    return rc;
}

/* Adds "rank 0 in all_reduce of float32 (2,) with ranks 0-1, which rank 1 has not called". */
static int add_callers(const struct cell *c, size_t k, struct buf *out)
{
    const struct member *m = &c->member[k];
    struct ranks alike = RANKS_INIT;
    int rc = 0;

    for (size_t j = k; rc == 0 && j < c->n; j++)
        if (calls_as(m, &c->member[j]))
            rc = ranks_add(&alike, c->member[j].rank);
    rc = rc < 0 ? rc : ranks_format_words(&alike, out);
    rc = rc < 0 ? rc : buf_addf(out, " in %s", m->sample->call);
    ranks_release(&alike);
    return rc < 0 ? rc : add_missing(c, m, out);
}

/* Adds what each rank calls, unless all call the same. */
static int add_calls_of_groups(const struct cell *c, struct buf *out)
{
    size_t different = 0, calling = 0;

    for (size_t k = 0; k < c->n; k++) {
        calling += calls_in_group(&c->member[k]);
        different += is_first(c, k);
    }
    if (different > CALLS_MAX || different < 1 + (calling == c->n))
        return 0;
    different = 0;
    for (size_t k = 0; k < c->n; k++)
        if (is_first(c, k) && (buf_add_text(out, different++ ? "; " : ". The calls: ") < 0 ||
                               add_callers(c, k, out) < 0))
            return -1;
    return 0;
}

static bool has_several_groups(const struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (calls_in_group(&c->member[k]))
            return true;
    return false;
}

void collectives_rest(struct member *m, uint64_t rested_ns, uint64_t least_ns)
{
    const char *call = rested_ns >= least_ns && m->sample->call ? m->sample->call : "";

    snprintf(m->collective, sizeof m->collective, "%.*s", (int)strcspn(call, " "), call);
}

int collectives_add_calls(const struct cell *c, const struct member *waiting, const char *before,
                          bool also_equal, struct buf *out)
{
    struct slice text = slice_text(counts(waiting) ? waiting->sample->launched : ""), group;
    size_t different = 0;
    uint64_t n;

    if (has_several_groups(c))
        return add_calls_of_groups(c, out);
    if (!next_group(&text, &group, &n) || !n || !is_in(waiting, group, n))
        return 0;
    for (size_t k = 0; k < c->n; k++)
        different += is_in(&c->member[k], group, n) && !is_told(c, k, group, n);
    if ((different < 2 && !also_equal) || different > CALLS_MAX)
        return 0;
    different = 0;
    for (size_t k = 0; k < c->n; k++)
        if (is_in(&c->member[k], group, n) && !is_told(c, k, group, n) &&
            (buf_add_text(out, different++ ? ", " : before) < 0 ||
             add_alike(c, k, group, n, out) < 0))
            return -1;
    return add_left(c, group, n, out);
}
