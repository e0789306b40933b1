/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/relay_child.h, with cellspan-agent --relay as the child, on this machine. */
#include "launchers/relay_child.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/process.h"
#include "base/unix_socket.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/launchers/turns.h"
#include "tests/unit/tap.h"

struct bench {
    struct turns turns;
    char folder[64], path[96], agent[512];
    int server;
    struct relay_child *relay;
    unsigned ended; /* children */
    pid_t child;    /* the last one that has ended */
};

static void child_ended(void *arg)
{
    struct bench *b = arg;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        if (relay_child_ended(b->relay, pid)) {
            b->ended++;
            b->child = pid;
        }
}

static bool begin(struct bench *b)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const char *top = getenv("top_builddir");
    socklen_t size = sizeof at;
    char endpoint[64];

    *b = (struct bench){ .server = socket(AF_INET, SOCK_STREAM, 0) };
    snprintf(b->folder, sizeof b->folder, "/tmp/cellspan-relay-%ld", (long)getpid());
    snprintf(b->path, sizeof b->path, "%s/relay", b->folder);
    snprintf(b->agent, sizeof b->agent, "%s/cellspan-agent", top ? top : ".");
    if (mkdir(b->folder, 0700) < 0 || bind(b->server, (struct sockaddr *)&at, size) < 0 ||
        listen(b->server, 16) < 0 || getsockname(b->server, (struct sockaddr *)&at, &size) < 0)
        return false;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    (void)setenv("CELLSPAN_KERNEL_ENDPOINT", endpoint, 1);
    return turns_begin(&b->turns, child_ended, b);
}

static void finish(struct bench *b)
{
    relay_child_stop(b->relay);
    b->relay = NULL;
    while (waitpid(-1, NULL, 0) > 0)
        ;
    loop_destroy(b->turns.loop);
    close(b->server);
    (void)unlink(b->path);
    snprintf(b->path, sizeof b->path, "%s/relayed", b->folder);
    (void)unlink(b->path);
    (void)rmdir(b->folder);
}

static bool start(struct bench *b, const char *const command[], struct err *err)
{
    struct words argv = WORDS_INIT;
    const struct relay_child_spec spec = {
        .loop = b->turns.loop, .host = "h1", .way = "ssh", .why = "a reason", .argv = &argv
    };

    for (size_t i = 0; command[i]; i++)
        if (words_add(&argv, command[i]) < 0)
            return false;
    b->relay = relay_child_start(&spec, err);
    return b->relay && !argv.n;
}

/* A connection through the relay, and what the server got for it. */
static bool connect_through(struct bench *b, int end[2])
{
    end[0] = end[1] = -1;
    while ((end[0] = unix_connect(b->path)) < 0)
        if (!turns_take(&b->turns))
            return false;
    if (fd_nonblock(b->server, true) < 0)
        return false;
    while ((end[1] = accept(b->server, NULL, NULL)) < 0)
        if (!turns_take(&b->turns))
            return false;
    return true;
}

/* Bytes go from one end to the other. */
static bool passes(struct bench *b, int from, int to)
{
    char got[16] = "";

    if (fd_write(from, slice_text("through it")) < 0 || fd_nonblock(to, true) < 0)
        return false;
    while (read(to, got, sizeof got) < 0)
        if (!turns_take(&b->turns))
            return false;
    return strcmp(got, "through it") == 0;
}

static void it_comes_again_when_it_has_ended(void)
{
    struct bench b;
    struct err err = { "" };
    int end[2];
    char byte, kill_it[128];

    if (!ok(begin(&b), "a kernel's port"))
        return;
    {
        const char *const command[] = { b.agent, RELAY_OPTION, b.folder, NULL };

        ok(start(&b, command, &err), "a relay %s", err.text);
    }
    for (unsigned round = 0; round < 3; round++) {
        ok(connect_through(&b, end) && passes(&b, end[0], end[1]) && passes(&b, end[1], end[0]),
           "a connection goes through it, in both directions");
        if (round == 2)
            break;
        snprintf(kill_it, sizeof kill_it, "pkill -f -- '[-]-relay %s'", b.folder);
        ok(system(kill_it) == 0, "its process is killed");
        while (b.ended == round && turns_take(&b.turns))
            ;
        is_int(b.ended, round + 1, "that is noticed");
        ok(read(end[0], &byte, 1) <= 0, "the connection ends on the host");
        while (read(end[1], &byte, 1) < 0 && turns_take(&b.turns))
            ;
        close(end[0]);
        close(end[1]);
    }
    close(end[0]);
    close(end[1]);
    ok(!b.turns.late, "all of it in time");
    finish(&b);
}

struct bad_command {
    const char *script, *is;
    unsigned rounds;
};

#define BABBLES "echo cellspan-relay: ready; echo hello to all of you; "
static const struct bad_command bad_commands[] = {
    { "echo nobody is here >&2; exit 1", "fails", 3 },
    { BABBLES "exec sleep 100", "sends no frames", 2 },
    { "trap '' TERM; " BABBLES "exec sleep 100", "takes no SIGTERM", 2 },
    { BABBLES "kill -STOP $$; exec sleep 100", "is stopped", 2 },
};

static void what_never_comes_up(void)
{
    for (size_t i = 0; i < sizeof bad_commands / sizeof *bad_commands; i++) {
        const struct bad_command *c = &bad_commands[i];
        const char *const command[] = { "sh", "-c", c->script, NULL };
        struct err err = { "" };
        struct bench b;

        if (!ok(begin(&b), "a kernel's port"))
            return;
        ok(start(&b, command, &err), "a command that %s", c->is);
        while (b.ended < c->rounds && turns_take(&b.turns))
            ;
        ok(b.ended >= c->rounds && !b.turns.late, "is ended, and run again");
        relay_child_stop(b.relay);
        b.relay = NULL;
        (void)signal(SIGALRM, SIG_DFL);
        finish(&b);
    }
}

/* A user need not read every few seconds that a login is refused. */
static void it_says_the_same_once(void)
{
    static const char *const command[] = { "sh", "-c", "echo nobody is here >&2; exit 1", NULL };
    char said[4096], *first;
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    struct err err = { "" };
    struct bench b;

    if (!ok(file && before >= 0 && begin(&b), "a file for what is said"))
        return;
    (void)dup2(fileno(file), STDERR_FILENO);
    if (start(&b, command, &err))
        while (b.ended < 3 && turns_take(&b.turns))
            ;
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    ok(b.ended >= 3, "a relay that ends with the same words again and again");
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    first = strstr(said, "h1: relay: nobody is here\n");
    ok(first && !strstr(first + strlen("h1: relay: "), "h1: relay: nobody is here"),
       "says them once: %s", said);
    finish(&b);
}

static void without_a_kernel(void)
{
    static const char *const wrong[] = { "", "ipc://x", "tcp://127.0.0.1", "tcp://nowhere:1" };
    static const char *const command[] = { "true", NULL };
    struct bench b;

    if (!ok(begin(&b), "a kernel's port"))
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err err = { "" };

        (void)setenv("CELLSPAN_KERNEL_ENDPOINT", wrong[i], 1);
        ok(!start(&b, command, &err) && strstr(err.text, "CELLSPAN_KERNEL_ENDPOINT"),
           "CELLSPAN_KERNEL_ENDPOINT=%s: %s", wrong[i], err.text);
    }
    finish(&b);
}

int main(void)
{
    const unsigned before = open_descriptors();

    (void)signal(SIGPIPE, SIG_IGN);
    it_comes_again_when_it_has_ended();
    what_never_comes_up();
    it_says_the_same_once();
    without_a_kernel();
    is_int(open_descriptors(), before, "no descriptor is left");
    return plan_done();
}
