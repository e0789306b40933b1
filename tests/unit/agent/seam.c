/* SPDX-License-Identifier: BSD-3-Clause */
/* seam.c - what a simulator has to provide to the agent's pure code, and all of it: if one were
 * missing, pure.t could not be linked. The order is that of the agent's folders. Nothing is decided
 * here: who has a message or a signal notes it, and sim.c brings it where it goes. */
#include "tests/unit/agent/sim.h"

#include <signal.h>
#include <stdlib.h>

#include "worker/agent/blobs/transfer_io.h"
#include "worker/agent/cut_ranks.h"
#include "worker/agent/net/address.h"
#include "worker/agent/net/port.h"
#include "worker/agent/net/join.h"
#include "worker/link/packet.h"

/* ---- worker/agent/: relay_io.c, spawn_process.c, cut_ranks.c ---- */

void relay_read_rest(struct worker *w)
{
    sim_read_socket(w);
}

int spawn_watch(struct worker *w, struct err *err)
{
    (void)w, (void)err;
    return 0;
}

pid_t spawn_process(const struct worker *w, const char *cwd, const struct worker_pipes *ends,
                    struct slice env, struct err *err)
{
    (void)cwd, (void)ends, (void)env, (void)err;
    return sim_child_of(w)->pid = ++sim->pids;
}

void cut_ranks_on_message(struct agent *a, const struct span *m, struct slice workers)
{
    (void)a, (void)m, (void)workers;
    sim_note("cut ranks");
}

/* ---- processes/: worker_io.c, worker_pipes.c, zygote_io.c, stacks.c, path_probe.c, oom.c ---- */

void worker_watch(struct worker *w)
{
    sim_child_of(w)->watched = true;
}

void worker_close_link(struct worker *w)
{
    w->link_fd = -1;
}

void worker_close(struct worker *w)
{
    struct worker_pipes ours = { w->stacks.fd, w->pipes.stream[0].fd, w->pipes.stream[1].fd, -1 };

    worker_pipes_close(&ours);
    w->link_fd = w->stacks.fd = w->pipes.stream[0].fd = w->pipes.stream[1].fd = -1;
}

void worker_destroy_later(struct worker *w)
{
    w->next = sim->retired;
    sim->retired = w;
}

bool worker_may_be(const struct workers *all, pid_t pid)
{
    (void)all;
    for (unsigned i = 0; i < sim->children; i++)
        if (sim->child[i].pid == pid)
            return true;
    return false;
}

void worker_signal_process(pid_t pid, int signo)
{
    for (unsigned i = 0; i < sim->children; i++)
        if (sim->child[i].pid == pid && pid > 0) {
            sim_note("signal %d to %u", signo, worker_find_pid(&sim->agent.workers, pid)->id);
            if (signo == SIGKILL && !sim->stubborn)
                sim->child[i].signo = SIGKILL;
        }
}

void worker_set_timer(struct workers *all, uint64_t due_ns)
{
    all->timer_due_ns = clock_earlier(all->timer_due_ns, due_ns);
}

int worker_pipes_open(struct worker_pipes *ours, struct worker_pipes *theirs, struct err *err)
{
    const int fd = SIM_LINK + (int)sim->children;

    if (sim->children == SIM_CHILDREN)
        return err_set(err, "socketpair: Too many open files");
    sim->child[sim->children++].ends = 2;
    *ours = *theirs = (struct worker_pipes){ fd, fd, fd, fd };
    return 0;
}

void worker_pipes_close(struct worker_pipes *e)
{
    if (e->link >= 0)
        sim->child[e->link - SIM_LINK].ends--;
    *e = (struct worker_pipes)WORKER_ENDS_INIT;
}

void zygote_make_room(const struct workers *all)
{
    (void)all;
}

void zygote_read(struct worker *z)
{
    sim_read_socket(z);
}

uint64_t stacks_ask(struct worker *w, uint64_t cell)
{
    (void)w, (void)cell;
    sim_note("stacks");
    return 1;
}

void stacks_rest(struct worker *w)
{
    (void)w;
}

void stacks_release(struct stacks *s)
{
    buf_release(&s->text);
}

const char *nccl_status_address(struct nccl_port *port)
{
    return port->address;
}

int path_probe_start(struct path_probes *probes, const struct path_probe_for *what, path_probe_f f,
                     void *arg, struct err *err)
{
    (void)probes, (void)what, (void)err;
    sim->probed = f;
    sim->probe = arg;
    return 0;
}

enum oom_killer oom_check(struct oom *o)
{
    (void)o;
    return OOM_NONE;
}

/* ---- output/: pipes_io.c, spool.c ---- */

void pipes_drain(struct pipes *p)
{
    sim_read_pipes(p);
}

void spool_add(struct spool *s, uint64_t cell, uint32_t rank, unsigned stream, unsigned flags,
               struct slice text)
{
    (void)s, (void)cell, (void)rank, (void)stream, (void)flags, (void)text;
}

int spool_read(struct spool *s, uint64_t cell, const struct ranks *ranks, uint64_t *at,
               size_t limit, struct buf *out, bool *more, bool *lost)
{
    (void)s, (void)cell, (void)ranks, (void)at, (void)limit, (void)out, (void)more, (void)lost;
    return 0;
}

/* ---- net/: uplink.c, kernel_link.c, join.c, port.c ---- */

/* For the agent of a cell: those on the simulated network have uplink.c's. (ld --wrap) */
int __wrap_uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);

int __wrap_uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err)
{
    (void)u, (void)err;
    sim_to_kernel(worker, msg);
    return 0;
}

void kernel_link_send(struct kernel_link *k, const struct span *m)
{
    struct err err = { "" };

    buf_clear(&k->scratch);
    if (span_encode(m, &k->scratch, &err) < 0 ||
        uplink_send(NULL, m->worker, buf_slice(&k->scratch), &err) < 0)
        abort();
}

void kernel_link_quit(struct kernel_link *k, const char *why)
{
    k->quitting = true;
    sim_note("quit: %s", why);
}

void kernel_link_refused(struct kernel_link *k, struct slice why)
{
    k->quitting = true;
    sim_note("refused: %.*s", SLICE_ARG(why));
}

bool join_is_remote(const char *connect)
{
    (void)connect;
    return sim->node != NODE_HERE;
}

void ports_reserved_init(struct ports_reserved *r)
{
    (void)r;
}

void ports_reserved_release(struct ports_reserved *r)
{
    (void)r;
}

void ports_reserved_add(struct ports_reserved *r, int fd)
{
    (void)r, (void)fd;
}

int port_find(int *reserved, const uint16_t *taken, size_t n, struct err *err)
{
    (void)taken, (void)err;
    *reserved = -1;
    return (int)(20123 + n);
}

/* ---- blobs/: transfer_io.c ---- */

void transfer_io_message(struct transfer_io *t, const struct span *m)
{
    (void)t;
    transfers_message(sim->transfers, TRANSFERS_KERNEL, m);
}

void transfer_io_drop(struct transfer_io *t, uint64_t blob)
{
    (void)t;
    transfers_drop(sim->transfers, blob);
    blobs_drop(&sim->agent.blobs, blob);
}

void transfer_io_unwanted(struct transfer_io *t, uint64_t blob)
{
    (void)t;
    transfers_unwanted(sim->transfers, blob);
}

bool transfer_io_expects(const struct transfer_io *t, uint64_t blob)
{
    (void)t;
    return transfers_expects(sim->transfers, blob);
}

const char *transfer_io_why(const struct transfer_io *t, uint64_t blob)
{
    (void)t, (void)blob;
    return "it never came";
}

/* ---- worker/link/packet.c ---- */

int packet_send(int fd, const void *msg, size_t n, int blob_fd, struct err *err)
{
    (void)err;
    return sim_to_worker(&sim->child[fd - SIM_LINK], slice_of(msg, n), blob_fd);
}

int packet_take_blob(struct packet *p)
{
    const int fd = p->blob_fd;

    p->blob_fd = -1;
    return fd;
}

/* ---- gpu/: a node without GPUs ---- */

bool gpu_likely(const struct gpu_allocations *d)
{
    (void)d;
    return false;
}

bool gpu_has(const struct gpu_allocations *d, uint32_t worker)
{
    (void)d, (void)worker;
    return false;
}

int gpu_query(struct gpu_allocations *d, gpu_known_f f, void *arg, struct err *err)
{
    (void)d, (void)err;
    sim->looked = f;
    sim->look = arg;
    return 0;
}

int gpu_take(struct gpu_allocations *d, const uint32_t *worker, size_t n, unsigned each, bool share,
             struct err *err)
{
    (void)d, (void)worker, (void)n, (void)share;
    return each ? err_set(err, "there is no GPU") : 0;
}

int gpu_lend(struct gpu_allocations *d, uint32_t of, uint32_t worker, struct err *err)
{
    (void)d, (void)of, (void)worker, (void)err;
    return 0;
}

void gpu_release(struct gpu_allocations *d, uint32_t worker)
{
    (void)d, (void)worker;
}

void gpu_hide_others(struct gpu_allocations *d, uint32_t worker)
{
    (void)d, (void)worker;
}

int gpu_visible(const struct gpu_allocations *d, uint32_t worker, const uint32_t *mate, size_t n,
                struct buf *visible, struct buf *own)
{
    (void)d, (void)worker, (void)mate, (void)n, (void)visible, (void)own;
    return 0;
}

void gpu_bind(struct gpu_allocations *d, uint32_t worker, pid_t pid)
{
    (void)d, (void)worker, (void)pid;
}

void gpu_wait(struct gpu_allocations *d, unsigned wants)
{
    (void)d, (void)wants;
}

void gpu_quota(struct gpu_allocations *d, unsigned most, struct slice place)
{
    (void)d, (void)most, (void)place;
}

void gpu_list(struct gpu_allocations *d, gpu_json_f f, void *arg)
{
    (void)d;
    f(arg, slice_text("{}"));
}

void gpu_gauges(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, gpu_json_f f,
                void *arg)
{
    (void)d, (void)worker, (void)n;
    f(arg, slice_text("{}"));
}

void park_ranks(struct agent *a, const struct span *m, struct slice workers)
{
    (void)a, (void)m, (void)workers;
}

void gpu_death_report(struct gpu_allocations *d, uint32_t worker, struct slice said,
                      const struct gpu_worker *others, size_t n, gpu_text_f f, void *arg)
{
    (void)d, (void)worker, (void)said, (void)others, (void)n;
    f(arg, "");
}

void gpu_full(struct gpu_allocations *d, uint32_t worker, const struct gpu_worker *all, size_t n,
              gpu_text_f f, void *arg)
{
    (void)d, (void)worker, (void)all, (void)n;
    f(arg, "");
}
