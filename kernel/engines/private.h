/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - what the files of this folder share: an engine from its start to its end, and this
 * machine's agent. Tests use it too. */
#ifndef KERNEL_ENGINES_PRIVATE_H
#define KERNEL_ENGINES_PRIVATE_H

#include <jansson.h>
#include <sys/types.h>

#include "base/child_lines.h"
#include "kernel/engines/engines.h"

/* ---- engine_lines.c ---- */
/* What an engine writes: the lines of its stdout, which docs/launchers.md specifies, and the last
 * lines of its stderr. Pure. */

#define ENGINE_NODES_MAX 65535u
#define ENGINE_END_MAX   600u       /* seconds */
#define ENGINE_LEFT_MAX  999999999u /* the same */
#define ENGINE_CONTRACT  2u         /* the newest one: it tells when agents end */

enum engine_line_kind {
    ENGINE_LINE_NONSENSE,
    ENGINE_LINE_CONTRACT,
    ENGINE_LINE_NODES,
    ENGINE_LINE_NODE,
    ENGINE_LINE_AGAIN,
    ENGINE_LINE_SAY,
    ENGINE_LINE_FAILED,
    ENGINE_LINE_AWAY,
    ENGINE_LINE_GONE,
    ENGINE_LINE_END,
    ENGINE_LINE_NOTICE,
    ENGINE_LINE_ENDS
};

struct engine_line {
    enum engine_line_kind kind;
    /* CONTRACT: its number; NODES: how many; NODE, AGAIN, FAILED, AWAY, GONE, NOTICE: which; END:
     * seconds */
    unsigned n;
    unsigned slots;   /* NODE; 0: not said */
    unsigned seconds; /* NOTICE, ENDS */
    bool by_ranks;    /* NODES: how many depends on --ranks */
    bool together;    /* NODES: if one agent is lost, all end */
    /* NODE: its name; SAY, FAILED, GONE, NOTICE: the text. Borrowed from the line */
    struct slice text;
};

struct engine_line engine_line_parse(struct slice line);

/* Appends the last lines of stderr as UTF-8 without control characters, and without blank lines at
 * the end. -1: memory is out. */
MUST_USE int engine_errors(const struct tail *errors, struct buf *out);

/* ---- engine_environment.c ---- */
/* The environment of an engine: the kernel's with what home has changed since, the notebook's
 * Python and the secret. */

struct engine_environment {
    char **v;           /* NULL-terminated "NAME=value", as execve() takes it */
    size_t n, borrowed; /* the first of them are environ's, the others are owned */
};

#define ENGINE_ENVIRONMENT_INIT { NULL, 0, 0 }

/* own: the kernel's endpoint for this machine. secret: NULL to leave it out. changes: {name:
 * value}, null for a name that home has deleted; NULL: none. */
MUST_USE int engine_environment_make(struct engine_environment *e, const char *python,
                                     const char *own, const struct secret *secret,
                                     const json_t *changes, struct err *err);
void engine_environment_release(struct engine_environment *e);

/* ---- engine_process.c ---- */
/* An engine as a child process: its start, its output and its end. */

struct engine_process;

struct engine_process_spec {
    const char *name, *spec; /* spec: "" for none */
    const char *image;       /* of its agents' containers; NULL: none */
    unsigned ranks;          /* 0: not said */
    const char *endpoints;   /* where its agents dial */
    const char *own;         /* where this machine's programs do */
    const char *python;      /* home's */
    const json_t *changes;   /* of home's environment; see engine_environment_make() */
    const struct secret *secret;
    void (*said)(void *arg, const struct engine_line *said);
    void *arg;
};

/* All of spec is borrowed for the call. */
struct engine_process *
engine_process_start(struct loop *loop, const struct engine_process_spec *spec, struct err *err);
/* Kills it first if it still runs, unless it ends and takes long for that. NULL is fine. */
void engine_process_free(struct engine_process *e);

pid_t engine_process_pid(const struct engine_process *e); /* 0: it has ended */
/* Closes its stdin, at which it should end. If it does not, SIGTERM and SIGKILL follow. */
void engine_process_end(struct engine_process *e);
/* It runs, and has asked for more time for its end than the kernel has when it ends itself. Then
 * the kernel leaves it alone. */
bool engine_process_takes_long(const struct engine_process *e);
/* Sends it a signal; SIGKILL to its whole process group. */
void engine_process_signal(struct engine_process *e, int signo);
/* It has been waited for. Reads what it wrote last. */
void engine_process_ended(struct engine_process *e, int status);
/* Appends how it ended, if it has, for the user, and the last lines of its stderr. */
MUST_USE int engine_process_words(const struct engine_process *e, struct buf *out);

/* ---- engine_run.c ---- */
/* One engine from its start to its end: until when its nodes must be up, and why it failed. Private
 * to kernel/engines and its tests. */

struct engine_run {
    unsigned number;
    char *name;
    struct agents *agents; /* borrowed */
    const char *endpoints; /* where its agents dial; borrowed from agents */
    engine_event_f event;
    engine_replaced_f replaced;
    void *arg;
    const struct clock *clock; /* borrowed */
    struct engine_process *process;
    struct secret secret;
    unsigned first, n; /* its first nodes; n 0: not said yet */
    unsigned ranks;    /* for so many it was started; 0: not said */
    bool tells;        /* when agents end */
    bool by_ranks;     /* it has as many nodes, or slots, as that takes */
    bool together;     /* all its agents end if one is lost */
    bool was_up;       /* all of them were up once, at the same time */
    uint64_t start_ns; /* how long its nodes may take to come up */
    /* Until then they must be up. UINT64_MAX: they are, or the engine waits in a queue. */
    uint64_t deadline_ns;
    bool stopped;     /* no event follows */
    bool ended;       /* its process has */
    struct buf words; /* why it ended */
};

/* In engines.c. NULL: there is none any more. */
struct engine_run *engines_run(const struct engines *e, unsigned number);
void engine_run_free(struct engine_run *run); /* NULL is fine */

/* In engine_nodes.c. Handler of the engine's process; run is its struct engine_run. */
void engine_nodes_said(void *run, const struct engine_line *said);

/* Its nodes have the start time again from now on; no deadline if all are up. */
void engine_run_restart_clock(struct engine_run *run);
/* A node is up or lost. */
void engine_run_node_changed(struct engine_run *run, const struct node *node);
/* Fails the run if the deadline is over. */
void engine_run_tick(struct engine_run *run, uint64_t now);

void engine_run_stop(struct engine_run *run); /* Ends its agents and its process. */
/* The same, and the event ENGINE_FAILED. */
void engine_run_fail(struct engine_run *run, const char *why);
/* Its process has ended. If all nodes were up, they are lost one by one, for the reason that the
 * engine gave. */
void engine_run_ended(struct engine_run *run, int status);

/* ---- local_agent.c ---- */
/* This machine's agent as a child process. It starts home by itself. Its stdin is a socket: through
 * it the agent shares file descriptors with the kernel (local_blobs.h), and its end tells the agent
 * that the kernel is gone. */

struct local_agent {
    const char *endpoint, *node, *python; /* borrowed */
    pid_t pid;                            /* 0: none */
    int in;                               /* the kernel's end of its stdin */
};

#define LOCAL_AGENT_INIT { NULL, NULL, NULL, 0, -1 }

MUST_USE int local_agent_start(struct local_agent *l, struct err *err);
/* It has ended with this wait status; writes why, for the user. */
void local_agent_ended(struct local_agent *l, int status, char *why, size_t size);
void local_agent_kill(struct local_agent *l); /* if it still runs */

#endif
