/* SPDX-License-Identifier: BSD-3-Clause */
/* monitor.h - what happens to the connections of a ZeroMQ socket. */
#ifndef BASE_LOOP_MONITOR_H
#define BASE_LOOP_MONITOR_H

#include "base/err.h"

/* A new socket, for the caller to close, at which these events of `socket` arrive, as
 * zmq_socket_monitor(3) describes them. NULL: *err says why. */
void *monitor_open(void *context, void *socket, int events, struct err *err);

#endif
