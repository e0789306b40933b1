/* SPDX-License-Identifier: BSD-3-Clause */
/* What is sent to a node is kept until its agent acknowledges it. While much is kept for one, as
 * when its connection is interrupted, whatever would make more waits or is dropped. */
#include "kernel/notebook/notebook.h"

#define SAID_NS (5 * NS_PER_S) /* between two lines about what is dropped */

const struct node *notebook_full_node(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    return info && info->state == NODE_UP && info->full ? info : NULL;
}

bool notebook_has_room(struct notebook *nb, uint32_t worker, const struct request *parent)
{
    const struct node *full = notebook_full_node(nb, notebook_node_of(nb, worker));
    struct buf line = BUF_INIT;

    if (!full || notebook_now(nb) < nb->comms.no_room_ns)
        return !full;
    nb->comms.no_room_ns = notebook_now(nb) + SAID_NS;
    if (buf_addf(&line,
                 "cellspan: %s is slow to take what was sent to it: until it is not, what you do "
                 "with widgets or the debugger does not reach its ranks\n",
                 full->name) == 0)
        publish_stream(nb, parent, 2, buf_slice(&line));
    buf_release(&line);
    return false;
}
