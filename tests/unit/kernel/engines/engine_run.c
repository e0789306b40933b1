/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines as child processes: their arguments, their output, how they fail and end; and trees of
 * their agents. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/agents/to_agents.h"
#include "tests/unit/kernel/agents/stage.h"
#include "tests/unit/tap.h"

static const struct span stacks = { .kind = SPAN_STACKS };
static const struct span ready = { .kind = SPAN_READY };

static void read_file(const struct stage *s, const char *name, char *out, size_t size)
{
    char path[128];
    FILE *f;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    if ((f = fopen(path, "re"))) {
        n = fread(out, 1, size - 1, f);
        fclose(f);
    }
    out[n] = '\0';
}

static void what_it_is_told(struct stage *s)
{
    const unsigned engine = stage_engine(s, "echo nodes 1");
    char argv[4096], secret[SECRET_TEXT_SIZE];

    ok(stage_first(s, engine) == 1, "an engine says that it has a node");
    read_file(s, "argv", argv, sizeof argv);
    ok(strncmp(argv, "--spec\na b\n--ranks\n7\n--\n", 24) == 0,
       "spec and ranks as the user wrote them");
    ok(strstr(argv, "/cellspan-agent\n--connect\ntcp://") != NULL,
       "the command: an agent, and where it is to dial");
    ok(strstr(argv, ",tcp://127.0.0.1:") != NULL || strstr(argv, "\ntcp://127.0.0.1:") != NULL,
       "loopback is the last resort");
    secret_format(&s->secret, secret);
    ok(!strstr(argv, secret + 2) && !strstr(argv, secret + 67),
       "neither half of the secret is on a command line");
    ok(getenv("CELLSPAN_SECRET") == NULL, "nor in the kernel's environment");
    engines_stop(s->engines, engine);
}

static void unknown_ones(struct stage *s)
{
    struct err err = { "" };
    unsigned engine;

    is_int(engines_start(s->engines, "fakr", "", NULL, 0, NULL, &engine, &err), -1,
           "an engine that is not there");
    ok(strstr(err.text, "did you mean fake") && strstr(err.text, "local"), "%s", err.text);
    err.text[0] = '\0';
    is_int(engines_start(s->engines, "../x", "", NULL, 0, NULL, &engine, &err), -1,
           "nor is a path: %s", err.text);
    is_int(engines_start(s->engines, "", "", NULL, 0, NULL, &engine, &err), -1, "nor nothing");
}

static void failures_have_words(struct stage *s)
{
    unsigned failed = s->failed, engine;

    (void)stage_engine(s, "echo 'it hurts here' >&2; exit 3");
    ok(stage_until(s, &s->failed, failed + 1) &&
           strstr(s->failure, "exit status 3:\nit hurts here"),
       "it fails: %s", s->failure);
    failed = s->failed;
    (void)stage_engine(s, "echo nodes 4; echo 'partition x: there is none' >&2; exit 2");
    ok(stage_until(s, &s->failed, failed + 1), "it was asked for what it can't do");
    is_text(s->failure, "partition x: there is none", "its own words are enough then");
    failed = s->failed;
    (void)stage_engine(s, "echo nodes 4; echo 'no node is free' >&2; exit 1");
    ok(stage_until(s, &s->failed, failed + 1), "it could not do it");
    is_text(s->failure, "no node is free", "they are enough then, too");
    failed = s->failed;
    (void)stage_engine(s, "exit 1");
    ok(stage_until(s, &s->failed, failed + 1) && strstr(s->failure, "exit status 1"),
       "but it has to have some: %s", s->failure);
    failed = s->failed;
    (void)stage_engine(s, "kill -9 $$");
    ok(stage_until(s, &s->failed, failed + 1) && strstr(s->failure, "killed by signal 9"),
       "it is killed: %s", s->failure);
    engine = stage_engine(
        s,
        "echo nonsense; echo nodes 2; echo nodes 3; echo failed 1 h7 refuses the key; echo failed 9");
    {
        const unsigned first = stage_first(s, engine);

        ok(stage_until(s, &s->lost[first + 1], 1), "one node of two fails");
        is_text(s->why[first + 1], "h7 refuses the key", "in the engine's words");
        is_int(s->lost[first], 0, "the other may still come");
    }
    engines_stop(s->engines, engine);
    engine = stage_engine(s, "echo nodes 2; echo away 0; echo away 9; echo gone 1; echo gone 9");
    {
        const unsigned first = stage_first(s, engine);

        ok(stage_until(s, &s->lost[first + 1], 1), "one node of two is gone");
        is_text(s->why[first + 1], "its engine says that it is gone",
                "without words of the engine");
        is_int(s->lost[first], 0, "one that is away may still come");
    }
    engines_stop(s->engines, engine);
    engine = stage_engine(s, "echo nodes 1; printf 'failed 0 refus\\351e\\n'");
    {
        const unsigned first = stage_first(s, engine);

        ok(stage_until(s, &s->lost[first], 1), "a reason may be in any encoding");
        is_text(s->why[first],
                "refus\xef\xbf\xbd"
                "e",
                "what is no UTF-8 is replaced");
    }
    engines_stop(s->engines, engine);
    engine = stage_engine(s, "echo say job 17 waits: Priority");
    for (unsigned k = 0; !*s->says && k < 12000; k++)
        stage_pass(s, 5);
    is_text(s->says, "job 17 waits: Priority", "what it says is for the user");
    engines_stop(s->engines, engine);
}

static void nodes_that_never_come(struct stage *s)
{
    const unsigned failed = s->failed;

    (void)stage_engine(
        s, "echo nodes 3; echo node 0 h1; echo node 1 h2; echo node 2 h3; echo looking for h2 >&2");
    ok(stage_until(s, &s->failed, failed + 1), "the time is over");
    ok(strstr(s->failure, "h1, h2, h3 did not come up within 5 s") &&
           strstr(s->failure, "looking for h2") && strstr(s->failure, "tcp://"),
       "%s", s->failure);
}

static void one_that_waits_in_a_queue(struct stage *s)
{
    const unsigned failed = s->failed,
                   engine = stage_engine(s, "echo nodes 2; echo node 0 - 1; echo say queued"),
                   first = stage_first(s, engine);
    const struct node *node = agents_node(s->agents, first);
    struct peer peer;

    for (unsigned k = 0; strcmp(s->says, "queued") != 0 && k < 12000; k++)
        stage_pass(s, 5);
    stage_still(s);
    stage_skip(s, 20000);
    is_int(s->failed, failed, "while an engine waits in a queue, no node is late");
    peer_open(s, &peer, 0, PEER_CURVE);
    peer_hello(&peer);
    ok(stage_until(s, &s->up[first], 1), "one of two nodes comes up");
    ok(node->slots == 1 && strcmp(node->name, "-") != 0 && strncmp(node->name, "node ", 5) != 0,
       "the agent has said its name, the engine its slots: %s", node->name);
    stage_skip(s, 4500);
    is_int(s->failed, failed, "from then on the other one has the usual time");
    stage_skip(s, 1000);
    ok(s->failed == failed + 1 && strstr(s->failure, "node 1 did not come up within 5 s"), "%s",
       s->failure);
    peer_close(&peer);
}

static void they_end(struct stage *s)
{
    const unsigned engine = stage_engine(
        s, "echo nodes 1; trap '' TERM; sleep 1000 & echo $! >$CELLSPAN_LIBEXECDIR/pid; wait");
    const struct engine_run *run;
    char text[32];
    pid_t child = 0;

    (void)stage_first(s, engine);
    for (unsigned k = 0; child <= 0 && k < 12000; k++) {
        stage_pass(s, 5);
        read_file(s, "pid", text, sizeof text);
        child = (pid_t)atoi(text);
    }
    run = engines_run(s->engines, engine);
    engines_stop(s->engines, engine);
    ok(run != NULL, "it runs");
    engine_process_signal(run->process, SIGKILL);
    for (unsigned k = 0; engines_run(s->engines, engine) && k < 12000; k++)
        stage_pass(s, 5);
    ok(engines_run(s->engines, engine) == NULL, "what is killed is waited for, and forgotten");
    for (unsigned k = 0; kill(child, 0) == 0 && k < 12000; k++)
        stage_pass(s, 5);
    ok(kill(child, 0) < 0 && errno == ESRCH, "with the processes that it left");
}

static void some_take_long(struct stage *s, pid_t *pid)
{
    const unsigned engine = stage_engine(
        s, "echo nodes 1; echo end 30; echo $$ >$CELLSPAN_LIBEXECDIR/pid; exec sleep 1000");
    const struct engine_run *run = engines_run(s->engines, engine);
    char text[32] = "";

    for (unsigned k = 0; !engine_process_takes_long(run->process) && k < 12000; k++)
        stage_pass(s, 5);
    ok(engine_process_takes_long(run->process), "an engine asks for more time for its end");
    for (unsigned k = 0; atoi(text) <= 0 && k < 12000; k++) {
        stage_pass(s, 5);
        read_file(s, "pid", text, sizeof text);
    }
    *pid = (pid_t)atoi(text);
}

static void the_kernel_leaves_it(pid_t pid)
{
    ok(pid > 0 && kill(pid, 0) == 0, "a kernel that ends leaves it to its end");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* ---- its environment ---- */

static const char *value_in(const struct engine_environment *e, const char *name, unsigned *n)
{
    const char *value = NULL;

    *n = 0;
    for (size_t k = 0; k < e->n; k++)
        if (strncmp(e->v[k], name, strlen(name)) == 0 && e->v[k][strlen(name)] == '=') {
            value = e->v[k] + strlen(name) + 1;
            ++*n;
        }
    return value ? value : "(none)";
}

static void home_has_changed_its_environment(void)
{
    json_t *changes = json_pack("{s:s, s:n, s:s, s:s, s:s}", "ENGINE_TEST_SET", "new",
                                "ENGINE_TEST_GONE", "ENGINE_TEST_MORE", "a=b", "CELLSPAN_SECRET",
                                "x", "a=b", "c");
    struct engine_environment e;
    struct secret secret = { .own = false };
    struct err err = { "" };
    unsigned n;

    setenv("ENGINE_TEST_SET", "old", 1);
    setenv("ENGINE_TEST_GONE", "old", 1);
    setenv("ENGINE_TEST_SETTLED", "old", 1);
    ok(engine_environment_make(&e, "/usr/bin/python3", "tcp://127.0.0.1:1", &secret, changes,
                               &err) == 0 &&
           !e.v[e.n],
       "an engine's environment");
    is_text(value_in(&e, "ENGINE_TEST_SET", &n), "new", "what home has set");
    is_int(n, 1, "once");
    is_text(value_in(&e, "ENGINE_TEST_MORE", &n), "a=b", "what is new at home");
    is_text(value_in(&e, "ENGINE_TEST_GONE", &n), "(none)", "not what home has deleted");
    is_text(value_in(&e, "ENGINE_TEST_SETTLED", &n), "old", "all else is the kernel's");
    is_text(value_in(&e, "CELLSPAN_HOME_PYTHON", &n), "/usr/bin/python3", "and home's Python");
    ok(strncmp(value_in(&e, "CELLSPAN_SECRET", &n), "2:0000", 6) == 0 && n == 1,
       "home can't change the secret");
    is_text(value_in(&e, "a", &n), "(none)", "nor set what is no name");
    engine_environment_release(&e);
    ok(engine_environment_make(&e, NULL, "tcp://127.0.0.1:1", NULL, changes, &err) == 0,
       "one without the secret");
    is_text(value_in(&e, "CELLSPAN_SECRET", &n), "(none)", "which home can't set either");
    engine_environment_release(&e);
    json_decref(changes);
}

/* ---- a tree ---- */

#define MANY 34u

static void move(struct stage *s, struct peer *parent, struct peer *child, unsigned first,
                 unsigned index, const char *error)
{
    struct span opened = { .kind = SPAN_OPENED,
                           .v[F_OPENED_NODE].u64 = first + index,
                           .v[F_OPENED_PORT].u64 = 4711 };
    struct span dialed = { .kind = SPAN_DIALED };
    struct keys keys;
    struct err err = { "" };
    const unsigned at = first + tree_parent(index);

    keys_derive(&keys, &s->secret, index, 0);
    ok(peer_gets(s, parent, SPAN_OPEN) && parent->last.v[F_OPEN_NODE].u64 == first + index &&
           slice_equal(parent->last.v[F_OPEN_KEY].s, slice_of(keys.public, KEY_SIZE)),
       "the parent is told to open for node %u", first + index);
    peer_say(parent, at, 0, &opened);
    keys_derive(&keys, &s->secret, tree_parent(index), 0);
    ok(peer_gets(s, child, SPAN_DIAL) && child->last.v[F_DIAL_NODE].u64 == at &&
           slice_is(child->last.v[F_DIAL_ENDPOINTS].s,
                    "tcp://127.0.0.1:4711,tcp://[fd00::1]:4711") &&
           slice_equal(child->last.v[F_DIAL_KEY].s, slice_of(keys.public, KEY_SIZE)),
       "the child to dial, where, and with which key");
    ok(agents_place(s->agents, 40, first + index) == 0 &&
           agents_send(s->agents, (const uint32_t[]){ 40 }, 1, &stacks, &err) == 0,
       "a message on the way");
    dialed.v[F_DIALED_NODE].u64 = at;
    dialed.v[F_DIALED_ERROR].s = slice_text(error);
    peer_say(child, first + index, 0, &dialed);
}

static void agents_of_agents(struct stage *s)
{
    static struct peer peer[MANY];
    const unsigned engine = stage_engine(s, "echo nodes 34"), first = stage_first(s, engine);
    struct err err = { "" };
    uint32_t workers[2] = { 40, 41 };
    char text[128], want[128];
    unsigned count;

    ok(peers_up(s, peer, MANY, first), "34 agents of one run are up");
    move(s, &peer[1], &peer[33], first, 33, "no route");
    snprintf(want, sizeof want, "%u:40", first + 33);
    ok(peer_gets(s, &peer[33], SPAN_STACKS),
       "a move that fails: what waited comes by the old connection");
    is_text(peer_route(&peer[33], text, sizeof text), want, "to its worker");
    move(s, &peer[0], &peer[32], first, 32, "");
    ok(peer_gets(s, &peer[0], SPAN_BEAT), "a move that works: the first word by way of the parent");
    snprintf(want, sizeof want, "%u:", first + 32);
    is_text(peer_route(&peer[0], text, sizeof text), want, "is a beat for the child");
    ok(peer_gets(s, &peer[0], SPAN_STACKS), "then what has waited");
    snprintf(want, sizeof want, "%u:40", first + 32);
    is_text(peer_route(&peer[0], text, sizeof text), want, "to its worker");
    ok(agents_place(s->agents, 41, first) == 0 &&
           agents_send(s->agents, workers, 2, &stacks, &err) == 0 &&
           peer_gets(s, &peer[0], SPAN_STACKS),
       "a message for parent and child");
    snprintf(want, sizeof want, "%u:40 %u:41", first + 32, first);
    is_text(peer_route(&peer[0], text, sizeof text), want, "leaves once");
    peer_close(&peer[32]);
    count = s->messages;
    peer_say(&peer[0], first + 32, 40, &ready);
    ok(stage_until(s, &s->messages, count + 1) && s->from_node == first + 32,
       "the child speaks by way of its parent");
    peer_say(&peer[1], first + 32, 40, &ready);
    peer_say(&peer[0], first + 33, 0, &ready);
    stage_pass(s, 600);
    is_int(s->messages, count + 1, "and by nobody else's");
    is_int(s->lost[first + 32], 0, "its own connection's end was no loss");
    count = s->n_lost;
    peer_close(&peer[0]);
    ok(stage_until(s, &s->n_lost, count + 2) && s->order[count] == first &&
           s->order[count + 1] == first + 32,
       "the parent is lost, and then the child");
    ok(strstr(s->why[first + 32], "by way of") != NULL, "%s", s->why[first + 32]);
    engines_stop(s->engines, engine);
    for (unsigned k = 0; k < MANY; k++)
        peer_close(&peer[k]);
}

static void interfaces_are_chosen(void)
{
    struct err err = { "" };
    struct stage s;
    unsigned engine;

    stage_open(&s);
    setenv("CELLSPAN_INTERFACE", "nowhere7", 1);
    ok(engines_start(s.engines, "fake", "", NULL, 0, NULL, &engine, &err) < 0 &&
           strstr(err.text, "CELLSPAN_INTERFACE=nowhere7") && strstr(err.text, "127.0.0.1"),
       "%s", err.text);
    setenv("CELLSPAN_INTERFACE", "127.0.0.1", 1);
    (void)stage_engine(&s, "echo nodes 1");
    ok(strncmp(s.agents->listen.endpoints.p, "tcp://127.0.0.1:", 16) == 0 &&
           !strchr(s.agents->listen.endpoints.p, ','),
       "an address alone, after a wrong one: %s", s.agents->listen.endpoints.p);
    stage_close(&s);
    unsetenv("CELLSPAN_INTERFACE");
}

static int taken_port(unsigned *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* no child has it, too */

    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, size) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0)
        abort();
    *port = ntohs(at.sin_port);
    return fd;
}

static void ports_are_chosen(void)
{
    struct err err = { "" };
    char text[64];
    unsigned engine, port;
    const int fd = taken_port(&port);
    struct stage s;

    stage_open(&s);
    setenv("CELLSPAN_INTERFACE", "127.0.0.1", 1);
    setenv("CELLSPAN_PORT", "ssh", 1);
    ok(engines_start(s.engines, "fake", "", NULL, 0, NULL, &engine, &err) < 0 &&
           strstr(err.text, "CELLSPAN_PORT=ssh: a port or a range of ports is wanted"),
       "%s", err.text);
    snprintf(text, sizeof text, "%u", port);
    setenv("CELLSPAN_PORT", text, 1);
    err = (struct err){ "" };
    ok(engines_start(s.engines, "fake", "", NULL, 0, NULL, &engine, &err) < 0 &&
           strstr(err.text, "this port is taken (") && strstr(err.text, "engine_run.t, process"),
       "%s", err.text);
    snprintf(text, sizeof text, "%u-%u", port, port + 8);
    setenv("CELLSPAN_PORT", text, 1);
    (void)stage_engine(&s, "echo nodes 1");
    ok(strncmp(s.agents->listen.endpoints.p, "tcp://127.0.0.1:", 16) == 0 &&
           strtoul(s.agents->listen.endpoints.p + 16, NULL, 10) > port &&
           strtoul(s.agents->listen.endpoints.p + 16, NULL, 10) <= port + 8,
       "another one of the range is taken: %s", s.agents->listen.endpoints.p);
    stage_close(&s);
    close(fd);
    unsetenv("CELLSPAN_INTERFACE");
    unsetenv("CELLSPAN_PORT");
}

static void addresses_are_advertised(void)
{
    struct err err = { "" };
    char want[64];
    struct stage s;
    unsigned engine;

    stage_open(&s);
    setenv("CELLSPAN_ADVERTISE", "gw.example:99999", 1);
    ok(engines_start(s.engines, "fake", "", NULL, 0, NULL, &engine, &err) < 0 &&
           strstr(err.text, "CELLSPAN_ADVERTISE=gw.example:99999: \"gw.example:99999\": its port"),
       "%s", err.text);
    setenv("CELLSPAN_ADVERTISE", "gw.example:443,10.0.0.5", 1);
    (void)stage_engine(&s, "echo nodes 1");
    snprintf(want, sizeof want, "tcp://gw.example:443,tcp://10.0.0.5:%u",
             network_router_port(s.agents->listen.remote));
    is_text(s.agents->listen.endpoints.p, want, "agents dial what is advertised instead");
    stage_close(&s);
    unsetenv("CELLSPAN_ADVERTISE");
}

int main(void)
{
    struct stage s;
    pid_t left = 0;

    stage_ready();
    home_has_changed_its_environment();
    stage_open(&s);
    what_it_is_told(&s);
    unknown_ones(&s);
    failures_have_words(&s);
    they_end(&s);
    agents_of_agents(&s);
    some_take_long(&s, &left);
    stage_close(&s);
    the_kernel_leaves_it(left);
    setenv("CELLSPAN_START_TIMEOUT", "5", 1);
    stage_open(&s);
    nodes_that_never_come(&s);
    one_that_waits_in_a_queue(&s); /* last: its time stands still */
    stage_close(&s);
    unsetenv("CELLSPAN_START_TIMEOUT");
    interfaces_are_chosen();
    ports_are_chosen();
    addresses_are_advertised();
    return plan_done();
}
