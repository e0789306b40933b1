/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents and strangers that connect: real sockets, with CURVE. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "tests/unit/kernel/agents/stage.h"
#include "tests/unit/tap.h"

static const struct span stacks = { .kind = SPAN_STACKS };
static const struct span ready = { .kind = SPAN_READY };

static char log_path[] = "/tmp/cellspan-agents-XXXXXX";

/* How often the log says so. */
static unsigned logged(const char *words)
{
    FILE *file = fopen(log_path, "re");
    char line[4096];
    unsigned n = 0;

    while (file && fgets(line, sizeof line, file))
        n += strstr(line, words) != NULL;
    if (file)
        fclose(file);
    return n;
}

static unsigned refusals(void)
{
    return logged("refused: a connection") + logged("refused again: a connection");
}

/* One more was refused than `before`. */
static bool refused_since(struct stage *s, unsigned before)
{
    for (unsigned k = 0; refusals() <= before && k < 12000; k++)
        stage_pass(s, 5);
    return refusals() > before;
}

/* Two agents of one run, up. */
static unsigned two(struct stage *s, struct peer peer[2])
{
    const unsigned engine = stage_engine(s, "echo nodes 2; echo node 1 h2 4"),
                   first = stage_first(s, engine);

    for (unsigned k = 0; k < 2; k++) {
        peer_open(s, &peer[k], k, PEER_CURVE);
        peer_hello(&peer[k]);
        if (!stage_until(s, &s->up[first + k], 1))
            diag("node %u did not come up", first + k);
    }
    return engine;
}

static void agents_are_welcome(struct stage *s)
{
    struct peer peer[2];
    const unsigned engine = two(s, peer);
    const struct node *info = agents_node(s->agents, 1);
    struct err err = { "" };
    char text[256];
    unsigned first, n;

    ok(s->up[1] == 1 && s->up[2] == 1 && s->engine_nodes_said == 1, "both are up, each said once");
    engines_nodes(s->engines, engine, &first, &n);
    ok(first == 1 && n == 2, "their numbers");
    ok(info->state == NODE_UP && info->pid == 4711 && info->cores == 3 && info->index == 0 &&
           info->engine == engine,
       "what HELLO said is known");
    is_text(info->address, "127.0.0.1", "its address is the first of its list");
    is_text(info->name, "peer", "its own name where the engine gives none");
    info = agents_node(s->agents, 2);
    ok(strcmp(info->name, "h2") == 0 && info->slots == 4, "the engine's name and slots else");
    ok(agents_node(s->agents, 3) == NULL, "there is no third");
    ok(peer_gets(s, &peer[1], SPAN_WELCOME) && peer[1].last.v[F_WELCOME_NUMBER].u64 == 2 &&
           peer[1].last.v[F_WELCOME_TIMEOUT_MS].u64 == 60000,
       "WELCOME has the number and the timeout");
    ok(agents_place(s->agents, 5, 2) == 0 && agents_place(s->agents, 6, 2) == 0,
       "two workers are placed");
    ok(agents_send(s->agents, (const uint32_t[]){ 6, 5 }, 2, &stacks, &err) == 0 &&
           peer_gets(s, &peer[1], SPAN_STACKS),
       "a message for them %s", err.text);
    is_text(peer_route(&peer[1], text, sizeof text), "2:6,5", "arrives where they are");
    peer_say(&peer[1], 2, 5, &ready);
    ok(stage_until(s, &s->messages, 1) && s->from_node == 2 && s->from_worker == 5 &&
           s->kind == SPAN_READY,
       "and the answer");
    peer_close(&peer[0]);
    ok(stage_until(s, &s->lost[1], 1), "a connection that ends is a lost node: %s", s->why[1]);
    ok(agents_send(s->agents, (const uint32_t[]){ 5 }, 1, &stacks, &err) == 0,
       "the other one goes on");
    engines_stop(s->engines, engine);
    ok(peer_gets(s, &peer[1], SPAN_QUIT), "an engine that is stopped has its agents told to quit");
    stage_pass(s, 600);
    is_int(s->lost[2], 0, "without another word");
    peer_close(&peer[1]);
}

static void only_for_themselves(struct stage *s)
{
    struct peer peer[2];
    const unsigned engine = two(s, peer), before = s->messages;
    unsigned first, n, count;
    struct span m = ready;

    engines_nodes(s->engines, engine, &first, &n);
    ok(agents_place(s->agents, 10, first) == 0 && agents_place(s->agents, 11, first + 1) == 0,
       "two nodes with a worker each");
    peer_say(&peer[0], first + 1, 11, &m);
    peer_say(&peer[0], first, 11, &m);
    peer_say(&peer[0], NODE_HERE, 1, &m);
    peer_say(&peer[0], first + 1, 0, &m);
    peer_say(&peer[0], first, 10, &m);
    ok(stage_until(s, &s->messages, before + 1) && s->from_worker == 10,
       "an agent speaks for its own workers");
    stage_pass(s, 50);
    is_int(s->messages, before + 1, "and for nobody else's, nor for other agents");
    count = refusals();
    peer_hello(&peer[0]);
    ok(refused_since(s, count), "a second HELLO is refused");
    is_int(s->up[first], 1, "and changes nothing");
    zmq_send(peer[0].socket, "torn", 4, 0);
    count = refusals();
    ok(refused_since(s, count), "what is no bundle is refused");
    zmq_send(peer[0].socket, "", 0, ZMQ_SNDMORE);
    zmq_send(peer[0].socket, "", 0, ZMQ_SNDMORE);
    zmq_send(peer[0].socket, "", 0, ZMQ_SNDMORE);
    zmq_send(peer[0].socket, "", 0, 0);
    count = refusals();
    ok(refused_since(s, count), "so is a message of four frames");
    m.kind = SPAN_KILL;
    peer_say(&peer[0], first, 0, &m);
    count = refusals();
    ok(refused_since(s, count), "and one that is not for the kernel");
    m.kind = SPAN_READY;
    peer_say(&peer[0], first, 10, &m);
    ok(stage_until(s, &s->messages, before + 2), "whoever erred may go on");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

/* Bytes to the port from somebody who knows nothing of ZeroMQ. */
static int raw(const struct stage *s, const void *bytes, size_t n)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(
                                  (uint16_t)network_router_port(s->agents->listen.remote)) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
        write(fd, bytes, n) != (ssize_t)n)
        abort();
    return fd;
}

static void strangers_stay_outside(struct stage *s)
{
    /* a greeting of ZMTP 3.0 with CURVE, and a command of 2^56 bytes */
    char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", huge[] = "\x06\x01\0\0\0\0\0\0\0";
    struct peer peer[2], other;
    const unsigned engine = two(s, peer);
    unsigned first, n, count = refusals();
    int fd;

    engines_nodes(s->engines, engine, &first, &n);
    peer_open(s, &other, 0, PEER_WRONG);
    peer_hello(&other);
    ok(refused_since(s, count), "a wrong key is refused");
    peer_close(&other);
    count = refusals();
    peer_open(s, &other, 0, PEER_NULL);
    peer_hello(&other);
    ok(refused_since(s, count), "no key is refused");
    peer_close(&other);
    count = refusals();
    peer_open(s, &other, 0, PEER_CURVE);
    peer_hello(&other);
    ok(refused_since(s, count), "the key of an agent that is here is refused");
    peer_close(&other);
    peer_open(s, &other, 2, PEER_CURVE);
    count = refusals();
    ok(refused_since(s, count), "the run's third agent, which there is not, is refused");
    peer_close(&other);
    count = refusals();
    /* the end of one is seen when the next one comes */
    for (unsigned k = 0; refusals() == count && k < 100; k++) {
        fd = raw(
            s,
            "GET / HTTP/1.1\r\nHost: here, and so on until a greeting would be over ....\r\n\r\n",
            77);
        stage_pass(s, 50);
        close(fd);
    }
    ok(refusals() > count, "garbage is refused");
    count = refusals();
    for (unsigned k = 0; refusals() == count && k < 100; k++) {
        fd = raw(s, greeting, sizeof greeting);
        (void)send(fd, huge, sizeof huge, MSG_NOSIGNAL); /* it may have been cut off at once */
        stage_pass(s, 50);
        close(fd);
    }
    ok(refusals() > count, "a command of a petabyte is refused");
    peer_say(&peer[0], first, 0, &ready);
    count = s->messages;
    ok(stage_until(s, &s->messages, count + 1), "and the agents never noticed");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    count = refusals();
    peer_open(s, &other, 0, PEER_CURVE);
    ok(refused_since(s, count), "a key of a run that is over is refused");
    peer_close(&other);
    peer_close(&peer[1]);
}

static void two_at_once_are_one(struct stage *s)
{
    struct peer a, b;
    const unsigned engine = stage_engine(s, "echo nodes 1"), first = stage_first(s, engine);
    struct span m = ready;
    unsigned n;

    peer_open(s, &a, 0, PEER_CURVE);
    peer_open(s, &b, 0, PEER_CURVE);
    stage_pass(s, 300);
    peer_hello(&a);
    ok(stage_until(s, &s->up[first], 1),
       "of two connections with one key the first that says HELLO is the agent");
    n = refusals();
    peer_hello(&b);
    ok(refused_since(s, n), "the other one is nobody");
    n = s->messages;
    peer_say(&b, first, 0, &m);
    peer_say(&a, first, 0, &m);
    ok(stage_until(s, &s->messages, n + 1), "what it says afterwards");
    stage_pass(s, 50);
    is_int(s->messages, n + 1, "is not heard");
    engines_stop(s->engines, engine);
    peer_close(&a);
    peer_close(&b);
}

static void early_agents_try_again(struct stage *s)
{
    struct peer peer;
    const unsigned engine = stage_engine(
        s, "while [ ! -e \"$CELLSPAN_LIBEXECDIR/go\" ]; do sleep 0.02; done; echo nodes 1");
    const unsigned node = (unsigned)s->agents->nodes.n,
                   count = logged(key_verdict_words(KEY_UNKNOWN));
    char path[128];
    int fd;

    peer_open(s, &peer, 0, PEER_CURVE);
    peer_hello(&peer);
    stage_pass(s, 300);
    snprintf(path, sizeof path, "%s/go", s->folder);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ok(stage_until(s, &s->up[node], 1),
       "an agent that dials before its engine says how many there are comes in");
    is_int(logged(key_verdict_words(KEY_UNKNOWN)), count, "and is not taken for a stranger");
    close(fd);
    engines_stop(s->engines, engine);
    peer_close(&peer);
}

/* Its engine never says how many there are: that can't be waited for without an end. */
static void far_too_early_is_refused(struct stage *s)
{
    const unsigned engine = stage_engine(s, "read forever"), count = refusals();
    const char *const why = key_verdict_words(KEY_UNKNOWN_YET);
    struct peer peer;

    peer_open(s, &peer, 0, PEER_CURVE);
    peer_hello(&peer);
    ok(refused_since(s, count) && logged(why) == 1, "refused, for now: %s", why);
    engines_stop(s->engines, engine);
    peer_close(&peer);
}

static void other_versions_are_told(struct stage *s)
{
    const struct span m = { .kind = SPAN_HELLO,
                            .v[F_HELLO_VERSION].u64 = 3,
                            .v[F_HELLO_PID].u64 = 1 };
    const unsigned engine = stage_engine(s, "echo nodes 2"), node = stage_first(s, engine);
    struct buf message = BUF_INIT, bundle = BUF_INIT;
    struct err err = { "" };
    struct peer peer;
    zmq_msg_t got;

    peer_open(s, &peer, 0, PEER_CURVE);
    if (span_encode_as(3, &m, &message, &err) < 0 ||
        bundle_add(&bundle, ROUTE_KERNEL, 0, buf_slice(&message)) < 0)
        abort();
    zmq_send(peer.socket, bundle.p, bundle.n, 0);
    ok(stage_until(s, &s->lost[node], 1) && strstr(s->why[node], "where the notebook runs"),
       "a newer agent: %s", s->why[node]);
    zmq_msg_init(&got);
    ok(zmq_msg_recv(&got, peer.socket, 0) == 8 && zmq_msg_recv(&got, peer.socket, 0) > 32 &&
           memcmp(zmq_msg_data(&got), "\3\3", 2) == 0,
       "it gets REFUSE in its own version");
    zmq_msg_close(&got);
    peer_close(&peer);
    peer_open(s, &peer, 1, PEER_CURVE);
    buf_clear(&message);
    if (span_encode_as(1, &m, &message, &err) < 0)
        abort();
    zmq_send(peer.socket, "", 0, ZMQ_SNDMORE);
    zmq_send(peer.socket, message.p, message.n, 0);
    ok(stage_until(s, &s->lost[node + 1], 1) && strstr(s->why[node + 1], "where the agent runs"),
       "an older one, in its frames: %s", s->why[node + 1]);
    buf_release(&message);
    buf_release(&bundle);
    engines_stop(s->engines, engine);
    peer_close(&peer);
}

/* The fake engine goes on. */
static void go(const struct stage *s)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/go", s->folder);
    if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
        abort();
    close(fd);
}

static void machines_are_replaced(struct stage *s)
{
    struct peer peer[2], by, old;
    const unsigned
        engine = stage_engine(s, "echo nodes 2; echo node 0 again; echo node 1 h2 4\n"
                                 "while [ ! -e \"$CELLSPAN_LIBEXECDIR/go\" ]; do sleep 0.02; done\n"
                                 "echo node 1 again; echo node 7 again"),
        first = stage_first(s, engine), before = s->failed;
    unsigned count;

    for (unsigned k = 0; k < 2; k++) {
        peer_open(s, &peer[k], k, PEER_CURVE);
        peer_hello(&peer[k]);
        ok(stage_until(s, &s->up[first + k], 1), "agent %u is up", k);
    }
    is_int(s->by, 0, "a machine that has not come yet is not replaced");
    go(s);
    ok(stage_until(s, &s->by, 1) && s->replaced == first + 1 && s->by == first + 2,
       "one that was up is: it has a new number");
    ok(s->lost[first + 1] == 1 && strstr(s->why[first + 1], "another machine in its place"),
       "the old one is lost, even if its connection is there: %s", s->why[first + 1]);
    ok(agents_node(s->agents, s->by)->index == 1 && agents_node(s->agents, s->by)->slots == 4,
       "the new one has its place among the engine's");
    count = refusals();
    peer_open(s, &old, 1, PEER_CURVE);
    peer_hello(&old);
    ok(refused_since(s, count), "the old key stays dead");
    peer_open_turn(s, &by, 1, 1, PEER_CURVE);
    peer_hello(&by);
    ok(stage_until(s, &s->up[s->by], 1) && peer_gets(s, &by, SPAN_WELCOME) &&
           by.last.v[F_WELCOME_NUMBER].u64 == s->by,
       "the key of the next turn is admitted");
    peer_say(&peer[1], first + 1, 0, &ready);
    stage_pass(s, 50);
    ok(s->lost[first] == 0 && s->failed == before, "nothing else is lost");
    engines_stop(s->engines, engine);
    ok(peer_gets(s, &by, SPAN_QUIT), "it ends with its engine");
    peer_close(&old);
    peer_close(&by);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

static void an_engine_whose_agents_end_together_replaces_no_machine(struct stage *s)
{
    struct peer peer[2];
    const unsigned engine =
                       stage_engine(s, "echo nodes 2 together\n"
                                       "while [ ! -e \"$CELLSPAN_LIBEXECDIR/go\" ]; do sleep 0.02; "
                                       "done\necho node 1 again; echo node 1 again"),
                   first = stage_first(s, engine);

    ok(peers_up(s, peer, 2, first), "two agents are up");
    go(s);
    ok(stage_until(s, &s->lost[first + 1], 1) && strstr(s->why[first + 1], "node 1 again") &&
           strstr(s->why[first + 1], "all its agents end if one is lost"),
       "its `node 1 again` loses the machine: %s", s->why[first + 1]);
    for (unsigned ms = 0; !s->says[0] && ms < 10000; ms += 20)
        stage_pass(s, 20);
    ok(strstr(s->says, "node 1 again"), "if it is lost already, a line says so: %s", s->says);
    ok(s->by == 0 && !agents_node(s->agents, first + 2), "and no other one comes in its place");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

/* An engine may hear of it while its agents start, and tells it once. */
static void a_notice_waits_until_its_node_is_up(struct stage *s)
{
    struct peer peer[2];
    const unsigned
        engine = stage_engine(s, "echo nodes 2; echo notice 0 500 drained; echo notice 1 9 first; "
                                 "echo notice 1 600 spot; echo notice 7 60 none\n"
                                 "while [ ! -e \"$CELLSPAN_LIBEXECDIR/go\" ]; do sleep 0.02; "
                                 "done\necho notice 0 30 now"),
        first = stage_first(s, engine);

    stage_pass(s, 50);
    is_int(s->notices, 0, "nobody hears of a machine that is not there yet");
    peer_open(s, &peer[1], 1, PEER_CURVE);
    peer_hello(&peer[1]);
    ok(stage_until(s, &s->notices, 1) && s->up[first + 1] && s->from_node == first + 1,
       "a machine's notice comes when it is up");
    ok(strcmp(s->notice, "spot") == 0 && s->notice_s > 480 && s->notice_s <= 600,
       "the last one, and the time until then counts: %s, %u s", s->notice, s->notice_s);
    is_int(s->notices, 1, "and no other");
    peer_open(s, &peer[0], 0, PEER_CURVE);
    peer_hello(&peer[0]);
    ok(stage_until(s, &s->notices, 2) && s->from_node == first && s->notice_s <= 500,
       "each has its own");
    go(s);
    ok(stage_until(s, &s->notices, 3) && s->notice_s == 30 && strcmp(s->notice, "now") == 0,
       "one for a machine that is up comes at once");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

static void a_replacement_may_not_come(struct stage *s)
{
    struct peer peer[2];
    const unsigned engine =
                       stage_engine(s, "echo nodes 2\nwhile [ ! -e \"$CELLSPAN_LIBEXECDIR/go\" ]; "
                                       "do sleep 0.02; done\necho node 0 again"),
                   first = stage_first(s, engine);

    ok(peers_up(s, peer, 2, first), "two are up");
    go(s);
    ok(stage_until(s, &s->by, 1), "one is replaced");
    ok(stage_until(s, &s->lost[first + 2], 1) &&
           strstr(s->why[first + 2], "CELLSPAN_START_TIMEOUT"),
       "it has the time of a start: %s", s->why[first + 2]);
    ok(s->lost[first + 1] == 0 && s->failed == 0, "the others go on without it");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

static void silence_is_noticed(struct stage *s)
{
    struct peer peer[2];
    const unsigned engine = two(s, peer);
    unsigned first, n;

    engines_nodes(s->engines, engine, &first, &n);
    for (unsigned k = 0; !s->lost[first] && k < 100; k++) {
        ok(peer_gets(s, &peer[1], SPAN_BEAT), "a beat");
        peer_say(&peer[1], first + 1, 0, &peer[1].last);
    }
    ok(s->lost[first] == 1 && strstr(s->why[first], "for 5 s"), "who does not answer is lost: %s",
       s->why[first]);
    is_int(s->lost[first + 1], 0, "who answers is not");
    n = refusals();
    peer_say(&peer[0], first, 0, &ready);
    peer_say(&peer[0], first, 0, &ready);
    ok(peer_gets(s, &peer[0], SPAN_REFUSE),
       "who wakes up afterwards is told that nobody waits for it");
    is_int(refusals(), n, "and is no stranger");
    is_int(s->lost[first], 1, "nor lost again");
    engines_stop(s->engines, engine);
    peer_close(&peer[0]);
    peer_close(&peer[1]);
}

/* When its first message is read, the router may not know yet whose number it is. */
static void a_descriptor_is_learned_later(void)
{
    const struct span beat = { .kind = SPAN_BEAT };
    struct stage s;
    struct peer peer;
    struct node_link *link;
    unsigned first;
    int fd;

    stage_open(&s);
    first = stage_first(&s, stage_engine(&s, "echo nodes 1"));
    ok(peers_up(&s, &peer, 1, first), "an agent is up");
    link = node_table_get(&s.agents->nodes, first);
    fd = link->fd;
    link->fd = link->meter.fd = -1;
    for (unsigned k = 0; link->fd < 0 && k < 12000; k++) {
        peer_say(&peer, first, 0, &beat);
        stage_pass(&s, 5);
    }
    ok(fd >= 0 && link->fd == fd && link->meter.fd == fd, "its descriptor is learned by and by");
    peer_close(&peer);
    ok(stage_until(&s, &s.lost[first], 1), "so the end of its connection is noticed");
    stage_close(&s);
}

int main(void)
{
    char setting[64];
    struct stage s;
    int fd = mkstemp(log_path);

    if (fd < 0 || snprintf(setting, sizeof setting, "debug:%s", log_path) < 0 ||
        setenv("CELLSPAN_LOG", setting, 1) < 0)
        abort();
    close(fd);
    settings_open_log("agents");
    stage_ready();
    stage_open(&s);
    agents_are_welcome(&s);
    only_for_themselves(&s);
    strangers_stay_outside(&s);
    two_at_once_are_one(&s);
    early_agents_try_again(&s);
    far_too_early_is_refused(&s);
    other_versions_are_told(&s);
    stage_close(&s);
    stage_open(&s);
    machines_are_replaced(&s);
    stage_close(&s);
    stage_open(&s);
    an_engine_whose_agents_end_together_replaces_no_machine(&s);
    stage_close(&s);
    stage_open(&s);
    a_notice_waits_until_its_node_is_up(&s);
    stage_close(&s);
    setenv("CELLSPAN_START_TIMEOUT", "2", 1);
    stage_open(&s);
    a_replacement_may_not_come(&s);
    stage_close(&s);
    unsetenv("CELLSPAN_START_TIMEOUT");
    setenv("CELLSPAN_HEARTBEAT_TIMEOUT", "5", 1);
    stage_open(&s);
    silence_is_noticed(&s);
    stage_close(&s);
    unlink(log_path);
    a_descriptor_is_learned_later();
    return plan_done();
}
