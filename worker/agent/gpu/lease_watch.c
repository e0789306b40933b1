/* SPDX-License-Identifier: BSD-3-Clause */
/* lease_watch.c - checks the leases regularly, as long as there are any; see lease_keep(). */
#include "base/log.h"
#include "worker/agent/gpu/allocator.h"
#include "worker/agent/gpu/lease.h"

/* if a lock file is removed, two notebooks may have the same GPU for this time */
#define KEEP_NS NS_PER_S

static void keep_one(struct gpu_allocator *d, const struct allocation *s, struct hold *h)
{
    struct err err = { "" };

    if (allocator_folder(d, &err) >= 0 &&
        lease_keep(d->folder, h->uuid, s->share, allocator_notebook(), &h->fd, &err) == 0) {
        h->lost = false;
        return;
    }
    if (!h->lost)
        log_error("gpu", "the lease of %s is lost: %s", h->uuid, err.text);
    h->lost = true;
}

static void keep(void *arg)
{
    struct gpu_allocator *d = arg;

    for (struct allocation *s = d->allocations; s; s = s->next)
        for (unsigned i = 0; !s->lent && i < s->n; i++)
            keep_one(d, s, &s->hold[i]);
    if (d->allocations)
        return;
    watch_clear(&d->keeper);
}

void lease_watch(struct gpu_allocator *d)
{
    struct err err = { "" };

    if (d->allocations && !d->keeper &&
        !(d->keeper = loop_timer(d->loop, KEEP_NS, KEEP_NS, keep, d, &err)))
        log_warn("gpu", "leases are not looked after: %s", err.text);
}
