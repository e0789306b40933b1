/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/agent/double.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/le.h"
#include "base/process.h"
#include "base/unix_socket.h"
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

    *k = (struct kernel){ .window = window, .fd = -1 };
    snprintf(k->dir, sizeof k->dir, "/tmp/cellspan-test-XXXXXX");
    must(mkdtemp(k->dir), "mkdtemp");
    snprintf(endpoint, sizeof endpoint, "%s%s/k", ROUTE_UNIX, k->dir);
    must((k->listening = unix_listen(endpoint + strlen(ROUTE_UNIX))) >= 0, "listen");
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
    char path[80];
    int status = -1;
    pid_t pid;

    while ((pid = waitpid(k->agent, &status, WNOHANG)) == 0 && now_ms() < until)
        usleep(5000);
    fd_close(&k->in);
    span_release(&k->last);
    fd_close(&k->fd);
    fd_close(&k->listening);
    snprintf(path, sizeof path, "%s/k", k->dir);
    unlink(path);
    rmdir(k->dir);
    buf_release(&k->msg);
    buf_release(&k->bytes);
    buf_release(&k->bundle);
    buf_release(&k->story);
    return pid == k->agent && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int kernel_end(struct kernel *k)
{
    fd_close(&k->in);
    return kernel_wait(k);
}

/* Adds what has come to the bytes. At the end, the agent may dial again. */
static void read_bytes(struct kernel *k)
{
    char some[65536];
    const ssize_t n = recv(k->fd, some, sizeof some, MSG_DONTWAIT);

    if (n > 0)
        must(buf_add(&k->bytes, some, (size_t)n) == 0, "memory");
    else if (n == 0)
        fd_close(&k->fd);
}

/* ---- sending ---- */

/* What the agent says meanwhile is kept: otherwise both sides might wait for each other. */
static void write_all(struct kernel *k, struct slice bytes)
{
    while (bytes.n > 0) {
        struct pollfd room = { k->fd, POLLIN | POLLOUT, 0 };
        ssize_t n;

        must(poll(&room, 1, LIMIT_MS) > 0, "the agent does not read");
        if (room.revents & POLLIN)
            read_bytes(k);
        n = send(k->fd, bytes.p, bytes.n, MSG_DONTWAIT);
        if (n > 0)
            bytes = slice_of(bytes.p + n, bytes.n - (size_t)n);
    }
}

void kernel_send(struct kernel *k, const uint32_t *workers, size_t n, const struct span *m)
{
    struct buf msg = BUF_INIT, route = BUF_INIT;
    struct err err = { "" };
    uint8_t head[8];

    must(span_encode(m, &msg, &err) == 0, err.text);
    must(route_add(&route, NODE, workers, n) == 0, "memory");
    le_put(head, 4, route.n);
    le_put(head + 4, 4, msg.n);
    write_all(k, slice_of(head, sizeof head));
    write_all(k, buf_slice(&route));
    write_all(k, buf_slice(&msg));
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

/* The next bundle of the bytes that came. */
static bool take_bundle(struct kernel *k)
{
    size_t n;

    if (k->bytes.n < 8)
        return false;
    must(le_get(k->bytes.p, 4) == 0, "a bundle has no route");
    n = (size_t)le_get(k->bytes.p + 4, 4);
    if (k->bytes.n < 8 + n)
        return false;
    buf_clear(&k->bundle);
    must(buf_add(&k->bundle, k->bytes.p + 8, n) == 0, "memory");
    buf_drop(&k->bytes, 8 + n);
    k->taken = 0;
    return true;
}

static bool receive(struct kernel *k)
{
    if (take(k) || (take_bundle(k) && take(k)))
        return true;
    if (k->fd < 0 && (k->fd = unix_accept(k->listening)) < 0)
        return false;
    read_bytes(k);
    return take_bundle(k) && take(k);
}

static bool await(struct kernel *k, int64_t until)
{
    struct pollfd item = { .events = POLLIN };
    int64_t left;

    while ((left = until - now_ms()) > 0) {
        if (receive(k))
            return true;
        item.fd = k->fd < 0 ? k->listening : k->fd;
        (void)poll(&item, 1, (int)left);
    }
    return false;
}

bool kernel_within(struct kernel *k, enum span_kind kind, uint32_t worker, int ms)
{
    const int64_t until = now_ms() + ms;

    while (await(k, until))
        if (k->last.kind == kind && (worker == 0 || k->last.worker == worker))
            return true;
    return false;
}

bool kernel_until(struct kernel *k, enum span_kind kind, uint32_t worker)
{
    return kernel_within(k, kind, worker, LIMIT_MS);
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
