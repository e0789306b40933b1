/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_io.c - a worker's descriptors, signals and timers (declared in worker.h). What is done
 * about what they tell is decided in worker.c. */
#include "worker/agent/processes/worker.h"

#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"

void worker_close_link(struct worker *w)
{
    watch_clear(&w->link);
    fd_close(&w->link_fd);
}

/* Removes the files of home or of a rank: own_folder() of environment.py has made them. */
static void remove_folder(const struct worker *w)
{
    const char *folder = w->all->folder, *role = w->role == WORKER_HOME ? "home" : "rank";
    struct buf path = BUF_INIT;
    struct err err = { "" };

    if (w->role == WORKER_ZYGOTE || w->state.pid <= 0 || !folder)
        return;
    if (buf_addf(&path, "%s/%s-%ld", folder, role, (long)w->state.pid) < 0 ||
        runtime_dir_remove(path.p, &err) < 0)
        log_info("agent", "%s", err.text[0] ? err.text : "out of memory");
    buf_release(&path);
}

void worker_close(struct worker *w)
{
    worker_close_link(w);
    pipes_close(&w->pipes);
    stacks_close(&w->stacks);
    remove_folder(w);
}

static void destroy(void *arg)
{
    worker_destroy(arg);
}

void worker_destroy_later(struct worker *w)
{
    if (loop_later(w->all->io.loop, destroy, w) < 0)
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

void worker_signal_process(pid_t pid, int signo)
{
    if (getpgid(pid) == pid)
        (void)process_kill_group(pid, signo);
    else
        (void)kill(pid, signo); /* the process is not in its own group yet */
}

void worker_set_timer(struct workers *all, uint64_t due_ns)
{
    const uint64_t now = clock_now(all->io.clock);

    if (due_ns >= all->timer_due_ns || !all->timer) /* the timer fires soon enough */
        return;
    all->timer_due_ns = due_ns;
    loop_timer_again(all->timer, due_ns > now ? due_ns - now : 0);
}
