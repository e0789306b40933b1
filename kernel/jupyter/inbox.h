/* inbox.h - reads a socket: frames in, verified requests out. Refused messages are counted and
 * logged by kind; their content is never logged. */
#ifndef KERNEL_JUPYTER_INBOX_H
#define KERNEL_JUPYTER_INBOX_H

#include "kernel/jupyter/request.h"

/* How often each fault was seen; shared by all inboxes of a front. */
struct refusals {
    unsigned long long count[JUPYTER_FAULTS];
};

struct inbox {
    enum channel channel;
    const char *name;                /* borrowed: the channel's name, for the log */
    void *socket;                    /* borrowed */
    struct jupyter_session *session; /* borrowed */
    struct refusals *refusals;       /* borrowed */
    zmq_msg_t *part;                 /* owned: frames of the message that is being read */
    size_t n, cap;
    bool skipping; /* the message has too many frames: the rest is dropped */
};

void inbox_init(struct inbox *in, enum channel channel, const char *name, void *socket,
                struct jupyter_session *session, struct refusals *refusals);
void inbox_release(struct inbox *in);

/* The next valid request; the caller must unref it. Skips refused messages. Reads at most *budget
 * frames and counts *budget down. NULL: no request, or *budget is 0 and there may be more. */
struct request *inbox_next(struct inbox *in, unsigned *budget);

#endif
