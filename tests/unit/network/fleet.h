/* SPDX-License-Identifier: BSD-3-Clause */
/* fleet.h - a kernel and its agents on the network of network.h. The kernel's end is the code of
 * kernel/agents, an agent's that of worker/agent/net. Ranks print numbered lines, and the kernel
 * sends numbered orders, so each side can say whether it got every one, once and in order. Agents
 * have parents, as in the tree of an engine. One clock and one seed decide everything: a run with
 * the same seed is the same run.
 *
 * network.c   connections; steps.c   what happens next; checks.c   what must hold
 * kernel_end.c, kernel_outside.c   a kernel, and what its code has in place of ZeroMQ
 * agent_end.c, agent_outside.c   an agent, and what its code has in place of keys and others
 * turns.c   loops; sockets.c, messages.c   ZeroMQ's
 * planted.c   faults that a test plants, to see that they are found
 * rounds.c    many runs; cells.c   a cell that runs meanwhile */
#ifndef TESTS_UNIT_NETWORK_FLEET_H
#define TESTS_UNIT_NETWORK_FLEET_H

#include "base/beat.h"
#include "kernel/agents/private.h"
#include "protocol/session.h"
#include "tests/unit/network/network.h"
#include "worker/agent/net/peer.h"

#define FLEET_AGENTS     4u
#define FLEET_KERNEL     FLEET_AGENTS        /* who listens, if it is no agent */
#define FLEET_SILENT     (FLEET_AGENTS + 1u) /* who takes connections, and says nothing */
#define FLEET_PATHS      (2u * FLEET_AGENTS) /* of each agent to the kernel; then to its parent */
#define FLEET_RANKS      3u
#define FLEET_TIMEOUT_NS (10 * NS_PER_S)  /* after that much silence an agent dials again */
#define FLEET_RESUME_NS  (120 * NS_PER_S) /* so long the kernel waits for an agent */
#define FLEET_LETTER_MAX (UINT64_C(24) << 20)
#define FLEET_VOIDED     8u

/* ---- planted.c ---- */

enum planted {
    PLANTED_NONE,
    PLANTED_TOLD_ONE_MORE,   /* a side says that it has received one message more than it has */
    PLANTED_RESUME_BEHIND,   /* a side goes on one message too late */
    PLANTED_RESUME_ACKED,    /* a side goes on at what it knew, not at what the other side says */
    PLANTED_RESUME_HANDED,   /* what was in the socket's queue counts as sent */
    PLANTED_FREED_EARLY,     /* a message is freed when it is sent */
    PLANTED_OLD_CONNECTION,  /* the kernel takes messages of the connection before */
    PLANTED_TWO_CONNECTIONS, /* the kernel does not close the connection before */
    PLANTED_VOIDED_KEY,      /* a key that RESUME has replaced is admitted still */
    PLANTED_KEY_AT_KNOCK,    /* the key is only looked at when the handshake is done */
    PLANTED_STOP_IS_LOSS,    /* silence is a loss */
    PLANTED_OWN_STOP,        /* time in which the kernel itself was stopped counts as silence */
    PLANTED_SLOW_IS_LOSS,    /* so is an acknowledgement that takes its time */
    PLANTED_NO_BOUND,        /* ranks print though the session is full */
    PLANTED_NEWEST_ONLY,     /* the agent never tries the key before */
    PLANTED_TWO_REFUSALS,    /* two refusals are a refusal */
    PLANTED_GIVES_UP,        /* the time until the agent gives up goes on after a handshake */
    PLANTED_NEVER_LONGER,    /* an attempt that took too long is followed by one as short */
    PLANTED_FIRST_FORGOTTEN, /* what the kernel sends with WELCOME counts as received */
    PLANTED_LOST_CHILD,      /* who is reached through an agent is lost when that one is away */
    PLANTED_TWO_WAYS,        /* who has dialed a parent sends there though the kernel may still have
                              * to read what it sent before */
    PLANTED_ONE_HOLDS_ALL,   /* no endpoint is tried while another one has taken the connection */
    PLANTED_HELLO_ONCE,      /* HELLO is not said anew if no answer comes */
    PLANTED_KINDS
};

bool planted_is_found(enum planted p, const char *why); /* is it what the check says? */
const char *planted_name(enum planted p);               /* as in --plant NAME */
enum planted planted_of(const char *name); /* PLANTED_KINDS: there is none of that name */

/* ---- the two ends ---- */

struct agent_end {
    struct fleet *fleet;
    unsigned index, turn;
    bool ends;                   /* when this turn is over */
    bool over;                   /* for whatever reason */
    struct keys keys;            /* of the first connection; there is no secret */
    struct dial *dial;           /* to that; NULL: it is there, or waits for the next attempt */
    struct uplink *uplink;       /* from then on */
    struct session *session;     /* the uplink's */
    bool greeted;                /* HELLO was answered */
    bool full;                   /* its ranks are held back */
    uint64_t orders;             /* the number of the last one that came */
    uint64_t lines[FLEET_RANKS]; /* that were printed */
};

/* What is known of an agent at the kernel. */
struct node_end {
    unsigned turn;
    unsigned number; /* of the node */
    bool lost;
    uint64_t lines[FLEET_RANKS]; /* that have come */
};

struct kernel_end {
    struct agents agents;
    struct router router;
    uint64_t orders; /* that were given; each to all agents that are not lost */
    struct node_end node[FLEET_AGENTS];
};

/* What checks.c knows. */
struct fleet_checks {
    unsigned char valid[FLEET_AGENTS][KEY_SIZE]; /* the only key that is good */
    unsigned char voided[FLEET_AGENTS][FLEET_VOIDED][KEY_SIZE];
    unsigned n_voided[FLEET_AGENTS];
    uint64_t disturbed_ns[FLEET_AGENTS]; /* when something last went wrong */
    uint64_t met_ns[2][FLEET_AGENTS];    /* when that side last heard the other */
};

/* How often each of these came about, so that a test can say that they did. */
struct fleet_counts {
    uint64_t steps, frames, resumes, cuts, resets, forgotten, stops, crashes, thieves, refused,
        lost, full, given_up, second_key, engines, children, orphans, beside, held, told;
};

struct fleet {
    uint64_t now, seed;
    struct dice dice;
    struct network net;
    struct path path[FLEET_PATHS];
    uint64_t heals_ns[FLEET_PATHS]; /* UINT64_MAX: it is not cut */
    /* who is stopped: until then, since then; the last one is the kernel */
    uint64_t goes_on_ns[FLEET_AGENTS + 1], stopped_ns[FLEET_AGENTS + 1];
    struct agent_end agent[FLEET_AGENTS];
    struct kernel_end kernel;
    struct wire *thief; /* a connection of somebody with a key of an agent; or NULL */
    bool thief_waits;   /* it is admitted, and resumes when the key is voided */
    struct fleet_checks checks;
    struct fleet_counts counts;
    unsigned trouble; /* of a thousand steps */
    bool silent;      /* the first of the kernel's endpoints leads to FLEET_SILENT */
    /* NULL: ranks and the kernel say something by chance. Else agent 0 and the kernel say only what
     * the owner makes them say, and this is called for each letter that came to them. */
    void (*carried)(void *arg, enum side to);
    void *carried_arg;
    bool calm;     /* nothing goes wrong any more */
    bool traced;   /* each event is a line on stdout */
    bool broken;   /* a check has failed; the run is over */
    char why[256]; /* which */
};

struct rounds;

/* ---- agent_end.c ---- */
void agent_end_start(struct fleet *f, unsigned i, const unsigned char *key);
/* Something came on a connection that this agent has dialed. */
void agent_end_take(struct fleet *f, struct wire *w, const struct frame *frame);
/* The same on one that another agent has dialed. */
void agent_end_take_child(struct fleet *f, struct wire *w, const struct frame *frame);
void agent_end_tick(struct fleet *f, unsigned i); /* time has passed */
bool agent_end_print(struct fleet *f, unsigned i, unsigned rank, uint64_t size);
void agent_end_crash(struct fleet *f, unsigned i); /* it is over, for whatever reason */
bool agent_end_is_up(const struct fleet *f, unsigned i);
void agent_end_session(struct session *s); /* a session is made */

/* ---- agent_outside.c ---- */
void agent_outside_open(struct fleet *f);

/* ---- turns.c: a loop for each process ---- */
void turns_open(struct fleet *f);
struct loop *turns_loop(unsigned who);
unsigned turns_owner(const struct loop *loop);
void turns_take(unsigned who); /* reads what has come, and does what is due after that */
void turns_tick(unsigned who); /* what is due by now */
unsigned turns_running(void);  /* whose turn it is, or was last */
uint64_t turns_due_ns(unsigned who);
void turns_stop(unsigned who); /* nothing more is read in this turn */
void turns_end(unsigned who);  /* the process is over */

/* ---- sockets.c ---- */
#define SOCKETS_ENDPOINT_SIZE 32u

void sockets_open(struct fleet *f);
bool sockets_has(const void *socket); /* something to read? */
void *sockets_last(void);             /* the one that was read last */
/* Where an agent or the kernel listens, and who listens there. */
void sockets_endpoint(unsigned listener, char text[static SOCKETS_ENDPOINT_SIZE]);
/* Has a connection of this agent been taken, and is its handshake not done? */
bool sockets_wait_for_answer(unsigned owner);
bool sockets_take(struct wire *w, const struct frame *frame); /* false: w has no socket */
void sockets_take_child(struct wire *w, const struct frame *frame);
void sockets_dead(unsigned owner, bool is); /* that agent sends nothing */

/* ---- messages.c ---- */
void messages_fill(zmq_msg_t *m, struct slice bytes, bool more, unsigned wire);
unsigned messages_wire(const zmq_msg_t *m);

/* ---- kernel_end.c ---- */
void kernel_end_open(struct fleet *f);
/* A node, whose agent has that key: in the tree of an engine's nodes, or in place of one. */
void kernel_end_start(struct fleet *f, unsigned i, const unsigned char *key, bool in_tree);
/* The engine says that the agent has ended, if it has not said HELLO: nobody else can. */
void kernel_end_ended(struct fleet *f, unsigned i);
void kernel_end_forget(struct fleet *f); /* the engine is stopped, with all nodes */
void kernel_end_take(struct fleet *f, struct wire *w, const struct frame *frame);
void kernel_end_tick(struct fleet *f);
/* To all agents; if a session is full, to none. */
void kernel_end_order(struct fleet *f, uint64_t size);
const struct session *kernel_end_session(const struct fleet *f, unsigned i);
struct node_link *kernel_end_link(const struct fleet *f, unsigned i);
struct agents *kernel_end_agents(void);
struct fleet *kernel_end_fleet(void);
bool kernel_end_is_up(const struct fleet *f, unsigned i);
void kernel_end_release(struct fleet *f);

/* ---- kernel_outside.c ---- */
void outside_open(struct fleet *f); /* whose connections they are */
unsigned fleet_parent(unsigned i);  /* TREE_NONE: the kernel */

/* ---- checks.c: each ends the run with a text if it fails ---- */
void check_fail(struct fleet *f, const char *format, ...) PRINTF_LIKE(2, 3);
/* A message came: F_LOGS_OF is the agent, _FLAGS its turn and rank (FLEET_RANKS: an order of the
 * kernel), _AT the number of the line, from 1. */
void check_letter(struct fleet *f, enum side to, unsigned agent, const struct span *m);
void check_resumed(struct fleet *f, const struct wire *w, unsigned agent,
                   const unsigned char *next);
void check_admitted(struct fleet *f, const struct wire *w); /* by the handshake */
void check_lost(struct fleet *f, enum side by, unsigned agent, const char *what);
void check_refused(struct fleet *f, unsigned agent);
void check_unanswered(struct fleet *f, unsigned agent); /* HELLO was, and the agent ends */
void check_session(struct fleet *f, enum side of, unsigned agent, int rc, const struct err *err);
void check_state(struct fleet *f);          /* after each step */
bool check_is_whole(const struct fleet *f); /* everything has arrived, and both sides know it */
void check_end(struct fleet *f);            /* says what is not whole */
void check_heard(struct fleet *f, enum side by, unsigned agent);
void check_slept(struct fleet *f, uint64_t ns); /* the kernel did not run for so long */
/* Something goes wrong now for that agent, and for those below it. */
void check_disturbed(struct fleet *f, unsigned agent);

/* ---- steps.c ---- */
/* So many steps of chance, and then a calm end, in which everything must arrive. f->broken says
 * whether a check failed. */
void fleet_run(struct fleet *f, const struct rounds *r, uint64_t seed);
void fleet_begin(struct fleet *f, const struct rounds *r, uint64_t seed); /* its parts */
void fleet_step(struct fleet *f);
void fleet_release(struct fleet *f);
size_t frames_size(const struct frame *frame); /* of a line or an order, as it counts; else 0 */

/* ---- rounds.c ---- */

struct rounds {
    uint64_t seed;          /* of the first round; each has the next one */
    uint64_t steps, rounds; /* steps: of each round */
    enum planted planted;
    bool traced;
};

/* "--seed N" (one round, traced), "--steps N", "--rounds N", "--plant NAME". -1: it is another. */
int rounds_option(struct rounds *r, const char *option, const char *value);
/* Runs rounds until a check fails. true: none did. sum: of all. why: the seed, the step and the
 * check that failed. */
bool rounds_run(const struct rounds *r, struct fleet_counts *sum, char why[static 400]);

/* ---- cells.c ---- */

/* Do cells of two ranks of another machine end well, with every line once and in order, while the
 * connection breaks? One for each seed from 1 to n. why: how often it broke, or what went wrong. */
bool cells_survive(uint64_t n, char why[static 400]);

extern enum planted planted; /* one fleet at a time */
/* of what is sent or received now: its bytes are not there; 0: they are */
extern size_t letter_size, arriving_size;

#endif
