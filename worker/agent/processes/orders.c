#include "worker/agent/processes/orders.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "worker/link/packet.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

struct order {
    struct order *next;
    struct worker_ends ends; /* owned; all -1 in ZYGOTE_FORK */
    size_t n;
    uint8_t p[]; /* the packet */
};

static int add(struct orders *o, uint8_t tag, struct slice msg, const struct worker_ends *ends,
               struct err *err)
{
    struct order *one = malloc(sizeof *one + 1 + msg.n);

    if (!one)
        return err_set(err, "out of memory");
    *one = (struct order){ .ends = *ends, .n = 1 + msg.n };
    one->p[0] = tag;
    if (msg.n)
        memcpy(one->p + 1, msg.p, msg.n);
    if (o->last)
        o->last->next = one;
    else
        o->first = one;
    o->last = one;
    return 0;
}

int orders_add_rank(struct orders *o, struct slice start, struct worker_ends *ends, struct err *err)
{
    const int rc = add(o, ZYGOTE_RANK, start, ends, err);

    if (rc < 0)
        worker_ends_close(ends);
    *ends = (struct worker_ends)WORKER_ENDS_INIT;
    return rc;
}

int orders_add_fork(struct orders *o, struct err *err)
{
    const struct worker_ends none = WORKER_ENDS_INIT;

    return add(o, ZYGOTE_FORK, slice_text(""), &none, err);
}

bool orders_are_none(const struct orders *o)
{
    return !o->first;
}

static void remove_first(struct orders *o)
{
    struct order *one = o->first;

    if (!(o->first = one->next))
        o->last = NULL;
    worker_ends_close(&one->ends);
    free(one);
}

void orders_drop(struct orders *o)
{
    while (o->first)
        remove_first(o);
}

/* 0, or an errno. */
static int send_one(int fd, const struct order *o)
{
    union descriptor_room room;
    const int fds[4] = { o->ends.link, o->ends.out, o->ends.errs, o->ends.stack };
    struct iovec iov = { (void *)(uintptr_t)o->p, o->n };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

    descriptors_attach(&h, &room, fds, fds[0] >= 0 ? 4 : 0);
    return sendmsg(fd, &h, MSG_NOSIGNAL) < 0 ? errno : 0;
}

void orders_send(struct orders *o, int fd)
{
    while (o->first) {
        const int why = send_one(fd, o->first);

        /* ETOOMANYREFS: too many descriptors are on their way. The socket stays writable, so this
         * is tried again. */
        if (why == EAGAIN || why == EWOULDBLOCK || why == EINTR || why == ETOOMANYREFS)
            return;
        if (why) /* the end of the zygote, or of the rank, will be reported */
            log_info("zygote", "can't be told: %s", strerror(why));
        remove_first(o);
    }
}
