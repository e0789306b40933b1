/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent between a kernel and home, with real processes. */
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/le.h"
#include "base/process.h"
#include "protocol/span_fields.h"
#include "tests/unit/agent/double.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/tap.h"

#define WINDOW      (1u << 20)
#define TAKEN_PORTS 500u

static void text_keeps_its_place_among_messages(struct kernel *k)
{
    kernel_forget(k);
    kernel_run(k, 1, 5, "out a\nsync\npub x\nout b\nsync\npub y\nout c\nerr d");
    ok(kernel_until(k, SPAN_REPLY, 1), "a request is answered");
    is_int(k->last.cell, 5, "the answer has the cell's number");
    is_text(k->story.p, "1<a>[PUBLISH]1<b>[PUBLISH]1<c>2<d>[REPLY]",
            "text stays before what was sent after it");
}

static void text_after_a_display_stays_after(struct kernel *k)
{
    bool good = true;

    for (int i = 0; i < 200 && good; i++) {
        kernel_forget(k);
        kernel_run(k, 1, 6, "pub x\nout after");
        good = kernel_until(k, SPAN_REPLY, 1);
        good = good && strcmp(k->story.p, "[PUBLISH]1<after>[REPLY]") == 0;
    }
    ok(good, "text that follows a display never overtakes it: %s", k->story.p);
}

static void blobs_stay_with_the_agent(struct kernel *k)
{
    struct span bind = { .kind = SPAN_BIND, .cell = 8, .blob = 7, .blob_size = 300000 };
    const uint64_t number = 7;
    const uint32_t home = 1;
    struct span drop = { .kind = SPAN_DROP };

    kernel_run(k, 1, 7, "blob 300000");
    ok(kernel_until(k, SPAN_REPLY, 1) && k->last.blob == 7 && k->last.blob_size == 300000,
       "only a blob's number is passed on");
    kernel_forget(k);
    kernel_send(k, &home, 1, &bind);
    ok(kernel_until(k, SPAN_LINES, 1) && kernel_told(k, "blob 7 of 300000: bbbbbbbb"),
       "its bytes come with BIND");
    drop.v[F_DROP_BLOBS].s = slice_of(&number, 8);
    kernel_send(k, NULL, 0, &drop);
    kernel_send(k, &home, 1, &bind);
    ok(kernel_until(k, SPAN_LINES, 1) && kernel_told(k, "blob 7 of 0: "),
       "after DROP there is none");
}

static void large_messages_pass(struct kernel *k)
{
    const size_t n = 5u << 20;
    char *script = malloc(n + 1);

    memset(script, '#', n);
    script[n] = '\0';
    kernel_run(k, 1, 9, script);
    ok(kernel_until(k, SPAN_REPLY, 1) && k->last.cell == 9, "a request of 5 MiB arrives");
    free(script);
}

static void credit_stops_and_goes_on(struct kernel *k)
{
    const uint32_t home = 1;
    struct span credit = { .kind = SPAN_CREDIT };
    size_t total = 0, before = 1;

    kernel_forget(k);
    kernel_run(k, 1, 10, "flood 8000000");
    while (k->lines_size < WINDOW - 100000 && kernel_until(k, SPAN_LINES, 1))
        ;
    while (before != k->lines_size) {
        before = k->lines_size;
        kernel_listen(k, 300);
    }
    ok(k->lines_size >= WINDOW - 100000 && k->lines_size < WINDOW + 70000,
       "without credit %zu bytes leave, no more", k->lines_size);
    /* is only looked at when the flood is over, but must not be in the way */
    kernel_say(k, 1, SPAN_INTERRUPT);
    while (!kernel_told(k, "[REPLY]") && total < 9000000) {
        credit.v[F_CREDIT_BYTES].u64 = k->lines_size;
        total += k->lines_size;
        kernel_send(k, &home, 1, &credit);
        kernel_forget(k);
        kernel_listen(k, 20);
    }
    total += k->lines_size;
    ok(kernel_told(k, "[REPLY]") && total >= 8000000, "with credit everything comes: %zu bytes",
       total);
    credit.v[F_CREDIT_BYTES].u64 = WINDOW;
    kernel_send(k, &home, 1, &credit);
    kernel_listen(k, 20);
}

/* Takes ports. -1: it is another's now, who may leave it at any time. */
static void take_ports(int fd[TAKEN_PORTS])
{
    for (unsigned i = 0; i < TAKEN_PORTS; i++) {
        const struct sockaddr_in at = { .sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)(PORT_FIRST + i)) };

        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(fd[i], (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd[i], 1) < 0)
            fd_close(&fd[i]);
    }
}

static bool is_taken(const int fd[TAKEN_PORTS], unsigned port)
{
    return port >= PORT_FIRST && port < PORT_FIRST + TAKEN_PORTS && fd[port - PORT_FIRST] >= 0;
}

/* A port is drawn at random, so one answer alone would prove nothing. */
static void ports_come_in_pairs(struct kernel *k)
{
    const struct span ask = { .kind = SPAN_PORT, .cell = 78 };
    int fd[TAKEN_PORTS];
    bool good = true;

    take_ports(fd);
    for (int i = 0; i < 200 && good; i++) {
        kernel_send(k, NULL, 0, &ask);
        good = kernel_until(k, SPAN_PORT, 0) && k->last.v[F_PORT_PORT].u64 > 0 &&
               !is_taken(fd, (unsigned)k->last.v[F_PORT_PORT].u64) &&
               !is_taken(fd, port_for_jax((unsigned)k->last.v[F_PORT_PORT].u64));
    }
    ok(good, "JAX's port is free, too");
    for (unsigned i = 0; i < TAKEN_PORTS; i++)
        fd_close(&fd[i]);
}

#ifdef __linux__
/* As another agent of this machine would reserve it, see port.h. -1: it is reserved already. */
static int reserve(unsigned port)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const unsigned other = port_for_jax(port);
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "cellspan-port-%u",
                           port < other ? port : other);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (const struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
        fd_close(&fd);
    return fd;
}

static bool is_reserved(unsigned port)
{
    int fd = reserve(port);
    const bool is = fd < 0;

    fd_close(&fd);
    return is;
}

static bool none_is_others(const struct span *m, const int fd[TAKEN_PORTS])
{
    for (size_t j = 0; j < 16; j++) {
        const unsigned port = (unsigned)le_get(m->v[F_PORT_MORE].s.p + 2 * j, 2);
        const unsigned other = port_for_jax(port);

        if (is_taken(fd, port < other ? port : other))
            return false;
    }
    return true;
}

static void ports_are_reserved(struct kernel *k)
{
    const struct span ask = { .kind = SPAN_PORT, .cell = 79, .v[F_PORT_PORT].u64 = 16 };
    unsigned first;
    int fd[TAKEN_PORTS];
    bool good = true;

    for (unsigned i = 0; i < TAKEN_PORTS; i++)
        fd[i] = reserve(PORT_FIRST + i);
    for (int i = 0; i < 100 && good; i++) {
        kernel_send(k, NULL, 0, &ask);
        good = kernel_until(k, SPAN_PORT, 0) && none_is_others(&k->last, fd);
    }
    ok(good, "a port that another agent has reserved is left to it");
    for (unsigned i = 0; i < TAKEN_PORTS; i++)
        fd_close(&fd[i]);
    first = (unsigned)k->last.v[F_PORT_PORT].u64;
    ok(good && is_reserved(first) &&
           is_reserved((unsigned)le_get(k->last.v[F_PORT_MORE].s.p + 30, 2)),
       "the ports of the last answer are reserved");
    kernel_send(k, NULL, 0, &ask);
    ok(kernel_until(k, SPAN_PORT, 0) && !is_reserved(first),
       "those of the answer before it are not");
}
#endif

/* Does a world with one of the n ports share none with the worlds of the others? */
static bool all_differ(const unsigned *port, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (port[i] == port[j] || port[i] == port_for_jax(port[j]))
                return false;
    return true;
}

static void ports_differ(struct kernel *k, const struct span *ask)
{
    unsigned port[17];
    bool good = true;

    for (int i = 0; i < 300 && good; i++) {
        kernel_send(k, NULL, 0, ask);
        good = kernel_until(k, SPAN_PORT, 0) && k->last.v[F_PORT_MORE].s.n == 32;
        port[0] = (unsigned)k->last.v[F_PORT_PORT].u64;
        for (size_t j = 0; good && j < 16; j++)
            port[j + 1] = (unsigned)le_get(k->last.v[F_PORT_MORE].s.p + 2 * j, 2);
        good = good && all_differ(port, 17);
    }
    ok(good, "no two of them belong to one world");
}

static void ports_are_free(struct kernel *k)
{
    struct span ask = { .kind = SPAN_PORT, .cell = 77 };

    kernel_send(k, NULL, 0, &ask);
    ok(kernel_until(k, SPAN_PORT, 0) && k->last.cell == 77 && k->last.v[F_PORT_PORT].u64 >= 20000,
       "a port is found");
    ask.v[F_PORT_PORT].u64 = 1000;
    kernel_send(k, NULL, 0, &ask);
    ok(kernel_until(k, SPAN_PORT, 0) && k->last.v[F_PORT_MORE].s.n == 32,
       "and of more that are asked for, 16");
    ports_differ(k, &ask);
}

static void stacks_are_asked_for(struct kernel *k)
{
    const uint32_t home = 1;
    const struct span ask = { .kind = SPAN_STACKS, .cell = 31 };

    kernel_send(k, &home, 1, &ask);
    ok(kernel_until(k, SPAN_STACK, 1) && k->last.v[F_STACK_TEXT].s.p[0] == '(',
       "a process without a handler is left in peace");
    kernel_run(k, 1, 11, "stacks");
    (void)kernel_until(k, SPAN_REPLY, 1);
    kernel_forget(k);
    kernel_run(k, 1, 12, "stuck");
    kernel_send(k, &home, 1, &ask);
    ok(kernel_until(k, SPAN_STACK, 1) && k->last.cell == 31 &&
           slice_is(k->last.v[F_STACK_TEXT].s, "Thread 1: fake.c\n"),
       "stacks come while the worker is stuck");
    ok(kernel_told(k, "[REPLY]") || kernel_until(k, SPAN_REPLY, 1), "and it goes on");
}

static void restart(struct kernel *k, const char *self, const char *env)
{
    const uint32_t home = 1;
    struct span start = { .kind = SPAN_START };

    start.v[F_START_PYTHON].s = slice_text(self);
    start.v[F_START_ENV].s = slice_text(env);
    kernel_send(k, &home, 1, &start);
}

static void death_is_told(struct kernel *k, const char *self)
{
    kernel_forget(k);
    kernel_run(k, 1, 13, "out last\nerr \\nwhy\nexit 3");
    ok(kernel_until(k, SPAN_EXITED, 1), "an exit is told");
    is_int(k->last.v[F_EXITED_CODE].u64, EXITED_STATUS, "as an exit");
    is_int(k->last.v[F_EXITED_STATUS].u64, 3, "with its status");
    ok(memmem(k->last.v[F_EXITED_STDERR].s.p, k->last.v[F_EXITED_STDERR].s.n, "why", 3),
       "with the last of stderr");
    is_text(k->story.p, "1<last>2<\nwhy>[EXITED]", "all text comes before it");
    restart(k, self, "{\"GREETING\": \"hello\", \"PYTHONUNBUFFERED\": \"1\"}");
    ok(kernel_until(k, SPAN_READY, 1), "home starts again");
    kernel_forget(k);
    kernel_run(k, 1, 14, "env GREETING\nenv PYTHONUNBUFFERED");
    ok(kernel_until(k, SPAN_REPLY, 1) && kernel_told(k, "hello\n") && kernel_told(k, "1\n"),
       "with the environment that was asked for");
    kernel_run(k, 1, 15, "kill 6");
    ok(kernel_until(k, SPAN_EXITED, 1) && k->last.v[F_EXITED_CODE].u64 == EXITED_SIGNAL &&
           k->last.v[F_EXITED_STATUS].u64 == SIGABRT,
       "a signal is told");
    restart(k, self, "{}");
    (void)kernel_until(k, SPAN_READY, 1);
    kernel_run(k, 1, 16, "kill 9");
    ok(kernel_until(k, SPAN_EXITED, 1) &&
           memmem(k->last.v[F_EXITED_CAUSE].s.p, k->last.v[F_EXITED_CAUSE].s.n, "outside", 7),
       "SIGKILL by another is told from ours");
    restart(k, self, "{}");
    (void)kernel_until(k, SPAN_READY, 1);
}

static void kill_is_graceful_first(struct kernel *k, const char *self)
{
    const uint32_t home = 1;
    struct span kill_it = { .kind = SPAN_KILL };

    kernel_run(k, 1, 17, "sleep 0");
    kill_it.v[F_KILL_SIGNAL].u64 = SIGWINCH; /* does nothing */
    kill_it.v[F_KILL_GRACE_MS].u64 = 50;
    kernel_send(k, &home, 1, &kill_it);
    ok(kernel_until(k, SPAN_EXITED, 1) && k->last.v[F_EXITED_STATUS].u64 == SIGKILL &&
           k->last.v[F_EXITED_CAUSE].s.n == 0,
       "KILL kills after its grace");
    restart(k, self, "{\"FAKE_HOME_DIES\": \"1\"}");
    ok(kernel_until(k, SPAN_EXITED, 1) && k->last.v[F_EXITED_CODE].u64 == EXITED_UNKNOWN,
       "a home that doesn't come up is told");
    ok(memmem(k->last.v[F_EXITED_CAUSE].s.p, k->last.v[F_EXITED_CAUSE].s.n,
              "-m pip install \"ipython>=8\"", 26),
       "with the remedy");
    restart(k, "/nowhere/python", "{}");
    ok(kernel_until(k, SPAN_EXITED, 1) && k->last.v[F_EXITED_CODE].u64 == EXITED_UNKNOWN &&
           memmem(k->last.v[F_EXITED_CAUSE].s.p, k->last.v[F_EXITED_CAUSE].s.n, "/nowhere/python",
                  15),
       "a python that isn't there is named");
    restart(k, self, "{}");
    (void)kernel_until(k, SPAN_READY, 1);
}

static void broken_workers_are_ended(struct kernel *k, const char *self)
{
    kernel_run(k, 1, 18, "nonsense\nsleep 0");
    ok(kernel_until(k, SPAN_EXITED, 1) &&
           memmem(k->last.v[F_EXITED_CAUSE].s.p, k->last.v[F_EXITED_CAUSE].s.n, "agent", 5),
       "a worker that sends nonsense is ended");
    restart(k, self, "{}");
    (void)kernel_until(k, SPAN_READY, 1);
    kernel_run(k, 1, 19, "close\nsleep 0");
    ok(kernel_until(k, SPAN_EXITED, 1), "a worker that closes its socket is ended");
    restart(k, self, "{}");
    (void)kernel_until(k, SPAN_READY, 1);
}

int main(int argc, char **argv)
{
    struct kernel k;

    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    kernel_start(&k, argv[0], true, WINDOW);
    text_keeps_its_place_among_messages(&k);
    text_after_a_display_stays_after(&k);
    blobs_stay_with_the_agent(&k);
    large_messages_pass(&k);
    credit_stops_and_goes_on(&k);
    ports_are_free(&k);
    ports_come_in_pairs(&k);
#ifdef __linux__
    ports_are_reserved(&k);
#endif
    stacks_are_asked_for(&k);
    death_is_told(&k, argv[0]);
    kill_is_graceful_first(&k, argv[0]);
    broken_workers_are_ended(&k, argv[0]);
    is_int(kernel_end(&k), 0, "the agent ends with its stdin");
    return plan_done();
}
