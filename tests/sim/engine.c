/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - cellspan-launch-sim: `--on sim:N` or `--on sim:N,alone=I` gives N agents of eight
 * ranks each, in a few processes. Agent I has a process of its own, so that it can be frozen. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop/loop.h"
#include "base/process.h"
#include "tests/sim/host.h"
#include "tests/sim/part.h"

#define SLOTS      8u
#define AGENTS_MAX 4096u
/* descriptors that an agent has open at most, while it looks for its parent */
#define FILES_EACH 12u
#define NO_AGENT   0xffffffffu
#define HOSTS      (SIM_GROUPS + 1u)

struct engine {
    const char *spec, *connect;
    struct secret secret;
    unsigned agents, alone;
    pid_t pid[HOSTS];
    int in[HOSTS];
    unsigned left;
    struct loop *loop;
    struct watch *stdin_watch;
};

static int parse(struct engine *e, int argc, char **argv, struct err *err)
{
    char *end;

    e->spec = "";
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], "--spec") == 0)
            e->spec = argv[k + 1];
        else if (strcmp(argv[k], "--connect") == 0)
            e->connect = argv[k + 1];
    e->agents = (unsigned)strtoul(e->spec, &end, 10);
    e->alone = strncmp(end, ",alone=", 7) == 0 ? (unsigned)strtoul(end + 7, &end, 10) : NO_AGENT;
    if (*end || e->agents == 0 || e->agents > AGENTS_MAX)
        return err_set(err, "--on sim:%s: sim:N or sim:N,alone=I is wanted, N agents, at most %u",
                       e->spec, AGENTS_MAX);
    if (!e->connect || strchr(e->connect, ','))
        return err_set(err, "one endpoint is wanted (CELLSPAN_INTERFACE=127.0.0.1), not %s",
                       e->connect ? e->connect : "none");
    return 0;
}

static int raise_files(const struct engine *e, struct err *err)
{
    const rlim_t wanted = 64 + FILES_EACH * (e->agents / SIM_GROUPS + 1);
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_set(err, "%s", strerror(errno));
    if (files.rlim_max < wanted)
        return err_set(
            err,
            "%u agents need %lu open files in a process, and ulimit -Hn is %lu: raise it, or take fewer agents",
            e->agents, (unsigned long)wanted, (unsigned long)files.rlim_max);
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) < 0 ? err_set(err, "%s", strerror(errno)) : 0;
}

static bool is_in(const struct engine *e, unsigned index, unsigned host)
{
    return index == e->alone ? host == SIM_GROUPS : index % SIM_GROUPS == host;
}

/* In the child. */
static int play(struct engine *e, unsigned host, int in)
{
    bool *mine = calloc(e->agents, sizeof *mine);
    const struct host_spec s = { e->connect, &e->secret, e->agents, mine, in };
    int rc = 1;

    for (unsigned i = 0; mine && i < e->agents; i++)
        mine[i] = is_in(e, i, host);
    (void)signal(SIGTERM, SIG_DFL);
    if (mine)
        rc = host_run(&s);
    free(mine);
    return rc;
}

static bool holds_any(const struct engine *e, unsigned host)
{
    return host < SIM_GROUPS
               ? e->agents > host && !(e->agents <= host + SIM_GROUPS && e->alone == host)
               : e->alone < e->agents;
}

static int start(struct engine *e, unsigned host, struct err *err)
{
    int pipe[2];

    if (!holds_any(e, host))
        return 0;
    if (fd_pipe(pipe) < 0 || (e->pid[host] = fork()) < 0)
        return err_set(err, "can't start a process: %s", strerror(errno));
    if (e->pid[host] == 0) {
        for (unsigned k = 0; k < host; k++)
            fd_close(&e->in[k]);
        fd_close(&pipe[1]);
        exit(play(e, host, pipe[0]));
    }
    fd_close(&pipe[0]);
    e->in[host] = pipe[1];
    e->left++;
    return 0;
}

static void announce(const struct engine *e)
{
    printf("nodes %u\n", e->agents);
    for (unsigned i = 0; i < e->agents; i++)
        printf("node %u sim%u %u\n", i, i, SLOTS);
    fflush(stdout);
}

/* ---- its end ---- */

static void child_ended(void *arg)
{
    struct engine *e = arg;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        for (unsigned k = 0; k < HOSTS; k++)
            if (e->pid[k] == pid) {
                e->pid[k] = 0;
                e->left--;
            }
    if (e->left == 0)
        loop_stop(e->loop);
}

/* One that is frozen does not see the end of its stdin. */
static void let_go(struct engine *e)
{
    for (unsigned k = 0; k < HOSTS; k++)
        fd_close(&e->in[k]);
    if (e->pid[SIM_GROUPS] > 0)
        (void)kill(e->pid[SIM_GROUPS], SIGKILL);
}

static void terminated(void *arg)
{
    let_go(arg);
}

static void stdin_ended(void *arg, int fd, unsigned events)
{
    struct engine *e = arg;
    char bytes[64];

    (void)events;
    if (read(fd, bytes, sizeof bytes) > 0)
        return;
    watch_stop(e->stdin_watch);
    let_go(e);
}

static int run(struct engine *e, struct err *err)
{
    for (unsigned k = 0; k < HOSTS; k++)
        if (start(e, k, err) < 0)
            return -1;
    secret_wipe(&e->secret);
    /* the agents may be quicker: the kernel has to wait for this before it lets them in */
    announce(e);
    if (!(e->loop = loop_create(&clock_system, err)))
        return -1;
    e->stdin_watch = loop_fd(e->loop, 0, LOOP_READ, stdin_ended, e, err);
    if (!e->stdin_watch || !loop_signal(e->loop, SIGCHLD, child_ended, e, err) ||
        !loop_signal(e->loop, SIGTERM, terminated, e, err))
        return -1;
    child_ended(e); /* who ended before we looked */
    while (e->left > 0)
        if (loop_run(e->loop, err) < 0)
            return -1;
    loop_destroy(e->loop);
    return 0;
}

int engine_main(int argc, char **argv)
{
    struct engine e = { .left = 0 };
    struct err err = { "" };

    for (unsigned k = 0; k < HOSTS; k++)
        e.in[k] = -1;
    if (parse(&e, argc, argv, &err) < 0 || raise_files(&e, &err) < 0 ||
        secret_parse(&e.secret, slice_text(getenv("CELLSPAN_SECRET")), &err) < 0) {
        fprintf(stderr, "cellspan-launch-sim: %s\n", err.text);
        return 2;
    }
    if (run(&e, &err) == 0)
        return 0;
    fprintf(stderr, "cellspan-launch-sim: %s\n", err.text);
    return 1;
}
