/* SPDX-License-Identifier: BSD-3-Clause */
/* ports.h - the tcp ports that CELLSPAN_PORT allows the kernel and agents to listen on. */
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#include "base/buf.h"
#include "base/err.h"

#define PORT_MOST 65535u

struct port_range {
    unsigned first, last; /* 0 and 0: any port */
};

/* Reads a whole text as a port, "443". 0: it is none. Pure. */
unsigned port_read(struct slice text);

/* Reads a value of CELLSPAN_PORT, "41000" or "41000-41100". -1: *err says what is wrong with it,
 * and what is wanted. Pure. */
MUST_USE int port_range_read(const char *text, struct port_range *r, struct err *err);

/* Listens on the port; 0 stands for any. Returns 0, or the errno with which it failed. */
typedef int (*port_listen_f)(void *arg, unsigned port);

/* Calls `listen` for the ports that CELLSPAN_PORT allows, from the first one on, until one of them
 * was free. -1: none was. *err then names the range, and who holds its ports where /proc tells it.
 */
MUST_USE int ports_listen(port_listen_f listen, void *arg, struct err *err);

#endif
