/* SPDX-License-Identifier: BSD-3-Clause */
/* moves.c - see gpu.h: takes workers off their GPUs, and brings them back. cellspan-gpus asks the
 * driver; this file looks after the leases. A parked worker keeps its list of GPUs, without leases:
 * CUDA restores what it had to the same GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/lease.h"

#define AGAIN_NS NS_PER_S        /* so often we look whether others have what they had reserved */
#define ROOM_NS  (30 * NS_PER_S) /* for so long */

struct move {
    struct unfinished later; /* first; in all->unfinished while it waits for memory */
    struct gpu_allocations *all;
    gpu_json_f f;
    void *arg;
    json_t *workers; /* owned, as questions have them */
    char *why; /* owned: cellspan-gpus has not answered to "park", and is asked again; or NULL */
    json_t *queue; /* owned: our place among those who wait for these GPUs; NULL: none */
    /* to park */
    bool nccl;
    uint64_t until_ns;   /* others' memory is waited for until then */
    struct watch *again; /* the timer while it is */
    json_t *said;        /* owned: what has been said meanwhile */
};

static void move_end(struct move *w, const json_t *said, const char *why, bool held)
{
    json_t *json = json_pack("{s:O?, s:s?, s:b, s:O?, s:O?}", "workers",
                             json_object_get(said, "states"), "why", why, "held", held, "bytes",
                             json_object_get(said, "bytes"), "queue", w->queue);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    w->f(w->arg, slice_text(text ? text : "{\"why\":\"out of memory\"}"));
    free(text);
    json_decref(json);
    json_decref(w->workers);
    json_decref(w->queue);
    json_decref(w->said);
    free(w->why);
    free(w);
}

/* All of them are in this state. */
static void end_all(struct move *w, const char *state, const char *why, bool held)
{
    json_t *states = json_array(), *said, *worker;
    size_t i;

    json_array_foreach (w->workers, i, worker)
        (void)json_array_append_new(states,
                                    json_pack("[O, s]", json_object_get(worker, "worker"), state));
    said = json_pack("{s:o}", "states", states);
    move_end(w, said, why, held);
    json_decref(said);
}

/* ---- leases ---- */

static void give_up(struct allocation *s)
{
    for (unsigned i = 0; i < s->n; i++)
        lease_release(&s->hold[i].fd);
    s->parked = true;
}

/* -1: *err; *held: somebody has one of them, or has waited for it for longer. */
static int take_again(struct gpu_allocations *d, struct allocation *s, const struct kept_gpus *kept,
                      bool *held, struct err *err)
{
    char holder[LEASE_HOLDER], label[GPU_LABEL];

    for (unsigned i = 0; i < s->n; i++) {
        const struct gpu *one = gpus_find(&d->gpus, s->hold[i].uuid);
        enum lease_result got;

        if (one && kept->at[one - d->gpus.v]) {
            *held = true;
            (void)err_set(err, "%s is kept for %s", gpu_label(one, label), kept->who);
            give_up(s);
            return -1;
        }
        got = lease_take(d->folder, s->hold[i].uuid, s->share, &s->hold[i].fd, err);

        if (got == LEASE_TAKEN)
            continue;
        s->hold[i].fd = -1;
        *held = got == LEASE_HELD;
        if (*held)
            (void)err_set(err, "%s is held by %s", one ? gpu_label(one, label) : s->hold[i].uuid,
                          lease_holder(d->folder, s->hold[i].uuid, s->share, holder)
                              ? holder
                              : "another notebook");
        give_up(s);
        return -1;
    }
    s->parked = false;
    return 0;
}

static struct allocation *of_worker(const struct move *w, size_t i)
{
    return allocations_find(w->all, (uint32_t)json_integer_value(
                                        json_object_get(json_array_get(w->workers, i), "worker")));
}

static void give_up_all(const struct move *w)
{
    for (size_t i = 0; i < json_array_size(w->workers); i++) {
        struct allocation *s = of_worker(w, i);

        if (s)
            give_up(s);
    }
}

/* Takes those of all workers, or none: others hold one, or other notebooks of this user too many.
 */
static int take_all(struct move *w, bool *held, struct err *err)
{
    const size_t n = json_array_size(w->workers);
    const unsigned before = quota_own(w->all);
    bool *took = calloc(n + 1, sizeof *took);
    int rc = took ? 0 : err_set(err, "out of memory");
    struct kept_gpus kept;

    if (rc == 0 && (rc = allocations_folder(w->all, err) < 0 ? -1 : 0) == 0)
        waiting_kept(w->all, &kept);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct allocation *s = of_worker(w, i);

        if (s && s->parked && (rc = take_again(w->all, s, &kept, held, err)) == 0)
            took[i] = true;
    }
    if (rc == 0 && (rc = quota_check(w->all, before, err)) < 0)
        *held = true;
    for (size_t i = 0; rc < 0 && took && i < n; i++)
        if (took[i])
            give_up(of_worker(w, i));
    free(took);
    return rc;
}

/* Gets in the queue for what they had, or stays there. */
static void wait_for_all(struct move *w)
{
    const size_t n = json_array_size(w->workers);
    struct gpus which = { .v = NULL };
    struct err err = { "" };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct allocation *s = of_worker(w, i);

        for (unsigned k = 0; rc == 0 && s && s->parked && k < s->n; k++) {
            const struct gpu *one = gpus_find(&w->all->gpus, s->hold[k].uuid);

            if (one && !gpus_find(&which, one->uuid))
                rc = gpus_add(&which, one, &err);
        }
    }
    if (rc == 0 && which.n)
        w->queue = waiting_for(w->all, &which);
    gpus_release(&which);
}

static void settle(struct move *w, const json_t *states)
{
    const json_t *one;
    size_t k;

    json_array_foreach (states, k, one) {
        struct allocation *s =
            allocations_find(w->all, (uint32_t)json_integer_value(json_array_get(one, 0)));
        const char *state = json_string_value(json_array_get(one, 1));

        if (s && state && strcmp(state, "parked") == 0)
            give_up(s);
        else if (s)
            assign_mark(w->all, s);
    }
}

/* ---- questions ---- */

static void answered(void *arg, const json_t *said, const char *why);

/* Takes question. -1: the move has ended. */
static int ask(struct move *w, json_t *question, const char *otherwise)
{
    struct err err = { "" };

    if (question &&
        probe_client_ask(w->all->client, question, GPU_PARK_NS / 2, answered, w, &err) == 0)
        return 0;
    if (strcmp(otherwise, "parked") == 0)
        give_up_all(w);
    end_all(w, otherwise, err.text[0] ? err.text : "out of memory", false);
    return -1;
}

/* parked: all of them are, as far as we know. */
static json_t *to_return(const struct move *w, bool parked)
{
    return json_pack("{s:s, s:O, s:b}", "ask", "return", "workers", w->workers, "parked", parked);
}

static void ask_to_park(struct move *w)
{
    (void)ask(w,
              json_pack("{s:s, s:O, s:b}", "ask", "park", "workers", w->workers, "nccl", w->nccl),
              "running");
}

static void wait_no_more(struct move *w)
{
    for (struct unfinished **at = &w->all->unfinished; *at; at = &(*at)->next)
        if (*at == &w->later) {
            *at = w->later.next;
            break;
        }
    watch_clear(&w->again);
}

static void end_waiting(struct unfinished *l)
{
    struct move *w = (struct move *)l;

    wait_no_more(w);
    move_end(w, w->said, json_string_value(json_object_get(w->said, "why")), false);
}

static void try_again(void *arg)
{
    struct move *w = arg;

    wait_no_more(w);
    ask_to_park(w);
}

/* Others are leaving their GPUs, and their memory counts as free still. false: it does no longer
 * matter. */
static bool park_later(struct move *w, const json_t *said)
{
    struct err err = { "" };

    if (clock_now(&clock_system) >= w->until_ns ||
        !(w->again = loop_timer(w->all->loop, AGAIN_NS, 0, try_again, w, &err)))
        return false;
    json_decref(w->said);
    w->said = json_incref((json_t *)(uintptr_t)said);
    w->later = (struct unfinished){ w->all->unfinished, end_waiting };
    w->all->unfinished = &w->later;
    return true;
}

/* Without an answer nobody knows what the driver has done: another process is asked to bring all
 * back, once. */
static void answered(void *arg, const json_t *said, const char *why)
{
    struct move *w = arg;

    if (said && json_is_true(json_object_get(said, "crowded")) && park_later(w, said))
        return;
    if (said) {
        settle(w, json_object_get(said, "states"));
        move_end(w, said, w->why ? w->why : json_string_value(json_object_get(said, "why")), false);
        return;
    }
    log_warn("gpu", "ranks that are parked or brought back: %s", why);
    if (w->why || !(w->why = strdup(why)))
        end_all(w, "lost", w->why ? w->why : why, false);
    else
        (void)ask(w, to_return(w, false), "lost");
}

static struct move *move_create(struct gpu_allocations *d, const struct gpu_worker *worker,
                                size_t n, gpu_json_f f, void *arg)
{
    struct move *w = calloc(1, sizeof *w);

    if (w)
        *w = (struct move){
            .all = d, .f = f, .arg = arg, .workers = allocations_workers(d, worker, n)
        };
    if (w && w->workers)
        return w;
    free(w);
    f(arg, slice_text("{\"why\":\"out of memory\"}"));
    return NULL;
}

void gpu_park(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, bool nccl,
              gpu_json_f f, void *arg)
{
    struct move *w = move_create(d, worker, n, f, arg);

    if (!w)
        return;
    w->nccl = nccl;
    w->until_ns = clock_now(&clock_system) + ROOM_NS;
    ask_to_park(w);
}

void gpu_return(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, bool wait,
                gpu_json_f f, void *arg)
{
    struct move *w = move_create(d, worker, n, f, arg);
    struct err err = { "" };
    bool held = false;

    if (!w)
        return;
    if (take_all(w, &held, &err) < 0) {
        if (held && wait)
            wait_for_all(w);
        end_all(w, "parked", err.text, held);
        return;
    }
    if (wait)
        gpu_wait(d, 0);
    (void)ask(w, to_return(w, true), "parked");
}
