/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents that change to a parent: nodes that die meanwhile, and the state after a failed change. */
#include <stdlib.h>

#include "kernel/agents/to_agents.h"
#include "tests/unit/kernel/agents/stage.h"
#include "tests/unit/tap.h"

#define MANY 34u

static void everybody_ends(struct stage *s, struct peer *peer, unsigned engine)
{
    engines_stop(s->engines, engine);
    for (unsigned k = 0; k < MANY; k++)
        peer_close(&peer[k]);
}

/* Until the child dials. */
static void begin_move(struct stage *s, struct peer *peer, unsigned first, unsigned index)
{
    struct span opened = { .kind = SPAN_OPENED,
                           .v[F_OPENED_NODE].u64 = first + index,
                           .v[F_OPENED_PORT].u64 = 4711 };
    struct peer *parent = &peer[tree_parent(index)];

    ok(peer_gets(s, parent, SPAN_OPEN) && parent->last.v[F_OPEN_NODE].u64 == first + index,
       "a parent opens");
    peer_say(parent, first + tree_parent(index), 0, &opened);
    ok(peer_gets(s, &peer[index], SPAN_DIAL), "a child dials");
}

static bool takes_back(struct stage *s, struct peer *parent, unsigned node)
{
    return peer_gets(s, parent, SPAN_OPEN) && parent->last.v[F_OPEN_NODE].u64 == node &&
           parent->last.v[F_OPEN_KEY].s.n == 0;
}

static void what_comes_to_nothing_is_taken_back(struct stage *s)
{
    static struct peer peer[MANY];
    const unsigned engine = stage_engine(s, "echo nodes 34"), first = stage_first(s, engine);
    struct span dialed = { .kind = SPAN_DIALED, .v[F_DIALED_NODE].u64 = first };

    ok(peers_up(s, peer, MANY, first), "34 agents are up");
    begin_move(s, peer, first, 32);
    dialed.v[F_DIALED_ERROR].s = slice_text("no route to host");
    peer_say(&peer[32], first + 32, 0, &dialed);
    ok(takes_back(s, &peer[0], first + 32),
       "a parent that was not reached expects its child no more");
    is_int(s->n_lost, 0, "the child stays where it is");
    begin_move(s, peer, first, 33);
    peer_close(&peer[33]);
    ok(takes_back(s, &peer[1], first + 33), "nor does one whose child is lost on its way");
    everybody_ends(s, peer, engine);
}

static void who_moves_may_die(struct stage *s)
{
    static struct peer peer[MANY];
    const struct span beat = { .kind = SPAN_BEAT };
    const unsigned engine = stage_engine(s, "echo nodes 34"), first = stage_first(s, engine);

    ok(peers_up(s, peer, MANY, first), "34 agents are up");
    begin_move(s, peer, first, 32); /* the other one's parent does not open */
    for (unsigned pass = 0; !s->lost[first + 33] && pass < 2000; pass++) {
        for (unsigned k = 0; k < 32; k++)
            peer_say(&peer[k], first + k, 0, &beat);
        if (pass < 20)
            peer_say(&peer[33], first + 33, 0, &beat);
        stage_pass(s, 50);
    }
    is_int(s->n_lost, 2, "two that are silent are lost");
    ok(s->order[0] == first + 32 && s->order[1] == first + 33,
       "first the one that is silent for longer, and dials");
    ok(strstr(s->why[first + 32], "nothing was heard") && strstr(s->why[first + 32], "for 5 s"),
       "in time: %s", s->why[first + 32]);
    everybody_ends(s, peer, engine);
}

/* The child is reached by way of its parent, and everybody has just spoken. */
static unsigned relay_one(struct stage *s, struct peer *peer, unsigned *engine)
{
    struct span dialed = { .kind = SPAN_DIALED };
    unsigned first;

    *engine = stage_engine(s, "echo nodes 34");
    first = stage_first(s, *engine);
    dialed.v[F_DIALED_NODE].u64 = first;
    ok(peers_up(s, peer, MANY, first), "34 agents are up");
    begin_move(s, peer, first, 32);
    peer_say(&peer[32], first + 32, 0, &dialed);
    while (node_table_get(&s->agents->nodes, first + 32)->move != TREE_MOVE_DONE)
        stage_pass(s, 5);
    return first;
}

/* Beats of all but these two, and of parent and child for so many of the passes. Until somebody is
 * lost. */
static void beats(struct stage *s, struct peer *peer, unsigned first, unsigned parent,
                  unsigned child)
{
    const struct span beat = { .kind = SPAN_BEAT };
    const unsigned before = s->n_lost;

    for (unsigned pass = 0; s->n_lost == before && pass < 2000; pass++) {
        for (unsigned k = 1; k < MANY; k++)
            if (k != 32)
                peer_say(&peer[k], first + k, 0, &beat);
        if (pass < parent)
            peer_say(&peer[0], first, 0, &beat);
        if (pass < child)
            peer_say(&peer[0], first + 32, 0, &beat);
        stage_pass(s, 50);
    }
}

static void a_child_is_silent_where_its_parent_is_not(struct stage *s)
{
    static struct peer peer[MANY];
    unsigned engine, lost = s->n_lost;
    const unsigned first = relay_one(s, peer, &engine);

    beats(s, peer, first, 2000, 20);
    ok(s->n_lost == lost + 1 && s->lost[first + 32],
       "one that is silent behind a parent that speaks is lost alone");
    ok(strstr(s->why[first + 32], "nothing was heard from it"), "for its own silence: %s",
       s->why[first + 32]);
    everybody_ends(s, peer, engine);
}

static void a_child_behind_a_silent_parent_is_not_to_blame(struct stage *s)
{
    static struct peer peer[MANY];
    unsigned engine, lost = s->n_lost;
    const unsigned first = relay_one(s, peer, &engine);

    beats(s, peer, first, 20, 1);
    ok(s->n_lost == lost + 2 && s->order[lost] == first && s->order[lost + 1] == first + 32,
       "with a parent that says nothing, it is the parent that is lost first, though the child was silent for longer");
    ok(strstr(s->why[first], "nothing was heard from it") &&
           strstr(s->why[first + 32], "it was reached by way of"),
       "and each has its own reason: %s", s->why[first + 32]);
    everybody_ends(s, peer, engine);
}

static void who_moves_may_be_cut_off(struct stage *s)
{
    static struct peer peer[MANY];
    const unsigned engine = stage_engine(s, "echo nodes 34"), first = stage_first(s, engine);

    ok(peers_up(s, peer, MANY, first), "34 agents are up");
    begin_move(s, peer, first, 32);
    peer_close(&peer[32]);
    ok(stage_until(s, &s->lost[first + 32], 1) &&
           strstr(s->why[first + 32], "the connection was closed"),
       "the end of a connection tells also while it moves: %s", s->why[first + 32]);
    everybody_ends(s, peer, engine);
}

int main(void)
{
    struct stage s;

    stage_ready();
    stage_open(&s);
    what_comes_to_nothing_is_taken_back(&s);
    who_moves_may_be_cut_off(&s);
    stage_close(&s);
    setenv("CELLSPAN_HEARTBEAT_TIMEOUT", "5", 1);
    stage_open(&s);
    who_moves_may_die(&s);
    stage_close(&s);
    stage_open(&s);
    a_child_is_silent_where_its_parent_is_not(&s);
    a_child_behind_a_silent_parent_is_not_to_blame(&s);
    stage_close(&s);
    return plan_done();
}
