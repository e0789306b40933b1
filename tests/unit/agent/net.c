/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents over tcp with CURVE: heartbeats, agents of agents, strangers. With real processes. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "base/random.h"
#include "protocol/span_fields.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/hung.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"

static const char *self;

/* ---- beats ---- */

static void start_rank(struct lan *l, uint32_t via, uint32_t node, uint32_t worker)
{
    struct span m = { .kind = SPAN_START };
    const uint32_t rank = worker - 2;

    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(&rank, 4);
    m.v[F_START_PYTHON].s = slice_text(self);
    m.v[F_START_ENV].s = slice_text("{}");
    lan_send(l, via, &node, &worker, 1, &m);
}

/* Also unasked it says BEAT, of no time: while it dials a parent, or when much comes. */
static bool beats_back(struct lan *l, uint32_t node, uint64_t sent)
{
    while (lan_until(l, SPAN_BEAT, node))
        if (l->last.v[F_BEAT_SENT].u64 != 0)
            return l->last.v[F_BEAT_SENT].u64 == sent;
    return false;
}

static void beats_are_answered(void)
{
    struct span beat = { .kind = SPAN_BEAT };
    struct lan l;

    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    beat.v[F_BEAT_SENT].u64 = 123456789;
    lan_tell(&l, 1, 1, &beat);
    ok(beats_back(&l, 1, 123456789), "a BEAT comes back");
    lan_close(&l);
}

static void start_at(struct lan *l, uint32_t worker, const char *python, const char *cwd)
{
    const uint32_t node = 1, rank = worker - 2;
    struct span m = { .kind = SPAN_START };

    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(&rank, 4);
    m.v[F_START_PYTHON].s = slice_text(python);
    m.v[F_START_CWD].s = slice_text(cwd);
    m.v[F_START_ENV].s = slice_text("{}");
    lan_send(l, 1, &node, &worker, 1, &m);
}

static bool still_beats(struct lan *l, uint64_t sent)
{
    struct span beat = { .kind = SPAN_BEAT };

    beat.v[F_BEAT_SENT].u64 = sent;
    lan_tell(l, 1, 1, &beat);
    return beats_back(l, 1, sent);
}

static void a_file_system_that_hangs_holds_up_ranks_alone(void)
{
    const uint32_t node = 1, worker = 2;
    struct span m = { .kind = SPAN_WARM },
                kill_it = { .kind = SPAN_KILL, .v[F_KILL_SIGNAL].u64 = SIGKILL };
    char hung[HUNG_SIZE], python[HUNG_SIZE + 16];
    struct lan l;
    int fd;

    if ((fd = hung_open(hung)) < 0) {
        skip("no file system can be made that hangs");
        return;
    }
    snprintf(python, sizeof python, "%s/python", hung);
    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    m.v[F_WARM_PYTHON].s = slice_text(python);
    lan_tell(&l, 1, 1, &m);
    ok(still_beats(&l, 1), "an agent beats while the Python that it is to warm does not answer");
    start_at(&l, 2, python, "");
    ok(still_beats(&l, 2), "and that of a rank");
    start_at(&l, 3, self, hung);
    ok(still_beats(&l, 3), "and a rank's folder");
    lan_send(&l, 1, &node, &worker, 1, &kill_it);
    ok(lan_until(&l, SPAN_EXITED, 1) && l.last.worker == 2, "a rank that hangs there can be ended");
    start_at(&l, 4, self, "");
    ok(lan_until(&l, SPAN_READY, 1) && l.last.worker == 4, "others come up");
    hung_close(hung, fd);
    ok(lan_until(&l, SPAN_READY, 1) && l.last.worker == 3,
       "a folder that turns out to be gone is done without");
    is_int(lan_end(&l, 1), 0, "it ends");
    lan_close(&l);
}

/* Has the process ended? It is not waited for. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid;
}

/* An agent with a rank, which takes the kernel for lost after so long. false: that was too short,
 * because this test stood still. */
static bool join_for(struct lan *l, uint64_t timeout_ms)
{
    const struct span beat = { .kind = SPAN_BEAT };

    lan_open(l);
    l->timeout_ms = timeout_ms;
    lan_join(l, 1, LAN_STDIN);
    start_rank(l, 1, 1, 2);
    while (!lan_comes(l, SPAN_READY, 1, 200)) {
        if (has_ended(l->member[1].pid)) {
            (void)lan_wait(l, 1);
            lan_close(l);
            return false;
        }
        lan_tell(l, 1, 1, &beat);
    }
    return true;
}

static void a_silent_kernel_ends_it(void)
{
    uint64_t timeout_ms = 2000;
    char text[80];
    struct lan l;
    pid_t rank;

    while (!join_for(&l, timeout_ms))
        timeout_ms *= 4;
    ok(l.last.kind == SPAN_READY, "a rank comes up");
    rank = (pid_t)l.last.v[F_READY_PID].u64;
    is_int(lan_wait(&l, 1), 1, "an agent that hears nothing ends");
    snprintf(text, sizeof text, "nothing was heard from the kernel for %u.0 s",
             (unsigned)(timeout_ms / 1000));
    ok(lan_wrote(&l, 1, text), "says why");
    ok(is_gone(rank), "and its rank is gone");
    lan_close(&l);
}

/* What a rank left is nobody's child when the agent is gone. */
static void a_killed_agent_leaves_nobody(void)
{
    const uint32_t node = 1, worker = 2;
    struct span m = { .kind = SPAN_RUN, .cell = 1 };
    struct lan l;
    pid_t rank, daemon, agent;

    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    start_rank(&l, 1, 1, 2);
    ok(agent > 1 && lan_until(&l, SPAN_READY, 1), "a rank comes up");
    rank = (pid_t)l.last.v[F_READY_PID].u64;
    m.v[F_RUN_CODE].s = slice_text("daemon\nsleep 0");
    lan_send(&l, 1, &node, &worker, 1, &m);
    ok(lan_until(&l, SPAN_LINES, 1), "and leaves a daemon");
    daemon = (pid_t)strtol(l.last.v[F_LINES_DATA].s.p, NULL, 10); /* a newline ends it */
    kill(agent, SIGKILL);
    ok(lan_wait(&l, 1) == 137 && lan_wrote(&l, 1, "was killed by signal 9"),
       "an agent that is killed is told of");
    ok(is_gone(rank) && daemon > 1 && is_gone(daemon), "and nobody is left");
    lan_close(&l);
}

static void the_end_of_a_guard_is_the_agents(void)
{
    struct lan l;
    pid_t agent;

    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    kill(l.member[1].pid, SIGTERM);
    ok(lan_wait(&l, 1) == 0 && is_gone(agent), "SIGTERM is passed on");
    lan_join(&l, 2, LAN_STDIN);
    agent = (pid_t)l.last.v[F_HELLO_PID].u64;
    kill(l.member[2].pid, SIGKILL);
    ok(is_gone(agent), "SIGKILL ends both");
    lan_close(&l);
}

/* ---- agents of agents ---- */

static void key_of(const struct lan *l, uint32_t node, unsigned char out[KEY_SIZE])
{
    struct keys k;

    keys_derive(&k, &l->secret, node, 0);
    memcpy(out, k.public, KEY_SIZE);
}

static unsigned open_for(struct lan *l, uint32_t via, uint32_t node, uint32_t child)
{
    struct span m = { .kind = SPAN_OPEN };
    unsigned char key[KEY_SIZE];

    key_of(l, child, key);
    m.v[F_OPEN_NODE].u64 = child;
    m.v[F_OPEN_KEY].s = slice_of(key, KEY_SIZE);
    lan_tell(l, via, node, &m);
    return lan_until(l, SPAN_OPENED, node) && l->last.v[F_OPENED_NODE].u64 == child
               ? (unsigned)l->last.v[F_OPENED_PORT].u64
               : 0;
}

/* A port of this machine that is taken until the descriptor is closed. It is below those that the
 * system gives to whoever asks for any: nobody else takes it afterwards. */
static int taken_port(unsigned *port)
{
    for (;;) {
        struct sockaddr_in at = { .sin_family = AF_INET };
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        *port = 12000 + (unsigned)(random_u64() % 8000);
        at.sin_port = htons((uint16_t)*port);
        must(fd >= 0, "a socket");
        if (bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0)
            return fd;
        close(fd);
    }
}

static void agents_listen_where_they_may(void)
{
    char text[64];
    unsigned port, got;
    int fd = taken_port(&port);
    struct lan l;

    snprintf(text, sizeof text, "%u-%u", port, port + 8);
    setenv("CELLSPAN_PORT", text, 1);
    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    snprintf(text, sizeof text, "%u", port);
    setenv("CELLSPAN_PORT", text, 1);
    lan_join(&l, 2, LAN_STDIN);
    unsetenv("CELLSPAN_PORT");
    got = open_for(&l, 1, 1, 3);
    ok(got > port && got <= port + 8, "an agent's own port is one of CELLSPAN_PORT: %u", got);
    is_int(open_for(&l, 2, 2, 3), 0, "where none is free, it has none");
    ok(slice_holds(l.last.v[F_OPENED_ERROR].s, "this port is taken"), "OPENED says so: %.*s",
       SLICE_ARG(l.last.v[F_OPENED_ERROR].s));
    close(fd);
    got = open_for(&l, 2, 2, 3);
    is_int(got, port, "and the next OPEN tries again");
    lan_close(&l);
}

static void announce(struct lan *l, uint32_t via, uint32_t node, uint32_t under, uint32_t deep)
{
    struct span m = { .kind = SPAN_OPEN };
    unsigned char key[KEY_SIZE];

    key_of(l, under, key);
    m.v[F_OPEN_NODE].u64 = deep;
    m.v[F_OPEN_KEY].s = slice_of(key, KEY_SIZE);
    lan_tell(l, via, node, &m);
}

/* `node` won't be under it. */
static void take_back(struct lan *l, uint32_t via, uint32_t node, uint32_t child)
{
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = child };

    lan_tell(l, via, node, &m);
}

static bool dial(struct lan *l, uint32_t via, uint32_t node, uint32_t to, unsigned port,
                 uint64_t role)
{
    struct span m = { .kind = SPAN_DIAL };
    unsigned char key[KEY_SIZE];
    char endpoints[128];

    key_of(l, to, key);
    snprintf(endpoints, sizeof endpoints, "tcp://127.0.0.1:%u,tcp://127.0.0.1:%u", CLOSED_PORT,
             port);
    m.v[F_DIAL_NODE].u64 = to;
    m.v[F_DIAL_ENDPOINTS].s = slice_text(endpoints);
    m.v[F_DIAL_KEY].s = slice_of(key, KEY_SIZE);
    m.v[F_DIAL_ROLE].u64 = role;
    lan_tell(l, via, node, &m);
    return lan_until(l, SPAN_DIALED, node) && l->last.v[F_DIALED_NODE].u64 == to &&
           l->last.v[F_DIALED_ERROR].s.n == 0;
}

static bool answers_by(struct lan *l, uint32_t node, uint32_t via)
{
    struct span beat = { .kind = SPAN_BEAT };

    beat.v[F_BEAT_SENT].u64 = node;
    lan_tell(l, via, node, &beat);
    return beats_back(l, node, node) && l->member[node].by == via;
}

/* 1 is at the top, 2 and 4 under it, 3 under 2. */
static void make_tree(struct lan *l)
{
    for (uint32_t node = 1; node <= 4; node++)
        lan_join(l, node, LAN_STDIN);
    ok(dial(l, 2, 2, 1, open_for(l, 1, 1, 2), 0) && l->member[2].by == 2,
       "an agent dials its parent, and says so on its own link");
    ok(answers_by(l, 2, 1), "from then on it is reached by way of that");
    ok(dial(l, 4, 4, 1, open_for(l, 1, 1, 4), 0) && answers_by(l, 4, 1), "so is a second");
    announce(l, 1, 1, 2, 3);
    ok(dial(l, 3, 3, 2, open_for(l, 1, 2, 3), 0), "an agent dials a parent that has one itself");
    ok(answers_by(l, 3, 1), "and is reached through both");
}

static void a_cell_runs_everywhere(struct lan *l)
{
    static const uint32_t nodes[] = { 3, 1, 2, 4 }, workers[] = { 4, 2, 3, 5 };
    struct span m = { .kind = SPAN_RUN, .cell = 7 };
    unsigned done = 0, lines = 0;

    for (uint32_t node = 1; node <= 4; node++) {
        start_rank(l, 1, node, node + 1);
        ok(lan_until(l, SPAN_READY, node) && l->last.worker == node + 1, "node %u starts a rank",
           node);
    }
    m.v[F_RUN_CODE].s = slice_text("out hi\\n");
    lan_send(l, 1, nodes, workers, 4, &m);
    while (done < 4 && lan_until(l, SPAN_DONE, 0)) {
        done++;
        lines += l->last.cell == 7 && l->last.worker == l->node + 1 && l->via == 1;
    }
    ok(done == 4 && lines == 4, "one message runs a cell on all nodes");
}

static void much_goes_down_and_up(struct lan *l)
{
    static const uint32_t nodes[] = { 1, 2, 3, 4 }, workers[] = { 2, 3, 4, 5 };
    struct span m = { .kind = SPAN_RUN, .cell = 8 };
    const size_t n = 5u << 20;
    char *script = malloc(n + 1);
    unsigned done = 0;

    memset(script, '#', n);
    memcpy(script, "flood 900000\n", 13);
    script[n] = '\0';
    m.v[F_RUN_CODE].s = slice_text(script);
    lan_send(l, 1, nodes, workers, 4, &m);
    while (done < 4 && lan_until(l, SPAN_DONE, 0))
        done++;
    ok(done == 4, "5 MiB go down the tree, and 900 KB of lines come up from each");
    free(script);
}

static void links_for_blobs(struct lan *l)
{
    ok(dial(l, 1, 3, 1, open_for(l, 1, 1, 3), 1), "an agent dials another for blobs");
    ok(dial(l, 1, 3, 1, 1, 1), "to dial it again is nothing");
    ok(!dial(l, 1, 3, 1, CLOSED_PORT, DIAL_BLOBS_ANEW), "unless it is to be a new link");
    ok(dial(l, 1, 2, 1, open_for(l, 1, 1, 2), 1), "also its parent");
    ok(!dial(l, 1, 4, 2, CLOSED_PORT, 1) &&
           memmem(l->last.v[F_DIALED_ERROR].s.p, l->last.v[F_DIALED_ERROR].s.n, "refused", 7),
       "one that does not listen is reported");
}

/* ---- strangers ---- */

/* Whoever is refused before it sends has nobody to send to: a send that waits would wait for
 * ever. */
static bool hears(void *context, const struct keys *own, const unsigned char *server, unsigned port,
                  const struct span *m, int ms)
{
    void *s = zmq_socket(context, ZMQ_DEALER);
    zmq_pollitem_t item = { s, 0, ZMQ_POLLIN, 0 };
    const int linger = 0;
    char endpoint[64];
    struct buf msg = BUF_INIT;
    struct err err = { "" };
    bool heard = false;

    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
    if (own) {
        zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, own->public, KEY_SIZE);
        zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, own->secret, KEY_SIZE);
        zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, server, KEY_SIZE);
    }
    if (zmq_connect(s, endpoint) == 0 && span_encode(m, &msg, &err) == 0 &&
        zmq_send(s, msg.p, msg.n, ZMQ_DONTWAIT) >= 0)
        heard = zmq_poll(&item, 1, ms) > 0;
    zmq_close(s);
    buf_release(&msg);
    return heard;
}

static void garbage(unsigned port)
{
    static const unsigned char torn[] = "\377\0\0\0\0\0\0\0\1\177\3\0CURVE";
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    unsigned char noise[4096];

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (unsigned i = 0; i < 20; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);

        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (unsigned char)(rand() >> 5);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) {
            if (i % 2)
                (void)!send(fd, torn, sizeof torn, MSG_NOSIGNAL);
            (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
        }
        close(fd);
    }
}

static void strangers_stay_outside(struct lan *l, unsigned port)
{
    struct span m = { .kind = SPAN_DIAL };
    unsigned char server[KEY_SIZE];
    struct keys k;

    key_of(l, 1, server);
    m.v[F_DIAL_NODE].u64 = 2;
    garbage(port);
    ok(answers_by(l, 1, 1) && answers_by(l, 3, 1), "garbage on the port does no harm");
    ok(!hears(l->context, NULL, NULL, port, &m, 400), "without CURVE nobody gets in");
    keys_create(&k);
    ok(!hears(l->context, &k, server, port, &m, 400), "nor with a key that is not expected");
    keys_derive(&k, &l->secret, 2, 0);
    ok(!hears(l->context, &k, server, port, &m, 400), "nor with one that was used");
    keys_derive(&k, &l->secret, 5, 0);
    ok(port == open_for(l, 1, 1, 5), "one more is expected");
    m.v[F_DIAL_NODE].u64 = 2;
    ok(!hears(l->context, &k, server, port, &m, 400), "it can't say that it is another");
    m.v[F_DIAL_NODE].u64 = 5;
    ok(hears(l->context, &k, server, port, &m, 60000), "as itself it may come in");
    ok(!hears(l->context, &k, server, port, &m, 400), "once");
    ok(port == open_for(l, 1, 1, 7), "another is expected");
    take_back(l, 1, 1, 7);
    keys_derive(&k, &l->secret, 7, 0);
    m.v[F_DIAL_NODE].u64 = 7;
    ok(answers_by(l, 1, 1) && !hears(l->context, &k, server, port, &m, 400),
       "and is not any more, once that is taken back");
    ok(answers_by(l, 1, 1) && answers_by(l, 2, 1) && answers_by(l, 3, 1),
       "the others are where they were");
}

static void a_child_is_taken_back(struct lan *l)
{
    struct span beat = { .kind = SPAN_BEAT };

    take_back(l, 1, 1, 4);
    lan_tell(l, 1, 4, &beat);
    ok(!lan_comes(l, SPAN_BEAT, 4, 300) && answers_by(l, 1, 1),
       "a child that is taken back is not reached there");
}

/* A port at which nobody speaks: connections are made by the system, and not taken. */
static int deaf_port(unsigned *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        abort();
    *port = ntohs(a.sin_port);
    return fd;
}

/* The kernel says nothing meanwhile. What is wrong is told; "": nothing. */
static const char *beats_while_it_dials(uint64_t timeout_ms)
{
    const char *wrong = "it beats by itself, longer than it may be silent";
    struct span m = { .kind = SPAN_DIAL };
    unsigned char key[KEY_SIZE];
    char endpoint[64];
    struct lan l;
    unsigned port, beats = 0;
    int fd;

    lan_open(&l);
    l.timeout_ms = timeout_ms;
    lan_join(&l, 1, LAN_STDIN);
    fd = deaf_port(&port);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
    key_of(&l, 2, key);
    m.v[F_DIAL_NODE].u64 = 2;
    m.v[F_DIAL_ENDPOINTS].s = slice_text(endpoint);
    m.v[F_DIAL_KEY].s = slice_of(key, KEY_SIZE);
    lan_tell(&l, 1, 1, &m);
    while (beats < 7 && lan_until(&l, SPAN_BEAT, 1) && l.last.v[F_BEAT_SENT].u64 == 0)
        beats++;
    close(fd);
    if (beats == 7) {
        wrong = "a parent that does not answer is reported";
        if (lan_until(&l, SPAN_DIALED, 1) && l.last.v[F_DIALED_ERROR].s.n > 0)
            wrong = answers_by(&l, 1, 1) ? "" : "and the agent is where it was";
    }
    lan_close(&l);
    return wrong;
}

static void who_dials_its_parent_beats(void)
{
    const char *wrong = beats_while_it_dials(3000);

    if (wrong[0]) /* this test may have stood still, and the agent has taken the kernel for lost */
        wrong = beats_while_it_dials(20000);
    ok(!wrong[0], "an agent that dials its parent beats, and is then where it was (%s)", wrong);
}

static void a_parent_dies(struct lan *l)
{
    ok(lan_end(l, 2) == 0, "a parent ends");
    ok(lan_until(l, SPAN_RESUME, 3), "its child dials the kernel by itself");
    ok(answers_by(l, 3, 3), "and is reached there");
    ok(answers_by(l, 4, 1), "its sibling goes on");
    ok(lan_end(l, 3) == 0, "its child ends with its stdin");
}

static void a_parent_loses_its_connection(void)
{
    bool parent = false, child = false;
    struct lan l;

    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    lan_join(&l, 2, LAN_STDIN);
    ok(dial(&l, 2, 2, 1, open_for(&l, 1, 1, 2), 0) && answers_by(&l, 2, 1), "a parent has a child");
    lan_reset(&l, 1);
    while (!(parent && child) && lan_comes(&l, SPAN_RESUME, 0, 20000)) {
        parent = parent || l.node == 1;
        child = child || l.node == 2;
    }
    ok(parent && child, "when the parent's connection ends, its child dials the kernel, too");
    ok(answers_by(&l, 1, 1) && answers_by(&l, 2, 2), "and both are reached there");
    lan_close(&l);
}

static void trees_of_agents(void)
{
    struct lan l;
    unsigned port;

    lan_open(&l);
    make_tree(&l);
    a_cell_runs_everywhere(&l);
    much_goes_down_and_up(&l);
    links_for_blobs(&l);
    port = open_for(&l, 1, 1, 6);
    strangers_stay_outside(&l, port);
    a_parent_dies(&l);
    a_child_is_taken_back(&l);
    lan_close(&l);
}

int main(int argc, char **argv)
{
    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    self = argv[0];
    beats_are_answered();
    a_file_system_that_hangs_holds_up_ranks_alone();
    a_silent_kernel_ends_it();
    a_killed_agent_leaves_nobody();
    the_end_of_a_guard_is_the_agents();
    who_dials_its_parent_beats();
    trees_of_agents();
    agents_listen_where_they_may();
    a_parent_loses_its_connection();
    return plan_done();
}
