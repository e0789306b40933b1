/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_pipes.c - makes the socket and the pipes between the agent and a worker (declared in
 * orders.h). */
#include "worker/agent/processes/orders.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "worker/link/packet.h"

void worker_pipes_close(struct worker_pipes *e)
{
    fd_close(&e->link);
    fd_close(&e->out);
    fd_close(&e->errs);
    fd_close(&e->stack);
}

/* Takes both descriptors of a pair. The worker's gets a number above 2, so that it is not in the
 * way when the child places its own 0, 1 and 2. */
static int take_pair(const int fd[2], const char *what, int *ours, int *theirs, struct err *err)
{
    *ours = fd[0];
    if ((*theirs = fd_raise(fd[1], 3)) < 0) {
        close(fd[1]);
        return err_set(err, "%s: %s", what, strerror(errno));
    }
    return fd_nonblock(fd[0], true) < 0 ? err_set(err, "%s: %s", what, strerror(errno)) : 0;
}

static int open_pipe(int *ours, int *theirs, struct err *err)
{
    int fd[2];

    return fd_pipe(fd) < 0 ? err_set(err, "pipe: %s", strerror(errno))
                           : take_pair(fd, "pipe", ours, theirs, err);
}

int worker_pipes_open(struct worker_pipes *ours, struct worker_pipes *theirs, struct err *err)
{
    int pair[2];

    *ours = *theirs = (struct worker_pipes)WORKER_ENDS_INIT;
    if (packet_pair(pair, err) == 0 &&
        take_pair(pair, "socketpair", &ours->link, &theirs->link, err) == 0 &&
        open_pipe(&ours->out, &theirs->out, err) == 0 &&
        open_pipe(&ours->errs, &theirs->errs, err) == 0 &&
        open_pipe(&ours->stack, &theirs->stack, err) == 0)
        return 0;
    worker_pipes_close(ours);
    worker_pipes_close(theirs);
    return -1;
}
