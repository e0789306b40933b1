/* keep.c - checks the leases regularly, as long as there are any; see lease_keep. */
#include <stdlib.h>

#include "base/log.h"
#include "base/path.h"
#include "worker/agent/gpu/desk.h"
#include "worker/agent/gpu/lease.h"

/* if a lock file is removed, two notebooks may have the same GPU for this time */
#define KEEP_NS NS_PER_S

const char *desk_notebook(void)
{
    const char *const path = getenv("JPY_SESSION_NAME");

    return path ? path_name(path) : "";
}

static void keep_one(struct gpu_desk *d, const struct seat *s, struct hold *h)
{
    struct err err = { "" };

    if (desk_folder(d, &err) >= 0 &&
        lease_keep(d->folder, h->uuid, s->share, desk_notebook(), &h->fd, &err) == 0) {
        h->lost = false;
        return;
    }
    if (!h->lost)
        log_error("gpu", "the lease of %s is lost: %s", h->uuid, err.text);
    h->lost = true;
}

static void keep(struct loop *loop, void *arg)
{
    struct gpu_desk *d = arg;

    (void)loop;
    for (struct seat *s = d->seat; s; s = s->next)
        for (unsigned i = 0; !s->lent && i < s->n; i++)
            keep_one(d, s, &s->hold[i]);
    if (d->seat)
        return;
    watch_stop(d->keeper);
    d->keeper = NULL;
}

void desk_keep(struct gpu_desk *d)
{
    struct err err = { "" };

    if (d->seat && !d->keeper &&
        !(d->keeper = loop_timer(d->loop, KEEP_NS, KEEP_NS, keep, d, &err)))
        log_warn("gpu", "leases are not looked after: %s", err.text);
}
