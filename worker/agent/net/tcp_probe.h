/* tcp_probe.h - finds out why a tcp endpoint can't be reached, with a plain connection that is
 * closed at once. */
#ifndef WORKER_AGENT_NET_TCP_PROBE_H
#define WORKER_AGENT_NET_TCP_PROBE_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct tcp_probe;

/* error: 0, or the errno of connect(2). The probe is freed after the call. */
typedef void (*tcp_probe_f)(void *arg, int error);

/* NULL: *err says why. */
struct tcp_probe *tcp_probe_start(struct loop *loop, struct slice endpoint, tcp_probe_f f,
                                  void *arg, struct err *err);
void tcp_probe_stop(struct tcp_probe *p); /* f is not called any more; NULL is fine */

#endif
