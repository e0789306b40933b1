/* SPDX-License-Identifier: BSD-3-Clause */
/* waiting.c - see gpu.h: waits for GPUs, and leaves free ones to those who came first. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/turn.h"

#define RENEW_NS NS_PER_S
/* The kernel asks once a second, but an answer may take long: a cell waits so long for one. */
#define KERNEL_NS (120 * NS_PER_S)

void gpu_wait(struct gpu_allocations *d, unsigned wants)
{
    d->wants = wants;
    d->asked_ns = clock_now(&clock_system);
    if (wants)
        return;
    turn_close(d->turn);
    d->turn = NULL;
}

/* A kernel that is stopped asks no more: then its place lapses. */
static void renew(void *arg)
{
    struct gpu_allocations *d = arg;

    if (!d->turn)
        watch_clear(&d->renewer);
    else if (clock_now(&clock_system) - d->asked_ns < KERNEL_NS && turn_renew(d->turn) < 0)
        log_warn("gpu", "the place among those who wait is not renewed: %s", strerror(errno));
}

/* What the others have to leave for us: nothing while only this user's quota is in the way. */
static struct turn_needs needs(const struct gpu_allocations *d, const json_t *root)
{
    const json_t *may = json_object_get(json_object_get(root, "quota"), "may");
    const unsigned own = quota_own(d);
    const bool kept_off = json_is_integer(may) &&
                          (json_int_t)own + (json_int_t)d->wants > json_integer_value(may);

    return (struct turn_needs){ .wants = kept_off ? 0 : d->wants, .holds = own };
}

/* which: those that will do. */
static int take_place(struct gpu_allocations *d, const struct gpus *which, const json_t *root,
                      struct err *err)
{
    if (d->turn)
        return turn_keep(d->turn, d->folder, needs(d, root), err);
    d->turn = turn_open(d->folder, needs(d, root), which, err);
    if (d->turn && !d->renewer)
        d->renewer = loop_timer(d->loop, RENEW_NS, RENEW_NS, renew, d, err);
    return d->turn ? 0 : -1;
}

static void say_for_whom(const struct turn_ahead *ahead, char out[static WAITING_WHO])
{
    if (ahead->cut)
        snprintf(out, WAITING_WHO, "somebody who may wait for it: " TURN_CUT);
    else
        snprintf(out, WAITING_WHO, "%s, who waits for it", ahead->who);
}

/* Of those that nobody holds. */
static void find_kept(struct gpu_allocations *d, struct turn_ahead *ahead, struct kept_gpus *out)
{
    struct lease_state state;
    bool is_free[GPUS_MAX];

    for (size_t i = 0; i < d->gpus.n; i++)
        is_free[i] = !allocations_uses(d, d->gpus.v[i].uuid) &&
                     !lease_look(d->folder, d->gpus.v[i].uuid, false, &state);
    turn_keep_for(d->turn, d->folder, &d->gpus, is_free, out->at, ahead);
    say_for_whom(ahead, out->who);
    out->n = 0;
    for (size_t i = 0; i < d->gpus.n; i++)
        out->n += out->at[i];
}

void waiting_kept(struct gpu_allocations *d, struct kept_gpus *out)
{
    struct turn_ahead ahead;

    find_kept(d, &ahead, out);
}

static int promise(const struct gpu_allocations *d, json_t *gpus, const struct kept_gpus *kept)
{
    for (size_t i = 0; i < json_array_size(gpus) && i < d->gpus.n; i++) {
        json_t *one = json_array_get(gpus, i);

        if (kept->at[i] && json_is_null(json_object_get(one, "leased_by")) &&
            json_object_set_new(one, "leased_by", json_string(kept->who)) < 0)
            return -1;
    }
    return 0;
}

/* why: we have no place; or "". */
static json_t *queue(const struct turn_ahead *ahead, const char *why)
{
    return json_pack("{s:i, s:s, s:s}", "ahead", (int)ahead->places, "why", why, "stuck",
                     ahead->stuck ? ahead->who : "");
}

int waiting_add(struct gpu_allocations *d, json_t *root)
{
    struct turn_ahead ahead = { .places = 0 };
    struct kept_gpus kept = { .n = 0 };
    struct err err = { "" };

    if (!d->gpus.n)
        return 0;
    if (allocations_folder(d, &err) >= 0) {
        if (d->wants && take_place(d, &d->gpus, root, &err) < 0)
            log_warn("gpu", "%s", err.text);
        find_kept(d, &ahead, &kept);
    }
    if (promise(d, json_object_get(root, "gpus"), &kept) < 0)
        return -1;
    return json_object_set_new(root, "queue",
                               d->wants ? queue(&ahead, d->turn ? "" : err.text) : json_null());
}

json_t *waiting_for(struct gpu_allocations *d, const struct gpus *which)
{
    json_t *root = json_pack("{s:o}", "quota", quota_json(d));
    struct turn_ahead ahead = { .places = 0 };
    struct err err = { "" };

    gpu_wait(d, (unsigned)which->n);
    if (allocations_folder(d, &err) >= 0 && take_place(d, which, root, &err) == 0)
        turn_look(d->turn, d->folder, &d->gpus, &ahead);
    json_decref(root);
    return queue(&ahead, err.text);
}
