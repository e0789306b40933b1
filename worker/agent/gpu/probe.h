/* probe.h - the process that asks the driver on the agent's behalf: one line of JSON in, one out,
 * in that order.
 *
 *   {"ask": "list"}                              {"gpus": […], "all", "driver", "why"}; see gpus.h
 *   {"ask": "read", "workers": […]}              {"gpus": […], "workers": [{"worker", "memory",
 *                                                "gpus"}], "why"}:
 * GAUGES
 *   {"ask": "mark", "worker": 5, "gpus": [uuid]} {}
 *   {"ask": "since", "worker": 5, "gpus": [uuid], "workers": […]}   {"xids": […], "ecc": […],
 *                                                                   "gpus": […]}
 *
 * workers: [{"worker", "pid", "who", "gpus": [uuid]}]. The lists of answers are those of driver.h.
 * What fails is answered by {"error": text}. */
#ifndef WORKER_AGENT_GPU_PROBE_H
#define WORKER_AGENT_GPU_PROBE_H

#include "base/buf.h"
#include "worker/agent/gpu/driver.h"

#define PROBE_LINE_MAX 1048576u

/* Answers one line (without its newline), with a newline. visible: CUDA_VISIBLE_DEVICES. -1: memory
 * is out. */
MUST_USE int probe_answer(struct driver *d, const char *visible, struct slice line,
                          struct buf *out);
/* Serves the socket until it ends; the exit status. */
int probe_serve(int fd);

#endif
