/* SPDX-License-Identifier: BSD-3-Clause */
/* assign.c - see gpu.h: decides which worker gets which GPU. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/gpu_errors.h"
#include "worker/agent/gpu/lease.h"

#define MARK_NS       (5 * NS_PER_S)
#define HOLDERS_SHOWN 8u
/* if a lock file is removed, two notebooks may have the same GPU for this time */
#define KEEP_NS NS_PER_S

/* ---- the leases are checked regularly, as long as there are any ---- */

static void keep_one(struct gpu_allocations *d, const struct allocation *s, struct hold *h)
{
    enum lease_result result = LEASE_FAILED;
    char holder[LEASE_HOLDER];
    struct err err = { "" };

    if (allocations_folder(d, &err) >= 0)
        result = lease_keep(d->folder, h->uuid, s->share, &h->fd, &err);
    if (result == LEASE_TAKEN) {
        h->lost = false;
        return;
    }
    if (!h->lost && result == LEASE_HELD)
        log_error("gpu", "the lease of %s is lost: %s has taken it, for its lock file was removed",
                  h->uuid,
                  lease_holder(d->folder, h->uuid, s->share, holder) ? holder : "somebody");
    else if (!h->lost)
        log_error("gpu", "the lease of %s is lost: %s", h->uuid, err.text);
    h->lost = true;
}

static void keep(void *arg)
{
    struct gpu_allocations *d = arg;

    for (struct allocation *s = d->allocations; s; s = s->next)
        for (unsigned i = 0; !s->lent && !s->parked && i < s->n; i++)
            keep_one(d, s, &s->hold[i]);
    if (d->allocations)
        return;
    watch_clear(&d->keeper);
}

static void watch_leases(struct gpu_allocations *d)
{
    struct err err = { "" };

    if (d->allocations && !d->keeper &&
        !(d->keeper = loop_timer(d->loop, KEEP_NS, KEEP_NS, keep, d, &err)))
        log_warn("gpu", "leases are not looked after: %s", err.text);
}

/* ---- which worker gets which GPU ---- */

void gpu_hide_others(struct gpu_allocations *d, uint32_t worker)
{
    struct allocation *s = allocations_find(d, worker);

    if (s)
        s->own = true;
}

/* Does the worker see no GPUs of other workers? */
static bool sees_only_its_own(const struct gpu_allocations *d, const struct allocation *s)
{
    const struct gpu *one = s->n ? gpus_find(&d->gpus, s->hold[0].uuid) : NULL;

    return s->share || s->own || (one && one->instance >= 0);
}

/* Adds a worker's GPUs to `visible`. *at: how many are in it. own: NULL for other workers. */
static int add_allocation(const struct allocation *s, unsigned *at, struct buf *visible,
                          struct buf *own)
{
    for (unsigned i = 0; i < s->n; i++, ++*at)
        if (buf_addf(visible, "%s%s", *at ? "," : "", s->hold[i].visible) < 0 ||
            (own && buf_addf(own, "%s%u", i ? "," : "", *at) < 0))
            return -1;
    return 0;
}

int gpu_visible(const struct gpu_allocations *d, uint32_t worker, const uint32_t *mate, size_t n,
                struct buf *visible, struct buf *own)
{
    const struct allocation *mine = allocations_find(d, worker);
    unsigned at = 0;

    if (!mine)
        return 0;
    if (sees_only_its_own(d, mine))
        return add_allocation(mine, &at, visible, own);
    for (size_t i = 0; i < n; i++) {
        const struct allocation *s = allocations_find(d, mate[i]);

        if (s && (s == mine || !sees_only_its_own(d, s)) &&
            add_allocation(s, &at, visible, s == mine ? own : NULL) < 0)
            return -1;
    }
    return 0;
}

void gpu_bind(struct gpu_allocations *d, uint32_t worker, pid_t pid)
{
    const struct allocation *s = allocations_find(d, worker);
    const struct gpu *one = s ? gpus_find(&d->gpus, s->hold[0].uuid) : NULL;
    struct err err = { "" };

    /* With several GPUs, bind only if all have the same near processors. */
    for (unsigned i = 1; one && i < s->n; i++) {
        const struct gpu *other = gpus_find(&d->gpus, s->hold[i].uuid);

        if (!other || strcmp(other->cpus, one->cpus) != 0)
            return;
    }
    if (one && affinity_bind(pid, one->cpus, &err) < 0)
        log_info("gpu", "process %ld is not kept near its GPU: %s", (long)pid, err.text);
}

/* ---- one worker ---- */

/* Prefers numbers, since some libraries expect numbers there. MIG instances have no number. */
static void name_for_cuda(const struct gpu_allocations *d, const struct gpu *one,
                          char out[static GPU_TEXT])
{
    if (d->gpus.numbered && one->instance < 0)
        snprintf(out, GPU_TEXT, "%u", one->index);
    else
        snprintf(out, GPU_TEXT, "%s", one->uuid);
}

/* Takes one more GPU for s, if it is free. */
static enum lease_result add(struct gpu_allocations *d, struct allocation *s, const struct gpu *one,
                             bool share, struct err *err)
{
    struct hold *h = &s->hold[s->n];
    enum lease_result result;

    if (!share && allocations_uses(d, one->uuid))
        return LEASE_HELD;
    result = lease_take(d->folder, one->uuid, share, &h->fd, err);
    if (result != LEASE_TAKEN)
        return result;
    memcpy(h->uuid, one->uuid, sizeof h->uuid);
    name_for_cuda(d, one, h->visible);
    s->n++;
    return LEASE_TAKEN;
}

static bool allocation_has(const struct allocation *s, const char *uuid)
{
    for (unsigned i = 0; i < s->n; i++)
        if (strcmp(s->hold[i].uuid, uuid) == 0)
            return true;
    return false;
}

/* The cost of sharing this GPU: 0 if it is free, 1 if only others hold it, else more for each
 * worker of ours that uses it. */
static unsigned cost(const struct gpu_allocations *d, const struct gpu *one)
{
    struct lease_state state;
    const unsigned uses = allocations_uses(d, one->uuid);

    return 2 * uses + (uses == 0 && lease_look(d->folder, one->uuid, false, &state) ? 1 : 0);
}

/* A process can use only one MIG instance, and no GPU in addition. So a worker that gets several
 * GPUs can't have a MIG instance. */
static bool fits(const struct gpu *one, unsigned each)
{
    return each == 1 || one->instance < 0;
}

static const struct gpu *cheapest(const struct gpu_allocations *d, const struct allocation *s,
                                  unsigned each, const struct kept_gpus *kept)
{
    const struct gpu *best = NULL;
    unsigned least = 0;

    for (size_t i = 0; i < d->gpus.n; i++) {
        const struct gpu *one = &d->gpus.v[i];
        unsigned its;

        if (kept->at[i] || allocation_has(s, one->uuid) || !fits(one, each))
            continue;
        its = cost(d, one);
        if (!best || its < least) {
            best = one;
            least = its;
        }
    }
    return best;
}

/* Free GPUs that are kept for who waits are not shared: he wants them alone. */
static int fill_shared(struct gpu_allocations *d, struct allocation *s, unsigned each,
                       const struct kept_gpus *kept, struct err *err)
{
    while (s->n < each) {
        const struct gpu *one = cheapest(d, s, each, kept);

        if (!one && kept->n)
            return err_set(err,
                           "--share: %u free GPU%s kept for %s; use --wait instead of --share to "
                           "wait, too",
                           kept->n, kept->n == 1 ? " is" : "s are", kept->who);
        if (!one || add(d, s, one, true, err) != LEASE_TAKEN)
            return -1;
    }
    return 0;
}

/* *at: the first GPU that was not tried yet; one that an earlier worker didn't get is skipped. */
static int fill_alone(struct gpu_allocations *d, struct allocation *s, unsigned each, size_t *at,
                      const struct kept_gpus *kept, struct err *err)
{
    while (s->n < each) {
        if (*at >= d->gpus.n || (!kept->at[*at] && fits(&d->gpus.v[*at], each) &&
                                 add(d, s, &d->gpus.v[*at], false, err) == LEASE_FAILED))
            return -1;
        ++*at;
    }
    return 0;
}

/* ---- too few ---- */

static unsigned count_free(struct gpu_allocations *d, const struct kept_gpus *kept)
{
    struct lease_state state;
    unsigned n = 0;

    for (size_t i = 0; i < d->gpus.n; i++)
        n += !kept->at[i] && !allocations_uses(d, d->gpus.v[i].uuid) &&
             !lease_look(d->folder, d->gpus.v[i].uuid, false, &state);
    return n;
}

static int add_holders(struct gpu_allocations *d, const struct kept_gpus *kept, struct buf *out)
{
    unsigned shown = 0;

    for (size_t i = 0; i < d->gpus.n; i++) {
        const struct gpu *one = &d->gpus.v[i];
        const bool ours = allocations_uses(d, one->uuid) > 0;
        char holder[LEASE_HOLDER], label[GPU_LABEL];

        if (!ours && !kept->at[i] && !lease_holder(d->folder, one->uuid, false, holder))
            continue;
        if (shown++ == HOLDERS_SHOWN)
            return buf_add_text(out, ", …");
        if (buf_addf(out, "%s%s by %s", shown > 1 ? ", " : "; held: ", gpu_label(one, label),
                     ours          ? "other ranks of this notebook"
                     : kept->at[i] ? kept->who
                                   : holder) < 0)
            return -1;
    }
    return 0;
}

static int too_few(struct gpu_allocations *d, size_t ranks, unsigned each,
                   const struct kept_gpus *kept, struct err *err)
{
    const struct gpu_shortage s = { .ranks = (unsigned)ranks,
                                    .each = each,
                                    .all = (unsigned)d->gpus.n,
                                    .free = d->gpus.n ? count_free(d, kept) : 0,
                                    .why = d->gpus.why };
    struct buf text = BUF_INIT;

    if (gpu_errors_add_shortage(&s, &text) < 0 || (d->gpus.n && add_holders(d, kept, &text) < 0) ||
        gpu_errors_add_remedies(&s, &text) < 0)
        (void)err_set(err, "out of memory while too few GPUs are free");
    else
        (void)err_set(err, "%s", text.p);
    buf_release(&text);
    return -1;
}

/* A GPU that does not fit, if there are too few others; NULL: there are enough. */
static const struct gpu *unfit(const struct gpu_allocations *d, size_t wanted, unsigned each)
{
    const struct gpu *instance = NULL;
    size_t n = 0;

    for (size_t i = 0; i < d->gpus.n; i++)
        if (fits(&d->gpus.v[i], each))
            n++;
        else if (!instance)
            instance = &d->gpus.v[i];
    return n < wanted ? instance : NULL;
}

/* Refuses what can't work, regardless of who holds which GPU. */
static int check(struct gpu_allocations *d, size_t ranks, unsigned each, bool share,
                 struct err *err)
{
    const struct kept_gpus none = { .n = 0 };
    const struct gpu *instance;

    if (each > d->gpus.n || (!share && each * ranks > d->gpus.n))
        return d->gpus.n && allocations_folder(d, err) < 0 ? -1
                                                           : too_few(d, ranks, each, &none, err);
    if ((instance = unfit(d, share ? each : each * ranks, each)))
        return err_set(err,
                       "--gpus %u: a process can use one MIG instance (%s) at a time; use --gpus 1",
                       each, instance->name);
    return allocations_folder(d, err) < 0 ? -1 : 0;
}

/* ---- all or none ---- */

void assign_mark(struct gpu_allocations *d, const struct allocation *s)
{
    struct err err = { "" };
    json_t *uuids = allocation_uuids(s);
    json_t *ask = uuids ? json_pack("{s:s, s:I, s:o}", "ask", "mark", "worker",
                                    (json_int_t)s->worker, "gpus", uuids)
                        : NULL;

    if (probe_client_ask(d->client, ask, MARK_NS, NULL, NULL, &err) < 0)
        log_info("gpu", "errors of the GPUs of worker %u won't be known: %s", s->worker, err.text);
}

static struct allocation *allocation_create(struct gpu_allocations *d, uint32_t worker,
                                            unsigned each, bool share, struct err *err)
{
    struct allocation *s = calloc(1, sizeof *s + each * sizeof s->hold[0]);

    if (!s)
        return err_null(err, "out of memory for the GPUs of %u ranks", each);
    s->worker = worker;
    s->share = share;
    s->next = d->allocations;
    d->allocations = s;
    return s;
}

/* A second process would fail at its first use of a GPU in this mode. */
static int refuse_exclusive(const struct gpu_allocations *d, const struct allocation *from,
                            struct err *err)
{
    char label[GPU_LABEL];

    for (unsigned i = 0; i < from->n; i++) {
        const struct gpu *one = gpus_find(&d->gpus, from->hold[i].uuid);

        if (one && one->exclusive)
            return err_set(err,
                           "%s is in the mode EXCLUSIVE_PROCESS, and belongs to a rank that lives: "
                           "%%ranks stop ends it, and reuse=True runs on it",
                           gpu_label(one, label));
    }
    return 0;
}

int gpu_lend(struct gpu_allocations *d, uint32_t of, uint32_t worker, struct err *err)
{
    const struct allocation *from = allocations_find(d, of);
    struct allocation *s;

    if (!from)
        return err_set(err, "worker %u has no GPUs to lend", of);
    if (refuse_exclusive(d, from, err) < 0)
        return -1;
    s = allocation_create(d, worker, from->n, from->share, err);
    if (s)
        s->lent = true;
    for (unsigned i = 0; s && i < from->n; i++) {
        s->hold[i] = from->hold[i];
        if ((s->hold[i].fd = fcntl(from->hold[i].fd, F_DUPFD_CLOEXEC, 3)) < 0) {
            (void)err_set(err, "the lease of %s can't be held twice: %s", from->hold[i].uuid,
                          strerror(errno));
            gpu_release(d, worker);
            return -1;
        }
        s->n++;
    }
    if (s)
        assign_mark(d, s);
    return s ? 0 : -1;
}

int gpu_take(struct gpu_allocations *d, const uint32_t *worker, size_t n, unsigned each, bool share,
             struct err *err)
{
    const unsigned before = quota_own(d);
    struct kept_gpus kept;
    size_t at = 0, done;

    if (each == 0 || n == 0)
        return 0;
    if (n > GPUS_MAX * 64u || each > GPUS_MAX)
        return err_set(err, "--gpus %u for %zu ranks: a node has at most %u GPUs", each, n,
                       GPUS_MAX);
    if (check(d, n, each, share, err) < 0)
        return -1;
    waiting_kept(d, &kept); /* also of those who came after the kernel has asked */
    for (done = 0; done < n; done++) {
        struct allocation *s = allocation_create(d, worker[done], each, share, err);

        if (!s)
            goto fail;
        if ((share ? fill_shared(d, s, each, &kept, err)
                   : fill_alone(d, s, each, &at, &kept, err)) < 0) {
            gpu_release(d, worker[done]);
            goto fail;
        }
    }
    if (quota_check(d, before, err) <
        0) /* of two notebooks that start at once, it keeps both off */
        goto fail;
    for (size_t i = 0; i < n; i++)
        assign_mark(d, allocations_find(d, worker[i]));
    watch_leases(d);
    gpu_wait(d, 0);
    return 0;
fail:
    while (done > 0)
        gpu_release(d, worker[--done]);
    return err->text[0] ? -1 : too_few(d, n, each, &kept, err);
}
