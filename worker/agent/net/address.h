/* SPDX-License-Identifier: BSD-3-Clause */
/* address.h - this host's own addresses, and tcp endpoints as text. */
#ifndef WORKER_AGENT_NET_ADDRESS_H
#define WORKER_AGENT_NET_ADDRESS_H

#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

#define ADDRESS_TEXT_SIZE 64u /* an IPv6 address with its zone */

struct address {
    struct sockaddr_storage socket;
    socklen_t size;
};

#define ADDRESS_HOST_SIZE 256u
#define ADDRESS_PORT_SIZE 8u

/* The host and the port of "tcp://HOST:PORT", both as text. -1: the text is something else. */
MUST_USE int address_split(struct slice endpoint, char host[static ADDRESS_HOST_SIZE],
                           char port[static ADDRESS_PORT_SIZE], struct err *err);
/* Reads "tcp://10.0.0.1:4321" or "tcp://[fd00::1]:4321". -1: the text is something else. Names of
 * hosts are not accepted: to look them up may take long (host_lookup.c). */
MUST_USE int address_parse(struct slice endpoint, struct address *a, struct err *err);
/* The address as text, without the port. An IPv4 address that is mapped to IPv6 is written as IPv4.
 * "": it is neither. */
void address_text(const struct address *a, char out[static ADDRESS_TEXT_SIZE]);

/* Appends "IFNAME=IP,…": `first` (NULL: none), then all interfaces that are up, IPv4 before IPv6.
 * Loopback addresses are only listed if `first` is one. -1: memory is out. */
MUST_USE int address_list(const struct address *first, struct buf *out);

/* The name and the IP of the first "IFNAME=IP" in a list; both empty: the list is empty. Pure. */
void address_first(struct slice list, struct slice *ifname, struct slice *ip);

#endif
