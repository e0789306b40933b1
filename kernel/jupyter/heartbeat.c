/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread owns its socket and shares nothing else. */
#include "kernel/jupyter/private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define STACK_SIZE (128u << 10) /* bytes */

struct heartbeat {
    void *socket;
    pthread_t thread;
};

/* Sends one frame back to the client. Never blocks: a ROUTER drops what it can't deliver. */
static int echo(void *socket)
{
    zmq_msg_t frame;
    int more, rc;

    if (zmq_msg_init(&frame) < 0)
        return -1;
    if ((rc = zmq_msg_recv(&frame, socket, 0)) >= 0) {
        more = zmq_msg_more(&frame);
        rc = zmq_msg_send(&frame, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
        if (rc < 0 && errno != ETERM && errno != ENOTSOCK)
            rc = 0;
    }
    zmq_msg_close(&frame);
    return rc;
}

static void *beat(void *arg)
{
    struct heartbeat *h = arg;

    while (echo(h->socket) >= 0 || errno == EINTR)
        ;
    zmq_close(h->socket);
    return NULL;
}

static int start(struct heartbeat *h)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int why = pthread_attr_init(&attr);

    if (why)
        return why;
    /* fails if the system's minimum is larger; then the default is used */
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* the loop's thread handles signals */
    why = pthread_create(&h->thread, &attr, beat, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return why;
}

struct heartbeat *heartbeat_start(void *socket, struct err *err)
{
    struct heartbeat *h = calloc(1, sizeof *h);
    int why = ENOMEM;

    if (h) {
        h->socket = socket;
        if ((why = start(h)) == 0)
            return h;
    }
    free(h);
    zmq_close(socket);
    return err_null(err, "heartbeat: no thread: %s", strerror(why));
}

void heartbeat_join(struct heartbeat *h)
{
    if (!h)
        return;
    pthread_join(h->thread, NULL);
    free(h);
}
