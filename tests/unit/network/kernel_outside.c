/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_outside.c - what kernel/agents calls outside, but for its loop (turns.c) and ZeroMQ's
 * messages (messages.c). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"

static struct fleet *fleet; /* one at a time */

void outside_open(struct fleet *f)
{
    fleet = f;
}

/* ---- the tree of an engine's agents (ld --wrap) ---- */

static const unsigned parents[FLEET_AGENTS] = { TREE_NONE, 0, 0, 1 };

unsigned fleet_parent(unsigned i)
{
    return parents[i];
}

unsigned __wrap_tree_parent(unsigned index);
unsigned __wrap_tree_child(unsigned index, unsigned k);

unsigned __wrap_tree_parent(unsigned index)
{
    return parents[index];
}

unsigned __wrap_tree_child(unsigned index, unsigned k)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (parents[i] == index && k-- == 0)
            return i;
    return TREE_NONE;
}

/* ---- sockets ---- */

/* A wire's number is the descriptor of its connection. (ld --wrap) */
int __wrap_shutdown(int fd, int how);

int __wrap_shutdown(int fd, int how)
{
    struct wire *w = network_wire(&fleet->net, (unsigned)fd);

    (void)how;
    if (w && !w->closed[SIDE_KERNEL] && planted != PLANTED_TWO_CONNECTIONS)
        network_close(&fleet->net, w, SIDE_KERNEL, fleet->now);
    return 0;
}

void agents_zap_user(unsigned node, const unsigned char key[KEY_SIZE],
                     char user[static AGENTS_ZAP_USER_SIZE])
{
    uint64_t begin;

    memcpy(&begin, key, sizeof begin);
    (void)snprintf(user, AGENTS_ZAP_USER_SIZE, "%u.%016" PRIx64, node, begin);
}

void agents_zap_refused(struct agents_zap *z, const char *what)
{
    (void)z, (void)what;
}

void meter_watch(struct meter *m, int fd)
{
    (void)m, (void)fd;
}

bool meter_moved(struct meter *m)
{
    (void)m;
    return false;
}

/* ---- agents_nodes.c: no engine gives a notice ---- */

void agents_nodes_give_kept(struct agents *a, struct node_link *link)
{
    (void)a, (void)link;
}

/* ---- blobs of this machine: there are none ---- */

void local_blobs_release(struct local_blobs *t)
{
    (void)t;
}

int local_blobs_begin(struct local_blobs *t, int socket, const struct span *chunk, struct err *err)
{
    (void)t, (void)socket, (void)chunk;
    return err_set(err, "there are no blobs");
}

bool local_blobs_acked(struct local_blobs *t, const struct span *m, uint64_t now)
{
    (void)t, (void)m, (void)now;
    return false;
}

bool local_blobs_again(struct local_blobs *t, const struct span *ship)
{
    (void)t, (void)ship;
    return false;
}

bool local_blobs_next(struct local_blobs *t, struct span *m, uint64_t now)
{
    (void)t, (void)m, (void)now;
    return false;
}

void local_blobs_drop(struct local_blobs *t, uint64_t blob)
{
    (void)t, (void)blob;
}
