/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - finds free TCP ports at which ranks meet, and reserves them, so that no other agent of
 * this machine finds the same ones before the ranks listen there. */
#ifndef WORKER_AGENT_NET_PORT_H
#define WORKER_AGENT_NET_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PORTS_RESERVED 17u /* as many as an answer to PORT has at most */

/* A reservation is a unix socket with an abstract name, so it has the scope of the ports
 * themselves, the network namespace, it does not stand in the way of who listens on the port, and
 * it ends with the process. It does not listen, so nobody can connect to it. Elsewhere than on
 * Linux nothing is reserved. */

/* Finds a port that is free now, together with its second port, port_for_jax(), by binding it as
 * torch's TCPStore does. Neither is one of the n ports in `taken` or one of their second ports.
 * *reserved is the reservation, which the caller closes; -1: there is none. Only where hardly any
 * port is free, one is found whose second port is not free, or else one that another agent has
 * reserved. -1: *err says why. */
int port_find(int *reserved, const uint16_t *taken, size_t n, struct err *err);

/* Those of the ports that an agent found last. */
struct ports_reserved {
    int fd[PORTS_RESERVED]; /* owned; -1: none */
    size_t next;            /* the oldest one */
};

void ports_reserved_init(struct ports_reserved *r);
void ports_reserved_release(struct ports_reserved *r);
void ports_reserved_add(struct ports_reserved *r, int fd); /* in place of the oldest; takes fd */

#endif
