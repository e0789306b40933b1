/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "protocol/bytes.h"
#include "protocol/route.h"

#define NO_GPUS   "{\"gpus\":[],\"driver\":\"\",\"why\":\"a simulated agent has none\"}"
#define NO_GAUGES "{\"gpus\":[],\"workers\":[],\"why\":\"a simulated agent has none\"}"

void agent_say(struct agent *a, const struct span *m)
{
    struct err err = { "" };

    buf_clear(&a->scratch);
    if (a->uplink && (span_encode(m, &a->scratch, &err) < 0 ||
                      uplink_send(a->uplink, m->worker, buf_slice(&a->scratch), &err) < 0))
        fprintf(stderr, "agent %u: %s\n", a->index, err.text);
}

static struct rank *rank_of(struct agent *a, uint32_t worker)
{
    for (unsigned k = 0; worker && k < a->ranks; k++)
        if (a->rank[k].worker == worker)
            return &a->rank[k];
    return NULL;
}

/* ---- what the kernel asks of the agent ---- */

static struct rank *room_for(struct agent *a)
{
    for (unsigned k = 0; k < a->ranks; k++)
        if (a->rank[k].worker == 0)
            return &a->rank[k];
    return a->ranks < SIM_RANKS_MAX ? &a->rank[a->ranks++] : NULL;
}

static void on_start(struct agent *a, const struct span *m, struct slice workers)
{
    const struct slice numbers = m->v[F_START_RANKS].s;

    for (size_t k = 0; k < workers.n / 4; k++) {
        struct rank *r = room_for(a);

        if (r)
            rank_start(r, a, reader_u32_at(workers, k), reader_u32_at(numbers, k));
        else
            fprintf(stderr, "agent %u: a simulated agent has at most %u ranks\n", a->index,
                    SIM_RANKS_MAX);
    }
}

static void answer(struct agent *a, const struct span *m, unsigned field, const char *text)
{
    struct span reply = { .kind = m->kind, .cell = m->cell };

    reply.v[field].s = slice_text(text);
    agent_say(a, &reply);
}

static void on_port(struct agent *a, const struct span *m)
{
    const struct span reply = { .kind = SPAN_PORT, .cell = m->cell, .v[F_PORT_PORT].u64 = 29500 };

    agent_say(a, &reply);
}

static void on_sever(struct agent *a, const struct span *m)
{
    const struct span reply = { .kind = SPAN_CONNECTIONS, .cell = m->cell };

    if (m->v[F_CUT_RANKS_ASK].u64)
        agent_say(a, &reply);
}

static void on_expect(struct agent *a, const struct span *m)
{
    struct span reply = { .kind = SPAN_STORED, .blob = m->blob };

    reply.v[F_STORED_ERROR].s = slice_text("a simulated agent takes no variables");
    agent_say(a, &reply);
}

static void for_agent(struct agent *a, const struct span *m, struct slice workers)
{
    switch (m->kind) {
    case SPAN_WELCOME:
        a->window = m->v[F_WELCOME_WINDOW].u64;
        break;
    case SPAN_REFUSE:
        fprintf(stderr, "agent %u: refused: %.*s\n", a->index, SLICE_ARG(m->v[F_REFUSE_TEXT].s));
        agent_leave(a);
        break;
    case SPAN_START:
        on_start(a, m, workers);
        break;
    case SPAN_PORT:
        on_port(a, m);
        break;
    case SPAN_GPUS:
        answer(a, m, F_GPUS_GPUS, NO_GPUS);
        break;
    case SPAN_GAUGES:
        answer(a, m, F_GAUGES_GAUGES, NO_GAUGES);
        break;
    case SPAN_CUT_RANKS:
        on_sever(a, m);
        break;
    case SPAN_EXPECT:
        on_expect(a, m);
        break;
    case SPAN_QUIT:
        agent_leave(a);
        break;
    default:
        break;
    }
}

/* ---- what it asks of ranks ---- */

static void say_stack(struct rank *r, uint64_t cell)
{
    struct span m = { .kind = SPAN_STACK, .worker = r->worker, .cell = cell };

    m.v[F_STACK_TEXT].s = slice_text("  File \"simulated\", line 1 in hang\n");
    agent_say(r->agent, &m);
}

static void say_probed(struct rank *r, uint64_t cell)
{
    struct span m = { .kind = SPAN_PROBED, .worker = r->worker, .cell = cell };

    m.v[F_PROBED_STATUS].s = slice_text("error");
    m.v[F_PROBED_CONTENT].s = slice_text(
        "{\"ename\":\"RuntimeError\",\"evalue\":\"a simulated rank has no network\",\"traceback\":[]}");
    agent_say(r->agent, &m);
}

static void for_rank(struct rank *r, const struct span *m)
{
    switch (m->kind) {
    case SPAN_KILL:
        rank_exit(r, (int)m->v[F_KILL_SIGNAL].u64, 0);
        break;
    case SPAN_STACKS:
        say_stack(r, m->cell);
        break;
    case SPAN_CREDIT:
        rank_credit(r, m->v[F_CREDIT_BYTES].u64);
        break;
    case SPAN_RUN:
        rank_run(r, m);
        break;
    case SPAN_FETCH:
        rank_done(r, m->cell, "", slice_text(""));
        break;
    case SPAN_INTERRUPT:
        rank_interrupt(r, m->cell);
        break;
    case SPAN_EXIT:
        rank_exit(r, 0, 0);
        break;
    case SPAN_PROBE:
        say_probed(r, m->cell);
        break;
    default:
        break;
    }
}

static void on_message(void *arg, struct slice workers, struct slice msg)
{
    struct agent *a = arg;
    struct err err = { "" };
    struct span m;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        fprintf(stderr, "agent %u: %s\n", a->index, err.text);
        return;
    }
    if (workers.n == 0 || m.kind == SPAN_START || m.kind == SPAN_CUT_RANKS)
        for_agent(a, &m, workers);
    else
        for (size_t k = 0; k < workers.n / 4; k++) {
            struct rank *r = rank_of(a, reader_u32_at(workers, k));

            if (r)
                for_rank(r, &m);
        }
    span_release(&m);
}

/* ---- its life ---- */

static void leave_now(void *arg)
{
    struct agent *a = arg;

    agent_close(a);
    if (a->ended)
        a->ended(a);
}

void agent_leave(struct agent *a)
{
    if (loop_later(a->loop, leave_now, a) < 0)
        abort();
}

static void on_lost(void *arg, const char *why)
{
    struct agent *a = arg;

    log_info("sim", "agent %u: %s", a->index, why);
    agent_leave(a);
}

static void say_hello(struct agent *a)
{
    struct span m = { .kind = SPAN_HELLO };
    char name[32];

    snprintf(name, sizeof name, "sim%u", a->index);
    m.v[F_HELLO_VERSION].u64 = SPAN_VERSION;
    m.v[F_HELLO_NODE].s = slice_text(name);
    m.v[F_HELLO_PID].u64 = (uint64_t)getpid();
    m.v[F_HELLO_CORES].u64 = 8;
    m.v[F_HELLO_ADDRESSES].s = slice_text("lo=127.0.0.1");
    m.v[F_HELLO_SOFTWARE].s = slice_text("cellspan " CELLSPAN_VERSION);
    m.v[F_HELLO_NEXT].s = uplink_next_key(a->uplink);
    agent_say(a, &m);
}

int agent_open(struct agent *a, struct loop *loop, unsigned index, const struct agent_to *to,
               struct err *err)
{
    struct keys keys;
    struct uplink_config c = { .endpoint = to->endpoint,
                               .keys = &keys,
                               .kernel = to->secret->kernel,
                               .context = to->context,
                               .again = to->endpoint };

    a->loop = loop;
    a->index = index;
    c.handler = (struct uplink_handler){ .message = on_message, .lost = on_lost, .arg = a };
    keys_derive(&keys, to->secret, index, 0);
    a->uplink = uplink_open(loop, &c, err);
    keys_wipe(&keys);
    if (!a->uplink)
        return -1;
    say_hello(a);
    return 0;
}

void agent_close(struct agent *a)
{
    for (unsigned k = 0; k < a->ranks; k++)
        rank_release(&a->rank[k]);
    a->ranks = 0;
    uplink_close(a->uplink);
    a->uplink = NULL;
    buf_release(&a->scratch);
}
