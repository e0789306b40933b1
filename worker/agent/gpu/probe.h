/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - answers the agent's questions in the process cellspan-gpus: one line of JSON for each
 * question and each answer, in the same order.
 *
 * - {"ask": "list"}: {"gpus": […], "all", "driver", "why"}; see gpu_list.h
 * - {"ask": "read", "workers": […]}, for GAUGES:
 *   {"gpus": […], "workers": [{"worker", "memory", "gpus"}], "why"}
 * - {"ask": "mark", "worker": 5, "gpus": [uuid]}: {}
 * - {"ask": "since", "worker": 5, "gpus": [uuid], "workers": […]}:
 *   {"xids": […], "ecc": […], "gpus": […]}
 * - {"ask": "park", "workers": […], "nccl"}, {"ask": "return", "workers": […],
 *   "parked"}: {"states", "why", "bytes", "crowded"}; see checkpoint.h
 *
 * workers: [{"worker", "pid", "who", "gpus": [uuid]}]. driver.h describes the lists in the answers.
 * The answer to a question that fails is {"error": text}. */
#ifndef WORKER_AGENT_GPU_PROBE_H
#define WORKER_AGENT_GPU_PROBE_H

#include "base/buf.h"
#include "worker/agent/gpu/driver.h"

#define PROBE_LINE_MAX 1048576u

/* Answers one line (given without its newline) with a line that ends in a newline. visible:
 * CUDA_VISIBLE_DEVICES. -1: memory is out. */
MUST_USE int probe_answer(struct gpu_driver *d, const char *visible, struct slice line,
                          struct buf *out);
int probe_serve(int fd); /* Serves the socket until it ends. Returns the exit status. */

#endif
