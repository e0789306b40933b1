/* inbox.h - reads a socket: frames in, verified requests out. What is refused is counted and logged
 * by kind, never shown. */
#ifndef KERNEL_JUPYTER_INBOX_H
#define KERNEL_JUPYTER_INBOX_H

#include "kernel/jupyter/request.h"

/* How often each fault was seen; shared by all inboxes of a front. */
struct refusals {
    unsigned long long count[JUPYTER_FAULTS];
};

struct inbox {
    enum channel channel;
    const char *name;                /* borrowed: of the channel, for the log */
    void *socket;                    /* borrowed */
    struct jupyter_session *session; /* borrowed */
    struct refusals *refusals;       /* borrowed */
    zmq_msg_t *part;                 /* owned: frames of the message that is being read */
    size_t n, cap;
    bool skipping; /* it has too many: its rest is dropped */
};

void inbox_init(struct inbox *in, enum channel channel, const char *name, void *socket,
                struct jupyter_session *session, struct refusals *refusals);
void inbox_release(struct inbox *in);

/* The next good request, the caller's to unref; NULL: nothing more is there, or *budget frames were
 * read (it counts down to 0; then there may be more). Refused messages are passed over. */
struct request *inbox_next(struct inbox *in, unsigned *budget);

#endif
