/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the program cellspan-launch-ssh, the engine "ssh". It runs one ssh for each host; ssh's
 * stdin is the agent's. docs/launchers.md says what every engine is told and must do. If this
 * process is killed, no process is left: each ssh's stdin ends, which sshd passes on to the agent,
 * and each ssh gets a SIGTERM. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/mux/forward.h"
#include "base/path.h"
#include "base/process.h"
#include "base/settings.h"
#include "launchers/launcher.h"
#include "launchers/environment_modules.h"
#include "launchers/ssh/ssh_child.h"
#include "launchers/agent_script.h"

#define LOGINS_MAX  32u /* at once */
#define ALIVE_COUNT "3" /* signs of life that ssh waits for in vain before it ends */
/* how long agents may take to end after their stdin; then ssh gets SIGTERM, then SIGKILL */
#define POLITE_NS (8 * NS_PER_S)
#define END_S     12u /* seconds, with all of that */

struct fleet {
    struct loop *loop;
    struct ssh_hosts hosts;
    struct words ssh;
    struct words command; /* the agent's */
    struct payload payload;
    struct buf line; /* empty until a host wants it */
    char *secret;    /* owned */
    struct ssh_plan plan;
    struct ssh_child *child; /* one for each host */
    size_t n;
    struct login_limit login_limit;
    bool ending, said_end;
    int signo; /* the last signal sent to children that don't end */
    struct watch *in, *timer;
};

/* ---- who begins, who is over ---- */

static void start_all(void *arg)
{
    struct fleet *f = arg;

    for (size_t i = 0; i < f->n && !f->ending; i++)
        ssh_child_start(&f->child[i]);
}

/* Stops the loop when all are over. It runs from loop_later, because children call settled() within
 * their own functions. */
static void step(void *arg)
{
    struct fleet *f = arg;
    size_t over = 0;

    for (size_t i = 0; i < f->n; i++)
        over += f->child[i].state == SSH_OVER;
    if (over == f->n)
        loop_stop(f->loop);
}

/* The end of an agent whose ssh broke takes a login. */
static void broken(void *arg)
{
    struct fleet *f = arg;

    if (!f->said_end)
        report_end_takes(END_S);
    f->said_end = true;
}

static void settled(void *arg)
{
    struct fleet *f = arg;

    if (loop_later(f->loop, step, f) < 0)
        loop_stop(f->loop); /* out of memory */
}

/* The first other child to the same machine. */
static struct ssh_child *twin(void *arg, const struct ssh_child *l, unsigned *ranks)
{
    struct fleet *f = arg;
    struct ssh_child *first = NULL;

    *ranks = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct ssh_child *other = &f->child[i];

        if (!other->machine || strcmp(other->machine, l->machine) != 0)
            continue;
        *ranks += ssh_host_ranks(other->host);
        if (!first && other != l && !other->failed && other->state != SSH_OVER)
            first = other;
    }
    return first;
}

static void child_ended(void *arg)
{
    struct fleet *f = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < f->n && !payload_child_ended(&f->payload, pid); i++)
            if (f->child[i].pid == pid)
                ssh_child_ended(&f->child[i], status);
            else
                ssh_child_other_ended(&f->child[i], pid, status);
}

/* ---- the end ---- */

static void press(void *arg)
{
    struct fleet *f = arg;

    f->signo = f->signo ? SIGKILL : SIGTERM;
    for (size_t i = 0; i < f->n; i++)
        ssh_child_kill(&f->child[i], f->signo);
    loop_timer_again(f->timer, POLITE_NS / 4);
}

static void end_all(struct fleet *f)
{
    struct err err = { "" };

    if (f->ending)
        return;
    f->ending = true;
    f->login_limit.most = 0; /* no other begins */
    watch_clear(&f->in);
    for (size_t i = 0; i < f->n; i++)
        ssh_child_end(&f->child[i]);
    if (!(f->timer = loop_timer(f->loop, POLITE_NS, 0, press, f, &err)))
        loop_stop(f->loop);
}

static void told_to_end(void *arg)
{
    end_all(arg);
}

/* Waits for the end of stdin; the kernel writes nothing to it. */
static void stdin_ready(void *arg, int fd, unsigned events)
{
    (void)events;
    if (fd_is_over(fd))
        end_all(arg);
}

/* ---- the beginning ---- */

/* ssh's ServerAliveInterval in seconds. With ALIVE_COUNT ssh notices later than the kernel that a
 * host is silent but, unless CELLSPAN_RESUME is short, before the kernel gives the host up: a way
 * that leads nowhere, as after this machine has got another address, may have a successor that
 * leads there. */
static unsigned alive_interval(void)
{
    const double seconds = (double)setting_value(SETTING_HEARTBEAT_TIMEOUT) / (double)NS_PER_S;

    return (unsigned)((seconds + 1.9) / 2); /* at least half of the time-out, and at least 1 */
}

/* Composes ssh's command and options. For ssh the first value of an option counts: those of
 * CELLSPAN_SSH come before ours, and ours before the user's ssh_config. */
static int compose_ssh(struct words *ssh, struct err *err)
{
    static const char *const ours[] = {
        "-T",
        "-x",
        "-oBatchMode=yes",
        "-oTCPKeepAlive=yes",
        "-oControlMaster=no",
        "-oClearAllForwardings=yes",
        "-oPermitLocalCommand=no",
        "-oRemoteCommand=none",
        "-oServerAliveCountMax=" ALIVE_COUNT,
    };
    const char *command = setting_text(SETTING_SSH);
    char interval[48];
    struct err why = { "" };

    if (words_split(ssh, command && command[strspn(command, " \t")] ? command : "ssh", &why) < 0)
        return err_set(err, "CELLSPAN_SSH: %s", why.text);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (words_add(ssh, ours[i]) < 0)
            return err_set(err, "out of memory");
    snprintf(interval, sizeof interval, "-oServerAliveInterval=%u", alive_interval());
    return words_add(ssh, interval) < 0 ? err_set(err, "out of memory") : 0;
}

/* An agent that is waited for outlasts a connection of ssh that breaks. */
static int compose_command(struct fleet *f, char *const *word)
{
    f->plan.outlasts = setting_value(SETTING_RESUME) > setting_value(SETTING_HEARTBEAT_TIMEOUT);
    for (; *word; word++)
        if (words_add(&f->command, *word) < 0)
            return -1;
    return f->plan.outlasts &&
                   (words_add(&f->command, "--stdin") < 0 || words_add(&f->command, "end") < 0)
               ? -1
               : 0;
}

static int compose_line(struct fleet *f, struct err *err)
{
    char *cwd = getcwd(NULL, 0);
    struct script_setting set[SCRIPT_SETTINGS + 1];
    size_t settings = script_settings(set);
    struct script_spec spec = { .command = f->command.v,
                                .prefix = setting_text(SETTING_REMOTE_PREFIX),
                                .cwd = cwd,
                                .setting = set,
                                .modules = modules_told(),
                                .payload = payload_known(&f->payload) ? &f->payload : NULL,
                                .image = f->plan.image };
    int rc;

    if (setting_value(SETTING_RELAY) == RELAY_AUTO)
        set[settings++] = (struct script_setting){ RELAY_OFFER, "1" };
    spec.settings = settings;
    rc = script_line(&f->line, &spec, err);
    free(cwd);
    return rc;
}

/* The line for the hosts. Empty: memory is out, and the shells end. */
static struct slice line(void *arg)
{
    struct fleet *f = arg;
    struct err err = { "" };

    if (!f->line.n && compose_line(f, &err) < 0) {
        fprintf(stderr, "cellspan-launch-ssh: %s\n", err.text);
        buf_clear(&f->line);
    }
    return buf_slice(&f->line);
}

/* Removes the secret from the environment, where ssh's SendEnv could send it. */
static int take_secret(struct fleet *f, struct err *err)
{
    char *mine = getenv("CELLSPAN_SECRET");

    if (!mine)
        return 0;
    if (!(f->secret = strdup(mine)))
        return err_set(err, "out of memory");
    memory_wipe(mine, strlen(mine));
    f->plan.secret = f->secret;
    return unsetenv("CELLSPAN_SECRET") < 0 ? err_set(err, "CELLSPAN_SECRET: %s", strerror(errno))
                                           : 0;
}

static int prepare(struct fleet *f, const struct launch_arguments *a, struct err *err)
{
    if (ssh_hosts_parse(&f->hosts, a->spec, err) < 0 ||
        ssh_hosts_check(&f->hosts, a->ranks, err) < 0 || compose_ssh(&f->ssh, err) < 0)
        return -1;
    f->plan.image = a->image;
    if (modules_check(modules_told(), err) < 0)
        return -1;
    if (a->image && container_check(a->image, err) < 0)
        return -1;
    if (compose_command(f, a->command) < 0)
        return err_set(err, "out of memory");
    f->plan.limit_ns = setting_value(SETTING_SSH_TIMEOUT);
    f->plan.ssh = &f->ssh;
    f->plan.line = line;
    f->plan.payload = &f->payload;
    if (take_secret(f, err) < 0)
        return -1;
    payload_ask(&f->payload, a->command[0]);
    f->plan.program = path_name(a->command[0]);
    f->plan.prefix = setting_text(SETTING_REMOTE_PREFIX);
    login_limit_init(&f->login_limit, LOGINS_MAX);
    f->plan.login_limit = &f->login_limit;
    f->plan.settled = settled;
    f->plan.broken = broken;
    f->plan.twin = twin;
    f->plan.arg = f;
    if (!(f->child = calloc(f->hosts.n, sizeof *f->child)))
        return err_set(err, "out of memory");
    f->n = f->hosts.n;
    for (size_t i = 0; i < f->n; i++)
        ssh_child_init(&f->child[i], &f->plan, &f->hosts.v[i], (unsigned)i);
    return 0;
}

static void report_hosts(const struct fleet *f)
{
    report_tells_ends();
    report_nodes((unsigned)f->n);
    for (size_t i = 0; i < f->n; i++)
        report_node((unsigned)i, f->hosts.v[i].name, f->hosts.v[i].slots);
}

static int run(struct fleet *f, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

    (void)signal(SIGPIPE, SIG_IGN);
    if (!(f->loop = loop_create(&clock_system, err)))
        return -1;
    f->plan.loop = f->loop;
    if (!loop_signal(f->loop, SIGCHLD, child_ended, f, err))
        return -1;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!process_ignores(signals[i]) && !loop_signal(f->loop, signals[i], told_to_end, f, err))
            return -1;
    if (!(f->in = loop_fd(f->loop, STDIN_FILENO, LOOP_READ, stdin_ready, f, err)))
        return -1;
    report_hosts(f);
    if (loop_later(f->loop, start_all, f) < 0)
        return err_set(err, "out of memory");
    return loop_run(f->loop, err);
}

static int release(struct fleet *f)
{
    int status = 0;

    for (size_t i = 0; i < f->n; i++) {
        if (f->child[i].failed)
            status = LAUNCH_FAILED;
        ssh_child_release(&f->child[i]);
    }
    free(f->child);
    if (f->secret)
        memory_wipe(f->secret, strlen(f->secret));
    free(f->secret);
    ssh_hosts_release(&f->hosts);
    words_release(&f->ssh);
    words_release(&f->command);
    buf_release(&f->line);
    payload_release(&f->payload);
    loop_destroy(f->loop);
    return status;
}

int main(int argc, char **argv)
{
    struct fleet f = { .hosts = SSH_HOSTS_INIT, .payload = PAYLOAD_INIT };
    struct launch_arguments a;
    struct err err = { "" };
    int status = LAUNCH_CANNOT,
        read = launch_arguments_read(&a, argc, argv,
                                     "Runs one cellspan agent on each of the hosts "
                                     "of SPEC (host1,host2*4,user@gpu[1-3]), over ssh.",
                                     &err);

    if (read > 0)
        return 0;
    if (read == 0 && prepare(&f, &a, &err) == 0) {
        status = LAUNCH_FAILED;
        if (run(&f, &err) == 0)
            status = 0;
    }
    if (err.text[0])
        fprintf(stderr, "cellspan-launch-ssh: %s\n", err.text);
    return release(&f) || status ? (status ? status : LAUNCH_FAILED) : 0;
}
