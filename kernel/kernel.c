#include "kernel/kernel.h"

#include <ctype.h>
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
#include "kernel/agents/agents.h"
#include "kernel/engines/engine_find.h"
#include "kernel/engines/engines.h"
#include "kernel/dispatch/dispatch.h"
#include "kernel/jupyter/front.h"

/* bytes of output that may wait within; above, workers get no credit */
#define WAITING_MAX (8u << 20)
/* bytes of output after which memory is given back, once there is time */
#define BURST          (1u << 20)
#define PARENT_LOOK_NS NS_PER_S

struct kernel {
    struct loop *loop;
    char *folder;
    int lock; /* of the folder */
    struct front *front;
    struct agents *agents;
    struct engines *engines;
    struct notebook *notebook;
    size_t passed; /* bytes of output since memory was given back */
    struct watch *tick, *interrupt, *terminate, *parent;
    int parent_fd;
    pid_t parent_pid;
};

static void complain(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("house", "%s", err->text);
}

/* Output that clients don't take makes the printing workers wait. */
static void balance(struct kernel *h)
{
    agents_hold(h->agents, front_waiting(h->front) + dispatch_waiting(h->notebook) > WAITING_MAX);
}

/* ---- what cells need of the world ---- */

static void op_publish(void *arg, const struct request *parent, const char *type,
                       const struct content *p)
{
    struct err err = { "" };

    complain(front_publish(((struct kernel *)arg)->front, parent, type, p->content, p->metadata,
                           p->buffers, p->n, &err),
             &err);
}

static void op_reply(void *arg, struct request *r, const char *type, const struct content *p)
{
    struct err err = { "" };

    complain(front_reply_with(((struct kernel *)arg)->front, r, type, p->content, p->metadata,
                              p->buffers, p->n, &err),
             &err);
}

static void op_status(void *arg, struct request *r, const char *state)
{
    struct err err = { "" };

    complain(front_status(((struct kernel *)arg)->front, r, state, &err), &err);
}

static void op_ask(void *arg, const struct request *r, struct slice prompt, bool password)
{
    struct err err = { "" };

    complain(front_ask(((struct kernel *)arg)->front, r, prompt, password, &err), &err);
}

static void op_drain_shell(void *arg)
{
    front_drain_shell(((struct kernel *)arg)->front);
}

static void op_shutdown(void *arg)
{
    loop_stop(((struct kernel *)arg)->loop);
}

static int op_send(void *arg, const uint32_t *workers, size_t n, const struct span *m,
                   struct err *err)
{
    const int rc = agents_send(((struct kernel *)arg)->agents, workers, n, m, err);

    if (rc < 0) /* who waits for an answer says it to the user */
        log_warn("house", "%s", err->text);
    return rc;
}

static void op_owe(void *arg, uint32_t worker, size_t bytes)
{
    struct kernel *h = arg;

    balance(h);
    h->passed += bytes;
    agents_owe(h->agents, worker, bytes);
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
    struct kernel *h = arg;
    const uint64_t now = clock_now(loop_clock(h->loop));

    if (due_ns != UINT64_MAX) {
        loop_timer_again(h->tick, due_ns > now ? due_ns - now : 0);
        return;
    }
    loop_timer_off(h->tick);
    if (h->passed >= BURST) {
        h->passed = 0;
        memory_return();
    }
}

static int op_send_nodes(void *arg, const unsigned *nodes, size_t n, const struct span *m,
                         struct err *err)
{
    const int rc = agents_send_nodes(((struct kernel *)arg)->agents, nodes, n, m, err);

    if (rc < 0)
        log_warn("house", "%s", err->text);
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

static int op_engine_start(void *arg, const char *name, const char *spec, unsigned ranks,
                           unsigned *engine, struct err *err)
{
    return engines_start(((struct kernel *)arg)->engines, name, spec, ranks, engine, err);
}

static int op_engine_find(void *arg, const char *name, struct err *err)
{
    char *path = engine_find(name, err);

    (void)arg;
    free(path);
    return path ? 0 : -1;
}

static void op_engine_stop(void *arg, unsigned engine)
{
    engines_stop(((struct kernel *)arg)->engines, engine);
}

static void op_engine_nodes(void *arg, unsigned engine, unsigned *first, unsigned *n)
{
    engines_nodes(((struct kernel *)arg)->engines, engine, first, n);
}

static const struct node *op_node(void *arg, unsigned node)
{
    return agents_node(((struct kernel *)arg)->agents, node);
}

static uint64_t op_expected(void *arg, unsigned node, uint64_t *had)
{
    return agents_expected(((struct kernel *)arg)->agents, node, had);
}

static struct cell_ops ops_of(struct kernel *h)
{
    return (struct cell_ops){
        .arg = h,
        .clock = loop_clock(h->loop),
        .publish = op_publish,
        .reply = op_reply,
        .status = op_status,
        .ask = op_ask,
        .drain_shell = op_drain_shell,
        .shutdown = op_shutdown,
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

/* ---- what comes in ---- */

static void came_request(void *arg, struct request *r)
{
    struct kernel *h = arg;

    if (h->notebook)
        dispatch_request(h->notebook, r);
}

static void came_message(void *arg, unsigned node, uint32_t worker, const struct span *m)
{
    struct kernel *h = arg;

    dispatch_message(h->notebook, node, worker, m);
    balance(h);
}

static void came_up(void *arg, unsigned node)
{
    struct kernel *h = arg;

    engines_node_changed(h->engines, node);
    dispatch_up(h->notebook, node);
}

static void came_lost(void *arg, unsigned node, const char *why)
{
    struct kernel *h = arg;

    engines_node_changed(h->engines, node);
    dispatch_lost(h->notebook, node, why);
}

static void came_engine(void *arg, unsigned engine, enum engine_event event, const char *text)
{
    dispatch_engine(((struct kernel *)arg)->notebook, engine, event, text);
}

static void came_tick(struct loop *loop, void *arg)
{
    (void)loop;
    dispatch_tick(((struct kernel *)arg)->notebook);
    balance(arg);
}

static void came_drained(struct loop *loop, void *arg)
{
    (void)loop;
    balance(arg);
}

static bool is_occupied(void *arg)
{
    return dispatch_is_occupied(((struct kernel *)arg)->notebook);
}

static void came_interrupt(struct loop *loop, void *arg)
{
    (void)loop;
    dispatch_interrupt(((struct kernel *)arg)->notebook);
}

static void came_end(struct loop *loop, void *arg)
{
    (void)arg;
    loop_stop(loop);
}

/* ---- the process that started us: when it is gone, so are we ---- */

static void parent_ended(struct loop *loop, int fd, unsigned events, void *arg)
{
    (void)fd, (void)events, (void)arg;
    loop_stop(loop);
}

static void parent_look(struct loop *loop, void *arg)
{
    if (kill(((struct kernel *)arg)->parent_pid, 0) < 0 && errno == ESRCH)
        loop_stop(loop);
}

static int watch_parent(struct kernel *h, struct err *err)
{
    const char *text = getenv("JPY_PARENT_PID");
    const long pid = text ? strtol(text, NULL, 10) : 0;

    h->parent_fd = -1;
    if (pid <= 1)
        return 0;
    h->parent_pid = (pid_t)pid;
    if ((h->parent_fd = process_pidfd(h->parent_pid)) >= 0)
        h->parent = loop_fd(h->loop, h->parent_fd, LOOP_READ, parent_ended, h, err);
    else
        h->parent = loop_timer(h->loop, PARENT_LOOK_NS, PARENT_LOOK_NS, parent_look, h, err);
    return h->parent ? 0 : -1;
}

/* ---- building ---- */

static int watch_signals(struct kernel *h, struct err *err)
{
    h->interrupt = loop_signal(h->loop, SIGINT, came_interrupt, h, err);
    h->terminate = loop_signal(h->loop, SIGTERM, came_end, h, err);
    h->tick = loop_timer(h->loop, NS_PER_S, 0, came_tick, h, err);
    return h->interrupt && h->terminate && h->tick ? watch_parent(h, err) : -1;
}

/* Jupyter's server names the notebook to the kernels that it starts. What a kernel of ours passes
 * on to programs in its cells, such as papermill, says nothing of theirs: so it notes the name for
 * them. */
static bool has_page(void)
{
    static const char noted[] = "CELLSPAN_SESSION_NAME";
    const char *name = getenv("JPY_SESSION_NAME"), *above = getenv(noted);
    const bool own = name && *name && !(above && strcmp(above, name) == 0);

    if (own)
        setenv(noted, name, 1);
    return own;
}

static int open_notebook(struct kernel *h, const struct arguments *o, struct err *err)
{
    const struct cell_ops ops = ops_of(h);
    char run_id[UUID_TEXT_SIZE];
    struct dispatch_config config = { .python = o->python,
                                      .python_version = o->python_version,
                                      .run_id = run_id,
                                      .page = has_page() };

    random_uuid(run_id);
    run_id[8] = '\0'; /* its first eight digits are enough to tell two notebooks apart */
    h->notebook = dispatch_create(&ops, &config, err);
    return h->notebook ? 0 : -1;
}

static int start_agents(struct kernel *h, const struct arguments *o, struct err *err)
{
    const struct agents_config agents = {
        .folder = h->folder,
        .handler = { .message = came_message, .up = came_up, .lost = came_lost, .arg = h },
    };
    struct engines_config engines = { .python = o->python, .event = came_engine, .arg = h };

    if (!(h->agents = agents_create(h->loop, &agents, err)))
        return -1;
    engines.agents = h->agents;
    h->engines = engines_create(h->loop, &engines, err);
    return h->engines ? 0 : -1;
}

struct kernel *kernel_create(struct loop *loop, const struct arguments *arguments, struct err *err)
{
    struct kernel *h = calloc(1, sizeof *h);

    if (!h)
        return err_null(err, "out of memory");
    h->loop = loop;
    h->parent_fd = h->lock = -1;
    runtime_sweep();
    if (!(h->front = front_create(loop, arguments->connection_file, came_request, h, err)) ||
        !(h->folder = runtime_dir_create(&h->lock, err)) || watch_signals(h, err) < 0 ||
        open_notebook(h, arguments, err) < 0 || start_agents(h, arguments, err) < 0) {
        kernel_destroy(h);
        return NULL;
    }
    front_on_drained(h->front, came_drained, h);
    front_on_idle(h->front, is_occupied, h);
    complain(front_status(h->front, NULL, "starting", err), err);
    return h;
}

void kernel_destroy(struct kernel *h)
{
    struct err err = { "" };

    if (!h)
        return;
    watch_stop(h->parent);
    watch_stop(h->tick);
    engines_destroy(h->engines);
    agents_destroy(h->agents);
    dispatch_destroy(h->notebook);
    front_destroy(h->front);
    fd_close(&h->parent_fd);
    if (h->folder)
        complain(runtime_dir_remove(h->folder, &err), &err);
    free(h->folder);
    fd_close(&h->lock);
    watch_stop(h->interrupt); /* last: a signal must not end us before all is tidy */
    watch_stop(h->terminate);
    free(h);
}
