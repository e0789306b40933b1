/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates the parts of the kernel and connects them, takes its signals (watch_signals()), holds
 * workers back while clients read slowly (balance()), and ends the kernel when the program that has
 * started it is gone (watch_parent()). */
#include "kernel/kernel.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/random.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "kernel/engines/engines.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/dispatch/dispatch.h"
#include "kernel/jupyter/channels.h"

/* bytes of output that may wait in the kernel; if more wait, workers get no credit */
#define WAITING_MAX (8u << 20)
/* bytes of output after which an idle kernel returns free memory to the system */
#define BURST           (1u << 20)
#define PARENT_CHECK_NS NS_PER_S

struct kernel {
    struct loop *loop;
    char *folder;
    int lock; /* descriptor of the lock on `folder` */
    struct channels *channels;
    struct agents *agents;
    struct engines *engines;
    struct notebook *notebook;
    size_t passed; /* bytes of output since free memory was returned to the system */
    struct watch *tick, *interrupt, *terminate, *hang_up, *parent;
    int parent_fd;
    pid_t parent_pid;
};

static void log_failure(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("kernel", "%s", err->text);
}

/* If clients don't read the output, the workers that print must wait. */
static void balance(void *arg)
{
    struct kernel *k = arg;

    agents_hold(k->agents,
                channels_waiting(k->channels) + dispatch_waiting(k->notebook) > WAITING_MAX);
}

/* ---- cell_ops ---- */

static void op_publish(void *arg, const struct request *parent, const char *type,
                       const struct content *p)
{
    const struct kernel *k = arg;
    struct err err = { "" };

    if (k->notebook) /* it may still be in the making */
        parent = dispatch_late_parent(k->notebook, parent, type);
    log_failure(channels_publish(k->channels, parent, type, p, &err), &err);
}

static void op_reply(void *arg, struct request *r, const char *type, const struct content *p)
{
    struct err err = { "" };

    log_failure(channels_reply(((struct kernel *)arg)->channels, r, type, p, &err), &err);
}

static void op_status(void *arg, struct request *r, const char *state)
{
    struct err err = { "" };

    if (strcmp(state, "idle") == 0)
        request_end(r);
    log_failure(channels_status(((struct kernel *)arg)->channels, r, state, &err), &err);
}

static void op_ask(void *arg, const struct request *r, struct slice prompt, bool password)
{
    struct channels *channels = ((struct kernel *)arg)->channels;
    struct err err = { "" };

    if (r)
        log_failure(channels_ask(channels, r, prompt, password, &err), &err);
    else
        channels_ask_over(channels);
}

static void op_drain_shell(void *arg)
{
    channels_drain_shell(((struct kernel *)arg)->channels);
}

static void end(void *arg)
{
    loop_stop(((struct kernel *)arg)->loop);
}

static int op_send(void *arg, const uint32_t *workers, size_t n, const struct span *m,
                   struct err *err)
{
    const int rc = agents_send(((struct kernel *)arg)->agents, workers, n, m, err);

    if (rc < 0) /* a caller that needs the answer tells the user */
        log_warn("kernel", "%s", err->text);
    return rc;
}

static void op_owe(void *arg, uint32_t worker, size_t bytes)
{
    struct kernel *k = arg;

    balance(k);
    k->passed += bytes;
    agents_owe(k->agents, worker, bytes);
}

static void op_forget(void *arg, uint32_t worker)
{
    agents_forget(((struct kernel *)arg)->agents, worker);
}

static int op_revive(void *arg, struct err *err)
{
    return engines_restart_here(((struct kernel *)arg)->engines, err);
}

static void op_wake(void *arg, uint64_t due_ns)
{
    struct kernel *k = arg;
    const uint64_t now = clock_now(loop_clock(k->loop));

    if (due_ns != UINT64_MAX) {
        loop_timer_again(k->tick, due_ns > now ? due_ns - now : 0);
        return;
    }
    loop_timer_off(k->tick);
    if (k->passed >= BURST) {
        k->passed = 0;
        memory_return();
    }
}

static int op_send_nodes(void *arg, const unsigned *nodes, size_t n, const struct span *m,
                         struct err *err)
{
    const int rc = agents_send_nodes(((struct kernel *)arg)->agents, nodes, n, m, err);

    if (rc < 0)
        log_warn("kernel", "%s", err->text);
    return rc;
}

static int op_place(void *arg, uint32_t worker, unsigned node)
{
    return agents_place(((struct kernel *)arg)->agents, worker, node);
}

static void op_drop(void *arg, uint64_t blob)
{
    agents_drop(((struct kernel *)arg)->agents, blob);
}

static void op_cancel(void *arg, uint64_t blob)
{
    agents_cancel(((struct kernel *)arg)->agents, blob);
}

static int op_engine_start(void *arg, const char *name, const char *spec, const char *image,
                           unsigned ranks, const json_t *changes, unsigned *engine, struct err *err)
{
    return engines_start(((struct kernel *)arg)->engines, name, spec, image, ranks, changes, engine,
                         err);
}

static int op_engine_find(void *arg, const char *name, struct err *err)
{
    struct engine_program program;
    const int rc = engine_find(name, &program, err);

    (void)arg;
    engine_program_release(&program);
    return rc;
}

static void op_engine_stop(void *arg, unsigned engine)
{
    engines_stop(((struct kernel *)arg)->engines, engine);
}

static void op_engine_nodes(void *arg, unsigned engine, unsigned *first, unsigned *n,
                            unsigned *ranks)
{
    const struct engines *engines = ((struct kernel *)arg)->engines;

    engines_nodes(engines, engine, first, n);
    *ranks = engines_ranks(engines, engine);
}

static const struct node *op_node(void *arg, unsigned node)
{
    return agents_node(((struct kernel *)arg)->agents, node);
}

static uint64_t op_expected(void *arg, unsigned node, uint64_t *had, uint64_t *whole)
{
    return agents_expected(((struct kernel *)arg)->agents, node, had, whole);
}

static struct cell_ops ops_of(struct kernel *k)
{
    return (struct cell_ops){
        .arg = k,
        .clock = loop_clock(k->loop),
        .publish = op_publish,
        .reply = op_reply,
        .status = op_status,
        .ask = op_ask,
        .drain_shell = op_drain_shell,
        .shutdown = end,
        .send = op_send,
        .send_nodes = op_send_nodes,
        .place = op_place,
        .drop = op_drop,
        .cancel = op_cancel,
        .owe = op_owe,
        .forget = op_forget,
        .revive = op_revive,
        .engine_start = op_engine_start,
        .engine_find = op_engine_find,
        .engine_stop = op_engine_stop,
        .engine_nodes = op_engine_nodes,
        .node = op_node,
        .expected = op_expected,
        .wake = op_wake,
    };
}

/* ---- requests, messages and events ---- */

static void on_request(void *arg, struct request *r)
{
    struct kernel *k = arg;

    if (k->notebook)
        dispatch_request(k->notebook, r);
}

static void on_message(void *arg, unsigned node, uint32_t worker, const struct span *m)
{
    struct kernel *k = arg;

    dispatch_message(k->notebook, node, worker, m);
    balance(k);
}

static void on_up(void *arg, unsigned node)
{
    struct kernel *k = arg;

    engines_node_changed(k->engines, node);
    dispatch_up(k->notebook, node);
}

static void on_lost(void *arg, unsigned node, const char *why)
{
    struct kernel *k = arg;

    engines_node_changed(k->engines, node);
    dispatch_lost(k->notebook, node, why);
}

static void on_away_changed(void *arg, unsigned node)
{
    struct kernel *k = arg;

    rank_events_away_changed(k->notebook, node);
    dispatch_up(k->notebook, node);
}

static void on_engine(void *arg, unsigned engine, enum engine_event event, const char *text)
{
    dispatch_engine(((struct kernel *)arg)->notebook, engine, event, text);
}

static void on_replaced(void *arg, unsigned node, unsigned by)
{
    dispatch_replaced(((struct kernel *)arg)->notebook, node, by);
}

static void on_tick(void *arg)
{
    dispatch_tick(((struct kernel *)arg)->notebook);
    balance(arg);
}

static enum occupied is_occupied(void *arg)
{
    return dispatch_is_occupied(((struct kernel *)arg)->notebook);
}

static void on_interrupt(void *arg)
{
    dispatch_interrupt(((struct kernel *)arg)->notebook);
}

/* ---- the kernel ends when the process that started it ends ---- */

static void parent_ended(void *arg, int fd, unsigned events)
{
    (void)fd, (void)events;
    end(arg);
}

static void check_parent(void *arg)
{
    struct kernel *k = arg;

    if (kill(k->parent_pid, 0) < 0 && errno == ESRCH)
        loop_stop(k->loop);
}

/* The process id of the program that has started this kernel, which jupyter_client sets; 0: it is
 * not known. */
static long starter(void)
{
    const char *text = getenv("JPY_PARENT_PID");

    return text ? strtol(text, NULL, 10) : 0;
}

static int watch_parent(struct kernel *k, struct err *err)
{
    long pid = starter();

    k->parent_fd = -1;
    if (pid > 1 && kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
        log_warn("kernel",
                 "JPY_PARENT_PID=%ld is no process here, as on another machine or in a container: "
                 "the kernel ends with the program that has started it",
                 pid);
        pid = (long)getppid();
    }
    if (pid <= 1)
        return 0;
    k->parent_pid = (pid_t)pid;
    channels_client(k->channels, pid);
    if ((k->parent_fd = process_pidfd(k->parent_pid)) >= 0)
        k->parent = loop_fd(k->loop, k->parent_fd, LOOP_READ, parent_ended, k, err);
    else
        k->parent = loop_timer(k->loop, PARENT_CHECK_NS, PARENT_CHECK_NS, check_parent, k, err);
    return k->parent ? 0 : -1;
}

/* ---- create and destroy ---- */

/* Jupyter interrupts with SIGINT, also where a shell has had it ignored for a background job. */
static int watch_signals(struct kernel *k, struct err *err)
{
    const bool hangs_up = !process_ignores(SIGHUP);

    k->interrupt = loop_signal(k->loop, SIGINT, on_interrupt, k, err);
    k->terminate = loop_signal(k->loop, SIGTERM, end, k, err);
    k->hang_up = hangs_up ? loop_signal(k->loop, SIGHUP, end, k, err) : NULL;
    k->tick = loop_timer(k->loop, NS_PER_S, 0, on_tick, k, err);
    return k->interrupt && k->terminate && (k->hang_up || !hangs_up) && k->tick
               ? watch_parent(k, err)
               : -1;
}

/* Did Jupyter's server start this kernel? It sets JPY_SESSION_NAME. But a program in one of our
 * cells, such as papermill, inherits that variable and may start a kernel too. So we copy the name
 * to a second variable: a kernel that finds both equal was not started by the server. */
static bool has_page(void)
{
    static const char noted[] = "CELLSPAN_SESSION_NAME";
    const char *name = getenv("JPY_SESSION_NAME"), *above = getenv(noted);
    const bool own = name && *name && !(above && strcmp(above, name) == 0);

    if (own)
        setenv(noted, name, 1);
    return own;
}

/* The process id of Jupyter's server; 0: there is none. It need not be our parent: a kernelspec may
 * name a program that runs between them, such as `conda run`. */
static long server_of_page(void)
{
    const long pid = starter();

    return !has_page() ? 0 : pid > 0 ? pid : getppid();
}

/* A setting of NCCL's, since 2.30. */
static bool lets_nccl_share(void)
{
    const char *value = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

    return value && strcmp(value, "1") == 0;
}

/* 0 is no time, as --grace 0 says. */
static struct plan_defaults defaults_of_cells(void)
{
    const uint64_t grace_ns = setting_value(SETTING_GRACE);
    struct plan_defaults cells = { .merge = (enum plan_merge)setting_value(SETTING_MERGE),
                                   .on = (char *)(uintptr_t)setting_text(SETTING_ON),
                                   .image = (char *)(uintptr_t)setting_text(SETTING_IN),
                                   .n = (unsigned)setting_value(SETTING_N),
                                   .n_most = (unsigned)setting_most(SETTING_N),
                                   .timeout_ns = setting_value(SETTING_TIMEOUT),
                                   .timeout_most_ns = setting_most(SETTING_TIMEOUT),
                                   .grace_ns = grace_ns ? grace_ns : 1,
                                   .grace_most_ns = setting_most(SETTING_GRACE) };

    return cells;
}

static int open_notebook(struct kernel *k, const struct arguments *o, struct err *err)
{
    const struct cell_ops ops = ops_of(k);
    const enum gpu_idle idle = setting_gpu_idle();
    char run_id[UUID_TEXT_SIZE];
    struct dispatch_config config = { .python = o->python,
                                      .python_version = o->python_version,
                                      .run_id = run_id,
                                      .server = server_of_page(),
                                      .subshell_comms = setting_value(SETTING_COMMS),
                                      .nccl_shares = lets_nccl_share(),
                                      .status = setting_value(SETTING_STATUS),
                                      .code = setting_value(SETTING_CODE),
                                      .cells = defaults_of_cells(),
                                      .hang_notice_ns = setting_value(SETTING_HANG_NOTICE),
                                      .gpu_idle_ns = setting_value(SETTING_GPU_IDLE_RELEASE),
                                      .gpu_park = idle == GPU_IDLE_PARK ||
                                                  idle == GPU_IDLE_PARK_OR_KEEP,
                                      .gpu_keep = idle == GPU_IDLE_PARK_OR_KEEP,
                                      .gpu_quota = (unsigned)setting_value(SETTING_GPU_QUOTA),
                                      .gpu_quota_place = setting_place(SETTING_GPU_QUOTA),
                                      .notice = o->notice ? o->notice : "" };

    if (idle == GPU_IDLE_KEEP)
        config.gpu_idle_ns = 0;
    if (config.gpu_idle_ns)
        log_info("kernel", "ranks give up their GPUs after %.4g s without a cell",
                 (double)config.gpu_idle_ns / (double)NS_PER_S);
    random_bytes(config.key, sizeof config.key);
    random_uuid(run_id);
    run_id[8] = '\0'; /* its first eight digits are enough to tell two notebooks apart */
    k->notebook = dispatch_create(&ops, &config, err);
    return k->notebook ? 0 : -1;
}

static int start_agents(struct kernel *k, const struct arguments *o, struct err *err)
{
    const struct agents_handler handler = { .message = on_message,
                                            .up = on_up,
                                            .lost = on_lost,
                                            .away_changed = on_away_changed,
                                            .arg = k };
    struct engines_config engines = {
        .python = o->python, .event = on_engine, .replaced = on_replaced, .arg = k
    };

    if (!(k->agents = agents_create(k->loop, k->folder, &handler, err)))
        return -1;
    engines.agents = k->agents;
    k->engines = engines_create(k->loop, &engines, err);
    return k->engines ? 0 : -1;
}

struct kernel *kernel_create(struct loop *loop, const struct arguments *arguments, struct err *err)
{
    struct kernel *k = calloc(1, sizeof *k);

    if (!k)
        return err_null(err, "out of memory");
    k->loop = loop;
    k->parent_fd = k->lock = -1;
    runtime_sweep();
    if (!(k->channels = channels_create(loop, arguments->connection_file, on_request, k, err)) ||
        !(k->folder = runtime_dir_create(&k->lock, err)) || watch_signals(k, err) < 0 ||
        open_notebook(k, arguments, err) < 0 || start_agents(k, arguments, err) < 0) {
        kernel_destroy(k);
        return NULL;
    }
    channels_on_drained(k->channels, balance, k);
    channels_on_idle(k->channels, is_occupied, k);
    log_failure(channels_status(k->channels, NULL, "starting", err), err);
    return k;
}

void kernel_destroy(struct kernel *k)
{
    struct err err = { "" };

    if (!k)
        return;
    watch_stop(k->parent);
    watch_stop(k->tick);
    engines_destroy(k->engines);
    dispatch_destroy(k->notebook); /* drops blobs that agents have */
    agents_destroy(k->agents);
    channels_destroy(k->channels);
    fd_close(&k->parent_fd);
    if (k->folder)
        log_failure(runtime_dir_remove(k->folder, &err), &err);
    free(k->folder);
    fd_close(&k->lock);
    watch_stop(k->interrupt); /* last: until here a signal must not end the process */
    watch_stop(k->terminate);
    watch_stop(k->hang_up);
    free(k);
}
