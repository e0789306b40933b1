/* worker.c - see worker.h. */
#include "worker/agent/processes/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "worker/agent/agent.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/processes/nccl_status.h"
#include "worker/agent/output/pipes.h"
#include "worker/agent/reap.h"
#include "worker/agent/relay.h"
#include "worker/agent/processes/stacks.h"
#include "worker/agent/processes/zygote.h"
#include "worker/link/packet.h"

void worker_ends_close(struct worker_ends *e)
{
    fd_close(&e->link);
    fd_close(&e->out);
    fd_close(&e->errs);
    fd_close(&e->stack);
}

/* Ours is the reading end, and nonblocking. The worker's end stays blocking: a full pipe slows it
 * down. */
static int make_pipe(int *ours, int *theirs, struct err *err)
{
    int fd[2];

    if (fd_pipe(fd) < 0)
        return err_set(err, "pipe: %s", strerror(errno));
    *ours = fd[0];
    *theirs = fd[1];
    if (fd_nonblock(fd[0], true) < 0)
        return err_set(err, "pipe: %s", strerror(errno));
    /* Numbers above 2, so that none of them is in the way when the child places its own 0, 1, 2. */
    if ((*theirs = fd_raise(fd[1], 3)) < 0) {
        close(fd[1]);
        return err_set(err, "pipe: %s", strerror(errno));
    }
    return 0;
}

static int make_ends(struct worker *w, struct worker_ends *e, struct err *err)
{
    int pair[2];

    if (packet_pair(pair, err) < 0)
        return -1;
    w->link_fd = pair[0];
    if ((e->link = fd_raise(pair[1], 3)) < 0) {
        close(pair[1]);
        return err_set(err, "socketpair: %s", strerror(errno));
    }
    if (fd_nonblock(w->link_fd, true) < 0)
        return err_set(err, "socketpair: %s", strerror(errno));
    if (make_pipe(&w->stream[0].fd, &e->out, err) < 0 ||
        make_pipe(&w->stream[1].fd, &e->errs, err) < 0)
        return -1;
    return make_pipe(&w->stack_fd, &e->stack, err);
}

static int start_watches(struct worker *w, struct err *err)
{
    struct loop *loop = w->agent->loop;
    const loop_fd_f link = w->role == WORKER_ZYGOTE ? zygote_event : relay_event;

    if (!(w->link = loop_fd(loop, w->link_fd, LOOP_READ, link, w, err)))
        return -1;
    for (int i = 0; i < 2; i++)
        if (!(w->stream[i].watch = loop_fd(loop, w->stream[i].fd, LOOP_READ, pipes_event,
                                           &w->stream[i], err)))
            return -1;
    if (!(w->stack = loop_fd(loop, w->stack_fd, LOOP_READ, stacks_event, w, err)))
        return -1;
    return 0;
}

static void init(struct worker *w, struct agent *a, enum worker_role role, uint32_t id)
{
    w->agent = a;
    w->role = role;
    w->id = id;
    w->link_fd = w->stack_fd = -1;
    outbox_init(&w->outbox);
    w->credit = (struct worker_credit){ (int64_t)a->window, (int64_t)a->window };
    w->lines_due_ns = UINT64_MAX;
    w->order_end = &w->order;
    for (unsigned i = 0; i < 2; i++)
        w->stream[i] = (struct stream){ w, i + 1, -1, NULL, LINES_INIT(pipes_put, &w->stream[i]) };
}

struct worker *worker_create(struct agent *a, enum worker_role role, uint32_t id,
                             const char *python, struct worker_ends *ends, struct err *err)
{
    struct worker *w = calloc(1, sizeof *w);

    *ends = (struct worker_ends)WORKER_ENDS_INIT;
    if (!w)
        return err_null(err, "out of memory");
    init(w, a, role, id);
    if (!(w->python = strdup(python))) {
        (void)err_set(err, "out of memory");
        goto fail;
    }
    if (make_ends(w, ends, err) < 0 || start_watches(w, err) < 0)
        goto fail;
    w->next = a->worker;
    a->worker = w;
    return w;
fail:
    worker_ends_close(ends);
    worker_destroy(w);
    return NULL;
}

int worker_python(struct worker *w, const char *python)
{
    char *copy = strdup(python);

    if (!copy)
        return -1;
    free(w->python);
    w->python = copy;
    return 0;
}

static void close_all(struct worker *w)
{
    struct watch **watch[] = { &w->link,       &w->stream[0].watch, &w->stream[1].watch,
                               &w->stack,      &w->lines_timer,     &w->stack_timer,
                               &w->kill_timer, &w->end_timer };

    for (size_t i = 0; i < sizeof watch / sizeof *watch; i++) {
        watch_stop(*watch[i]);
        *watch[i] = NULL;
    }
    fd_close(&w->link_fd);
    fd_close(&w->stream[0].fd);
    fd_close(&w->stream[1].fd);
    fd_close(&w->stack_fd);
    zygote_drop_orders(w);
    outbox_release(&w->outbox);
}

/* A rank's files go with it. */
static void remove_folder(const struct worker *w)
{
    const char *folder = w->agent->args.folder;
    struct buf path = BUF_INIT;
    struct err err = { "" };

    if (w->role != WORKER_RANK || w->pid <= 0 || !folder)
        return;
    if (buf_addf(&path, "%s/rank-%ld", folder, (long)w->pid) < 0 ||
        runtime_dir_remove(path.p, &err) < 0)
        log_info("agent", "%s", err.text[0] ? err.text : "out of memory");
    buf_release(&path);
}

void worker_destroy(struct worker *w)
{
    if (!w)
        return;
    remove_folder(w);
    close_all(w);
    lines_release(&w->stream[0].lines);
    lines_release(&w->stream[1].lines);
    tail_release(&w->errors);
    buf_release(&w->stack_text);
    nccl_status_end(w->nccl);
    free(w->python);
    free(w);
}

static void destroy_later(struct loop *loop, void *arg)
{
    (void)loop;
    worker_destroy(arg);
}

void worker_retire(struct worker *w)
{
    struct worker **at = &w->agent->worker;

    if (w->gone)
        return;
    w->gone = true;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    close_all(w);
    gpu_give(w->agent->gpus, w->id);
    if (loop_later(w->agent->loop, destroy_later, w) < 0)
        log_error("agent", "out of memory: %zu bytes of a dead worker stay", sizeof *w);
}

void worker_watch(struct worker *w)
{
    const bool reading = w->ending || !worker_credit_is_out(&w->credit);
    const bool writing = outbox_first(&w->outbox) || w->order;

    if (w->link)
        loop_fd_events(w->link, (reading ? LOOP_READ : 0) | (writing ? LOOP_WRITE : 0));
    for (int i = 0; i < 2; i++)
        if (w->stream[i].watch)
            loop_fd_events(w->stream[i].watch, reading ? LOOP_READ : 0);
}

/* ---- signals ---- */

void worker_set_pid(struct worker *w, pid_t pid)
{
    w->pid = pid;
    w->zygote = NULL;
    gpu_bind(w->agent->gpus, w->id, pid);
    if (w->signal_later)
        worker_signal(w, w->signal_later);
    reap_known(w);
}

void worker_signal(struct worker *w, int signo)
{
    if (w->pid <= 0) {
        if (w->signal_later != SIGKILL)
            w->signal_later = signo;
        return;
    }
    w->sent_signals |= UINT64_C(1) << (unsigned)signo;
    if (getpgid(w->pid) == w->pid)
        (void)process_kill_group(w->pid, signo);
    else
        (void)kill(w->pid, signo); /* not in its own group yet */
}

static void grace_over(struct loop *loop, void *arg)
{
    (void)loop;
    worker_signal(arg, SIGKILL);
    reap_expect(arg);
}

void worker_kill(struct worker *w, int signo, uint64_t grace_ms)
{
    struct err err = { "" };
    const uint64_t grace_ns = grace_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX / 2
                                                                : grace_ms * NS_PER_MS;

    worker_signal(w, signo);
    if (signo == SIGKILL)
        reap_expect(w);
    if (grace_ms == 0)
        return;
    watch_stop(w->kill_timer);
    if (!(w->kill_timer = loop_timer(w->agent->loop, grace_ns, 0, grace_over, w, &err)))
        grace_over(w->agent->loop, w);
}

void worker_broke(struct worker *w, const char *format, ...)
{
    char name[48];
    va_list args;

    if (w->broke[0])
        return;
    va_start(args, format);
    vsnprintf(w->broke, sizeof w->broke, format, args);
    va_end(args);
    log_warn("agent", "%s: %s", worker_name(w, name), w->broke);
    watch_stop(w->link); /* nothing that it says is taken any more */
    w->link = NULL;
    fd_close(&w->link_fd);
    worker_signal(w, SIGKILL);
    reap_expect(w);
}

const char *worker_name(const struct worker *w, char out[static 48])
{
    if (w->role == WORKER_HOME)
        snprintf(out, 48, "home");
    else if (w->role == WORKER_ZYGOTE)
        snprintf(out, 48, "zygote");
    else
        snprintf(out, 48, "worker %u (rank %u)", w->id, w->rank);
    return out;
}
