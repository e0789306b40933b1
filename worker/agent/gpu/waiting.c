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

static int take_place(struct gpu_allocations *d, const json_t *root, struct err *err)
{
    if (d->turn)
        return turn_keep(d->turn, d->folder, needs(d, root), err);
    d->turn = turn_open(d->folder, needs(d, root), &d->gpus, err);
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

void waiting_kept(struct gpu_allocations *d, struct kept_gpus *out)
{
    struct turn_ahead ahead;
    struct lease_state state;

    turn_look(d->turn, d->folder, &d->gpus, &ahead);
    say_for_whom(&ahead, out->who);
    out->n = 0;
    for (size_t i = d->gpus.n; i-- > 0;) {
        out->at[i] = out->n < ahead.gpus && !allocations_uses(d, d->gpus.v[i].uuid) &&
                     !lease_look(d->folder, d->gpus.v[i].uuid, false, &state);
        out->n += out->at[i];
    }
}

/* The last of those that nobody holds. */
static int promise(const struct gpu_allocations *d, json_t *gpus, const struct turn_ahead *ahead)
{
    char text[WAITING_WHO];
    unsigned left = ahead->gpus;

    say_for_whom(ahead, text);
    for (size_t i = json_array_size(gpus); left && i-- > 0;) {
        json_t *one = json_array_get(gpus, i);

        if (!json_is_null(json_object_get(one, "leased_by")) ||
            allocations_uses(d, d->gpus.v[i].uuid))
            continue;
        if (json_object_set_new(one, "leased_by", json_string(text)) < 0)
            return -1;
        left--;
    }
    return 0;
}

int waiting_add(struct gpu_allocations *d, json_t *root)
{
    struct turn_ahead ahead = { .places = 0 };
    struct err err = { "" };

    if (!d->gpus.n)
        return 0;
    if (allocations_folder(d, &err) >= 0) {
        if (d->wants && take_place(d, root, &err) < 0)
            log_warn("gpu", "%s", err.text);
        turn_look(d->turn, d->folder, &d->gpus, &ahead);
    }
    if (promise(d, json_object_get(root, "gpus"), &ahead) < 0)
        return -1;
    return json_object_set_new(root, "queue",
                               d->wants ? json_pack("{s:i, s:s, s:s}", "ahead", (int)ahead.places,
                                                    "why", d->turn ? "" : err.text, "stuck",
                                                    ahead.stuck ? ahead.who : "")
                                        : json_null());
}
