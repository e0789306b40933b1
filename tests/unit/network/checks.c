/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.c - what must hold, whatever happens: see docs/architecture.md, "The network's simulator".
 * It keeps its own account, so that a fault in an end can't hide itself. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"

/* When nothing was in the way for so long, an agent must be back: it notices that its connection is
 * half open, its attempt may have begun before, and slow readers read what came before. */
#define BACK_NS (6 * FLEET_TIMEOUT_NS)

void check_fail(struct fleet *f, const char *format, ...)
{
    va_list args;

    if (f->broken)
        return;
    f->broken = true;
    va_start(args, format);
    vsnprintf(f->why, sizeof f->why, format, args);
    va_end(args);
}

void check_disturbed(struct fleet *f, unsigned agent)
{
    f->checks.disturbed_ns[agent] = f->now;
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (fleet_parent(i) == agent)
            check_disturbed(f, i);
}

void check_heard(struct fleet *f, enum side by, unsigned agent)
{
    f->checks.met_ns[by][agent] = f->now;
}

void check_slept(struct fleet *f, uint64_t ns)
{
    const uint64_t known = beat_wait(&f->kernel.agents.beat); /* it knows it that exactly */

    ns = ns > known ? ns - known : 0;
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        f->checks.met_ns[SIDE_KERNEL][i] = clock_earlier(f->checks.met_ns[SIDE_KERNEL][i] + ns,
                                                         f->now);
}

/* ---- messages ---- */

static uint64_t expected(const struct fleet *f, enum side to, unsigned agent, unsigned rank)
{
    if (to == SIDE_AGENT)
        return f->agent[agent].orders + 1;
    return rank < FLEET_RANKS ? f->kernel.node[agent].lines[rank] + 1 : 0;
}

void check_letter(struct fleet *f, enum side to, unsigned agent, const struct span *m)
{
    const unsigned of = (unsigned)m->v[F_LOGS_OF].u64;
    const unsigned rank = (unsigned)m->v[F_LOGS_FLAGS].u64 % 256;
    const unsigned turn = (unsigned)m->v[F_LOGS_FLAGS].u64 / 256;
    const uint64_t line = m->v[F_LOGS_AT].u64, next = expected(f, to, agent, rank);

    if (to == SIDE_KERNEL && (of != agent || turn != f->kernel.node[agent].turn))
        check_fail(f, "a line of agent %u (%u) came as one of agent %u (%u)", of, turn, agent,
                   f->kernel.node[agent].turn);
    else if (line != next)
        check_fail(f, "agent %u, %s %u: line %" PRIu64 " came, and %" PRIu64 " was to come", agent,
                   to == SIDE_AGENT ? "orders of the kernel" : "rank", rank, line, next);
}

void check_session(struct fleet *f, enum side of, unsigned agent, int rc, const struct err *err)
{
    if (rc < 0)
        check_fail(f, "agent %u, at the %s: %s", agent, of == SIDE_AGENT ? "agent" : "kernel",
                   err->text);
}

/* ---- keys and connections ---- */

void check_admitted(struct fleet *f, const struct wire *w)
{
    if (memcmp(w->key, f->checks.valid[w->agent], KEY_SIZE) != 0)
        check_fail(f, "a voided key of agent %u was admitted", w->agent);
}

void check_resumed(struct fleet *f, const struct wire *w, unsigned agent, const unsigned char *next)
{
    struct fleet_checks *c = &f->checks;

    if (w == f->thief || memcmp(w->key, c->valid[agent], KEY_SIZE) != 0)
        check_fail(f, "a connection with a voided key resumed agent %u", agent);
    memcpy(c->voided[agent][c->n_voided[agent]++ % FLEET_VOIDED], c->valid[agent], KEY_SIZE);
    memcpy(c->valid[agent], next, KEY_SIZE);
}

void check_refused(struct fleet *f, unsigned agent)
{
    const struct node_end *n = &f->kernel.node[agent];

    if (n->turn == f->agent[agent].turn && !n->lost)
        check_fail(f, "agent %u was refused, and the kernel waits for it", agent);
}

/* ---- losses ---- */

/* Also those by way of whom it is reached count. */
static bool is_disturbed(const struct fleet *f, unsigned agent)
{
    if (f->goes_on_ns[FLEET_KERNEL] != UINT64_MAX)
        return true;
    for (; agent != TREE_NONE; agent = fleet_parent(agent))
        if (f->path[agent].cut || f->path[FLEET_AGENTS + agent].cut ||
            f->goes_on_ns[agent] != UINT64_MAX || f->now < f->checks.disturbed_ns[agent] + BACK_NS)
            return true;
    return false;
}

void check_unanswered(struct fleet *f, unsigned agent)
{
    if (!is_disturbed(f, agent))
        check_fail(f, "HELLO of agent %u was not answered, and nothing was in the way", agent);
}

static bool is_gone(const struct fleet *f, enum side by, unsigned agent)
{
    return by == SIDE_AGENT ? f->kernel.node[agent].lost : f->agent[agent].over;
}

void check_lost(struct fleet *f, enum side by, unsigned agent, const char *what)
{
    const uint64_t silent = f->now - f->checks.met_ns[by][agent];

    if (silent < FLEET_RESUME_NS)
        check_fail(f, "%s (%u) that it had heard %" PRIu64 " ms before", what, agent,
                   silent / NS_PER_MS);
    else if (!is_gone(f, by, agent) && !is_disturbed(f, agent))
        check_fail(f, "%s (%u), and nothing was in the way", what, agent);
}

/* ---- after each step ---- */

static void check_kept(struct fleet *f, const struct session *s, const char *whose, unsigned agent)
{
    if (s && s->kept > SESSION_KEPT_MAX + FLEET_LETTER_MAX + SESSION_EACH)
        check_fail(f, "agent %u: %s keeps %" PRIu64 " MiB", agent, whose, s->kept >> 20);
}

static void check_connections(struct fleet *f)
{
    unsigned live[FLEET_AGENTS] = { 0 };

    for (const struct wire *w = f->net.first; w; w = w->next)
        if (w->live && !w->closed[SIDE_KERNEL] && w->node == f->kernel.node[w->agent].number &&
            ++live[w->agent] > 1)
            check_fail(f, "agent %u has two live connections", w->agent);
}

void check_state(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++) {
        check_kept(f, f->agent[i].session, "the agent", i);
        check_kept(f, kernel_end_session(f, i), "the kernel", i);
    }
    check_connections(f);
}

/* ---- at the end ---- */

static bool has_all_lines(const struct fleet *f, unsigned i)
{
    return memcmp(f->agent[i].lines, f->kernel.node[i].lines, sizeof f->agent[i].lines) == 0;
}

static bool is_whole(const struct fleet *f, unsigned i)
{
    const struct agent_end *a = &f->agent[i];
    const struct session *s = kernel_end_session(f, i);

    return agent_end_is_up(f, i) && kernel_end_is_up(f, i) && has_all_lines(f, i) &&
           a->orders == f->kernel.orders && a->session->kept == 0 && s->kept == 0;
}

bool check_is_whole(const struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!is_whole(f, i))
            return false;
    return true;
}

void check_end(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!is_whole(f, i))
            check_fail(f,
                       "the network is whole, and agent %u (%s) is not: %s, order %" PRIu64
                       " of %" PRIu64 ", %" PRIu64 " and %" PRIu64 " bytes kept",
                       i, agent_end_is_up(f, i) ? "up" : "not up",
                       has_all_lines(f, i) ? "all lines have come" : "lines are missing",
                       f->agent[i].orders, f->kernel.orders,
                       f->agent[i].session ? f->agent[i].session->kept : 0,
                       kernel_end_session(f, i)->kept);
}
