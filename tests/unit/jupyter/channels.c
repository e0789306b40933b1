/* SPDX-License-Identifier: BSD-3-Clause */
/* channels.c - the five sockets as a client sees them: over tcp, over ipc, encrypted. The code
 * under test runs in a child process. */
#include "kernel/jupyter/channels.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "tests/unit/jupyter/client.h"
#include "tests/unit/tap.h"

#define BLOCK  900000u
#define BLOCKS 32u

/* ---- the child: a kernel that knows a few words ---- */

struct toy {
    struct loop *loop;
    struct channels *channels;
    unsigned drained, waited_most;
};

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "# child: %s\n", err->text);
    _exit(3);
}

static void say(struct toy *t, const struct request *r, const char *text)
{
    struct buf content = BUF_INIT;
    struct err err = { "" };

    must(buf_addf(&content, "{\"name\":\"stdout\",\"text\":\"%s\"}", text), &err);
    must(channels_publish(t->channels, r, "stream",
                          &(struct content){ .content = buf_slice(&content) }, &err),
         &err);
    buf_release(&content);
}

static void flood(struct toy *t, const struct request *r)
{
    char *block = malloc(BLOCK + 1);

    if (!block)
        _exit(3);
    memset(block, 'x', BLOCK);
    block[BLOCK] = '\0';
    for (unsigned i = 0; i < BLOCKS; i++) {
        memcpy(block, (char[]){ (char)('a' + i % 26) }, 1);
        say(t, r, block);
        if (channels_waiting(t->channels) > t->waited_most)
            t->waited_most = (unsigned)channels_waiting(t->channels);
    }
    free(block);
}

static void execute(struct toy *t, struct request *r)
{
    const char *code = json_string_value(json_object_get(request_content(r), "code"));
    const struct slice buffer[2] = { slice_text("one"), slice_text("") };
    char text[64];
    struct err err = { "" };

    if (code && strcmp(code, "flood") == 0)
        flood(t, r);
    else if (code && strcmp(code, "ask") == 0)
        must(channels_ask(t->channels, r, slice_text("say \"x\"\n"), true, &err), &err);
    else if (code && strcmp(code, "ask and end") == 0) {
        must(channels_ask(t->channels, r, slice_text("too late"), true, &err), &err);
        channels_ask_over(t->channels);
    } else if (code && strcmp(code, "buffers") == 0)
        must(channels_publish(t->channels, r, "comm_msg",
                              &(struct content){ slice_text("{}"), slice_text("{\"m\":1}"), buffer,
                                                 2 },
                              &err),
             &err);
    else if (code && strcmp(code, "drained") == 0) {
        snprintf(text, sizeof text, "%s after %s", t->drained ? "called" : "not called",
                 t->waited_most > CHANNELS_WAITING_HIGH ? "high" : "low");
        say(t, r, text);
    }
    must(channels_reply(t->channels, r, "execute_reply",
                        &(struct content){ .content = slice_text("{\"status\":\"ok\"}") }, &err),
         &err);
}

static void asked(void *arg, struct request *r)
{
    struct toy *t = arg;
    const char *type = request_type(r);
    struct err err = { "" };

    if (request_channel(r) == CHANNEL_STDIN) {
        say(t, r, json_string_value(json_object_get(request_content(r), "value")));
        return;
    }
    must(channels_status(t->channels, r, "busy", &err), &err);
    if (strcmp(type, "kernel_info_request") == 0)
        must(channels_reply(t->channels, r, "kernel_info_reply",
                            &(struct content){ .content = slice_text("{\"status\":\"ok\"}") },
                            &err),
             &err);
    else if (strcmp(type, "execute_request") == 0)
        execute(t, r);
    else if (strcmp(type, "shutdown_request") == 0)
        loop_stop(t->loop);
    must(channels_status(t->channels, r, "idle", &err), &err);
}

static void drained(void *arg)
{
    struct toy *t = arg;

    t->drained++;
}

/* A quarter as fast as time: a client that a busy machine keeps from reading for 10 s is not taken
 * for one that reads nothing, which would lose messages. */
static uint64_t slow_now(void *arg)
{
    (void)arg;
    return clock_now(&clock_system) / 4;
}

static uint64_t wall_now(void *arg)
{
    return clock_system.wall_ns(arg);
}

static int toy_main(const char *file)
{
    static const struct clock slow = { .now_ns = slow_now, .wall_ns = wall_now };
    struct toy t = { 0 };
    struct err err = { "" };

    if (!(t.loop = loop_create(&slow, &err)) ||
        !(t.channels = channels_create(t.loop, file, asked, &t, &err)))
        must(-1, &err);
    channels_on_drained(t.channels, drained, &t);
    must(loop_run(t.loop, &err), &err);
    channels_destroy(t.channels);
    loop_destroy(t.loop);
    return 0;
}

static pid_t toy_start(const char *file)
{
    pid_t pid;

    fflush(stdout);
    if ((pid = fork()) == 0)
        exit(toy_main(file));
    return pid;
}

/* ---- the parent: what a client sees ---- */

static void info_is_answered(struct test_client *c, enum port port, const char *name)
{
    struct received r;
    bool busy = false, idle = false;

    client_say(c, port, "kernel_info_request", "{}", NULL);
    if (!client_await(c, port, "kernel_info_reply", &r)) {
        ok(false, "%s: kernel_info_request is answered", name);
        return;
    }
    json_t *parent = jupyter_object(r.m.part[JUPYTER_PARENT]);

    is_text(json_string_value(json_object_get(parent, "msg_id")), c->id,
            "%s: a reply has its request as parent", name);
    json_decref(parent);
    received_release(&r);
    while (!idle && client_await(c, PORT_IOPUB, "status", &r)) {
        json_t *p = jupyter_object(r.m.part[JUPYTER_PARENT]);
        const char *id = json_string_value(json_object_get(p, "msg_id"));

        if (id && strcmp(id, c->id) == 0) {
            busy = busy || strcmp(content_text(&r, "execution_state"), "busy") == 0;
            idle = strcmp(content_text(&r, "execution_state"), "idle") == 0;
        }
        json_decref(p);
        received_release(&r);
    }
    ok(busy && idle, "%s: busy and idle are published around it", name);
}

static void a_subscription_is_welcomed(struct test_client *c)
{
    struct received r;

    if (!ok(client_await(c, PORT_IOPUB, "iopub_welcome", &r), "a subscription is welcomed"))
        return;
    is_text(content_text(&r, "subscription"), "", "with its topic");
    ok(slice_is(r.m.part[JUPYTER_PARENT], "{}"), "and parent_header {}");
    received_release(&r);
}

static void the_front_answers_by_itself(struct test_client *c, const struct connection *to)
{
    struct received r;

    client_say(c, PORT_SHELL, "connect_request", "{}", NULL);
    if (ok(client_await(c, PORT_SHELL, "connect_reply", &r), "connect_request is answered")) {
        is_int(json_integer_value(json_object_get(r.m.content, "iopub_port")), to->port[PORT_IOPUB],
               "with the ports");
        received_release(&r);
    }
    client_say(c, PORT_CONTROL, "usage_request", "{}", NULL);
    if (ok(client_await(c, PORT_CONTROL, "usage_reply", &r), "usage_request is answered")) {
        ok(json_integer_value(json_object_get(r.m.content, "pid")) > 0, "with the pid");
        ok(json_integer_value(json_object_get(r.m.content, "cpu_count")) > 0, "and the CPUs");
#ifdef __linux__
        ok(json_integer_value(json_object_get(r.m.content, "kernel_memory")) > 100000,
           "and the kernel's memory");
        ok(json_is_real(json_object_get(r.m.content, "kernel_cpu")), "and its CPU use");
        ok(json_integer_value(
               json_object_get(json_object_get(r.m.content, "host_virtual_memory"), "total")) > 0,
           "and the machine's memory");
#endif
        received_release(&r);
    }
}

static void the_heart_beats(struct test_client *c)
{
    char back[16] = "";
    const int limit_ms = WAIT_MS;

    zmq_setsockopt(c->socket[PORT_HEARTBEAT], ZMQ_RCVTIMEO, &limit_ms, sizeof limit_ms);
    zmq_send(c->socket[PORT_HEARTBEAT], "ping", 4, 0);
    ok(zmq_recv(c->socket[PORT_HEARTBEAT], back, sizeof back, 0) == 4 &&
           memcmp(back, "ping", 4) == 0,
       "the heart beats");
}

static void input_is_asked_for(struct test_client *c)
{
    struct received r;

    client_say(c, PORT_STDIN, "input_reply", "{\"value\":\"stale\"}", NULL);
    client_say(c, PORT_SHELL, "execute_request", "{\"code\":\"ask\"}", NULL);
    if (!ok(client_await(c, PORT_STDIN, "input_request", &r), "input_request comes on stdin"))
        return;
    is_text(content_text(&r, "prompt"), "say \"x\"\n", "with its prompt");
    ok(json_is_true(json_object_get(r.m.content, "password")), "and whether it is a password");
    received_release(&r);
    client_say(c, PORT_STDIN, "input_reply", "{\"value\":\"typed\"}", NULL);
    while (client_await(c, PORT_IOPUB, "stream", &r)) {
        const bool typed = strcmp(content_text(&r, "text"), "typed") == 0;

        received_release(&r);
        if (typed) {
            ok(true, "what is typed arrives");
            break;
        }
    }
    ok(client_awaits(c, PORT_SHELL, "execute_reply"), "and the cell is answered");
}

/* A cell may be quicker than its client's stdin. */
static void a_question_waits_for_stdin(const struct connection *to, struct test_keys keys)
{
    struct test_client c;
    struct received r;

    client_begin(&c, to, "session-slow");
    for (unsigned port = 0; port < PORTS; port++)
        if (port != PORT_STDIN)
            client_connect(&c, to, (enum port)port, "client-slow", keys);
    client_say(&c, PORT_SHELL, "execute_request", "{\"code\":\"ask\"}", NULL);
    ok(client_awaits(&c, PORT_SHELL, "execute_reply"), "a question without stdin harms nobody");
    client_connect(&c, to, PORT_STDIN, "client-slow", keys);
    if (ok(client_await(&c, PORT_STDIN, "input_request", &r), "and comes when stdin is there"))
        received_release(&r);
    client_close(&c);
}

/* The cell is over before its client's stdin is there: the next question is the first one. */
static void what_a_cell_that_is_over_asked_is_not_sent(const struct connection *to,
                                                       struct test_keys keys)
{
    struct test_client c;
    struct received r;

    client_begin(&c, to, "session-late");
    for (unsigned port = 0; port < PORTS; port++)
        if (port != PORT_STDIN)
            client_connect(&c, to, (enum port)port, "client-late", keys);
    client_say(&c, PORT_SHELL, "execute_request", "{\"code\":\"ask and end\"}", NULL);
    ok(client_awaits(&c, PORT_SHELL, "execute_reply"), "the cell is over");
    client_connect(&c, to, PORT_STDIN, "client-late", keys);
    client_say(&c, PORT_STDIN, "input_reply", "{\"value\":\"here\"}", NULL);
    while (client_await(&c, PORT_IOPUB, "stream", &r)) { /* the kernel has its stdin */
        const bool here = strcmp(content_text(&r, "text"), "here") == 0;

        received_release(&r);
        if (here)
            break;
    }
    client_say(&c, PORT_SHELL, "execute_request", "{\"code\":\"ask\"}", NULL);
    if (ok(client_await(&c, PORT_STDIN, "input_request", &r), "the next cell asks")) {
        is_text(content_text(&r, "prompt"), "say \"x\"\n", "and nothing was asked before it");
        received_release(&r);
    }
    client_close(&c);
}

static void buffers_travel(struct test_client *c)
{
    struct received r;

    client_say(c, PORT_SHELL, "execute_request", "{\"code\":\"buffers\"}", NULL);
    if (!ok(client_await(c, PORT_IOPUB, "comm_msg", &r), "a message with buffers is published"))
        return;
    ok(r.m.buffers == 2 && slice_is(r.m.buffer[0], "one") && r.m.buffer[1].n == 0,
       "each as it was");
    ok(slice_is(r.m.part[JUPYTER_METADATA], "{\"m\":1}"), "with its metadata");
    received_release(&r);
    client_awaits(c, PORT_SHELL, "execute_reply");
}

/* Reads late: the kernel must not wait for us, nor lose anything. */
static void nothing_is_lost_to_a_slow_reader(struct test_client *c)
{
    struct received r;
    unsigned n = 0;
    bool in_order = true;

    client_say(c, PORT_SHELL, "execute_request", "{\"code\":\"flood\"}", NULL);
    ok(client_awaits(c, PORT_SHELL, "execute_reply"),
       "29 MB are published without waiting for who reads");
    for (; n < BLOCKS && client_await(c, PORT_IOPUB, "stream", &r); n++) {
        const char *text = content_text(&r, "text");

        in_order = in_order && strlen(text) == BLOCK && text[0] == (char)('a' + n % 26);
        received_release(&r);
    }
    is_int(n, BLOCKS, "a slow reader gets every message");
    ok(in_order, "whole and in order");
    client_say(c, PORT_SHELL, "execute_request", "{\"code\":\"drained\"}", NULL);
    client_awaits(c, PORT_SHELL, "execute_reply");
    if (client_await(c, PORT_IOPUB, "stream", &r)) {
        is_text(content_text(&r, "text"), "called after high",
                "who waits for the queue to empty is told");
        received_release(&r);
    }
}

static void bad_messages_harm_nobody(struct test_client *c)
{
    static const char *const junk[] = { "", "junk", JUPYTER_DELIMITER };
    struct slice frame[JUPYTER_OUT_FRAMES], many[5000];

    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        frame[0] = slice_text(junk[i]);
        frames_send(c->socket[PORT_SHELL], frame, 1);
    }
    for (size_t i = 0; i < 5000; i++)
        many[i] = slice_text("x");
    frames_send(c->socket[PORT_SHELL], many, 5000);
    ok(client_silence(c, PORT_SHELL), "junk is not answered");

    client_say(c, PORT_SHELL, "kernel_info_request", "{}", frame);
    ok(client_awaits(c, PORT_SHELL, "kernel_info_reply"), "a good message between is");
    frames_send(c->socket[PORT_SHELL], frame, JUPYTER_OUT_FRAMES);
    ok(client_silence(c, PORT_SHELL), "a message that is sent again is not answered");
    frame[JUPYTER_OUT_CONTENT] = slice_text("{\"a\":1}");
    frames_send(c->socket[PORT_SHELL], frame, JUPYTER_OUT_FRAMES);
    ok(client_silence(c, PORT_SHELL), "a message that was changed is not answered");
    frame[JUPYTER_OUT_SIGNATURE] = slice_text("");
    frames_send(c->socket[PORT_SHELL], frame, JUPYTER_OUT_FRAMES);
    ok(client_silence(c, PORT_SHELL), "a message that is not signed is not answered");
    client_say(c, PORT_SHELL, "kernel_info_request", "{}", NULL);
    ok(client_awaits(c, PORT_SHELL, "kernel_info_reply"), "and the kernel is well");
}

static void a_client_can_come_back(struct test_client *c, const struct connection *to,
                                   struct test_keys keys)
{
    const int linger_ms = 10000; /* the last request leaves before its socket closes */
    struct test_client again;

    /* while the old connection is still there */
    client_open(&again, to, "client-one", "session-2", keys);
    client_say(&again, PORT_SHELL, "kernel_info_request", "{}", NULL);
    ok(client_awaits(&again, PORT_SHELL, "kernel_info_reply"),
       "a client that comes back under its name is answered");
    zmq_setsockopt(again.socket[PORT_CONTROL], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    client_say(&again, PORT_CONTROL, "shutdown_request", "{}", NULL);
    client_close(&again);
    (void)c;
}

/* A port that is free now, and below those that the system gives to whoever asks for any. */
static unsigned free_port(void)
{
    for (;;) {
        const unsigned port = 10000 + (unsigned)(random_u64() % 20000);
        const struct sockaddr_in a = { .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)port),
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        const bool is_free = fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0;

        if (fd < 0)
            abort();
        close(fd);
        if (is_free)
            return port;
    }
}

static unsigned another_port(const struct connection *c, unsigned filled)
{
    for (;;) {
        const unsigned found = free_port();
        unsigned port = 0;

        while (port < filled && c->port[port] != found)
            port++;
        if (port == filled)
            return found;
    }
}

static void connection_over_tcp(struct connection *c)
{
    *c = (struct connection){ .ip = strdup("127.0.0.1"), .key = strdup("secret"), .key_size = 6 };
    for (unsigned port = 0; port < PORTS; port++)
        c->port[port] = another_port(c, port);
}

static void connection_fill(struct connection *c, const char *dir, const char *kind)
{
    if (strcmp(kind, "tcp") == 0)
        connection_over_tcp(c);
    else
        connection_over_ipc(c, dir, kind);
    if (strcmp(kind, "curve") == 0) {
        c->curve = true;
        zmq_curve_keypair(c->public_key, c->secret_key);
    }
}

static void strangers_are_turned_away(const struct connection *to)
{
    struct test_client stranger;
    char public_key[41], secret_key[41];

    client_open(&stranger, to, "stranger", "session-3", (struct test_keys){ NULL, NULL, NULL });
    client_say(&stranger, PORT_SHELL, "kernel_info_request", "{}", NULL);
    ok(client_silence(&stranger, PORT_SHELL), "who does not encrypt is not answered");
    client_close(&stranger);

    zmq_curve_keypair(public_key, secret_key);
    client_open(&stranger, to, "stranger", "session-4",
                (struct test_keys){ to->public_key, public_key, secret_key });
    client_say(&stranger, PORT_SHELL, "kernel_info_request", "{}", NULL);
    ok(client_silence(&stranger, PORT_SHELL),
       "a key that is not the connection file's is not answered");
    the_heart_beats(&stranger);
    client_close(&stranger);
}

static void a_port_in_use_is_named(const char *file, const struct connection *c)
{
    struct loop *loop;
    struct channels *f;
    struct err err = { "" };
    char port[32];

    snprintf(port, sizeof port, "%u", c->port[PORT_SHELL]);
    if (!(loop = loop_create(&clock_system, &err)))
        abort();
    f = channels_create(loop, file, asked, NULL, &err);
    ok(!f && strstr(err.text, "shell_port") && strstr(err.text, port) && strstr(err.text, "in use"),
       "%s", err.text);
    channels_destroy(f);
    loop_destroy(loop);
}

/* Who subscribes before the loop turns is heard of while something is sent. */
static void the_welcome_comes_first(const char *dir)
{
    struct connection to;
    struct test_client c;
    struct received r;
    struct err err = { "" };
    char file[128];
    struct loop *loop = loop_create(&clock_system, &err);
    struct channels *f;
    bool heard = false;

    connection_over_ipc(&to, dir, "ipc");
    snprintf(file, sizeof file, "%s/first.json", dir);
    if (!loop || connection_write(&to, file, &err) < 0 ||
        !(f = channels_create(loop, file, asked, NULL, &err)))
        abort();
    client_open(&c, &to, "client-early", "session-early", (struct test_keys){ NULL, NULL, NULL });
    for (int i = 0; i < WAIT_MS && !heard; i++) {
        if (channels_status(f, NULL, "starting", &err) < 0)
            abort();
        heard = client_hear(&c, PORT_IOPUB, 1, &r);
    }
    if (ok(heard && r.fault == JUPYTER_FINE, "a subscriber hears something"))
        is_text(r.m.type, "iopub_welcome", "and first of all its welcome");
    if (heard)
        received_release(&r);
    if (ok(client_hear(&c, PORT_IOPUB, WAIT_MS, &r), "and then what was sent")) {
        is_text(r.m.type, "status", "which is still what it was");
        received_release(&r);
    }
    client_close(&c);
    channels_destroy(f);
    loop_destroy(loop);
    connection_release(&to);
    unlink(file);
}

static void everything_over(const char *dir, const char *kind)
{
    struct connection to;
    struct test_client c;
    struct err err = { "" };
    char file[128];
    int status = -1;
    pid_t child;

    diag("over %s", kind);
    connection_fill(&to, dir, kind);
    snprintf(file, sizeof file, "%s/%s.json", dir, kind);
    if (connection_write(&to, file, &err) < 0)
        abort();
    const struct test_keys keys = { to.curve ? to.public_key : NULL, to.public_key, to.secret_key };

    child = toy_start(file);
    client_open(&c, &to, "client-one", "session-1", keys);
    a_subscription_is_welcomed(&c);
    info_is_answered(&c, PORT_SHELL, "shell");
    info_is_answered(&c, PORT_CONTROL, "control");
    the_front_answers_by_itself(&c, &to);
    the_heart_beats(&c);
    input_is_asked_for(&c);
    a_question_waits_for_stdin(&to, keys);
    what_a_cell_that_is_over_asked_is_not_sent(&to, keys);
    buffers_travel(&c);
    bad_messages_harm_nobody(&c);
    nothing_is_lost_to_a_slow_reader(&c);
    if (to.curve)
        strangers_are_turned_away(&to);
    if (!to.ipc) {
        to.file = strdup(file);
        a_port_in_use_is_named(file, &to);
    }
    a_client_can_come_back(&c, &to, keys);
    ok(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
       "the kernel ends when asked");
    client_close(&c);
    connection_release(&to);
    unlink(file);
}

int main(void)
{
    char dir[] = "/tmp/cellspan-test-XXXXXX";
    struct err err = { "" };

    if (!mkdtemp(dir) || random_open(&err) < 0)
        abort();
    everything_over(dir, "tcp");
    everything_over(dir, "ipc");
    if (zmq_has("curve"))
        everything_over(dir, "curve");
    else
        skip("encrypted channels: this libzmq has no CURVE");
    the_welcome_comes_first(dir);
    rmdir(dir);
    return plan_done();
}
