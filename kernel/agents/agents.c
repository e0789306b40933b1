/* One ROUTER on a unix socket in the kernel's runtime directory; this machine's agent is a child of the kernel, started
 * through its engine (cellspan-launch-local), with a pipe as stdin: its end tells the agent that the kernel is gone. */
#include "kernel/agents/agents.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "base/log.h"
#include "base/orphans.h"
#include "base/process.h"
#include "base/runtime.h"
#include "kernel/agents/credit.h"
#include "protocol/span_fields.h"

#define WINDOW            (UINT64_C(4) << 20) /* bytes that a worker may have on the way */
#define MESSAGES_PER_TURN 64
#define END_WAIT_MS       2000
#define SWEEPS            20 /* looks for what a lost agent left; its workers take a moment to die */
#define SWEEP_NS          (100 * NS_PER_MS)

struct waiting {
    struct waiting *next;
    struct buf envelope, body;
};

struct agents {
    struct loop *loop;
    struct agents_handler handler;
    void *zmq, *router;
    struct watch *readable, *child, *sweep;
    char *endpoint, *python;
    char node[256];
    char identity[256];
    size_t identity_size;          /* 0: it has not said HELLO */
    struct waiting *first, **last; /* what waits for the HELLO */
    pid_t pid;
    int in; /* the write end of its stdin */
    long cores;
    struct credit credit;
    bool held;
    int sweeps; /* that are still to come after a lost agent */
};

const char *agents_node(const struct agents *a)
{
    return a->node;
}
long agents_pid(const struct agents *a)
{
    return a->pid;
}
long agents_cores(const struct agents *a)
{
    return a->cores;
}

static void waiting_drop(struct agents *a)
{
    while (a->first) {
        struct waiting *w = a->first;

        a->first = w->next;
        buf_release(&w->envelope);
        buf_release(&w->body);
        free(w);
    }
    a->last = &a->first;
}

/* Takes both buffers. */
static int waiting_add(struct agents *a, struct buf *envelope, struct buf *body)
{
    struct waiting *w = calloc(1, sizeof *w);

    if (!w)
        return -1;
    w->envelope = *envelope;
    w->body = *body;
    *envelope = (struct buf)BUF_INIT;
    *body = (struct buf)BUF_INIT;
    *a->last = w;
    a->last = &w->next;
    return 0;
}

static int frames_send(struct agents *a, struct slice envelope, struct slice body, struct err *err)
{
    if (zmq_send(a->router, a->identity, a->identity_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(a->router, envelope.p, envelope.n, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(a->router, body.p, body.n, ZMQ_DONTWAIT) < 0)
        return err_set(err, "the agent on %s can't be reached: %s", a->node, zmq_strerror(zmq_errno()));
    return 0;
}

static int envelope_build(struct buf *out, const uint32_t *workers, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const uint32_t w = workers[k];
        const unsigned char le[4] = { (unsigned char)w, (unsigned char)(w >> 8), (unsigned char)(w >> 16),
                                      (unsigned char)(w >> 24) };

        if (buf_add(out, le, sizeof le) < 0)
            return -1;
    }
    return 0;
}

int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m, struct err *err)
{
    struct buf envelope = BUF_INIT, body = BUF_INIT;
    int rc = -1;

    if (envelope_build(&envelope, workers, n) < 0)
        err_set(err, "out of memory");
    else if (span_encode(m, &body, err) == 0)
        rc = a->identity_size ? frames_send(a, buf_slice(&envelope), buf_slice(&body), err)
                              : waiting_add(a, &envelope, &body);
    buf_release(&envelope);
    buf_release(&body);
    return rc;
}

static void give_back(struct agents *a, uint32_t worker)
{
    const uint64_t owed = credit_take(&a->credit, worker);
    struct span m = { .kind = SPAN_CREDIT, .v[F_CREDIT_BYTES].u64 = owed };
    struct err err = { "" };

    if (owed && agents_send(a, &worker, 1, &m, &err) < 0)
        log_warn("agents", "credit for worker %u: %s", worker, err.text);
}

void agents_owe(struct agents *a, uint32_t worker, size_t bytes)
{
    uint64_t owed;

    if (credit_owe(&a->credit, worker, bytes, &owed) < 0)
        log_error("agents", "worker %u: out of memory, %zu bytes of credit are lost", worker, bytes);
    else if (!a->held && owed >= WINDOW / 4)
        give_back(a, worker);
}

void agents_hold(struct agents *a, bool hold)
{
    if (a->held == hold)
        return;
    a->held = hold;
    for (size_t k = 0; !hold && k < a->credit.n; k++)
        if (a->credit.row[k].owed >= WINDOW / 4)
            give_back(a, a->credit.row[k].worker);
}

void agents_forget(struct agents *a, uint32_t worker)
{
    credit_forget(&a->credit, worker);
}

static int welcome(struct agents *a, struct err *err)
{
    struct span m = { .kind = SPAN_WELCOME, .v[F_WELCOME_WINDOW].u64 = WINDOW };

    if (agents_send(a, NULL, 0, &m, err) < 0)
        return -1;
    while (a->first) {
        struct waiting *w = a->first;

        if (frames_send(a, buf_slice(&w->envelope), buf_slice(&w->body), err) < 0)
            return -1;
        a->first = w->next;
        buf_release(&w->envelope);
        buf_release(&w->body);
        free(w);
    }
    a->last = &a->first;
    return 0;
}

/* In words, so that the agent's log says which side is to be updated. */
static void refuse(struct agents *a, zmq_msg_t *identity, const char *why)
{
    struct span m = { .kind = SPAN_REFUSE, .v[F_REFUSE_TEXT].s = slice_text(why) };
    struct buf body = BUF_INIT;
    struct err err = { "" };

    log_warn("agents", "%s", why);
    if (span_encode(&m, &body, &err) == 0 &&
        zmq_send(a->router, zmq_msg_data(identity), zmq_msg_size(identity), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(a->router, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        (void)zmq_send(a->router, body.p, body.n, ZMQ_DONTWAIT);
    buf_release(&body);
}

static void hello(struct agents *a, const struct span *m, zmq_msg_t *identity)
{
    struct err err = { "" };
    char why[256];

    if (m->v[F_HELLO_VERSION].u64 != SPAN_VERSION) {
        snprintf(why, sizeof why,
                 "the agent speaks version %lu of cellspan's protocol, the kernel version %u: install the same "
                 "cellspan on both sides",
                 (unsigned long)m->v[F_HELLO_VERSION].u64, SPAN_VERSION);
        refuse(a, identity, why);
        return;
    }
    if ((pid_t)m->v[F_HELLO_PID].u64 != a->pid || zmq_msg_size(identity) > sizeof a->identity) {
        snprintf(why, sizeof why, "process %lu is not the agent that this kernel started",
                 (unsigned long)m->v[F_HELLO_PID].u64);
        refuse(a, identity, why);
        return;
    }
    a->identity_size = zmq_msg_size(identity);
    memcpy(a->identity, zmq_msg_data(identity), a->identity_size);
    a->cores = (long)m->v[F_HELLO_CORES].u64;
    if (welcome(a, &err) < 0)
        log_error("agents", "%s", err.text);
}

static bool is_known(const struct agents *a, zmq_msg_t *identity)
{
    return a->identity_size && zmq_msg_size(identity) == a->identity_size &&
           memcmp(zmq_msg_data(identity), a->identity, a->identity_size) == 0;
}

/* frame: identity, envelope, message. */
static void deliver(struct agents *a, zmq_msg_t frame[3])
{
    const unsigned char *w = zmq_msg_data(&frame[1]);
    const size_t n = zmq_msg_size(&frame[1]);
    uint32_t worker = 0;
    struct span m;
    struct err err = { "" };

    if (n != 0 && n != 4) {
        log_warn("agents", "an envelope of %zu bytes is refused", n);
        return;
    }
    if (n == 4)
        worker = (uint32_t)w[0] | (uint32_t)w[1] << 8 | (uint32_t)w[2] << 16 | (uint32_t)w[3] << 24;
    if (span_decode(&m, zmq_msg_data(&frame[2]), zmq_msg_size(&frame[2]), &err) < 0) {
        log_warn("agents", "a message is refused: %s", err.text);
        return;
    }
    if (m.kind == SPAN_HELLO)
        hello(a, &m, &frame[0]);
    else if (is_known(a, &frame[0]))
        a->handler.message(a->handler.arg, worker, &m);
    span_release(&m);
}

/* Takes one message of up to three frames. Returns 0 when there is none, 1 when one was taken. */
static int take(struct agents *a)
{
    zmq_msg_t frame[3];
    int n = 0, more = 1, got = 0;

    while (more) {
        zmq_msg_t spare, *into = n < 3 ? &frame[n] : &spare;

        zmq_msg_init(into);
        if (zmq_msg_recv(into, a->router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(into);
            break;
        }
        got = 1;
        more = zmq_msg_more(into);
        if (n == 3)
            zmq_msg_close(&spare);
        else
            n++;
    }
    if (n == 3 && !more)
        deliver(a, frame);
    while (n > 0)
        zmq_msg_close(&frame[--n]);
    return got;
}

static void router_readable(struct loop *loop, void *arg)
{
    (void)loop;
    for (int k = 0; k < MESSAGES_PER_TURN; k++)
        if (!take(arg))
            return;
}

static void agent_gone(struct agents *a, int status)
{
    char why[320];

    if (WIFSIGNALED(status))
        snprintf(why, sizeof why, "the agent on %s was killed by signal %d", a->node, WTERMSIG(status));
    else
        snprintf(why, sizeof why, "the agent on %s ended with exit status %d", a->node, WEXITSTATUS(status));
    a->pid = 0;
    a->identity_size = 0;
    fd_close(&a->in);
    waiting_drop(a);
    credit_release(&a->credit);
    orphans_kill(0);
    a->sweeps = SWEEPS;
    loop_timer_again(a->sweep, SWEEP_NS);
    a->handler.lost(a->handler.arg, why);
}

static void sweep(struct loop *loop, void *arg)
{
    struct agents *a = arg;

    (void)loop;
    orphans_kill(a->pid);
    if (--a->sweeps > 0)
        loop_timer_again(a->sweep, SWEEP_NS);
}

static void child_ended(struct loop *loop, void *arg)
{
    struct agents *a = arg;
    int status;
    pid_t pid;

    (void)loop;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == a->pid) {
            while (take(a)) /* what it said last comes first */
                ;
            agent_gone(a, status);
        }
}

int agents_restart(struct agents *a, struct err *err)
{
    char *launcher = runtime_find("cellspan-launch-local", err);
    char *agent = launcher ? runtime_find("cellspan-agent", err) : NULL;
    const char *argv[] = { launcher,    "--agents", "1",     "--",       agent,     "--connect",
                           a->endpoint, "--node",   a->node, "--python", a->python, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;

    spec.argv = argv;
    spec.die_with_parent = false; /* it has to clean up when we are gone */
    spec.session = true;
    a->pid = agent ? process_start_piped(&spec, &a->in, err) : -1;
    free(launcher);
    free(agent);
    return a->pid > 0 ? 0 : -1;
}

static int bind_router(struct agents *a, const char *folder, struct err *err)
{
    const int none = 0, on = 1;
    char *path = runtime_path(folder, "agents", err);

    if (!path)
        return -1;
    a->endpoint = malloc(strlen(path) + 7);
    if (a->endpoint)
        sprintf(a->endpoint, "ipc://%s", path);
    free(path);
    if (!a->endpoint || !(a->zmq = zmq_ctx_new()) || !(a->router = zmq_socket(a->zmq, ZMQ_ROUTER)))
        return err_set(err, "no socket for the agents: out of memory");
    zmq_setsockopt(a->router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(a->router, ZMQ_SNDHWM, &none, sizeof none);
    zmq_setsockopt(a->router, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(a->router, ZMQ_ROUTER_MANDATORY, &on, sizeof on);
    if (zmq_bind(a->router, a->endpoint) < 0)
        return err_set(err, "%s: %s", a->endpoint, zmq_strerror(zmq_errno()));
    return 0;
}

struct agents *agents_create(struct loop *loop, const struct agents_config *config, struct err *err)
{
    struct agents *a = calloc(1, sizeof *a);

    if (!a)
        return err_null(err, "out of memory");
    a->loop = loop;
    a->handler = config->handler;
    a->in = -1;
    a->last = &a->first;
    a->python = strdup(config->python);
    if (gethostname(a->node, sizeof a->node - 1) < 0)
        strcpy(a->node, "localhost");
    if (!a->python || bind_router(a, config->folder, err) < 0 ||
        !(a->readable = loop_zmq(loop, a->router, router_readable, a, err)) ||
        !(a->sweep = loop_timer(loop, SWEEP_NS, 0, sweep, a, err)) ||
        !(a->child = loop_signal(loop, SIGCHLD, child_ended, a, err)) || agents_restart(a, err) < 0) {
        agents_destroy(a);
        return err_null(err, "the agent could not be started");
    }
    return a;
}

/* The agent kills its workers and ends; one that hangs is killed with all that came of it. */
static void agent_end(struct agents *a)
{
    struct span quit = { .kind = SPAN_QUIT };
    struct err err = { "" };

    if (a->identity_size && agents_send(a, NULL, 0, &quit, &err) < 0)
        log_warn("agents", "%s", err.text);
    fd_close(&a->in);
    for (int ms = 0; a->pid > 0 && ms < END_WAIT_MS; ms += 5) {
        const struct timespec nap = { 0, 5 * 1000000 };

        if (waitpid(a->pid, NULL, WNOHANG) != 0)
            a->pid = 0;
        else
            nanosleep(&nap, NULL);
    }
    if (a->pid > 0) {
        kill(-a->pid, SIGKILL);
        kill(a->pid, SIGKILL);
        waitpid(a->pid, NULL, 0);
        a->pid = 0;
    }
    orphans_kill(0);
}

void agents_destroy(struct agents *a)
{
    if (!a)
        return;
    watch_stop(a->child);
    watch_stop(a->sweep);
    watch_stop(a->readable);
    agent_end(a);
    waiting_drop(a);
    credit_release(&a->credit);
    if (a->router)
        zmq_close(a->router);
    if (a->zmq)
        zmq_ctx_term(a->zmq);
    free(a->endpoint);
    free(a->python);
    free(a);
}
