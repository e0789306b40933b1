/* join.h - how the agent gets to its kernel: which endpoint answers, the line, HELLO, and what is
 * said when it can't. */
#ifndef WORKER_AGENT_NET_JOIN_H
#define WORKER_AGENT_NET_JOIN_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"

/* the exit status when the kernel can't be reached, or does not take us */
#define JOIN_STATUS_UNREACHED 3

struct agent;
struct dial;

struct join {
    struct agent *agent; /* borrowed */
    struct keys keys;    /* ours; keys_wipe() when the line is open */
    unsigned char kernel[KEY_SIZE];
    bool has_keys;  /* else the kernel is on this machine (ipc) */
    char *endpoint; /* that the line was opened to */
    void *context;  /* of ZeroMQ, when the kernel is elsewhere: it outlives the line */
    struct dial *dial;
    struct watch *limit; /* for WELCOME */
    uint64_t limit_ns;
};

/* Does this --connect need a secret? */
bool join_is_remote(const char *connect);
/* The keys of agent `index`, if it needs any; the rest is as zero. Wipes nothing. */
void join_init(struct join *j, struct agent *agent);
void join_keys(struct join *j, const struct secret *s, uint32_t index);
/* Begins. What fails later stops the agent, with its status set and a line on stderr. */
MUST_USE int join_start(struct join *j, struct err *err);
void join_release(struct join *j); /* after uplink_close */

#endif
