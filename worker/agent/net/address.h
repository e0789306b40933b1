/* address.h - this host's own addresses, and tcp endpoints as text. */
#ifndef WORKER_AGENT_NET_ADDRESS_H
#define WORKER_AGENT_NET_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/buf.h"

#define ADDRESS_TEXT_SIZE 64u /* an IPv6 address with its zone */

struct address {
    struct sockaddr_storage socket;
    socklen_t size;
};

/* "tcp://10.0.0.1:4321", "tcp://[fd00::1]:4321". -1: it is none. A host's name is none: to look it
 * up may take long, and kernel and agents tell each other addresses only. */
MUST_USE int address_parse(struct slice endpoint, struct address *a, struct err *err);
/* Without port; an IPv4 address in IPv6's clothes as IPv4. "" when it is neither. */
void address_text(const struct address *a, char out[static ADDRESS_TEXT_SIZE]);

/* Appends "IFNAME=IP,…": `first` (NULL: none), then all interfaces that are up, IPv4 before IPv6,
 * those of the loopback only when `first` is one of them. -1: memory is out. */
MUST_USE int address_list(const struct address *first, struct buf *out);

/* The name in the first "IFNAME=IP" of a list, and the IP. Both empty: there is none. Pure. */
void address_first(struct slice list, struct slice *ifname, struct slice *ip);

#endif
