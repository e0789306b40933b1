/* zygote.c - see zygote.h. */
#include "worker/agent/processes/zygote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/le.h"
#include "base/log.h"
#include "base/process.h"
#include "worker/agent/agent.h"
#include "worker/agent/reap.h"
#include "worker/agent/spawn.h"
#include "worker/link/packet.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define TAG_MESSAGE      0x00
#define TAG_RANK         0x02
#define TAG_GO           0x03
#define TAG_PIDS         0x04
#define PACKETS_PER_TURN 64

struct order {
    struct order *next;
    struct worker_ends ends; /* owned; all -1 in TAG_GO */
    size_t n;
    uint8_t p[]; /* the packet */
};

static struct worker *find(const struct agent *a, const char *python)
{
    for (struct worker *w = a->worker; w; w = w->next)
        if (w->role == WORKER_ZYGOTE && w->link_fd >= 0 && strcmp(w->python, python) == 0)
            return w;
    return NULL;
}

struct worker *zygote_get(struct agent *a, const char *python, struct err *err)
{
    struct worker *z = find(a, python);

    return z ? z : spawn_worker(a, WORKER_ZYGOTE, 0, python, a->args.cwd, slice_text(""), err);
}

/* ---- telling ---- */

/* Every rank costs us four descriptors, and eight while it is ordered. */
static void make_room(const struct agent *a)
{
    struct rlimit limit;
    rlim_t want = 256;

    for (const struct worker *w = a->worker; w; w = w->next)
        want += 16;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want ||
        limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = want * 2 < limit.rlim_max ? want * 2 : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static struct order *order_create(size_t n, uint8_t tag)
{
    struct order *o = malloc(sizeof *o + n);

    if (!o)
        return NULL;
    o->next = NULL;
    o->ends = (struct worker_ends)WORKER_ENDS_INIT;
    o->n = n;
    o->p[0] = tag;
    return o;
}

static void order_destroy(struct order *o)
{
    worker_ends_close(&o->ends);
    free(o);
}

static void enqueue(struct worker *z, struct order *o)
{
    *z->order_end = o;
    z->order_end = &o->next;
    worker_watch(z);
}

static void dequeue(struct worker *z)
{
    struct order *o = z->order;

    if (!(z->order = o->next))
        z->order_end = &z->order;
    order_destroy(o);
}

void zygote_drop_orders(struct worker *z)
{
    while (z->order)
        dequeue(z);
}

int zygote_order(struct worker *z, struct worker *w, struct worker_ends *ends,
                 const struct span *start, struct err *err)
{
    struct buf msg = BUF_INIT;
    struct order *o;

    if (span_encode(start, &msg, err) < 0)
        goto fail;
    if (msg.n + 1 > PACKET_INLINE_MAX) {
        (void)err_set(err, "the environment is too long: %zu bytes, at most %u", msg.n,
                      PACKET_INLINE_MAX);
        goto fail;
    }
    if (!(o = order_create(msg.n + 1, TAG_RANK))) {
        (void)err_set(err, "out of memory");
        goto fail;
    }
    memcpy(o->p + 1, msg.p, msg.n);
    o->ends = *ends;
    *ends = (struct worker_ends)WORKER_ENDS_INIT;
    w->zygote = z;
    enqueue(z, o);
    make_room(z->agent);
    buf_release(&msg);
    return 0;
fail:
    buf_release(&msg);
    worker_ends_close(ends);
    return -1;
}

int zygote_go(struct worker *z, struct err *err)
{
    struct order *o = order_create(1, TAG_GO);

    if (!o)
        return err_set(err, "out of memory");
    enqueue(z, o);
    return 0;
}

/* 0, or an errno. */
static int send_order(int fd, const struct order *o)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    const int fds[4] = { o->ends.link, o->ends.out, o->ends.errs, o->ends.stack };
    struct iovec iov = { (void *)(uintptr_t)o->p, o->n };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct cmsghdr *c;

    if (fds[0] >= 0) {
        memset(&control, 0, sizeof control);
        h.msg_control = control.bytes;
        h.msg_controllen = sizeof control.bytes;
        c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fds);
        memcpy(CMSG_DATA(c), fds, sizeof fds);
    }
    return sendmsg(fd, &h, MSG_NOSIGNAL) < 0 ? errno : 0;
}

static void send_orders(struct worker *z)
{
    while (z->order && z->link_fd >= 0) {
        const int why = send_order(z->link_fd, z->order);

        /* ETOOMANYREFS: so many descriptors are on their way; the socket stays writable, so this is
         * tried again. */
        if (why == EAGAIN || why == EWOULDBLOCK || why == EINTR || why == ETOOMANYREFS)
            break;
        if (why)
            /* its end, or the rank's, says the rest */
            log_info("zygote", "can't be told: %s", strerror(why));
        dequeue(z);
    }
    worker_watch(z);
}

/* ---- listening ---- */

static void take_pids(struct worker *z, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        struct worker *w = agent_worker(z->agent, (uint32_t)le_get(p, 4));
        const pid_t pid = (pid_t)le_get(p + 4, 4);

        if (w && w->role == WORKER_RANK && w->pid == 0 && pid > 1 &&
            !agent_worker_by_pid(z->agent, pid))
            worker_set_pid(w, pid);
    }
}

void zygote_read(struct worker *z)
{
    for (int i = 0; i < PACKETS_PER_TURN && z->link_fd >= 0; i++) {
        uint8_t *p = (uint8_t *)z->agent->read_buf;
        /* descriptors that came along are not taken */
        const ssize_t n = recv(z->link_fd, p, AGENT_READ_SIZE, 0);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n <= 0)
            reap_unlink(z);
        else if (p[0] == TAG_MESSAGE)
            z->ready = true; /* the only one it has is READY */
        else if (p[0] == TAG_PIDS)
            take_pids(z, p + 1, (size_t)n - 1);
    }
}

void zygote_event(struct loop *loop, int fd, unsigned events, void *zygote)
{
    struct worker *z = zygote;

    (void)loop;
    (void)fd;
    if (events & LOOP_WRITE)
        send_orders(z);
    if (events & (LOOP_READ | LOOP_HANGUP))
        zygote_read(z);
}
