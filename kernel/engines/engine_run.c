/* engine_run.c - runs of engines: what they say becomes nodes with numbers and keys, words for the
 * user, and failures with a reason. The wire is opened with the first of them: a kernel that never
 * leaves its machine listens nowhere. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "kernel/agents/room.h"
#include "kernel/agents/listen.h"

#define START_S     120.0 /* by default, for all nodes to come up */
#define SOCKETS_MAX 16384 /* connections */
#define FILES_MORE  256   /* descriptors besides one for each connection */

struct engine_run *engine_run_get(const struct agents *a, unsigned number)
{
    return number > 0 && number <= a->runs ? a->run[number - 1] : NULL;
}

int engine_runs_init(struct agents *a, struct err *err)
{
    const char *text = getenv("CELLSPAN_START_TIMEOUT");
    double seconds = START_S;
    char *end;

    if (text && *text) {
        errno = 0;
        seconds = strtod(text, &end);
        if (errno || *end || !(seconds >= 0.1 && seconds <= 1e6))
            return err_set(err, "CELLSPAN_START_TIMEOUT=%.40s: seconds are wanted, at least 0.1",
                           text);
    }
    a->start_ns = (uint64_t)(seconds * (double)NS_PER_S);
    return 0;
}

/* ---- the wire ---- */

/* As many as the system lets us have. */
static void raise_limits(struct agents *a)
{
    struct rlimit files;

    (void)zmq_ctx_set(a->zmq, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max < SOCKETS_MAX + FILES_MORE ? files.rlim_max
                                                               : SOCKETS_MAX + FILES_MORE;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        log_info("agents", "the limit of open files stays: %s", strerror(errno));
}

static int wire_open(struct agents *a, struct err *err)
{
    const struct router_handler handler = { .arrived = from_agents_received,
                                            .parted = node_failures_disconnected,
                                            .refused = from_agents_refused,
                                            .arg = a };

    if (a->wire)
        return 0;
    raise_limits(a);
    keys_create(&a->keys);
    if (!a->zap && !(a->zap = agents_zap_create(a->loop, a->zmq, &a->allowed, err)))
        return -1;
    if (!(a->wire = router_create(a->loop, a->zmq, &a->keys, AGENTS_ZAP_DOMAIN, &handler, err)))
        return -1;
    if (listen_bind(a->wire, getenv("CELLSPAN_INTERFACE"), &a->endpoints, err) == 0) {
        beat_start(&a->beat, agents_now(a));
        loop_timer_again(a->look, beat_wait(&a->beat));
        return 0;
    }
    router_destroy(a->wire);
    a->wire = NULL;
    buf_clear(&a->endpoints);
    return -1;
}

/* ---- waiting for nodes ---- */

static bool is_waited_for(const struct engine_run *run)
{
    return !run->stopped && (run->n == 0 || run->missing > 0);
}

void engine_run_clock(struct engine_run *run)
{
    run->deadline_ns = is_waited_for(run) ? agents_now(run->agents) + run->agents->start_ns
                                          : UINT64_MAX;
}

void engine_run_tell(struct engine_run *run, enum engine_event event, const char *text)
{
    run->agents->handler.engine(run->agents->handler.arg, run->number, event, text);
}

/* All its nodes are gone, and nobody is admitted any more. */
static void disband(struct engine_run *run)
{
    struct agents *a = run->agents;

    if (run->stopped)
        return;
    run->stopped = true;
    run->deadline_ns = UINT64_MAX;
    if (run->n == 0)
        a->allowed.pending--;
    allowed_keys_end(&a->allowed, run->number);
    secret_wipe(&run->secret);
    for (unsigned k = 0; k < run->n; k++)
        node_failures_lose_quietly(a, node_table_get(&a->nodes, run->first + k));
}

/* Before its nodes were up. */
void engine_run_fail(struct engine_run *run, const char *why)
{
    agents_engine_stop(run->agents, run->number);
    engine_run_tell(run, ENGINE_FAILED, why);
}

/* ---- starting ---- */

static struct engine_run *run_create(struct agents *a, const char *name)
{
    struct engine_run **runs = realloc(a->run, (a->runs + 1) * sizeof *runs),
                      *run = calloc(1, sizeof *run);

    if (runs)
        a->run = runs;
    if (!runs || !run || !(run->name = strdup(name))) {
        free(run);
        return NULL;
    }
    run->agents = a;
    run->number = (unsigned)++a->runs;
    a->run[run->number - 1] = run;
    secret_create(&run->secret, &a->keys);
    return run;
}

static void run_free(struct engine_run *run)
{
    if (!run)
        return;
    run->agents->run[run->number - 1] = NULL;
    engine_process_free(run->process);
    secret_wipe(&run->secret);
    free(run->name);
    free(run);
}

int agents_engine_start(struct agents *a, const char *name, const char *spec, unsigned ranks,
                        unsigned *engine, struct err *err)
{
    struct engine_process_spec start = {
        .name = name, .spec = spec ? spec : "", .ranks = ranks, .said = engine_nodes_said
    };
    struct engine_run *run;

    *engine = 0;
    if (wire_open(a, err) < 0)
        return -1;
    if (!(run = run_create(a, name)))
        return err_set(err, "out of memory");
    start.endpoints = a->endpoints.p;
    start.secret = &run->secret;
    start.arg = run;
    if (!(run->process = engine_process_start(a->loop, &start, err))) {
        run_free(run);
        return -1;
    }
    a->allowed.pending++;
    engine_run_clock(run);
    *engine = run->number;
    return 0;
}

/* ---- ending ---- */

static void quit_nodes(struct engine_run *run)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct agents *a = run->agents;
    unsigned *list = to_agents_list(&a->out);
    struct err err = { "" };
    size_t n = 0;

    for (unsigned k = 0; list && k < run->n; k++)
        if (node_table_get(&a->nodes, run->first + k)->node.state == NODE_UP)
            list[n++] = run->first + k;
    if (n && to_agents_nodes(&a->out, list, n, &quit, &err) < 0)
        log_info("agents", "%s", err.text);
}

void agents_engine_stop(struct agents *a, unsigned engine)
{
    struct engine_run *run = engine_run_get(a, engine);

    if (!run || run->stopped)
        return;
    quit_nodes(run);
    disband(run);
    engine_process_end(run->process);
}

void agents_engine_nodes(const struct agents *a, unsigned engine, unsigned *first, unsigned *n)
{
    const struct engine_run *run = engine_run_get(a, engine);

    *first = run && !run->stopped ? run->first : 0;
    *n = run && !run->stopped ? run->n : 0;
}

static void fail_with(struct engine_run *run, const char *before)
{
    struct buf words = BUF_INIT;
    int rc = buf_add_text(&words, before);

    if (rc == 0 && run->over)
        rc = engine_process_words(run->process, &words);
    else if (rc == 0)
        rc = engine_process_errors(run->process, &words);
    engine_run_fail(run, rc == 0 && words.n ? words.p : "out of memory");
    buf_release(&words);
}

/* With some nodes up already they are lost one by one, in its words. */
static void run_ended(struct engine_run *run)
{
    struct agents *a = run->agents;

    run->over = true;
    if (run->stopped)
        return;
    if (is_waited_for(run)) {
        fail_with(run, "");
        return;
    }
    quit_nodes(run);
    for (unsigned k = 0; k < run->n; k++)
        node_failures_expect(a, node_table_get(&a->nodes, run->first + k));
}

bool engine_runs_child(struct agents *a, pid_t pid, int status)
{
    for (size_t k = a->runs; k > 0; k--) {
        struct engine_run *run = a->run[k - 1];

        if (!run || engine_process_pid(run->process) != pid)
            continue;
        engine_process_ended(run->process, status);
        run_ended(run);
        return true;
    }
    return false;
}

/* "h3, h4 and 2 more did not come up within 120 s". */
static void fail_late(struct engine_run *run)
{
    struct agents *a = run->agents;
    struct buf words = BUF_INIT;
    unsigned named = 0;
    int rc = 0;

    for (unsigned k = 0; rc == 0 && k < run->n && named < 8; k++) {
        const struct node_link *link = node_table_get(&a->nodes, run->first + k);

        if (link->node.state == NODE_ASKED)
            rc = buf_addf(&words, "%s%s", named++ ? ", " : "", link->node.name);
    }
    if (rc == 0 && run->missing > named)
        rc = buf_addf(&words, " and %u more", run->missing - named);
    if (rc == 0 && run->n == 0)
        rc = buf_addf(&words, "cellspan-launch-%s has not said on how many nodes it runs",
                      run->name);
    else if (rc == 0)
        rc = buf_add_text(&words, " did not come up");
    if (rc == 0)
        rc = buf_addf(&words, " within %g s (CELLSPAN_START_TIMEOUT). ",
                      (double)a->start_ns / (double)NS_PER_S);
    if (rc == 0 && run->n)
        rc = buf_addf(
            &words,
            "Agents dial %s on %s: can they reach it? CELLSPAN_INTERFACE chooses another address. ",
            a->endpoints.p, a->name);
    fail_with(run, rc == 0 ? words.p : "out of memory");
    buf_release(&words);
}

void engine_runs_look(struct agents *a, uint64_t now)
{
    for (size_t k = 0; k < a->runs; k++) {
        struct engine_run *run = a->run[k];

        if (!run)
            continue;
        if (run->stopped && run->over)
            run_free(run);
        else if (now >= run->deadline_ns)
            fail_late(run);
    }
}

size_t engine_runs_end(struct agents *a, int signo)
{
    size_t n = 0;

    for (size_t k = 0; k < a->runs; k++) {
        struct engine_run *run = a->run[k];

        if (!run || engine_process_pid(run->process) <= 0)
            continue;
        n++;
        run->stopped = true;
        if (signo)
            engine_process_signal(run->process, signo);
        else
            engine_process_end(run->process);
    }
    return n;
}

void engine_runs_release(struct agents *a)
{
    for (size_t k = 0; k < a->runs; k++)
        run_free(a->run[k]);
    free(a->run);
    a->run = NULL;
    a->runs = 0;
    allowed_keys_release(&a->allowed);
    keys_wipe(&a->keys);
    buf_release(&a->endpoints);
}
