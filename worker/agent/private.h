/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the functions of the agent itself, by file; agent.h has its state. */
#ifndef WORKER_AGENT_PRIVATE_H
#define WORKER_AGENT_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/slice.h"
#include "protocol/span.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/python_candidates.h"
#include "base/buf.h"

struct agent;
struct death;
struct packet;
struct worker;
struct worker_pipes;

/* ---- start.c: START: starts home, or ranks with the GPUs that each of them gets ---- */
/* `workers`: *u32. Workers for ranks exist at once. Their processes are forked once it is known
 * which GPUs they get and, on another machine than the notebook's, which Python they run. */
void start_workers(struct agent *a, const struct span *m, struct slice workers);

/* ---- spawn.c ---- */
/* Creates a worker: its struct, socket, pipes and event handlers. For home and zygotes it also
 * starts the process. A zygote forks the processes of ranks. */

/* env: a JSON object of strings that is added to the agent's environment; may be empty. cwd NULL or
 * "": the agent's. NULL: *err says why. */
struct worker *spawn_home(struct agent *a, uint32_t id, const char *python, const char *cwd,
                          struct slice env, struct err *err);
/* Returns the zygote of this Python, and starts it if there is none. */
struct worker *spawn_zygote(struct agent *a, const char *python, struct err *err);
/* Starts no process; `ends` are owned by the caller. */
struct worker *rank_worker_make(struct agent *a, uint32_t id, uint32_t rank, const char *python,
                                struct worker_pipes *ends, struct err *err);

/* ---- spawn_process.c ---- */
/* Has the loop watch the socket and pipes of a new worker. */
MUST_USE int spawn_watch(struct worker *w, struct err *err);
/* Starts the process of home or a zygote; `env` as above, `ends` are borrowed. The pid, or -1. */
pid_t spawn_process(const struct worker *w, const char *cwd, const struct worker_pipes *ends,
                    struct slice env, struct err *err);

/* ---- prestart.c ---- */
/* WARM: starts the zygote before ranks are wanted. Finds Python on another machine. */

void prestart_zygote(struct agent *a, const struct span *m);
/* Finds which candidate Python exists on this node, and whether the folder `cwd` exists ("": not
 * checked). Fills `paths` with candidates; keep it alive until f runs. */
MUST_USE int prestart_find(struct agent *a, const char *python, const char *cwd,
                           struct python_candidates *paths, path_probe_f f, void *arg,
                           struct err *err);

/* ---- exited.c ---- */
/* How workers ended: EXITED, and ends that are overdue. */

/* A child has died. What a worker has left is read first. */
void exited_process(struct agent *a, pid_t pid, const struct death *d);
/* EXITED for a worker that could not be started at all. */
void exited_never_started(struct agent *a, unsigned id, const char *why);
/* Does what is due by now: kills workers whose grace is over, gives up those whose end is overdue.
 * Has the timer fire for what is due next. */
void exited_overdue(struct agent *a);

/* ---- reap.c ---- */
/* Waits for processes, and ends all of them. Every worker is a child of the agent, also those that
 * a zygote forked: orphans become its children. So SIGCHLD and waitid() tell every death and its
 * status. */

/* Starts watching for processes that end, for processes that should have ended, and for workers
 * that are stopped, as by SIGSTOP, or go on. */
MUST_USE int reap_start(struct agent *a, struct err *err);
/* Kills every worker with its process group, then every process that became our child, and waits
 * until none is left, 5 seconds at most. */
void end_all_workers(struct agent *a);

/* ---- relay.c ---- */
/* Passes messages and their blobs between the kernel and a worker; only the header is read. */

/* Kernel to worker: msg is the whole message, `head` its header. The message waits while the socket
 * has no room, and while its blob is still expected. Later messages wait behind it, unless they are
 * urgent. */
void relay_down(struct worker *w, const struct span *head, struct slice msg);
/* The agent's own message to a worker (CUT_SOCKETS, SYNCED). */
void relay_tell(struct worker *w, const struct span *m);
/* The socket has room again: messages that wait leave. */
void relay_send_waiting(struct worker *w);
/* The blob is in the agent's table now. Or it will not arrive: then `error` says why, for the user.
 * Messages that waited for it leave. */
void relay_settle(struct agent *a, uint64_t blob, const char *error);

/* Worker to kernel: one packet that came from the worker. Its blob is taken. */
void relay_up(struct worker *w, struct packet *p);

/* ---- relay_io.c ---- */
/* What the loop calls for a worker's socket, and for each of its pipes. A worker's text is read
 * here, too, so that it keeps its place among the messages. */
void relay_event(void *worker, int fd, unsigned events);
void relay_pipe(void *worker, int fd, unsigned events);
/* Reads all messages that are left in the socket of a dead worker. */
void relay_read_rest(struct worker *w);

/* ---- from_kernel.c ---- */
/* One message of the kernel for this node: `workers` is *u32, empty: for the agent itself. */
void from_kernel_message(void *agent, struct slice workers, struct slice msg);

/* ---- node_usage.c ---- */
/* Answers GPUS and GAUGES: this node's GPUs, and the memory of its workers. */

void node_usage_gpus(struct agent *a, const struct span *m);
void node_usage_all(struct agent *a, const struct span *m);

/* Home and the ranks that have a process, without the worker `without` (0: all). */
struct node_workers {
    struct gpu_worker *v; /* owned */
    char (*who)[24];      /* owned: the texts in v */
    size_t n;
};

MUST_USE int node_workers_init(struct node_workers *c, const struct agent *a,
                               uint32_t without); /* -1: memory is out; c is empty then */
void node_workers_release(struct node_workers *c);

/* ---- park_ranks.c ---- */
/* A PARK for these workers: answers it when they are parked, or back. */
void park_ranks(struct agent *a, const struct span *m, struct slice workers);

/* ---- gpu_oom.c ---- */
/* A cell failed because its GPU was full: adds the processes that use that memory to the error. */

/* A DONE from w. true: it reports that GPU memory ran out; it is sent a moment later, with one more
 * line in its traceback. */
bool gpu_oom_takes(struct worker *w, struct slice msg);

/* ---- stand_in.c ---- */
/* Messages that the agent writes in place of others: a message to a worker without the blob that
 * did not arrive, and the answer of a worker that was interrupted before the cell reached it.
 * Pure. */

/* Writes msg with blob_size 0: a BIND has the reason in `names`, a RETURN becomes an error. */
MUST_USE int stand_in_for_blob(struct slice msg, const char *why, struct buf *out, struct err *err);
/* If there is no memory for that: only sets blob_size to 0. p: a complete encoded message. */
void stand_in_patch(char *p);
/* Writes DONE: the cell was interrupted before it ran. unbound: a BIND of the cell did not reach
 * the worker, either. */
MUST_USE int stand_in_for_cell(uint32_t worker, uint64_t cell, bool unbound, struct buf *out,
                               struct err *err);

#endif
