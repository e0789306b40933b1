/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/kernel_link.h"

#include <stdio.h>

#include "base/log.h"
#include "worker/agent/net/uplink.h"

void kernel_link_release(struct kernel_link *k)
{
    uplink_close(k->uplink);
    k->uplink = NULL;
    buf_release(&k->scratch);
}

void kernel_link_send(struct kernel_link *k, const struct span *m)
{
    struct err err = { "" };

    buf_clear(&k->scratch);
    if (span_encode(m, &k->scratch, &err) < 0) {
        log_error("agent", "%s", err.text);
        if (m->kind == SPAN_EXITED)
            kernel_link_fail(k, err.text);
    } else if (k->uplink && uplink_send(k->uplink, m->worker, buf_slice(&k->scratch), &err) < 0) {
        kernel_link_fail(k, err.text);
    }
}

void kernel_link_quit(struct kernel_link *k, const char *why)
{
    log_info("agent", "ends: %s", why);
    k->quitting = true;
    loop_stop(k->loop);
}

void kernel_link_end(struct kernel_link *k, const char *why)
{
    const struct span m = { .kind = SPAN_QUIT };

    if (!k->quitting)
        kernel_link_send(k, &m);
    kernel_link_quit(k, why);
}

bool kernel_link_outlasts(const struct kernel_link *k)
{
    return k->uplink && uplink_outlasts(k->uplink);
}

void kernel_link_fail(struct kernel_link *k, const char *why)
{
    if (k->quitting)
        return;
    fprintf(stderr, "cellspan-agent on %s ends with its ranks: %s\n", k->node, why);
    k->status = 1;
    kernel_link_quit(k, why);
}

void kernel_link_refused(struct kernel_link *k, struct slice why)
{
    fprintf(stderr, "cellspan-agent on %s: the kernel refuses it: %.*s\n", k->node, SLICE_ARG(why));
    k->status = 1;
    kernel_link_quit(k, "refused");
}
