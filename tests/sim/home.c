/* SPDX-License-Identifier: BSD-3-Clause */
/* home.c - this machine's agent (cellspan-agent) with a simulated home: it has no variables, and
 * accepts every value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/route.h"
#include "protocol/span.h"
#include "protocol/span_fields.h"
#include "tests/sim/part.h"
#include "worker/agent/net/uplink.h"

#define FINE    "{\"status\":\"ok\",\"user_expressions\":{},\"payload\":[]}"
#define NOTHING "{\"gpus\":[],\"workers\":[],\"driver\":\"\",\"why\":\"this machine is simulated\"}"

struct home {
    struct loop *loop;
    struct uplink *uplink;
    struct buf scratch;
};

static void say(struct home *h, const struct span *m)
{
    struct err err = { "" };

    buf_clear(&h->scratch);
    if (span_encode(m, &h->scratch, &err) < 0 ||
        uplink_send(h->uplink, m->worker, buf_slice(&h->scratch), &err) < 0)
        fprintf(stderr, "home: %s\n", err.text);
}

static void say_hello(struct home *h, const char *node)
{
    struct span m = { .kind = SPAN_HELLO };

    m.v[F_HELLO_VERSION].u64 = SPAN_VERSION;
    m.v[F_HELLO_NODE].s = slice_text(node);
    m.v[F_HELLO_PID].u64 = (uint64_t)getpid();
    m.v[F_HELLO_CORES].u64 = 2;
    m.v[F_HELLO_SOFTWARE].s = slice_text("cellspan " CELLSPAN_VERSION);
    say(h, &m);
}

static void say_ready(struct home *h)
{
    struct span m = { .kind = SPAN_READY, .worker = SPAN_WORKER_HOME };

    m.v[F_READY_PID].u64 = (uint64_t)getpid();
    m.v[F_READY_PYTHON].s = slice_text("3.11.0");
    m.v[F_READY_INFO].s = slice_text("{}");
    say(h, &m);
}

static void say_exited(struct home *h, unsigned signo)
{
    struct span m = { .kind = SPAN_EXITED, .worker = SPAN_WORKER_HOME };

    m.v[F_EXITED_PID].u64 = (uint64_t)getpid();
    m.v[F_EXITED_CODE].u64 = signo ? EXITED_SIGNAL : EXITED_STATUS;
    m.v[F_EXITED_STATUS].u64 = signo;
    say(h, &m);
}

static void say_captured(struct home *h, uint64_t cell)
{
    struct span m = { .kind = SPAN_CAPTURED, .worker = SPAN_WORKER_HOME, .cell = cell };

    m.v[F_CAPTURED_NAMES].s = slice_text("{\"names\":[],\"assigned\":[]}");
    say(h, &m);
}

static void reply(struct home *h, uint64_t cell)
{
    struct span m = { .kind = SPAN_REPLY, .worker = SPAN_WORKER_HOME, .cell = cell };

    m.v[F_REPLY_STATUS].s = slice_text("ok");
    m.v[F_REPLY_CONTENT].s = slice_text(FINE);
    m.v[F_REPLY_METADATA].s = slice_text("{}");
    say(h, &m);
}

static void for_home(struct home *h, const struct span *m)
{
    switch (m->kind) {
    case SPAN_START:
        say_ready(h);
        break;
    case SPAN_KILL:
        say_exited(h, (unsigned)m->v[F_KILL_SIGNAL].u64);
        break;
    case SPAN_EXIT:
        say_exited(h, 0);
        break;
    case SPAN_CAPTURE:
        say_captured(h, m->cell);
        break;
    case SPAN_REQUEST:
    case SPAN_BIND:
        reply(h, m->cell);
        break;
    default:
        break;
    }
}

static void for_agent(struct home *h, const struct span *m)
{
    struct span answer = { .kind = m->kind, .cell = m->cell };

    if (m->kind == SPAN_QUIT || m->kind == SPAN_REFUSE)
        loop_stop(h->loop);
    if (m->kind == SPAN_PORT)
        answer.v[F_PORT_PORT].u64 = 29400;
    else if (m->kind == SPAN_GPUS || m->kind == SPAN_GAUGES)
        answer.v[0].s = slice_text(NOTHING);
    else
        return;
    say(h, &answer);
}

static void on_message(void *arg, struct slice workers, struct slice msg)
{
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        fprintf(stderr, "home: %s\n", err.text);
        return;
    }
    if (workers.n)
        for_home(arg, &m);
    else
        for_agent(arg, &m);
    span_release(&m);
}

static void stdin_ended(void *arg, int fd, unsigned events)
{
    char bytes[64];

    (void)events;
    if (read(fd, bytes, sizeof bytes) <= 0)
        loop_stop(arg);
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], name) == 0)
            return argv[k + 1];
    return "";
}

int home_main(int argc, char **argv)
{
    struct home h = { NULL, NULL, BUF_INIT };
    struct err err = { "" };
    const struct uplink_config c = { .endpoint = option(argc, argv, "--connect"),
                                     .handler = { .message = on_message, .arg = &h } };
    int rc = -1;

    if ((h.loop = loop_create(&clock_system, &err)) && (h.uplink = uplink_open(h.loop, &c, &err)) &&
        loop_fd(h.loop, 0, LOOP_READ, stdin_ended, h.loop, &err)) {
        say_hello(&h, option(argc, argv, "--node"));
        say_ready(&h);
        rc = loop_run(h.loop, &err);
    }
    if (rc < 0)
        fprintf(stderr, "cellspan-agent (simulated): %s\n", err.text);
    uplink_close(h.uplink);
    loop_destroy(h.loop);
    buf_release(&h.scratch);
    return rc < 0 ? 1 : 0;
}
