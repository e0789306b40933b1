/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/agent/lan.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/process.h"
#include "base/random.h"
#include "protocol/route.h"
#include "protocol/span_fields.h"
#include "tests/unit/agent/must.h"

#define LIMIT_MS 60000

void lan_open(struct lan *l)
{
    const int yes = 1;
    char endpoint[128];
    size_t size = sizeof endpoint;
    struct err err = { "" };

    memset(l, 0, sizeof *l);
    must(random_open(&err) == 0, err.text);
    snprintf(l->dir, sizeof l->dir, "/tmp/cellspan-test-XXXXXX");
    must(mkdtemp(l->dir), "mkdtemp");
    keys_create(&l->keys);
    secret_create(&l->secret, &l->keys);
    must((l->context = zmq_ctx_new()) && (l->router = zmq_socket(l->context, ZMQ_ROUTER)), "zmq");
    must(zmq_setsockopt(l->router, ZMQ_CURVE_SERVER, &yes, sizeof yes) == 0 &&
             zmq_setsockopt(l->router, ZMQ_CURVE_SECRETKEY, l->keys.secret, KEY_SIZE) == 0,
         "curve");
    must(zmq_bind(l->router, "tcp://127.0.0.1:*") == 0, "bind");
    must(zmq_getsockopt(l->router, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0, "endpoint");
    l->port = (unsigned)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    l->timeout_ms = 60000;
    for (unsigned i = 0; i < LAN_MAX; i++)
        l->member[i].in = -1;
}

/* ---- agents ---- */

static void hand_over(struct member *m, uint32_t node, const char *secret)
{
    char text[2048];
    const int n = snprintf(text, sizeof text, "CELLSPAN_AGENT=%u\nCELLSPAN_SECRET=%s\n", node,
                           secret);

    must(write(m->in, text, (size_t)n) == n, "stdin");
}

void lan_start(struct lan *l, uint32_t node, enum lan_how how, const char *endpoints,
               const char *secret)
{
    const bool without = how == LAN_NO_STDIN || how == LAN_SIGTERM;
    struct member *m = &l->member[node];
    struct process_spec spec = PROCESS_SPEC_INIT;
    char path[512], name[16], number[16], ours[64];
    const char *const argv[] = { agent_path(path, sizeof path),
                                 "--connect",
                                 endpoints ? endpoints : ours,
                                 "--node",
                                 name,
                                 without            ? "--agent-from"
                                 : how == LAN_SLURM ? "--cancel-job"
                                                    : NULL,
                                 without ? "OMPI_COMM_WORLD_RANK,PMI_RANK" : NULL,
                                 "--stdin",
                                 "none",
                                 how == LAN_SIGTERM ? "--sigterm-notice" : NULL,
                                 "30",
                                 NULL };
    struct err err = { "" };

    snprintf(ours, sizeof ours, "tcp://127.0.0.1:%u", l->port);
    snprintf(name, sizeof name, "n%u", node);
    snprintf(number, sizeof number, "%u", node);
    snprintf(m->errors, sizeof m->errors, "%s/%u", l->dir, node);
    if (how != LAN_STDIN) {
        setenv(without ? "PMI_RANK" : "CELLSPAN_AGENT", number, 1);
        setenv("CELLSPAN_SECRET", secret, 1);
    }
    spec.argv = argv;
    must((spec.errs = open(m->errors, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) >= 0,
         "errors");
    m->pid = without ? process_start(&spec, &err) : process_start_piped(&spec, &m->in, &err);
    must(m->pid > 0, err.text);
    close(spec.errs);
    unsetenv("CELLSPAN_AGENT");
    unsetenv("PMI_RANK");
    unsetenv("CELLSPAN_SECRET");
    if (how == LAN_STDIN && secret)
        hand_over(m, node, secret);
}

void lan_join(struct lan *l, uint32_t node, enum lan_how how)
{
    char text[SECRET_TEXT_SIZE];

    secret_format(&l->secret, text);
    lan_start(l, node, how, NULL, text);
    must(lan_until(l, SPAN_HELLO, 0), "no HELLO");
}

int lan_wait(struct lan *l, uint32_t node)
{
    const int64_t until = now_ms() + LIMIT_MS;
    struct member *m = &l->member[node];
    int status = -1;
    pid_t pid;

    while ((pid = waitpid(m->pid, &status, WNOHANG)) == 0 && now_ms() < until)
        usleep(5000);
    fd_close(&m->in);
    if (pid == 0)
        kill(m->pid, SIGKILL);
    m->pid = 0;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void lan_reset(struct lan *l, uint32_t node)
{
    const struct linger now = { 1, 0 }; /* no FIN, but RST */

    must(setsockopt(l->member[node].fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0 &&
             shutdown(l->member[node].fd, SHUT_RDWR) == 0,
         "shutdown");
}

void lan_leave(struct lan *l)
{
    char endpoint[64];

    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", l->port);
    must(zmq_unbind(l->router, endpoint) == 0, "unbind");
}

int lan_end(struct lan *l, uint32_t node)
{
    fd_close(&l->member[node].in);
    return lan_wait(l, node);
}

bool lan_wrote(const struct lan *l, uint32_t node, const char *text)
{
    char all[8192] = "";
    const int fd = open(l->member[node].errors, O_RDONLY);

    must(fd >= 0 && read(fd, all, sizeof all - 1) >= 0, "errors");
    close(fd);
    return strstr(all, text) != NULL;
}

void lan_close(struct lan *l)
{
    const int linger = 0;

    for (uint32_t i = 0; i < LAN_MAX; i++) {
        if (l->member[i].pid)
            (void)lan_end(l, i);
        if (l->member[i].errors[0])
            unlink(l->member[i].errors);
    }
    rmdir(l->dir);
    span_release(&l->last);
    zmq_setsockopt(l->router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(l->router);
    zmq_ctx_term(l->context);
    buf_release(&l->bundle);
    buf_release(&l->msg);
    buf_release(&l->addresses);
}

/* ---- messages ---- */

void lan_send(struct lan *l, uint32_t via, const uint32_t *nodes, const uint32_t *workers, size_t n,
              const struct span *m)
{
    const struct member *to = &l->member[via];
    struct buf msg = BUF_INIT, route = BUF_INIT;
    struct err err = { "" };

    must(span_encode(m, &msg, &err) == 0, err.text);
    for (size_t i = 0; i < n; i++)
        must(route_add(&route, nodes[i], workers ? &workers[i] : NULL, workers ? 1 : 0) == 0,
             "memory");
    must(zmq_send(l->router, to->id, to->id_size, ZMQ_SNDMORE) >= 0 &&
             zmq_send(l->router, route.p, route.n, ZMQ_SNDMORE) >= 0 &&
             zmq_send(l->router, msg.p, msg.n, 0) >= 0,
         "send");
    buf_release(&msg);
    buf_release(&route);
}

void lan_tell(struct lan *l, uint32_t via, uint32_t node, const struct span *m)
{
    struct span told = *m;

    if (told.kind == SPAN_BEAT)
        told.v[F_BEAT_RECEIVED].u64 = l->member[node].received;
    lan_send(l, via, &node, NULL, 1, &told);
}

void lan_start_rank(struct lan *l, const char *python, uint32_t worker)
{
    const uint32_t node = 1, rank = worker - 2;
    struct span m = { .kind = SPAN_START };

    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(&rank, 4);
    m.v[F_START_PYTHON].s = slice_text(python);
    m.v[F_START_ENV].s = slice_text("{}");
    lan_send(l, 1, &node, &worker, 1, &m);
}

static void welcome(struct lan *l, const char *id, size_t n)
{
    const struct slice name = l->last.v[F_HELLO_NODE].s;
    /* what follows is another field */
    const uint32_t node = name.n == 2 ? (uint32_t)(name.p[1] - '0') : 0;
    struct span m = { .kind = SPAN_WELCOME };

    memcpy(l->member[node].id, id, n);
    l->member[node].id_size = n;
    l->member[node].fd = l->fd;
    l->node = node;
    buf_clear(&l->addresses);
    must(buf_add_slice(&l->addresses, l->last.v[F_HELLO_ADDRESSES].s) == 0, "memory");
    m.v[F_WELCOME_WINDOW].u64 = 1 << 20;
    m.v[F_WELCOME_NUMBER].u64 = node;
    m.v[F_WELCOME_TIMEOUT_MS].u64 = l->timeout_ms;
    if (!l->mute)
        lan_tell(l, node, node, &m);
}

/* Its next connection: what it lacks is not sent again, for nothing is kept. */
static void resumed(struct lan *l, const char *id, size_t n)
{
    struct span m = { .kind = SPAN_RESUME };
    struct member *from;

    must(l->last.v[F_RESUME_NUMBER].u64 < LAN_MAX, "a number");
    l->node = (uint32_t)l->last.v[F_RESUME_NUMBER].u64;
    from = &l->member[l->node];
    memcpy(from->id, id, n);
    from->id_size = n;
    from->fd = l->fd;
    m.v[F_RESUME_RECEIVED].u64 = from->received;
    if (!l->mute)
        lan_tell(l, l->node, l->node, &m);
}

static bool take(struct lan *l, const char *id, size_t id_size)
{
    struct slice rest = slice_of(l->bundle.p + l->taken, l->bundle.n - l->taken);
    struct err err = { "" };
    struct bundle_entry e;

    if (rest.n == 0)
        return false;
    must(bundle_next(&rest, &e), "a torn bundle");
    l->taken = l->bundle.n - rest.n;
    span_release(&l->last);
    buf_clear(&l->msg);
    must(buf_add_slice(&l->msg, e.message) == 0, "memory");
    must(span_decode(&l->last, l->msg.p, l->msg.n, &err) == 0, err.text);
    l->node = e.node;
    if (l->last.kind == SPAN_HELLO)
        welcome(l, id, id_size);
    else if (l->last.kind == SPAN_RESUME)
        resumed(l, id, id_size);
    else if (e.node < LAN_MAX) {
        l->member[e.node].by = l->via;
        l->member[e.node].received += span_is_numbered(l->msg.p, l->msg.n);
    }
    return true;
}

static bool receive(struct lan *l)
{
    static char id[64];
    static size_t id_size;
    zmq_msg_t frame;
    int n;

    if (take(l, id, id_size))
        return true;
    if ((n = zmq_recv(l->router, id, sizeof id, ZMQ_DONTWAIT)) < 0)
        return false;
    id_size = (size_t)n;
    zmq_msg_init(&frame);
    must(zmq_msg_recv(&frame, l->router, 0) >= 0 && !zmq_msg_more(&frame), "one frame");
    l->fd = zmq_msg_get(&frame, ZMQ_SRCFD);
    buf_clear(&l->bundle);
    must(buf_add(&l->bundle, zmq_msg_data(&frame), zmq_msg_size(&frame)) == 0, "memory");
    zmq_msg_close(&frame);
    l->taken = 0;
    l->via = 0;
    for (uint32_t i = 1; i < LAN_MAX; i++)
        if (l->member[i].id_size == id_size && memcmp(l->member[i].id, id, id_size) == 0)
            l->via = i;
    return take(l, id, id_size);
}

bool lan_comes(struct lan *l, enum span_kind kind, uint32_t node, int ms)
{
    const int64_t until = now_ms() + ms;
    zmq_pollitem_t item = { l->router, 0, ZMQ_POLLIN, 0 };
    int64_t left;

    while ((left = until - now_ms()) > 0) {
        if (!receive(l))
            (void)zmq_poll(&item, 1, (long)left);
        else if (l->last.kind == kind && (node == 0 || l->node == node))
            return true;
    }
    return false;
}

bool lan_until(struct lan *l, enum span_kind kind, uint32_t node)
{
    return lan_comes(l, kind, node, LIMIT_MS);
}
