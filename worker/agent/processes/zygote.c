/* zygote.c - sends orders to a zygote, which forks ranks, and reads its answers (declared in
 * worker.h). */
#include "worker/agent/processes/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/le.h"
#include "worker/link/packet.h"

#define PACKETS_PER_TURN 64

struct worker *zygote_find(const struct workers *all, const char *python)
{
    for (struct worker *w = all->first; w; w = w->next)
        if (w->role == WORKER_ZYGOTE && w->link_fd >= 0 && strcmp(w->python, python) == 0)
            return w;
    return NULL;
}

/* ---- telling ---- */

/* Raises the limit of descriptors: a rank needs four, and eight while its order waits. */
static void make_room(const struct workers *all)
{
    struct rlimit limit;
    rlim_t want = 256;

    for (const struct worker *w = all->first; w; w = w->next)
        want += 16;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want ||
        limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = want * 2 < limit.rlim_max ? want * 2 : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int zygote_order(struct worker *z, struct worker *w, struct worker_ends *ends,
                 const struct span *start, struct err *err)
{
    struct buf msg = BUF_INIT;
    int rc = span_encode(start, &msg, err);

    if (rc == 0 && msg.n + 1 > PACKET_INLINE_MAX)
        rc = err_set(err, "the environment is too long: %zu bytes, at most %u", msg.n,
                     PACKET_INLINE_MAX);
    if (rc < 0)
        worker_ends_close(ends);
    else
        rc = orders_add_rank(&z->orders, buf_slice(&msg), ends, err);
    buf_release(&msg);
    if (rc < 0)
        return -1;
    w->zygote = z;
    worker_watch(z);
    make_room(z->all);
    return 0;
}

int zygote_fork(struct worker *z, struct err *err)
{
    if (orders_add_fork(&z->orders, err) < 0)
        return -1;
    worker_watch(z);
    return 0;
}

/* ---- listening ---- */

static void take_pids(const struct worker *z, const char *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        struct worker *w = worker_find(z->all, (uint32_t)le_get(p, 4));
        const pid_t pid = (pid_t)le_get(p + 4, 4);

        if (w && w->role == WORKER_RANK && w->state.pid == 0 && pid > 1 &&
            !worker_find_pid(z->all, pid))
            worker_set_pid(w, pid);
    }
}

void zygote_read(struct worker *z)
{
    char *p = z->all->io.read_buf;

    for (int i = 0; i < PACKETS_PER_TURN && z->link_fd >= 0; i++) {
        /* descriptors in the packet are not taken */
        const ssize_t n = recv(z->link_fd, p, PIPES_READ_SIZE, 0);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n <= 0)
            worker_unlink(z);
        else if (p[0] == ZYGOTE_MESSAGE)
            z->state.ready = true; /* READY is its only message */
        else if (p[0] == ZYGOTE_PIDS)
            take_pids(z, p + 1, (size_t)n - 1);
    }
}

void zygote_event(void *zygote, int fd, unsigned events)
{
    struct worker *z = zygote;

    (void)fd;
    if ((events & LOOP_WRITE) && z->link_fd >= 0) {
        orders_send(&z->orders, z->link_fd);
        worker_watch(z);
    }
    if (events & (LOOP_READ | LOOP_HANGUP))
        zygote_read(z);
}
