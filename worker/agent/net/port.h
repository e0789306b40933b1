/* port.h - finds a free TCP port, for a rendezvous of ranks. */
#ifndef WORKER_AGENT_NET_PORT_H
#define WORKER_AGENT_NET_PORT_H

#include "base/err.h"

#define PORT_FIRST 20000 /* below the range that Linux gives to outgoing connections */
#define PORT_LAST  29999

/* Binds the port as torch's TCPStore does and closes it again, so it is free at this moment. -1:
 * *err says why. */
int port_find(struct err *err);

#endif
