/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/engines/engines.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "kernel/engines/private.h"

#define TICK_NS (250 * NS_PER_MS)
/* An agent that was killed leaves processes, which take a moment to die. */
#define SWEEPS   20
#define SWEEP_NS (100 * NS_PER_MS)
/* until then all must have ended: ranks have 2 s for that, and clients kill the kernel after 5 s */
#define END_WAIT_NS (3400 * NS_PER_MS)
#define TERM_NS     (2500 * NS_PER_MS) /* then engines get SIGTERM */
#define NAP_NS      (5 * NS_PER_MS)

struct engines {
    struct loop *loop;
    struct engines_config config;
    struct local_agent local;
    struct engine_run **run; /* by number, from 1 at 0; NULL: it is gone */
    size_t n;
    uint64_t start_ns; /* how long nodes may take to come up */
    struct watch *child, *sweep, *timer;
    int sweeps; /* that are still to come after a lost agent */
};

struct engine_run *engines_run(const struct engines *e, unsigned number)
{
    return number > 0 && number <= e->n ? e->run[number - 1] : NULL;
}

/* ---- engines ---- */

static struct engine_run *run_create(struct engines *e, const char *name)
{
    struct engine_run **runs = realloc(e->run, (e->n + 1) * sizeof *runs),
                      *run = calloc(1, sizeof *run);

    if (runs)
        e->run = runs;
    if (!runs || !run || !(run->name = strdup(name))) {
        free(run);
        return NULL;
    }
    run->agents = e->config.agents;
    run->event = e->config.event;
    run->replaced = e->config.replaced;
    run->arg = e->config.arg;
    run->clock = loop_clock(e->loop);
    run->start_ns = e->start_ns;
    run->number = (unsigned)++e->n;
    e->run[run->number - 1] = run;
    return run;
}

static void run_forget(struct engines *e, struct engine_run *run)
{
    e->run[run->number - 1] = NULL;
    engine_run_free(run);
}

int engines_start(struct engines *e, const char *name, const char *spec, const char *image,
                  unsigned ranks, const json_t *changes, unsigned *engine, struct err *err)
{
    struct engine_process_spec start = { .name = name,
                                         .spec = spec ? spec : "",
                                         .image = image,
                                         .ranks = ranks,
                                         .changes = changes,
                                         .said = engine_nodes_said };
    struct engine_run *run = run_create(e, name);

    *engine = 0;
    if (!run)
        return err_set(err, "out of memory");
    start.endpoints = run->endpoints = agents_nodes_expect(run->agents, &run->secret, err);
    start.own = agents_nodes_own_endpoint(run->agents);
    start.secret = &run->secret;
    start.python = e->local.python;
    start.arg = run;
    run->ranks = ranks;
    if (!start.endpoints) {
        run_forget(e, run);
        return -1;
    }
    if (!(run->process = engine_process_start(e->loop, &start, err))) {
        agents_nodes_remove(run->agents, run->number, false);
        run_forget(e, run);
        return -1;
    }
    engine_run_restart_clock(run);
    loop_timer_again(e->timer, TICK_NS);
    *engine = run->number;
    return 0;
}

void engines_stop(struct engines *e, unsigned engine)
{
    struct engine_run *run = engines_run(e, engine);

    if (run)
        engine_run_stop(run);
}

void engines_nodes(const struct engines *e, unsigned engine, unsigned *first, unsigned *n)
{
    const struct engine_run *run = engines_run(e, engine);

    *first = run && !run->stopped ? run->first : 0;
    *n = run && !run->stopped ? run->n : 0;
}

unsigned engines_ranks(const struct engines *e, unsigned engine)
{
    const struct engine_run *run = engines_run(e, engine);

    return run && !run->stopped && run->by_ranks ? run->ranks : 0;
}

void engines_node_changed(struct engines *e, unsigned number)
{
    const struct node *node = agents_node(e->config.agents, number);
    struct engine_run *run = node ? engines_run(e, node->engine) : NULL;

    if (run && !run->stopped)
        engine_run_node_changed(run, node);
}

static void tick(void *arg)
{
    struct engines *e = arg;
    bool any = false;

    for (size_t k = 0; k < e->n; k++) {
        if (!e->run[k])
            continue;
        if (e->run[k]->stopped && e->run[k]->ended)
            run_forget(e, e->run[k]);
        else
            engine_run_tick(e->run[k], clock_now(loop_clock(e->loop)));
        any = any || e->run[k];
    }
    if (any)
        loop_timer_again(e->timer, TICK_NS);
}

/* Closes the stdin of each engine, or sends it the signal. Returns how many still run. */
static size_t end_all(struct engines *e, int signo)
{
    size_t n = 0;

    for (size_t k = 0; k < e->n; k++) {
        struct engine_run *run = e->run[k];

        if (!run || engine_process_pid(run->process) <= 0)
            continue;
        n++;
        run->stopped = true;
        if (signo && engine_process_takes_long(run->process))
            continue; /* it ends by itself, later than the kernel */
        if (signo)
            engine_process_signal(run->process, signo);
        else
            engine_process_end(run->process);
    }
    return n;
}

/* ---- this machine's agent ---- */

int engines_restart_here(struct engines *e, struct err *err)
{
    if (local_agent_start(&e->local, err) < 0)
        return -1;
    agents_nodes_here_started(e->config.agents, e->local.pid, e->local.in);
    return 0;
}

/* Kills every child of the kernel but a new agent and engines; long_ones: spares only engines that
 * take long for their end. */
static void kill_orphans(const struct engines *e, bool long_ones)
{
    pid_t *spare = calloc(e->n + 1, sizeof *spare);
    size_t n = 0;

    if (!spare)
        return;
    if (e->local.pid > 0)
        spare[n++] = e->local.pid;
    for (size_t k = 0; k < e->n; k++)
        if (e->run[k] && engine_process_pid(e->run[k]->process) > 0 &&
            (!long_ones || engine_process_takes_long(e->run[k]->process)))
            spare[n++] = engine_process_pid(e->run[k]->process);
    orphans_kill_but(spare, n);
    free(spare);
}

static void local_ended(struct engines *e, int status)
{
    char why[320];

    agents_nodes_here_ended(e->config.agents);
    local_agent_ended(&e->local, status, why, sizeof why);
    kill_orphans(e, false);
    e->sweeps = SWEEPS;
    loop_timer_again(e->sweep, SWEEP_NS);
    agents_nodes_here_lost(e->config.agents, why);
}

static void sweep(void *arg)
{
    struct engines *e = arg;

    kill_orphans(e, false);
    if (--e->sweeps > 0)
        loop_timer_again(e->sweep, SWEEP_NS);
}

/* ---- children that ended ---- */

static bool run_ended(struct engines *e, pid_t pid, int status)
{
    for (size_t k = e->n; k > 0; k--)
        if (e->run[k - 1] && engine_process_pid(e->run[k - 1]->process) == pid) {
            engine_run_ended(e->run[k - 1], status);
            return true;
        }
    return false;
}

static void child_ended(void *arg)
{
    struct engines *e = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        log_info("child", "process %ld has ended: wait status %d", (long)pid, status);
        if (pid == e->local.pid)
            local_ended(e, status);
        else
            (void)run_ended(e, pid, status);
    }
}

/* ---- made and destroyed ---- */

static int watch(struct engines *e, struct err *err)
{
    return (e->sweep = loop_timer(e->loop, LOOP_OFF, 0, sweep, e, err)) &&
                   (e->timer = loop_timer(e->loop, LOOP_OFF, 0, tick, e, err)) &&
                   (e->child = loop_signal(e->loop, SIGCHLD, child_ended, e, err))
               ? 0
               : -1;
}

struct engines *engines_create(struct loop *loop, const struct engines_config *config,
                               struct err *err)
{
    struct engines *e = calloc(1, sizeof *e);

    if (!e)
        return err_null(err, "out of memory");
    e->loop = loop;
    e->config = *config;
    e->local = (struct local_agent)LOCAL_AGENT_INIT;
    e->local.endpoint = agents_nodes_here_endpoint(config->agents);
    e->local.node = agents_node(config->agents, NODE_HERE)->name;
    e->start_ns = setting_value(SETTING_START_TIMEOUT);
    if ((e->local.python = strdup(config->python)) && watch(e, err) == 0 &&
        engines_restart_here(e, err) == 0)
        return e;
    engines_destroy(e);
    return err_null(err, "out of memory");
}

/* Waits for children that have ended; how many of the engines that run still do. */
static size_t reap(struct engines *e, size_t running)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == e->local.pid)
            e->local.pid = 0;
        else if (run_ended(e, pid, status))
            running--;
    return running;
}

/* Engines wait for the ends of their agents, and this machine's agent for its workers. Each end
 * that is told of ends the nap, so naps are no measure of time. */
static void wait_for_ends(struct engines *e)
{
    const struct timespec nap = { 0, NAP_NS };
    const uint64_t begun_ns = clock_now(&clock_system);
    size_t running = end_all(e, 0);
    bool told = false;

    while ((running = reap(e, running)) > 0 || e->local.pid > 0) {
        const uint64_t passed_ns = clock_now(&clock_system) - begun_ns;

        if (passed_ns >= END_WAIT_NS)
            break;
        if (passed_ns >= TERM_NS && !told) {
            (void)end_all(e, SIGTERM);
            told = true;
        }
        (void)nanosleep(&nap, NULL);
    }
    (void)end_all(e, SIGKILL);
    local_agent_kill(&e->local);
}

void engines_destroy(struct engines *e)
{
    if (!e)
        return;
    watch_stop(e->child);
    watch_stop(e->sweep);
    watch_stop(e->timer);
    agents_quit(e->config.agents);
    fd_close(&e->local.in); /* it ends when its stdin does */
    wait_for_ends(e);
    kill_orphans(e, true);
    for (size_t k = 0; k < e->n; k++)
        engine_run_free(e->run[k]);
    free(e->run);
    free((char *)e->local.python);
    free(e);
}
