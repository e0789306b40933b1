#include "tests/unit/agent/double.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/process.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "tests/unit/agent/must.h"

#define LIMIT_MS 60000
#define NODE     5u /* the number that WELCOME gives */

static void start_agent(struct kernel *k, const char *self, bool home, const char *endpoint)
{
    char path[512];
    const char *const argv[] = {
        agent_path(path, sizeof path), "--connect", endpoint, "--node", "here",
        home ? "--python" : NULL,      self,        NULL
    };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };

    spec.argv = argv;
    k->agent = process_start_piped(&spec, &k->in, &err);
    must(k->agent > 0, err.text);
}

void kernel_start(struct kernel *k, const char *self, bool home, uint64_t window)
{
    char endpoint[128];
    struct span welcome = { .kind = SPAN_WELCOME };

    *k = (struct kernel){ .window = window };
    snprintf(k->dir, sizeof k->dir, "/tmp/cellspan-test-XXXXXX");
    must(mkdtemp(k->dir), "mkdtemp");
    snprintf(endpoint, sizeof endpoint, "ipc://%s/k", k->dir);
    must((k->context = zmq_ctx_new()) && (k->router = zmq_socket(k->context, ZMQ_ROUTER)), "zmq");
    must(zmq_bind(k->router, endpoint) == 0, "bind");
    start_agent(k, self, home, endpoint);
    must(kernel_until(k, SPAN_HELLO, 0), "no HELLO");
    welcome.v[F_WELCOME_WINDOW].u64 = window;
    welcome.v[F_WELCOME_NUMBER].u64 = NODE;
    kernel_send(k, NULL, 0, &welcome);
    if (home)
        must(kernel_until(k, SPAN_READY, 1) || kernel_told(k, "EXITED"), "home is not ready");
}

int kernel_wait(struct kernel *k)
{
    const int64_t until = now_ms() + LIMIT_MS;
    const int linger = 0;
    char path[80];
    int status = -1;
    pid_t pid;

    while ((pid = waitpid(k->agent, &status, WNOHANG)) == 0 && now_ms() < until)
        usleep(5000);
    fd_close(&k->in);
    span_release(&k->last);
    zmq_setsockopt(k->router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(k->router);
    zmq_ctx_term(k->context);
    snprintf(path, sizeof path, "%s/k", k->dir);
    unlink(path);
    rmdir(k->dir);
    buf_release(&k->msg);
    buf_release(&k->bundle);
    buf_release(&k->story);
    return pid == k->agent && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int kernel_end(struct kernel *k)
{
    fd_close(&k->in);
    return kernel_wait(k);
}

/* ---- sending ---- */

void kernel_send(struct kernel *k, const uint32_t *workers, size_t n, const struct span *m)
{
    struct buf msg = BUF_INIT, route = BUF_INIT;
    struct err err = { "" };

    must(span_encode(m, &msg, &err) == 0, err.text);
    must(zmq_send(k->router, k->identity, k->identity_size, ZMQ_SNDMORE) >= 0, "send");
    must(route_add(&route, NODE, workers, n) == 0, "memory");
    must(zmq_send(k->router, route.p, route.n, ZMQ_SNDMORE) >= 0 &&
             zmq_send(k->router, msg.p, msg.n, 0) >= 0,
         "send");
    buf_release(&route);
    buf_release(&msg);
}

void kernel_say(struct kernel *k, uint32_t worker, enum span_kind kind)
{
    const struct span m = { .kind = kind };

    kernel_send(k, &worker, worker ? 1 : 0, &m);
}

void kernel_run(struct kernel *k, uint32_t worker, uint64_t cell, const char *script)
{
    struct span m = { .kind = worker == SPAN_WORKER_HOME ? SPAN_REQUEST : SPAN_RUN,
                      .cell = cell,
                      .blob = cell };

    if (worker == SPAN_WORKER_HOME)
        m.v[F_REQUEST_CONTENT].s = slice_text(script);
    else
        m.v[F_RUN_CODE].s = slice_text(script);
    kernel_send(k, &worker, 1, &m);
}

void kernel_start_ranks(struct kernel *k, const char *python, unsigned n, const char *env)
{
    struct span m = { .kind = SPAN_START };
    uint32_t workers[64], ranks[64];

    for (unsigned i = 0; i < n; i++) {
        workers[i] = 2 + i;
        ranks[i] = i;
    }
    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(ranks, 4 * n);
    m.v[F_START_PYTHON].s = slice_text(python);
    m.v[F_START_ENV].s = slice_text(env);
    kernel_send(k, workers, n, &m);
}

void kernel_ranks(struct kernel *k, const char *self, unsigned n)
{
    kernel_start_ranks(k, self, n, "{}");
    for (unsigned i = 0; i < n; i++)
        must(kernel_until(k, SPAN_READY, 0), "a rank is not ready");
}

/* ---- receiving ---- */

static void write_story(struct kernel *k)
{
    const struct span *m = &k->last;
    int rc;

    if (m->kind == SPAN_LINES) {
        k->lines_size += m->v[F_LINES_DATA].s.n;
        rc = buf_addf(&k->story, "%llu%s<", (unsigned long long)m->v[F_LINES_STREAM].u64,
                      m->v[F_LINES_FLAGS].u64 == LINES_WITHIN     ? "~"
                      : m->v[F_LINES_FLAGS].u64 == LINES_PROGRESS ? "%"
                                                                  : "");
        if (rc == 0)
            rc = buf_add_slice(&k->story, m->v[F_LINES_DATA].s);
        must(rc == 0 && buf_add_text(&k->story, ">") == 0, "memory");
        return;
    }
    must(buf_addf(&k->story, "[%s]", span_info(m->kind)->name) == 0, "memory");
}

/* The next message of the bundles that came. */
static bool take(struct kernel *k)
{
    struct slice rest = slice_of(k->bundle.p + k->taken, k->bundle.n - k->taken);
    struct err err = { "" };
    struct bundle_entry e;

    if (rest.n == 0)
        return false;
    must(bundle_next(&rest, &e), "a torn bundle");
    k->taken = k->bundle.n - rest.n;
    span_release(&k->last);
    buf_clear(&k->msg);
    must(buf_add_slice(&k->msg, e.message) == 0, "memory");
    must(span_decode(&k->last, k->msg.p, k->msg.n, &err) == 0, err.text);
    must(k->last.worker == e.worker, "the stamp is not the entry's");
    must(e.node == (k->last.kind == SPAN_HELLO ? ROUTE_KERNEL : NODE), "another node's number");
    write_story(k);
    return true;
}

static bool receive(struct kernel *k)
{
    zmq_msg_t frame;
    int n;

    if (take(k))
        return true;
    n = zmq_recv(k->router, k->identity, sizeof k->identity, ZMQ_DONTWAIT);
    if (n < 0)
        return false;
    k->identity_size = (size_t)n;
    zmq_msg_init(&frame);
    must(zmq_msg_recv(&frame, k->router, 0) >= 0 && !zmq_msg_more(&frame), "one frame");
    buf_clear(&k->bundle);
    must(buf_add(&k->bundle, zmq_msg_data(&frame), zmq_msg_size(&frame)) == 0, "memory");
    k->taken = 0;
    zmq_msg_close(&frame);
    return take(k);
}

static bool await(struct kernel *k, int64_t until)
{
    zmq_pollitem_t item = { k->router, 0, ZMQ_POLLIN, 0 };
    int64_t left;

    while ((left = until - now_ms()) > 0) {
        if (receive(k))
            return true;
        (void)zmq_poll(&item, 1, (long)left);
    }
    return false;
}

bool kernel_until(struct kernel *k, enum span_kind kind, uint32_t worker)
{
    const int64_t until = now_ms() + LIMIT_MS;

    while (await(k, until))
        if (k->last.kind == kind && (worker == 0 || k->last.worker == worker))
            return true;
    return false;
}

void kernel_listen(struct kernel *k, int ms)
{
    const int64_t until = now_ms() + ms;

    while (await(k, until))
        ;
}

bool kernel_told(const struct kernel *k, const char *text)
{
    const struct slice s = buf_slice(&k->story);
    const size_t n = strlen(text);

    for (size_t i = 0; i + n <= s.n; i++)
        if (memcmp(s.p + i, text, n) == 0)
            return true;
    return false;
}

void kernel_forget(struct kernel *k)
{
    buf_clear(&k->story);
    k->lines_size = 0;
}
