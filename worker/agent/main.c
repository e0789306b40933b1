/* SPDX-License-Identifier: BSD-3-Clause */
/* cellspan-agent - one on each node: starts home and ranks, and passes messages between them and
 * the kernel. See README.md. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/agent_lines.h"
#include "base/log.h"
#include "base/mux/forward.h"
#include "base/cmdline.h"
#include "base/process.h"
#include "base/random.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "worker/agent/agent.h"
#include "worker/agent/processes/guard.h"
#include "worker/agent/net/join.h"
#include "worker/agent/net/sealed.h"
#include "worker/agent/net/secret.h"
#include "worker/agent/presence.h"
#include "worker/agent/notice.h"
#include "worker/agent/private.h"
#include "worker/agent/relay_program.h"
#include "worker/agent/sent_folder.h"
#include "worker/agent/slurm_job.h"
#include "protocol/route.h"

#define LARGE           131072 /* bytes */
#define PARENT_CHECK_NS (2 * NS_PER_S)
#define HANDED_LIMIT_MS 30000 /* how long the engine may take to write the secret to stdin */
#define NAME_SIZE       257u  /* HELLO's limit, and the NUL */
#define SIGTERM_MAX     86400u

struct program {
    struct agent agent;
    struct join join;
    const char *agent_from; /* variables that may have the agent's number; NULL: CELLSPAN_AGENT */
    bool no_stdin;          /* stdin tells nothing */
    bool has_stdin;         /* it was open when we were started */
    bool told_end;          /* the end of stdin, or of the parent, need not end the agent */
    bool sealed;            /* the secret is sealed with a key of ours */
    bool cancel_job;        /* see slurm_job.h */
    bool was_told;          /* its launcher has said that it is to end */
    pid_t parent;           /* the agent ends when this process does; 0: it does not */
    /* owned: the kernel's runtime folder, or on another machine the agent's own; NULL: none */
    char *folder;
    int lock; /* of the folder */
    struct notice notice;
    struct watch *in; /* of stdin, until it is over */
};

struct agent_line {
    struct agent_args args;
    const char *agent_from, *in, *presence, *relay, *seal, *sigterm;
    bool help, version, sealed, cancel_job;
};

static const struct cmdline_row rows[] = {
    { "connect", "ENDPOINTS", "the kernel's, with commas between",
      offsetof(struct agent_line, args.connect) },
    { "node", "NAME", "what to call this node (the host's name)",
      offsetof(struct agent_line, args.node) },
    { "python", "PATH", "start home with it", offsetof(struct agent_line, args.python) },
    { "cwd", "DIR", "home's folder, and the ranks'", offsetof(struct agent_line, args.cwd) },
    { "agent-from", "NAMES", "variables; the first that is set has the agent's number",
      offsetof(struct agent_line, agent_from) },
    { "stdin", "WAY",
      "none: do not read stdin, and do not wait for its end. end: the line `end` there ends the agent, "
      "and without it the kernel",
      offsetof(struct agent_line, in) },
    { "sigterm-notice", "SECONDS",
      "SIGTERM is a notice that this node will be gone then, and does not end the agent",
      offsetof(struct agent_line, sigterm) },
    { "cancel-job", NULL, "at its end, cancel Slurm's job if the job's srun is gone",
      offsetof(struct agent_line, cancel_job) },
    { "sealed", NULL,
      "print a key, with which the engine seals the secret: CELLSPAN_SEALED on stdin",
      offsetof(struct agent_line, sealed) },
    { "seal", "KEY", "print CELLSPAN_SECRET, sealed for the agent that has printed KEY",
      offsetof(struct agent_line, seal) },
    { "relay", "FOLDER", "for an agent there that can't reach its kernel: see docs/launchers.md",
      offsetof(struct agent_line, relay) },
    { "presence", "FOLDER", "say whether that agent is there, and wait for its end",
      offsetof(struct agent_line, presence) },
    { "help", NULL, "this text", offsetof(struct agent_line, help) },
    { "version", NULL, "print the version", offsetof(struct agent_line, version) },
    { NULL, NULL, NULL, 0 },
};

static void print_help(void)
{
    puts(
        "usage: cellspan-agent --connect ENDPOINT[,ENDPOINT...] [--node NAME] [--python PATH] [--cwd DIR]\n"
        "                      [--agent-from NAME[,NAME...]] [--stdin none|end] [--sealed]\n"
        "                      [--sigterm-notice SECONDS] [--cancel-job]\n"
        "       cellspan-agent --seal KEY\n"
        "       cellspan-agent --relay FOLDER\n"
        "       cellspan-agent --presence FOLDER\n\n"
        "Looks after the ranks of one node for a cellspan kernel, which starts it, or has an engine start it. It "
        "ends when its\n"
        "stdin or its parent process does. To dial a tcp endpoint it needs CELLSPAN_AGENT and CELLSPAN_SECRET, in "
        "its environment\n"
        "or as the first lines of its stdin. Exit status 3: the kernel can't be reached, or does not let it in.\n");
    cmdline_help(rows, stdout);
}

/* For an engine on the kernel's machine. */
static int seal(const char *key, struct err *err)
{
    const char *secret = getenv("CELLSPAN_SECRET");
    char text[SEALED_TEXT_SIZE];

    if (sealed_close(key, secret ? secret : "", text, err) < 0)
        return -1;
    puts(text);
    return 0;
}

static int read_sigterm(struct notice *n, const char *seconds, struct err *err)
{
    char *end;
    unsigned long s;

    if (!seconds)
        return 0;
    s = strtoul(seconds, &end, 10);
    if (*seconds < '0' || *seconds > '9' || *end || s < 1 || s > SIGTERM_MAX)
        return err_set(err, "--sigterm-notice %.200s: a number is wanted, from 1 to %u", seconds,
                       SIGTERM_MAX);
    n->sigterm_s = (unsigned)s;
    return 0;
}

/* -1: main returns *status. */
static int read_args(int argc, char **argv, struct program *h, struct agent_args *args, int *status)
{
    struct agent_line line = { .args = { .node = "" } };
    struct err err = { "" };
    int rc = cmdline_parse(rows, argc, argv, NULL, &line, &err);

    *status = 0;
    *args = line.args;
    h->agent_from = line.agent_from;
    h->no_stdin = line.in && strcmp(line.in, "none") == 0;
    h->told_end = line.in && strcmp(line.in, "end") == 0;
    h->sealed = line.sealed;
    h->cancel_job = line.cancel_job;
    if (rc == 0 && line.help)
        print_help();
    else if (rc == 0 && line.version)
        puts("cellspan-agent " CELLSPAN_VERSION);
    else if (rc == 0 && line.in && !h->no_stdin && !h->told_end)
        rc = err_set(&err, "--stdin %.200s: write none or end, or leave the option out", line.in);
    else if (rc == 0 && line.seal)
        rc = seal(line.seal, &err);
    else if (rc == 0 && line.relay)
        rc = relay_program_run(line.relay, &err);
    else if (rc == 0 && line.presence)
        rc = presence_run(line.presence, &err);
    else if (rc == 0 && h->no_stdin && line.sealed)
        rc = err_set(&err, "--sealed and --stdin %.20s: leave one of them out", line.in);
    else if (rc == 0 && args->connect && (rc = read_sigterm(&h->notice, line.sigterm, &err)) == 0)
        return 0;
    else if (rc == 0)
        rc = err_set(&err, "--connect is missing; --help shows how it is used");
    if (rc == 0)
        return -1;
    fprintf(stderr, "cellspan-agent: %s\n", err.text);
    *status = 2;
    return -1;
}

/* ---- reasons to end ---- */

/* The way to the launcher may have broken, and the kernel still be there: it says QUIT when nobody
 * wants us any more, and one that is gone is not waited for without end. */
static void stdin_over(struct program *h)
{
    watch_clear(&h->in);
    if (h->told_end && kernel_link_outlasts(&h->agent.kernel))
        log_info("agent", "stdin is over without a word: the kernel is waited for");
    else if (h->cancel_job && !h->was_told) /* the guard looks for srun */
        kernel_link_fail(&h->agent.kernel, "stdin is over without a word");
    else
        kernel_link_end(&h->agent.kernel, "stdin is over: the kernel is gone");
}

static void stdin_ready(void *arg, int fd, unsigned events)
{
    struct program *h = arg;
    char bytes[256];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    h->was_told = h->was_told || (n > 0 && agent_line_is_end(slice_of(bytes, (size_t)n)));
    if (n <= 0)
        stdin_over(h);
    else if (h->told_end && h->was_told)
        kernel_link_end(&h->agent.kernel, "its launcher says so");
}

static void told_to_end(void *arg)
{
    kernel_link_end(arg, "a signal");
}

static void check_parent(void *arg)
{
    struct program *h = arg;

    if (h->parent && getppid() != h->parent)
        kernel_link_end(&h->agent.kernel, "the parent process is gone");
}

static int watch_for_the_end(struct program *h, struct loop *loop, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

    /* also where whoever started us ignores them: the guard and engines end an agent with SIGHUP */
    (void)signal(SIGPIPE, SIG_IGN);
    if (!h->no_stdin && (!h->has_stdin || fd_nonblock(STDIN_FILENO, true) < 0))
        return err_set(
            err, "stdin is closed: it must be open, for its end says that the kernel has ended");
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if ((signals[i] != SIGTERM || !h->notice.sigterm_s) &&
            !loop_signal(loop, signals[i], told_to_end, &h->agent.kernel, err))
            return -1;
    if (!h->no_stdin && !(h->in = loop_fd(loop, STDIN_FILENO, LOOP_READ, stdin_ready, h, err)))
        return -1;
    if (sent_folder_note(loop, "/proc/self/exe", err) < 0)
        return -1;
    return loop_timer(loop, PARENT_CHECK_NS, PARENT_CHECK_NS, check_parent, h, err) ? 0 : -1;
}

/* ---- start ---- */

/* Sets the host's name, if no name was given. */
static void name_node(struct agent_args *args, char name[static NAME_SIZE])
{
    if (args->node[0])
        return;
    if (gethostname(name, NAME_SIZE - 1) < 0 || !name[0])
        snprintf(name, NAME_SIZE, "?");
    name[NAME_SIZE - 1] = '\0';
    args->node = name;
}

static int take_sealed(struct handed *handed, struct err *err)
{
    struct keys keys;
    int rc = sealed_ask(&keys, err);

    handed->sealed_for = &keys;
    if (rc == 0)
        rc = secret_from_stdin(handed, STDIN_FILENO, HANDED_LIMIT_MS, err);
    handed->sealed_for = NULL;
    keys_wipe(&keys);
    return rc;
}

/* What the environment does not have comes from stdin. */
static int take_handed(const struct program *h, struct handed *handed, struct err *err)
{
    if (h->agent_from && secret_number_from(handed, h->agent_from, err) < 0)
        return -1;
    if (h->sealed)
        return take_sealed(handed, err);
    if (!h->no_stdin)
        return secret_from_stdin(handed, STDIN_FILENO, HANDED_LIMIT_MS, err);
    if (handed->has_secret && handed->has_index)
        return 0;
    return err_set(err,
                   "%s is not set: without a stdin, the engine must hand it over in the agent's "
                   "environment",
                   handed->has_secret ? "CELLSPAN_AGENT" : "CELLSPAN_SECRET");
}

/* Derives the keys from what the engine hands over; nothing else of it is kept. */
static int take_secret(struct program *h, const char *connect, struct err *err)
{
    struct handed handed = { .index = 0 };
    int rc = secret_from_environment(&handed, err);

    if (!join_is_remote(connect))
        rc = 0;
    else if (rc == 0 && (rc = take_handed(h, &handed, err)) == 0)
        join_keys(&h->join, &handed.secret, handed.index, handed.turn);
    h->join.offered = getenv(RELAY_OFFER) != NULL;
    (void)unsetenv(RELAY_OFFER);
    if (h->agent_from)
        secret_leave_mpi();
    secret_wipe(&handed.secret);
    return rc;
}

/* No file that is opened later may get the number of stdin. */
static int leave_stdin(struct err *err)
{
    const int null = open("/dev/null", O_RDONLY);

    if (null < 0 || (null != STDIN_FILENO && dup2(null, STDIN_FILENO) < 0))
        return err_set(err, "/dev/null: %s", strerror(errno));
    if (null > STDERR_FILENO)
        (void)close(null);
    return 0;
}

/* Home is started before the kernel is dialed, because home takes longest to start. */
static int start(struct program *h, struct err *err)
{
    struct agent *a = &h->agent;
    const struct uplink_handler handler = agent_handler(a);
    struct err home = { "" };

    if (process_adopt_orphans() < 0)
        log_info("agent", "orphans of workers are not adopted here: %s", strerror(errno));
    if (a->args.python &&
        !spawn_home(a, SPAN_WORKER_HOME, a->args.python, a->args.cwd, slice_text(""), &home))
        log_info("agent", "%s", home.text);
    if (join_start(&h->join, &handler, err) < 0)
        return -1;
    if (home.text[0])
        exited_never_started(a, SPAN_WORKER_HOME, home.text);
    return 0;
}

/* The kernel's runtime folder, as its endpoint names it; the caller frees it. NULL: the endpoint is
 * in no such folder. */
static char *folder_of(const char *endpoint)
{
    const char *path = endpoint + strlen(ROUTE_UNIX), *slash;
    char *folder;

    if (join_is_remote(endpoint) || !(slash = strrchr(path, '/')) || slash == path)
        return NULL;
    folder = strndup(path, (size_t)(slash - path));
    if (folder && strstr(folder, "/cellspan-"))
        return folder;
    free(folder);
    return NULL;
}

/* Without a folder the node still works: ranks find a folder of their own. */
static void open_folder(struct program *h, const char *connect)
{
    struct err err = { "" };

    if (!join_is_remote(connect)) {
        if ((h->folder = folder_of(connect)))
            h->lock = runtime_dir_hold(h->folder);
        return;
    }
    runtime_sweep();
    if (!(h->folder = runtime_dir_create(&h->lock, &err)))
        log_warn("agent", "%s", err.text);
}

/* For --presence. */
static void tell_folder(const struct program *h)
{
    if (!h->folder)
        return;
    printf(AGENT_LINE_FOLDER "%s\n", h->folder);
    fflush(stdout);
}

static void release_folder(struct program *h)
{
    fd_close(&h->lock);
    free(h->folder);
    h->folder = NULL;
}

/* The kernel removes its own folder. If the kernel was killed, the agent does it. */
static void close_folder(struct program *h)
{
    const bool mine = join_is_remote(h->agent.args.connect) || getppid() != h->parent;
    struct err err = { "" };

    if (mine && runtime_dir_remove(h->folder, &err) < 0)
        log_info("agent", "%s", err.text);
    release_folder(h);
}

static int run(struct program *h, const struct agent_args *args, struct err *err)
{
    struct loop *loop = loop_create(&clock_system, err);
    int rc = -1;

    if (!loop)
        return -1;
    if (agent_init(&h->agent, args, loop, err) == 0 && watch_for_the_end(h, loop, err) == 0 &&
        notice_listen(&h->notice, loop, &h->agent.kernel, h->folder, err) == 0 &&
        start(h, err) == 0)
        rc = loop_run(loop, err);
    notice_release(&h->notice);
    end_all_workers(&h->agent);
    agent_release(&h->agent);
    close_folder(h);
    join_release(&h->join);
    loop_destroy(loop);
    return rc;
}

int main(int argc, char **argv)
{
    struct program h = { .parent = getppid(), .lock = -1, .notice = NOTICE_INIT };
    struct agent_args args;
    char name[NAME_SIZE] = "";
    struct err err = { "" };
    int status;

    h.has_stdin = fd_open_standard();
    process_hold_notices();
    if (read_args(argc, argv, &h, &args, &status) < 0)
        return status;
    name_node(&args, name);
#ifdef __GLIBC__
    (void)mallopt(M_ARENA_MAX, 1); /* one heap for all threads: ZeroMQ's need none of their own */
    /* the memory of a large message goes back to the system */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE);
    (void)mallopt(M_TRIM_THRESHOLD, LARGE);
#endif
    settings_open_log("agent");
    h.join = (struct join){ .kernel = &h.agent.kernel, .connect = args.connect };
    if ((h.no_stdin && leave_stdin(&err) < 0) || random_open(&err) < 0 ||
        take_secret(&h, args.connect, &err) < 0)
        goto failed;
    /* before the guard starts: it removes the folder if the agent can't */
    open_folder(&h, args.connect);
    args.folder = h.join.folder = h.folder;
    if (join_is_remote(args.connect)) {
        const int rc = guard_start(argc, argv, args.node, h.told_end, &h.join.keys, &status, &err);

        if (rc != 0) {
            (void)!runtime_dir_remove(h.folder, &err);
            release_folder(&h);
        }
        if (rc == 1 && h.cancel_job && status > 0 && status < 128) /* it was not killed */
            slurm_job_cancel();
        if (rc == 1)
            return status;
        if (rc < 0)
            goto failed;
        if (h.told_end)
            tell_folder(&h);
        h.parent = h.told_end && getppid() == h.parent ? 0 : getppid();
    }
    if (run(&h, &args, &err) == 0)
        return h.agent.kernel.status;
failed:
    keys_wipe(&h.join.keys);
    if (err.text[0])
        fprintf(stderr, "cellspan-agent on %s: %s\n", args.node, err.text);
    return h.agent.kernel.status ? h.agent.kernel.status : 1;
}
