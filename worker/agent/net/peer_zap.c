/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_zap.c - decides which agents may connect to this one (declared in peer.h). */
#include "worker/agent/net/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <zmq.h>

#include "base/log.h"
#include "base/loop/monitor.h"
#include "base/loop/zap.h"

#define NEWS_PER_TURN 256
#define FAILURES      (ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)

struct peer_zap {
    struct loop *loop;
    void *context;
    struct zap *zap;
    peer_zap_f f;
    void *arg;
    unsigned long refused, failed; /* because of their key; before they had shown one */
    void *listener, *monitor;      /* the listener is borrowed */
    struct watch *news;
};

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct peer_zap *a = arg;
    char name[PEER_ZAP_NAME_SIZE] = "";
    const unsigned char *const key = zap_key(q);
    const bool good = key && a->f(a->arg, key, name);

    if (!good && a->refused++ == 0)
        log_warn("peers",
                 "a connection with a key that is not expected was refused; more are not logged");
    zap_answer(zap, q, good ? ZAP_YES : ZAP_NO, good ? name : "");
}

struct peer_zap *peer_zap_open(struct loop *loop, void *context, peer_zap_f f, void *arg,
                               struct err *err)
{
    struct peer_zap *a = calloc(1, sizeof *a);

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->context = context;
    a->f = f;
    a->arg = arg;
    if ((a->zap = zap_open(loop, context, asked, a, err)))
        return a;
    free(a);
    return NULL;
}

/* ---- who does not get as far as to show a key ---- */

static void admit_news(void *arg)
{
    struct peer_zap *a = arg;
    char event[6];

    for (int i = 0; i < NEWS_PER_TURN; i++) {
        if (zmq_recv(a->monitor, event, sizeof event, ZMQ_DONTWAIT) < 0)
            return;
        loop_zmq_skip(a->monitor);
        if (a->failed++ == 0)
            log_warn(
                "peers",
                "a connection that does not speak as agents do was refused; more are not logged");
    }
}

int peer_zap_watch(struct peer_zap *a, void *listener, struct err *err)
{
    a->listener = listener;
    if (!(a->monitor = monitor_open(a->context, listener, FAILURES, err)))
        return -1;
    return (a->news = loop_zmq(a->loop, a->monitor, admit_news, a, err)) ? 0 : -1;
}

void peer_zap_close(struct peer_zap *a)
{
    if (!a)
        return;
    if (a->refused + a->failed > 0)
        log_info("peers",
                 "refused in all: %lu connections for their key, %lu before they had shown one",
                 a->refused, a->failed);
    if (a->listener)
        (void)zmq_socket_monitor(a->listener, NULL, 0);
    watch_stop(a->news);
    zmq_close(a->monitor);
    zap_close(a->zap);
    free(a);
}
