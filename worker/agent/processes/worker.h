/* worker.h - one process that the agent looks after, and the ends of its socket and pipes that the
 * agent holds. */
#ifndef WORKER_AGENT_PROCESSES_WORKER_H
#define WORKER_AGENT_PROCESSES_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "worker/agent/output/worker_credit.h"
#include "worker/agent/output/lines.h"
#include "worker/agent/processes/outbox.h"
#include "base/tail.h"

#define WORKER_STACK_MAX 262144u /* bytes of stacks that are kept: EXITED's and STACK's limit */

struct agent;
struct order;
struct nccl_status;

enum worker_role { WORKER_HOME, WORKER_RANK, WORKER_ZYGOTE };

/* The worker's own ends: handed to the process, then closed here. */
struct worker_ends {
    int link, out, errs, stack;
};

#define WORKER_ENDS_INIT { -1, -1, -1, -1 }

struct stream {
    struct worker *worker; /* borrowed: whom it is in */
    unsigned number;       /* the worker's descriptor: 1 or 2 */
    int fd;                /* -1: ended */
    struct watch *watch;
    struct lines lines; /* of ranks */
};

struct worker {
    struct agent *agent; /* borrowed */
    struct worker *next;
    enum worker_role role;
    uint32_t id; /* the kernel's number; 0: a zygote */
    uint32_t rank;
    bool passing; /* a script's: another rank of this number may live beside it */
    char *python;
    pid_t pid;     /* 0: not known yet */
    bool ready;    /* said READY */
    bool ending;   /* dead or dying: what it left is read whatever its credit is */
    bool gone;     /* EXITED was sent; freed when the turn is over */
    uint64_t cell; /* the last one that it was given */

    int link_fd; /* -1: ended */
    struct watch *link;
    struct outbox outbox;
    struct stream stream[2];
    unsigned drains; /* how often its pipes were read on behalf of a message */
    struct worker_credit credit;
    struct watch *lines_timer;
    uint64_t lines_due_ns; /* UINT64_MAX: off */
    struct tail errors;    /* the last of stderr; of a zygote: of both */

    int stack_fd;
    struct watch *stack;
    struct buf stack_text;
    bool stack_asked;         /* STACKS waits for an answer */
    bool stack_over;          /* it has; what NCCL says may be missing */
    struct nccl_status *nccl; /* owned: asked beside it, or NULL */
    uint64_t stack_cell;
    uint64_t stack_limit_ns;
    struct watch *stack_timer;

    uint64_t sent_signals; /* bit n: we sent signal n */
    int signal_later;      /* to be sent when the pid is known; 0: none */
    struct watch *kill_timer;
    struct watch *end_timer;
    char broke[256]; /* what it did against the protocol; "" */

    struct worker *zygote; /* of a rank that is not forked yet: who will; NULL else */
    struct order *order;   /* of a zygote: the ranks that it has not been told yet */
    struct order **order_end;
};

/* Makes the pipes and sockets and puts the worker on the agent's list; `ends` are then the
 * caller's. Nothing is started. NULL: *err says why. */
struct worker *worker_create(struct agent *a, enum worker_role role, uint32_t id,
                             const char *python, struct worker_ends *ends, struct err *err);
void worker_ends_close(struct worker_ends *e);
/* it runs another one; -1: memory is out */
MUST_USE int worker_python(struct worker *w, const char *python);
/* Takes it off the list, closes everything; it is freed when the turn is over. */
void worker_retire(struct worker *w);
/* Frees at once: only when the loop no longer runs. */
void worker_destroy(struct worker *w);

/* Sets what the loop watches by the state of credit and outbox. */
void worker_watch(struct worker *w);
void worker_set_pid(struct worker *w, pid_t pid);
/* To its process group; kept for later when the pid is not known yet. */
void worker_signal(struct worker *w, int signo);
void worker_kill(struct worker *w, int signo, uint64_t grace_ms);
/* It did what the protocol forbids: it is killed, and EXITED says so. */
void worker_broke(struct worker *w, const char *format, ...) PRINTF_LIKE(2, 3);
/* "home", "worker 5 (rank 3)": for logs */
const char *worker_name(const struct worker *w, char out[static 48]);

#endif
