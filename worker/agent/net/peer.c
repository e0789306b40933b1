/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"

#define LINKS_KEPT 2u /* with one node */

struct peer *peer_create(struct peers *p, enum peer_state state, uint32_t node,
                         const unsigned char *key)
{
    struct peer *one = calloc(1, sizeof *one);

    if (!one)
        return NULL;
    one->peers = p;
    one->state = state;
    one->node = node;
    memcpy(one->key, key, KEY_SIZE);
    one->next = p->peer;
    p->peer = one;
    return one;
}

static void take_out(struct peer *one)
{
    struct peer **at = &one->peers->peer;

    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
}

void peer_destroy(struct peer *one)
{
    take_out(one);
    if (one->state == PEER_CHILD)
        child_nodes_drop(&one->peers->children, one->node);
    peer_dial_stop(one->dial);
    watch_stop(one->watch);
    zmq_close(one->socket);
    buf_release(&one->route);
    one->gone = true;
    loop_free(one->peers->loop, one); /* functions up the stack still use it */
}

void peer_linked(struct peer *one)
{
    struct peers *p = one->peers;
    struct peer *next;
    unsigned n = 1;

    take_out(one);
    for (struct peer *old = p->peer; old; old = next) {
        next = old->next;
        if (old->state == PEER_LINKED && old->node == one->node && ++n > LINKS_KEPT)
            peer_destroy(old);
    }
    one->state = PEER_LINKED;
    one->next = p->peer;
    p->peer = one;
}

struct peer *peer_find(const struct peers *p, enum peer_state state, uint32_t node)
{
    struct peer *one = p->peer;

    while (one && (one->state != state || one->node != node))
        one = one->next;
    return one;
}

void peer_complain(struct peers *p, uint32_t node, const char *what)
{
    if (!p->complained)
        log_warn("peers", "from node %" PRIu32 ": %s: dropped; more is not logged", node, what);
    p->complained = true;
}

static int begin(struct peer *one)
{
    return one->socket
               ? 0
               : zmq_send(one->peers->router, one->id, one->id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT);
}

static void *socket_of(const struct peer *one)
{
    return one->socket ? one->socket : one->peers->router;
}

int peer_send(struct peer *one, const void *frame, size_t n, int flags)
{
    return begin(one) < 0 || zmq_send(socket_of(one), frame, n, flags | ZMQ_DONTWAIT) < 0 ? -1 : 0;
}

int peer_send_frame(struct peer *one, zmq_msg_t *frame)
{
    int error;

    if (begin(one) >= 0 && zmq_msg_send(frame, socket_of(one), ZMQ_DONTWAIT) >= 0)
        return 0;
    error = zmq_errno();
    zmq_msg_close(frame);
    errno = error;
    return -1;
}

void peer_ended(struct peer *one, const char *why)
{
    struct peers *p = one->peers;
    const uint32_t node = one->node;
    const bool linked = one->state == PEER_LINKED;

    log_info("peers", "node %" PRIu32 ": %s", node, why);
    peer_destroy(one);
    if (linked)
        p->ops.unlinked(p->ops.arg, node, why);
}
