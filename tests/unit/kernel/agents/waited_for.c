/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents that are away: how long the kernel waits for them (CELLSPAN_RESUME), and what ends the
 * wait sooner. */
#include "tests/unit/kernel/agents/resuming.h"

static void one_that_is_away_is_shown_and_waited_for(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2], then, last;
    const unsigned first = two_up(&s, peer, next);
    const struct node *node = &link_of(&s, first)->node;

    keys_create(&then);
    keys_create(&last);
    is_int((int64_t)peer[0].last.v[F_WELCOME_RESUME_MS].u64, 600000, "WELCOME has the time");
    stage_still(&s);
    cut(&s, &peer[0], first);
    stage_skip(&s, 58000);
    is_int(s.away[first], 0, "one whose connection ends is not shown as away at once");
    stage_skip(&s, 4000);
    ok(s.away[first] == 1 && node->shown_away && !node->leaving,
       "but after the heartbeat's timeout");
    ok(node->until_ns >= s.still_ns + 530 * NS_PER_S &&
           node->until_ns < s.still_ns + 540 * NS_PER_S,
       "with the time at which it is lost");
    stage_skip(&s, 400000);
    is_int(s.n_lost, s.lost[first + 1], "it is waited for");
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 0, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "and can resume");
    stage_skip(&s, 1000);
    ok(s.back[first] == 1 && !node->shown_away, "which is shown, too");
    cut(&s, &peer[0], first);
    stage_skip(&s, 595000);
    is_int(s.lost[first], 0, "the next time it is waited for as long");
    stage_skip(&s, 10000);
    is_int(s.lost[first], 1, "and not longer");
    is_text(s.why[first], CLOSED ", and it has not come back within 600 s", "the loss says so");
    ok(!node->shown_away && node->may_hold_connections, "then it is not away any more");
    peer_close(&peer[1]);
    stage_close(&s);
}

static void silence_is_shown_before_it_is_a_loss(void)
{
    const struct span notice = { .kind = SPAN_NOTICE };
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    stage_still(&s);
    stage_skip(&s, 62000);
    ok(s.away[first] == 1 && s.n_lost == 0, "who is silent for long is shown as away");
    s.still_ns += 5 * NS_PER_S; /* late timers: this machine slept */
    stage_skip(&s, 500);
    ok(s.back[first] == 0 && agents_node(s.agents, first)->shown_away,
       "and does not come back because this machine slept");
    peer_say(&peer[0], first, 0, &notice);
    ok(stage_until(&s, &s.messages, 1), "it speaks");
    stage_skip(&s, 500);
    is_int(s.back[first], 1, "then it is back");
    stage_skip(&s, 610000);
    ok(s.away[first] == 2 && s.lost[first] == 1 && strstr(s.why[first], "for 600 s"),
       "who stays silent is lost: %s", s.why[first]);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

/* Users were told when a wait ends. Agents don't wait for longer either. */
static void the_wait_goes_on_while_this_machine_is_suspended(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);
    const struct node *node = &link_of(&s, first)->node;
    const struct node *silent = &link_of(&s, first + 1)->node;
    uint64_t until_ns[2];

    stage_still(&s);
    s.slept_ns += 3600 * NS_PER_S;
    stage_skip(&s, 1000);
    ok(!s.away[first] && !s.away[first + 1] && !s.n_lost,
       "after an hour's sleep nobody is away who was there before");
    cut(&s, &peer[0], first);
    stage_skip(&s, 70000);
    ok(node->shown_away && silent->shown_away, "two are away");
    until_ns[0] = node->until_ns;
    until_ns[1] = silent->until_ns;
    s.slept_ns += 400 * NS_PER_S;
    stage_skip(&s, 500);
    ok(node->until_ns == until_ns[0] - 400 * NS_PER_S &&
           silent->until_ns == until_ns[1] - 400 * NS_PER_S,
       "a sleep does not move the ends of their waits");
    is_int(s.n_lost, 0, "and they are waited for until then");
    s.slept_ns += NS_PER_S / 2;
    stage_skip(&s, 500);
    ok(node->until_ns == until_ns[0] - 400 * NS_PER_S, "half a second may be that of two readings");
    s.slept_ns += 3600 * NS_PER_S;
    stage_skip(&s, 500);
    ok(s.lost[first] == 1 && s.lost[first + 1] == 1, "the next sleep is longer than the waits");
    ok(strstr(s.why[first + 1], "for 600 s"), "which say how long they were: %s", s.why[first + 1]);
    peer_close(&peer[1]);
    stage_close(&s);
}

/* The same of a kernel that was stopped, as by SIGSTOP, which its clock counts. */
static void a_stop_does_not_lengthen_a_wait_that_begins_after_it(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    stage_still(&s);
    stage_skip(&s, 1000);
    s.still_ns += 3600 * NS_PER_S;
    peer_close(&peer[0]);
    node_failures_cut(s.agents, node_table_get(&s.agents->nodes, first));
    stage_skip(&s, 500);
    ok(!s.n_lost && link_of(&s, first)->lost_at_ns < s.still_ns + 600 * NS_PER_S,
       "one that is cut off after the kernel was stopped for an hour is not waited for longer");
    stage_skip(&s, 601000);
    is_int(s.lost[first], 1, "and lost then");
    peer_close(&peer[1]);
    stage_close(&s);
}

/* When this machine wakes up, it sees first that a connection has ended: that wait begins then. */
static void a_sleep_does_not_shorten_a_wait_that_begins_after_it(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);
    const struct node *node = &link_of(&s, first)->node;

    stage_still(&s);
    s.slept_ns += 3600 * NS_PER_S;
    cut(&s, &peer[0], first);
    stage_skip(&s, 500);
    ok(!s.n_lost && link_of(&s, first)->lost_at_ns >= s.still_ns + 590 * NS_PER_S,
       "one that is cut off after an hour's sleep is waited for");
    stage_skip(&s, 62000);
    ok(s.away[first] == 1 && node->shown_away, "and shown as away later");
    peer_close(&peer[1]);
    stage_close(&s);
}

static void an_engine_knows_earlier_that_one_is_away(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2], then;
    const unsigned first = two_up(&s, peer, next);

    keys_create(&then);
    stage_still(&s);
    agents_nodes_way_lost(s.agents, first);
    stage_skip(&s, 1000);
    is_int(s.away[first], 0, "one of whom the kernel hears is not away");
    stage_skip(&s, 35000);
    ok(s.away[first] == 1 && s.away[first + 1] == 0,
       "one that is silent, too, is shown as away sooner than others");
    cut(&s, &peer[0], first);
    agents_nodes_way_lost(s.agents, first + 1);
    cut(&s, &peer[1], first + 1);
    stage_skip(&s, 1000);
    is_int(s.away[first + 1], 1, "and one that has been for as long at once");
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 0, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "its agent resumes");
    stage_skip(&s, 35000);
    ok(s.back[first] == 1 && s.away[first] == 1, "then it is a node like others");
    agents_nodes_failed(s.agents, first + 1, "it was restarted");
    is_int(s.lost[first + 1], 1, "one that is gone is not waited for");
    peer_close(&peer[0]);
    stage_close(&s);
}

static void one_that_is_given_up_is_lost_soon(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    stage_still(&s);
    ok(agents_send_nodes(s.agents, &first, 1, &quit, NULL) == 0, "QUIT is sent");
    stage_skip(&s, 1000);
    is_int(s.n_lost, 0, "who is not away is not given up");
    cut(&s, &peer[0], first);
    stage_skip(&s, 62000);
    ok(agents_send_nodes(s.agents, &first, 1, &quit, NULL) == 0, "QUIT is kept");
    is_int(s.lost[first], 0, "who is given up is not lost within the call");
    stage_skip(&s, 1000);
    ok(s.lost[first] == 1 && agents_node(s.agents, first)->may_hold_connections, "but soon");
    ok(strstr(s.why[first], "it was away"), "for that reason: %s", s.why[first]);
    peer_close(&peer[1]);
    stage_close(&s);
}

static void an_agent_that_ends_is_not_waited_for(void)
{
    const struct span quit = { .kind = SPAN_QUIT };
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    peer_say(&peer[0], first, 0, &quit);
    for (unsigned k = 0; !link_of(&s, first)->agent_ends && k < 2000; k++)
        stage_pass(&s, 5);
    stage_still(&s);
    cut(&s, &peer[0], first);
    stage_skip(&s, 58000);
    ok(s.n_lost == 0 && agents_node(s.agents, first)->leaving,
       "the engine of one that has said that it ends may say why");
    stage_skip(&s, 4000);
    ok(s.lost[first] == 1 && s.away[first] == 0,
       "and then it is lost, though others are waited for");
    is_text(s.why[first], "its agent has got a signal, or what had started it was gone",
            "for that reason");
    peer_close(&peer[1]);
    stage_close(&s);
}

static void an_engine_that_ends_ends_the_wait(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    stage_still(&s);
    cut(&s, &peer[0], first);
    agents_nodes_orphaned(s.agents, link_of(&s, first)->node.engine, "it was killed");
    stage_skip(&s, 1000);
    ok(s.lost[first] == 1 && s.lost[first + 1] == 1, "an engine that ends ends the wait");
    is_text(s.why[first], "it was killed", "with its reason");
    ok(peer_gets(&s, &peer[1], SPAN_QUIT), "who is still connected is told to end");
    peer_close(&peer[1]);
    stage_close(&s);
}

/* The time is not set: how long is waited is the engine's. */
static void only_agents_whose_end_is_told_are_waited_for(void)
{
    static const struct {
        const char *line;
        unsigned seconds;
    } engine[] = { { "echo nodes 2", 60 },
                   { "echo contract 1; echo nodes 2", 60 },
                   { "echo nodes 2; echo contract 2", 60 }, /* too late */
                   { "echo contract 2; echo nodes 2", 120 } };

    for (size_t k = 0; k < sizeof engine / sizeof *engine; k++) {
        const unsigned seconds = engine[k].seconds;
        struct stage s;
        struct peer peer[2];
        struct keys next[2];
        const unsigned first = two_of(&s, engine[k].line, peer, next);

        is_int((int64_t)peer[0].last.v[F_WELCOME_RESUME_MS].u64, seconds * 1000,
               "%s: WELCOME has the time", engine[k].line);
        stage_still(&s);
        cut(&s, &peer[0], first);
        stage_skip(&s, seconds * 1000 - 1000);
        ok(!s.lost[first] && s.away[first] == (seconds > 60), "it is %s",
           seconds > 60 ? "shown as away" : "there");
        stage_skip(&s, 2000);
        is_int(s.lost[first], 1, "and lost after %u s", seconds);
        peer_close(&peer[1]);
        stage_close(&s);
    }
}

static void what_comes_in_place_of_one_is_told_of_as_well(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_of(&s, "echo contract 2; echo nodes 2", peer, next);
    struct err err = { "" };
    unsigned by = 0;

    ok(agents_nodes_replace(s.agents, first, 1, "another comes", &s.secret, &by, &err) == 0 &&
           link_of(&s, by)->engine_tells,
       "another machine is waited for as well");
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

int main(void)
{
    stage_ready();
    unsetenv("CELLSPAN_RESUME");
    only_agents_whose_end_is_told_are_waited_for();
    what_comes_in_place_of_one_is_told_of_as_well();
    setenv("CELLSPAN_RESUME", "600", 1);
    one_that_is_away_is_shown_and_waited_for();
    silence_is_shown_before_it_is_a_loss();
    the_wait_goes_on_while_this_machine_is_suspended();
    a_sleep_does_not_shorten_a_wait_that_begins_after_it();
    a_stop_does_not_lengthen_a_wait_that_begins_after_it();
    one_that_is_given_up_is_lost_soon();
    an_engine_knows_earlier_that_one_is_away();
    an_agent_that_ends_is_not_waited_for();
    an_engine_that_ends_ends_the_wait();
    return plan_done();
}
