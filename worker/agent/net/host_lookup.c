/* SPDX-License-Identifier: BSD-3-Clause */
/* host_lookup.c - looks up the addresses of a host (declared in dial.h). getaddrinfo(3) blocks for
 * as long as name servers don't answer, and can't be stopped. So a thread of its own calls it, and
 * may live on after the lookup was given up: both hold the query. */
#include "worker/agent/net/dial.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/process.h"

#define AGAIN_NS NS_PER_S /* until a name server that has not answered is asked again */

struct query {
    atomic_uint holders;
    char host[ADDRESS_HOST_SIZE], port[ADDRESS_PORT_SIZE];
    struct addrinfo *found; /* owned */
    int rc, error;          /* errno, if rc is EAI_SYSTEM */
    int done;               /* the thread closes this end of a pipe when it has the answer */
};

struct host_lookup {
    struct loop *loop;
    struct query *query; /* NULL: none runs */
    int answer;          /* the other end */
    struct watch *watch, *again;
    char host[ADDRESS_HOST_SIZE], port[ADDRESS_PORT_SIZE];
    char why[160]; /* the last answer; "": none has come */
    host_lookup_f f;
    void *arg;
    bool over;
};

/* ---- the thread ---- */

static void let_go(struct query *q)
{
    if (atomic_fetch_sub(&q->holders, 1) != 1)
        return;
    if (q->found)
        freeaddrinfo(q->found);
    free(q);
}

static void *look_up(void *arg)
{
    const struct addrinfo want = { .ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV };
    struct query *q = arg;

    q->rc = getaddrinfo(q->host, q->port, &want, &q->found);
    q->error = errno;
    if (q->rc != 0)
        q->found = NULL;
    close(q->done);
    let_go(q);
    return NULL;
}

/* ---- the loop ---- */

static void drop_query(struct host_lookup *l)
{
    watch_clear(&l->watch);
    fd_close(&l->answer);
    if (l->query)
        let_go(l->query);
    l->query = NULL;
}

void host_lookup_stop(struct host_lookup *l)
{
    if (!l || l->over)
        return;
    l->over = true;
    drop_query(l);
    watch_stop(l->again);
    loop_free(l->loop, l); /* functions up the stack still use it */
}

const char *host_lookup_why(const struct host_lookup *l)
{
    return l->why[0] ? l->why : "no name server has answered";
}

static unsigned take_addresses(const struct addrinfo *at, struct address out[static DIAL_ADDRESSES])
{
    unsigned n = 0;

    for (; at && n < DIAL_ADDRESSES; at = at->ai_next)
        if (at->ai_addrlen <= sizeof out[n].socket &&
            (at->ai_family == AF_INET || at->ai_family == AF_INET6)) {
            out[n] = (struct address){ .size = at->ai_addrlen };
            memcpy(&out[n++].socket, at->ai_addr, at->ai_addrlen);
        }
    return n;
}

static void answered(void *arg, int fd, unsigned events)
{
    struct host_lookup *l = arg;
    struct address found[DIAL_ADDRESSES];
    const int rc = l->query->rc;
    const unsigned n = rc == 0 ? take_addresses(l->query->found, found) : 0;

    (void)fd, (void)events;
    snprintf(l->why, sizeof l->why, "%s",
             rc == EAI_SYSTEM ? strerror(l->query->error)
             : rc != 0        ? gai_strerror(rc)
                              : "it has none of IPv4 or IPv6");
    drop_query(l);
    if (rc == EAI_AGAIN)
        loop_timer_again(l->again, AGAIN_NS);
    else
        l->f(l->arg, found, n);
}

static int begin(struct host_lookup *l, struct err *err)
{
    struct query *q = calloc(1, sizeof *q);
    pthread_t thread;
    int ends[2], rc;

    if (!q || fd_pipe(ends) < 0) {
        free(q);
        return err_set(err, "out of memory or descriptors");
    }
    snprintf(q->host, sizeof q->host, "%s", l->host);
    snprintf(q->port, sizeof q->port, "%s", l->port);
    atomic_init(&q->holders, 2);
    q->done = ends[1];
    l->answer = ends[0];
    l->query = q;
    if ((rc = thread_start(&thread, look_up, q)) != 0) {
        close(ends[1]);
        let_go(q);
        return err_set(err, "no thread to look it up: %s", strerror(rc));
    }
    (void)pthread_detach(thread);
    return (l->watch = loop_fd(l->loop, l->answer, LOOP_READ, answered, l, err)) ? 0 : -1;
}

static void retry(void *arg)
{
    struct host_lookup *l = arg;
    struct err err = { "" };

    if (begin(l, &err) == 0)
        return;
    drop_query(l);
    snprintf(l->why, sizeof l->why, "%.150s", err.text);
    loop_timer_again(l->again, AGAIN_NS);
}

struct host_lookup *host_lookup_start(struct loop *loop, struct slice endpoint, host_lookup_f f,
                                      void *arg, struct err *err)
{
    struct host_lookup *l = calloc(1, sizeof *l);

    if (!l)
        return err_null(err, "out of memory");
    l->loop = loop;
    l->answer = -1;
    l->f = f;
    l->arg = arg;
    if (address_split(endpoint, l->host, l->port, err) == 0 &&
        (l->again = loop_timer(loop, LOOP_OFF, 0, retry, l, err)) && begin(l, err) == 0)
        return l;
    host_lookup_stop(l);
    return NULL;
}
