/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents whose connection ends, and that resume on another one: nothing is lost, and only who has
 * the right key is taken for that agent. */
#include <sys/stat.h>
#include <zmq.h>

#include "tests/unit/kernel/agents/resuming.h"

#define QUIET_MS 400 /* in which an answer would have come */

static void warm(struct stage *s, unsigned node, const char *python)
{
    struct span m = { .kind = SPAN_WARM };
    struct err err = { "" };

    m.v[F_WARM_PYTHON].s = slice_text(python);
    ok(agents_send_nodes(s->agents, &node, 1, &m, &err) == 0, "%s is sent or kept", python);
}

static bool gets_warm(struct stage *s, struct peer *p, const char *python)
{
    return peer_gets(s, p, SPAN_WARM) && slice_is(p->last.v[F_WARM_PYTHON].s, python);
}

static bool gets_nothing(struct stage *s, struct peer *p)
{
    char byte;

    stage_pass(s, QUIET_MS);
    return zmq_recv(p->socket, &byte, 1, ZMQ_DONTWAIT) < 0;
}

static void no_message_is_lost(void)
{
    const struct span notice = { .kind = SPAN_NOTICE };
    struct stage s;
    struct peer peer[2];
    struct keys next[2], then;
    const unsigned first = two_up(&s, peer, next);
    const unsigned before = s.messages;

    keys_create(&then);
    warm(&s, first, "one");
    warm(&s, first, "two");
    ok(gets_warm(&s, &peer[0], "one"), "the first message arrives");
    for (unsigned k = 0; k < 3; k++)
        peer_say(&peer[0], first, 0, &notice);
    ok(stage_until(&s, &s.messages, before + 3), "three come back");
    cut(&s, &peer[0], first);
    warm(&s, first, "three");
    ok(s.n_lost == 0 && link_of(&s, first)->node.state == NODE_UP, "a cut loses no node");
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 1, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME) && peer[0].last.v[F_RESUME_RECEIVED].u64 == 3,
       "the agent resumes, and learns what has arrived");
    ok(gets_warm(&s, &peer[0], "two") && gets_warm(&s, &peer[0], "three"),
       "then it gets what it lacks, in order");
    warm(&s, first, "four");
    ok(gets_warm(&s, &peer[0], "four") && !link_of(&s, first)->cut, "and what follows");
    is_int(link_of(&s, first)->session.acked, 1, "nothing is forgotten before it is acknowledged");
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

/* What waits for HELLO follows WELCOME, and is kept as all that comes later. */
static void what_waited_for_hello_is_kept(void)
{
    struct stage s;
    struct peer peer;
    struct keys next, then;
    unsigned first;

    keys_create(&next);
    keys_create(&then);
    stage_open(&s);
    first = stage_first(&s, stage_engine(&s, "echo nodes 1"));
    warm(&s, first, "one");
    peer_open(&s, &peer, 0, PEER_CURVE);
    hello(&peer, &next);
    ok(peer_gets(&s, &peer, SPAN_WELCOME), "an agent is welcome");
    is_int(link_of(&s, first)->session.acked, 0, "nothing of what waited for it is forgotten");
    cut(&s, &peer, first);
    peer_open_with(&s, &peer, &next);
    resume(&peer, first, 0, then.public);
    ok(peer_gets(&s, &peer, SPAN_RESUME) && gets_warm(&s, &peer, "one"),
       "and if the connection ends at once, it comes on the next one");
    peer_close(&peer);
    stage_close(&s);
}

static void a_beat_acknowledges(void)
{
    struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_RECEIVED].u64 = 1 };
    struct stage s;
    struct peer peer[2];
    struct keys next[2];
    const unsigned first = two_up(&s, peer, next);

    warm(&s, first, "one");
    ok(gets_warm(&s, &peer[0], "one"), "a message arrives");
    is_int(link_of(&s, first)->session.kept > 0, 1, "and is kept");
    peer_say(&peer[0], first, 0, &beat);
    for (unsigned k = 0; link_of(&s, first)->session.kept && k < 2000; k++)
        stage_pass(&s, 5);
    is_int(link_of(&s, first)->session.kept, 0, "until a BEAT acknowledges it");
    beat.v[F_BEAT_RECEIVED].u64 = 2;
    peer_say(&peer[0], first, 0, &beat);
    ok(stage_until(&s, &s.n_lost, 1) && s.lost[first],
       "an agent that acknowledges what it never got is not gone on with: %s", s.why[first]);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

static void only_the_newest_key_resumes(void)
{
    struct stage s;
    struct peer peer[2], thief;
    struct keys next[2], then, mine;
    const unsigned first = two_up(&s, peer, next);

    keys_create(&then);
    keys_create(&mine);
    cut(&s, &peer[0], first);
    peer_open(&s, &thief, 0, PEER_CURVE);
    resume(&thief, first, 0, mine.public);
    ok(gets_nothing(&s, &thief) && link_of(&s, first)->cut, "the engine's key can't resume");
    peer_close(&thief);
    peer_open_with(&s, &thief, &next[1]);
    resume(&thief, first, 0, mine.public);
    ok(gets_nothing(&s, &thief) && link_of(&s, first)->cut, "nor can another agent's");
    peer_close(&thief);
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 0, next[1].public);
    ok(gets_nothing(&s, &peer[0]), "nobody can name another's key as its next one");
    resume(&peer[0], first, 0, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "its own key can");
    peer_open_with(&s, &thief, &next[0]);
    resume(&thief, first, 0, mine.public);
    ok(gets_nothing(&s, &thief) && !link_of(&s, first)->cut, "once");
    peer_close(&thief);
    cut(&s, &peer[0], first);
    peer_open_with(&s, &thief, &next[0]);
    resume(&thief, first, 0, mine.public);
    ok(gets_nothing(&s, &thief) && link_of(&s, first)->cut, "also when the connection has ended");
    peer_close(&thief);
    peer_open_with(&s, &peer[0], &then);
    resume(&peer[0], first, 0, mine.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "then it is the turn of the one after it");
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

/* WELCOME was lost with the first connection of an agent. */
static void hello_is_said_again(void)
{
    struct keys next[2], then, last;
    struct peer peer[2];
    struct stage s;
    unsigned first;

    first = two_up(&s, peer, next);
    warm(&s, first, "one");
    cut(&s, &peer[0], first);
    keys_create(&then);
    keys_create(&last);
    peer_open_with(&s, &peer[0], &next[0]);
    hello(&peer[0], &then);
    ok(peer_gets(&s, &peer[0], SPAN_WELCOME) && peer[0].last.v[F_WELCOME_NUMBER].u64 == first,
       "an agent that has not got WELCOME may say HELLO again, with the key that it has named");
    ok(gets_warm(&s, &peer[0], "one") && !link_of(&s, first)->cut && s.n_lost == 0,
       "and gets all that followed");
    cut(&s, &peer[0], first);
    peer_open_with(&s, &peer[0], &then);
    resume(&peer[0], first, 1, last.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "then it resumes as any other");
    cut(&s, &peer[0], first);
    peer_open_with(&s, &peer[0], &last);
    hello(&peer[0], &then);
    ok(gets_nothing(&s, &peer[0]) && link_of(&s, first)->cut,
       "one that has had messages can't begin anew");
    for (unsigned k = 0; k < 2; k++)
        peer_close(&peer[k]);
    stage_close(&s);
}

static void of_two_at_once_one_resumes(void)
{
    struct stage s;
    struct peer peer[2], other;
    struct keys next[2], then, mine;
    const unsigned first = two_up(&s, peer, next);

    keys_create(&then);
    keys_create(&mine);
    cut(&s, &peer[0], first);
    peer_open_with(&s, &peer[0], &next[0]);
    peer_open_with(&s, &other, &next[0]);
    stage_pass(&s, QUIET_MS); /* both are let in */
    resume(&peer[0], first, 0, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_RESUME), "of two connections with the key, one resumes");
    resume(&other, first, 0, mine.public);
    ok(gets_nothing(&s, &other), "the other one gets no answer");
    warm(&s, first, "one");
    ok(gets_warm(&s, &peer[0], "one"), "and takes nothing away");
    peer_close(&other);
    stage_pass(&s, QUIET_MS);
    ok(!link_of(&s, first)->cut, "nor does its end");
    peer_open_with(&s, &other, &then);
    resume(&other, first, 1, mine.public);
    ok(peer_gets(&s, &other, SPAN_RESUME),
       "an agent may resume before the kernel has seen the end of its connection");
    warm(&s, first, "two");
    ok(gets_warm(&s, &other, "two") && s.n_lost == 0, "and is reached there");
    peer_close(&other);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

/* ---- in a tree ---- */

#define CHILD 32u /* the first node that has a parent, node 0 */

/* Node 32 of an engine was told to dial its parent, node 0. peer: 0 the parent, 1 the child. */
static unsigned one_dials(struct stage *s, struct peer peer[2], struct keys next[2])
{
    struct span opened = { .kind = SPAN_OPENED, .v[F_OPENED_PORT].u64 = 4711 };
    unsigned first;

    stage_open(s);
    first = stage_first(s, stage_engine(s, "echo nodes 33"));
    for (unsigned k = 0; k < 2; k++) {
        keys_create(&next[k]);
        peer_open(s, &peer[k], k * CHILD, PEER_CURVE);
        hello(&peer[k], &next[k]);
        ok(peer_gets(s, &peer[k], SPAN_WELCOME), "an agent is welcome");
    }
    opened.v[F_OPENED_NODE].u64 = first + CHILD;
    ok(peer_gets(s, &peer[0], SPAN_OPEN), "a parent opens");
    peer_say(&peer[0], first, 0, &opened);
    ok(peer_gets(s, &peer[1], SPAN_DIAL), "its child dials");
    return first;
}

static void dialed(struct peer *p, unsigned first)
{
    const struct span m = { .kind = SPAN_DIALED, .v[F_DIALED_NODE].u64 = first };

    peer_say(p, first + CHILD, 0, &m);
}

/* The kernel and the peers are one process. */
static unsigned long inode_of(int fd)
{
    struct stat s;

    return fstat(fd, &s) == 0 ? (unsigned long)s.st_ino : 0;
}

static void resumes_by_itself(struct stage *s, struct peer *p, unsigned node,
                              const struct keys *next, struct keys *then)
{
    keys_create(then);
    peer_open_with(s, p, next);
    resume(p, node, 0, then->public);
    ok(peer_gets(s, p, SPAN_RESUME), "the child resumes");
}

static void a_parent_is_gone_when_its_child_has_dialed(void)
{
    struct keys next[2], then;
    struct peer peer[2];
    struct stage s;
    const unsigned first = one_dials(&s, peer, next);
    const struct node_link *child = link_of(&s, first + CHILD);
    const int fd = child->fd;
    const unsigned long was = inode_of(fd);

    cut(&s, &peer[0], first);
    ok(was && !child->cut, "the end of a parent is not that of a child that dials it");
    dialed(&peer[1], first);
    for (unsigned k = 0; !child->cut && k < 2000; k++)
        stage_pass(&s, 5);
    ok(child->cut, "when it has, its own is cut, too");
    for (unsigned k = 0; inode_of(fd) == was && k < 2000; k++)
        stage_pass(&s, 5);
    ok(inode_of(fd) != was, "and the kernel has shut the connection that it had");
    peer_close(&peer[1]);
    resumes_by_itself(&s, &peer[1], first + CHILD, &next[1], &then);
    warm(&s, first + CHILD, "one");
    ok(gets_warm(&s, &peer[1], "one") && s.n_lost == 0, "and is reached by itself");
    peer_close(&peer[1]);
    stage_close(&s);
}

static void a_child_is_cut_while_it_dials(void)
{
    struct keys next[2], then;
    struct peer peer[2];
    struct stage s;
    const unsigned first = one_dials(&s, peer, next);
    const struct node_link *child = link_of(&s, first + CHILD);
    unsigned before;

    cut(&s, &peer[1], first + CHILD);
    ok(child->cut && peer_gets(&s, &peer[0], SPAN_OPEN) && peer[0].last.v[F_OPEN_KEY].s.n == 0,
       "its parent expects it no more");
    warm(&s, first + CHILD, "one");
    resumes_by_itself(&s, &peer[1], first + CHILD, &next[1], &then);
    ok(gets_warm(&s, &peer[1], "one"), "gets what came meanwhile");
    before = s.messages;
    dialed(&peer[1], first);
    warm(&s, first + CHILD, "two");
    ok(gets_warm(&s, &peer[1], "two") && child->move == TREE_MOVE_NONE && !child->cut,
       "that it has dialed its parent means nothing any more");
    is_int(s.messages, before, "and is nobody else's");
    dialed(&peer[1], first);
    ok(stage_until(&s, &s.messages, before + 1) && !child->cut, "once");
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

static void what_can_not_be_ends_the_node(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2], then;
    const unsigned first = two_up(&s, peer, next);

    keys_create(&then);
    cut(&s, &peer[0], first);
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 5, then.public);
    ok(peer_gets(&s, &peer[0], SPAN_REFUSE) && s.lost[first],
       "who has received more than was sent is refused, and lost: %s", s.why[first]);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
    stage_close(&s);
}

static void it_is_waited_for_as_long_as_silence(void)
{
    struct stage s;
    struct peer peer[2];
    struct keys next[2], then;
    const unsigned first = two_up(&s, peer, next);
    unsigned timeout_ms;

    keys_create(&then);
    timeout_ms = (unsigned)(s.agents->beat.timeout_ns / NS_PER_MS);
    stage_still(&s);
    cut(&s, &peer[0], first);
    ok(link_of(&s, first)->cut, "its connection has ended");
    peer_close(&peer[1]);
    stage_skip(&s, timeout_ms - 1000);
    is_int(s.lost[first], 0, "an agent may come back until the timeout");
    stage_skip(&s, 2000);
    is_int(s.lost[first], 1, "and not later");
    is_text(s.why[first], CLOSED, "the loss says what is known");
    peer_open_with(&s, &peer[0], &next[0]);
    resume(&peer[0], first, 0, then.public);
    ok(gets_nothing(&s, &peer[0]), "then its key is void, too");
    peer_close(&peer[0]);
    stage_close(&s);
}

int main(void)
{
    stage_ready();
    no_message_is_lost();
    what_waited_for_hello_is_kept();
    a_beat_acknowledges();
    only_the_newest_key_resumes();
    hello_is_said_again();
    of_two_at_once_one_resumes();
    a_parent_is_gone_when_its_child_has_dialed();
    a_child_is_cut_while_it_dials();
    what_can_not_be_ends_the_node();
    it_is_waited_for_as_long_as_silence();
    return plan_done();
}
