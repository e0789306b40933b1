#include "worker/agent/processes/worker.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "protocol/bytes.h"
#include "worker/agent/gpu/gpu.h"

static uint64_t now_ns(const struct workers *all)
{
    return clock_now(loop_clock(all->io.loop));
}

/* ---- one worker ---- */

static void init(struct worker *w, struct workers *all, enum worker_role role, uint32_t id,
                 uint32_t rank)
{
    static const enum pipes_how how[] = { PIPES_RAW, PIPES_LINES, PIPES_LOG };

    w->all = all;
    w->role = role;
    w->id = id;
    w->rank = rank;
    w->link_fd = w->stacks.fd = -1;
    worker_state_init(&w->state);
    outbox_init(&w->outbox);
    pipes_init(&w->pipes, &all->io, how[role], id, rank);
}

struct worker *worker_create(struct workers *all, enum worker_role role, uint32_t id, uint32_t rank,
                             const char *python, struct worker_ends *ends, struct err *err)
{
    struct worker *w = calloc(1, sizeof *w);
    struct worker_ends ours;

    *ends = (struct worker_ends)WORKER_ENDS_INIT;
    if (!w)
        return err_null(err, "out of memory");
    init(w, all, role, id, rank);
    if (!(w->python = strdup(python)))
        (void)err_set(err, "out of memory");
    else if (worker_ends_open(&ours, ends, err) == 0) {
        w->link_fd = ours.link;
        w->pipes.stream[0].fd = ours.out;
        w->pipes.stream[1].fd = ours.errs;
        w->stacks.fd = ours.stack;
        w->next = all->first;
        all->first = w;
        return w;
    }
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

static void close_link(struct worker *w)
{
    watch_clear(&w->link);
    fd_close(&w->link_fd);
}

static void close_all(struct worker *w)
{
    close_link(w);
    watch_clear(&w->kill_timer);
    pipes_close(&w->pipes);
    stacks_close(&w->stacks);
    orders_drop(&w->orders);
    outbox_release(&w->outbox);
}

/* Removes a rank's files. */
static void remove_folder(const struct worker *w)
{
    const char *folder = w->all->folder;
    struct buf path = BUF_INIT;
    struct err err = { "" };

    if (w->role != WORKER_RANK || w->state.pid <= 0 || !folder)
        return;
    if (buf_addf(&path, "%s/rank-%ld", folder, (long)w->state.pid) < 0 ||
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
    pipes_release(&w->pipes);
    stacks_release(&w->stacks);
    free(w->python);
    free(w);
}

static void destroy_later(void *arg)
{
    worker_destroy(arg);
}

void worker_retire(struct worker *w)
{
    struct worker **at = &w->all->first;

    if (w->state.gone)
        return;
    w->state.gone = true;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    close_all(w);
    gpu_give(w->all->gpus, w->id);
    if (loop_later(w->all->io.loop, destroy_later, w) < 0)
        log_error("agent", "out of memory: %zu bytes of a dead worker stay", sizeof *w);
}

void worker_watch(struct worker *w)
{
    const bool writing = outbox_first(&w->outbox) || !orders_are_none(&w->orders);

    if (w->link)
        loop_fd_events(w->link,
                       (pipes_may_send(&w->pipes) ? LOOP_READ : 0) | (writing ? LOOP_WRITE : 0));
    pipes_watch(&w->pipes);
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

/* ---- all of them ---- */

struct worker *worker_find(const struct workers *all, uint32_t id)
{
    struct worker *w = id ? all->first : NULL;

    while (w && w->id != id)
        w = w->next;
    return w;
}

struct worker *worker_find_pid(const struct workers *all, pid_t pid)
{
    struct worker *w = all->first;

    while (w && w->state.pid != pid)
        w = w->next;
    return w;
}

bool worker_may_be(const struct workers *all, pid_t pid)
{
    pid_t up = pid;

    if (pid <= 1 || pid == getpid() || worker_find_pid(all, pid))
        return false;
    if (strays_find(&all->strays, pid))
        return true;
    for (int i = 0; i < 3 && up > 1;
         i++) /* the process between zygote and rank may not have ended yet */
        if ((up = orphans_parent(up)) == getpid())
            return true;
    return up < 0 && kill(pid, 0) == 0; /* on a system that does not tell parents */
}

struct worker *worker_next(const struct workers *all, struct slice list, size_t *at)
{
    while (*at < list.n / 4) {
        struct worker *w = worker_find(all, reader_u32_at(list, (*at)++));

        if (w)
            return w;
    }
    return NULL;
}

/* ---- signals, and the end ---- */

void worker_set_end_timer(struct workers *all, uint64_t due_ns)
{
    const uint64_t now = now_ns(all);

    if (due_ns >= all->end_due_ns || !all->end_timer) /* the timer fires soon enough */
        return;
    all->end_due_ns = due_ns;
    loop_timer_again(all->end_timer, due_ns > now ? due_ns - now : 0);
}

void worker_expect_end(struct worker *w)
{
    if (worker_state_expect_end(&w->state, now_ns(w->all)))
        worker_set_end_timer(w->all, w->state.end_due_ns);
}

void worker_unlink(struct worker *w)
{
    close_link(w);
    worker_expect_end(w);
}

/* If the process has ended already, EXITED is sent later, not within this call: the caller may be
 * handling the worker's last message. */
void worker_set_pid(struct worker *w, pid_t pid)
{
    const int signo = worker_state_set_pid(&w->state, pid, strays_find(&w->all->strays, pid),
                                           now_ns(w->all));

    w->zygote = NULL;
    gpu_bind(w->all->gpus, w->id, pid);
    if (signo)
        worker_signal(w, signo);
    if (w->state.end_due_ns != UINT64_MAX)
        worker_set_end_timer(w->all, w->state.end_due_ns);
}

void worker_signal(struct worker *w, int signo)
{
    const pid_t pid = w->state.pid;

    if (!worker_state_signal(&w->state, signo))
        return;
    if (getpgid(pid) == pid)
        (void)process_kill_group(pid, signo);
    else
        (void)kill(pid, signo); /* the process is not in its own group yet */
}

static void grace_over(void *arg)
{
    worker_signal(arg, SIGKILL);
    worker_expect_end(arg);
}

void worker_kill(struct worker *w, int signo, uint64_t grace_ms)
{
    struct err err = { "" };
    const uint64_t grace_ns = grace_ms > UINT64_MAX / NS_PER_MS ? UINT64_MAX / 2
                                                                : grace_ms * NS_PER_MS;

    worker_signal(w, signo);
    if (signo == SIGKILL)
        worker_expect_end(w);
    if (grace_ms == 0)
        return;
    watch_stop(w->kill_timer);
    if (!(w->kill_timer = loop_timer(w->all->io.loop, grace_ns, 0, grace_over, w, &err)))
        grace_over(w);
}

void worker_broke(struct worker *w, const char *format, ...)
{
    char name[48];
    va_list args;

    if (w->state.broke[0])
        return;
    va_start(args, format);
    vsnprintf(w->state.broke, sizeof w->state.broke, format, args);
    va_end(args);
    log_warn("agent", "%s: %s", worker_name(w, name), w->state.broke);
    close_link(w); /* nothing is received from it any more */
    worker_signal(w, SIGKILL);
    worker_expect_end(w);
}
