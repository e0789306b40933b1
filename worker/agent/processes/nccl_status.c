/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_status.c - asks NCCL for its status when a worker's stacks are wanted (declared in
 * stacks.h). */
#include "worker/agent/processes/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "worker/agent/net/port.h"
#include "worker/agent/processes/worker.h"
#include "worker/collective/ras.h"

#define WAIT_MS   3000u  /* each of its parts has a limit of a second (ras_ask.c) */
#define WORDS_MAX 16384u /* bytes; the text is shown below a stack */

struct nccl_status {
    struct worker *worker; /* borrowed */
    void (*f)(struct worker *w);
    int fd;
    struct watch *watch;
    struct buf words;
};

const char *nccl_status_address(struct nccl_port *p)
{
    const char *set = getenv("NCCL_RAS_ADDR");
    struct err err = { "" };
    int port;

    if (p->address[0] || (set && set[0]))
        return p->address;
    if ((port = port_find(&p->reserved, NULL, 0, &err)) < 0)
        log_info("nccl", "%s", err.text);
    else
        snprintf(p->address, sizeof p->address, "localhost:%d", port);
    return p->address;
}

static void over(struct nccl_status *n)
{
    watch_clear(&n->watch);
    fd_close(&n->fd);
    n->f(n->worker);
}

static void said(void *arg, int fd, unsigned events)
{
    struct nccl_status *n = arg;
    char text[4096];
    const ssize_t got = read(fd, text, sizeof text);
    const size_t room = WORDS_MAX - n->words.n;

    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        over(n);
    else if (buf_add(&n->words, text, (size_t)got < room ? (size_t)got : room) < 0)
        log_error("nccl", "out of memory: what NCCL said is lost");
}

struct nccl_status *nccl_status_ask(struct worker *w, void (*f)(struct worker *w))
{
    struct err err = { "" };
    struct nccl_status *n;

    if (w->state.pid <= 0 || !(n = calloc(1, sizeof *n)))
        return NULL;
    n->worker = w;
    n->f = f;
    n->fd = ras_begin(nccl_status_address(&w->all->nccl), (long)w->state.pid, WAIT_MS, &err);
    if (n->fd >= 0 && fd_nonblock(n->fd, true) == 0)
        n->watch = loop_fd(w->all->io.loop, n->fd, LOOP_READ, said, n, &err);
    if (n->watch)
        return n;
    log_info("nccl", "%s", err.text[0] ? err.text : "its pipe can't be watched");
    nccl_status_end(n);
    return NULL;
}

bool nccl_status_waits(const struct nccl_status *n)
{
    return n && n->watch;
}

int nccl_status_text(const struct nccl_status *n, struct buf *out)
{
    if (!n || n->words.n == 0)
        return 0;
    return buf_addf(out, "\n%s\n", NCCL_STATUS_SAYS) < 0 ? -1
                                                         : buf_add_slice(out, buf_slice(&n->words));
}

void nccl_status_end(struct nccl_status *n)
{
    if (!n)
        return;
    watch_stop(n->watch);
    fd_close(&n->fd);
    buf_release(&n->words);
    free(n);
}
