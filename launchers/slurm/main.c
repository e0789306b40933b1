/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the program cellspan-launch-slurm, the engine "slurm". One srun starts an agent on each
 * node, in the job that we run in or in a new one. docs/launchers.md says what every engine is told
 * and must do. If this process is killed, srun gets a SIGTERM and cancels: no process is left. */
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
#include "base/runtime.h"
#include "base/settings.h"
#include "launchers/launcher.h"
#include "launchers/agent_script.h"
#include "launchers/slurm/step.h"
#include "launchers/slurm/job.h"
#include "launchers/slurm/srun_output.h"

extern char **environ;

/* ---- callbacks ---- */

static void child_ended(void *arg)
{
    struct job *j = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == j->pid)
            job_ended(j, status);
        else
            relays_ended(&j->relays, pid);
}

static void told_to_end(void *arg)
{
    job_hurry(arg);
}

struct stdin_watch {
    struct job *job;
    struct watch *watch;
};

static void stdin_ready(void *arg, int fd, unsigned events)
{
    struct stdin_watch *in = arg;

    (void)events;
    if (!fd_is_over(fd))
        return;
    watch_clear(&in->watch);
    job_end(in->job);
}

/* The agents have it from srun's environment, and nothing else needs it. */
static void forget_secret(void)
{
    char *mine = getenv("CELLSPAN_SECRET");

    if (mine)
        memory_wipe(mine, strlen(mine));
    (void)unsetenv("CELLSPAN_SECRET");
}

/* In place of that, the agents in containers get it on stdin. */
static int take_secret(struct delivery *d, struct err *err)
{
    const char *const mine = getenv("CELLSPAN_SECRET");

    if (mine && delivery_secret(d, mine) < 0)
        return err_set(err, "out of memory");
    forget_secret();
    return 0;
}

static int run(struct job *j, const struct words *argv, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    struct stdin_watch in = { .job = j };

    (void)signal(SIGPIPE, SIG_IGN);
    if (!loop_signal(j->loop, SIGCHLD, child_ended, j, err))
        return -1;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!process_ignores(signals[i]) && !loop_signal(j->loop, signals[i], told_to_end, j, err))
            return -1;
    if (!(in.watch = loop_fd(j->loop, STDIN_FILENO, LOOP_READ, stdin_ready, &in, err)))
        return -1;
    if (job_start(j, argv, err) < 0)
        return -1;
    forget_secret();
    return loop_run(j->loop, err);
}

/* ---- before ---- */

/* squeue, scancel and other commands about the job read the variable. With several clusters in it
 * they would mean the jobs of that number on each of them. */
static int take_cluster(const char *cluster, struct err *err)
{
    const char *const name = cluster ? cluster : getenv("SLURM_CLUSTERS");

    if (name && slurm_names_clusters(name))
        return err_set(err, "%s=%s: name one cluster", cluster ? "--clusters" : "SLURM_CLUSTERS",
                       name);
    return cluster && setenv("SLURM_CLUSTERS", cluster, 1) < 0 ? err_set(err, "out of memory") : 0;
}

static int find_srun(struct err *err)
{
    char *srun = runtime_on_path("srun");

    if (!srun)
        return err_set(
            err,
            "Slurm is not here: there is no srun on PATH. Run the notebook on a node of the cluster "
            "(a login node, or in a job), or load Slurm's module before Jupyter starts");
    free(srun);
    return 0;
}

/* Asks scontrol for the GPUs of the job that we run in; 0 if it does not tell. Blocks, which is
 * fine before the loop runs. */
static unsigned ask_gpus(const char *job)
{
    const char *const argv[] = { "scontrol", "--oneliner", "--details", "show", "job", job, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf text = BUF_INIT;
    struct err err = { "" };
    unsigned gpus, most = 0;

    spec.argv = argv;
    spec.die_with_parent = true;
    if (process_output(&spec, SIZE_MAX, PROCESS_ANSWER_NS, &text, &err) < 0 && errno == ETIMEDOUT)
        report_say("the GPUs of job %s are not known: %s", job, err.text);
    gpus = text.p ? step_gpus_per_node(text.p, &most) : 0;
    if (gpus < most && gpus)
        report_say(
            "the nodes of job %s have from %u to %u GPUs, of which a step of Slurm's takes as many on each: %u",
            job, gpus, most, gpus);
    buf_release(&text);
    return gpus;
}

/* The agents take SIGTERM as a notice: only Slurm sends it to them, so many seconds before SIGKILL.
 * Our own way to end them is the end of their stdin. Blocks, too. */
static unsigned ask_kill_wait(void)
{
    const char *const argv[] = { "scontrol", "show", "config", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf text = BUF_INIT;
    struct err err = { "" };
    unsigned seconds;

    spec.argv = argv;
    spec.die_with_parent = true;
    (void)process_output(&spec, SIZE_MAX, PROCESS_ANSWER_NS, &text, &err);
    seconds = text.p ? slurm_kill_wait(text.p) : 0;
    buf_release(&text);
    return seconds;
}

static int agent_command(struct words *command, char **given, unsigned kill_wait, bool own,
                         struct err *err)
{
    char seconds[16];
    int rc = 0;

    snprintf(seconds, sizeof seconds, "%u", kill_wait);
    for (; rc == 0 && *given; given++)
        rc = words_add(command, *given);
    if (rc == 0 && kill_wait)
        rc = words_add(command, "--sigterm-notice") < 0 ? -1 : words_add(command, seconds);
    if (rc == 0 && own)
        rc = words_add(command, "--cancel-job");
    return rc < 0 ? err_set(err, "out of memory") : 0;
}

/* Goes backwards, because unsetenv moves the later variables. */
static void hide_variables(bool inside, bool leave)
{
    size_t n = 0;

    while (environ[n])
        n++;
    while (n-- > 0) {
        char *name = strndup(environ[n], strcspn(environ[n], "="));

        if (name && step_hides(name, inside, leave))
            (void)unsetenv(name);
        free(name);
    }
}

/* For the agents: how long after the signal of --signal the job ends, and that there are relays. */
static int hand_over(const struct slurm_options *options, struct err *err)
{
    char seconds[16];

    if (setting_value(SETTING_RELAY) == RELAY_AUTO && setenv(RELAY_OFFER, "1", 1) < 0)
        return err_set(err, "out of memory");
    snprintf(seconds, sizeof seconds, "%u", options->notice);
    if (options->notice && setenv(setting_rows[SETTING_NOTICE].name, seconds, 1) < 0)
        return err_set(err, "out of memory");
    return 0;
}

/* Composes srun's command line, and fills in the job. */
static int prepare(struct job *j, struct words *argv, const struct launch_arguments *a,
                   struct err *err)
{
    const char *const job = getenv("SLURM_JOB_ID");
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    struct words spec = WORDS_INIT, command = WORDS_INIT;
    struct slurm_options options;
    struct step_plan plan = { .ranks = a->ranks, .prefix = setting_text(SETTING_REMOTE_PREFIX) };
    const struct script_spec script = { .command = a->command,
                                        .prefix = plan.prefix,
                                        .payload = &j->delivery.payload };
    int rc = find_srun(err);

    if (rc == 0) {
        payload_ask(&j->delivery.payload, a->command[0]);
        j->delivery.on = payload_known(&j->delivery.payload) && script_installs(&script);
    }
    if (rc == 0)
        rc = words_split(&spec, a->spec, err);
    if (rc == 0)
        rc = slurm_options_read(&options, &spec, err);
    if (rc == 0) {
        j->limit_ns = setting_value(SETTING_SLURM_TIMEOUT);
        plan.payload = j->delivery.on ? &j->delivery.payload : NULL;
        plan.image = j->image = a->image;
        plan.inside = job && *job && !options.own_job;
        j->kill_wait = ask_kill_wait();
        rc = hand_over(&options, err);
        if (rc == 0 && a->image)
            rc = take_secret(&j->delivery, err);
    }
    if (rc == 0)
        rc = agent_command(&command, a->command, j->kill_wait, !plan.inside, err);
    if (rc == 0) {
        plan.command = command.v;
    }
    if (rc == 0) {
        plan.nodes = nodes && *nodes ? nodes : getenv("SLURM_NNODES");
        j->own = !plan.inside;
        j->program = path_name(a->command[0]);
        j->prefix = plan.prefix;
        if (plan.inside) {
            j->id = strtoul(job, NULL, 10);
            plan.gpus = ask_gpus(job);
        }
        rc = step_compose(argv, &plan, &options, &spec, err);
        hide_variables(plan.inside, job && *job && options.own_job);
        if (rc == 0 && j->own)
            rc = take_cluster(options.cluster, err);
    }
    words_release(&spec);
    words_release(&command);
    return rc;
}

int main(int argc, char **argv)
{
    struct job j = { .in = -1,
                     .out = -1,
                     .errs = -1,
                     .waiting = WAITING_JOB_INIT,
                     .command = SLURM_QUESTION_INIT,
                     .delivery = DELIVERY_INIT,
                     .left = TIME_LEFT_INIT };
    struct words srun = WORDS_INIT;
    struct launch_arguments a;
    struct err err = { "" };
    int status = LAUNCH_CANNOT;
    const int read = launch_arguments_read(
        &a, argc, argv,
        "Runs one cellspan agent on each node of a Slurm job; SPEC holds options of "
        "srun.",
        &err);

    if (read > 0)
        return 0;
    if (read == 0 && prepare(&j, &srun, &a, &err) == 0) {
        status = LAUNCH_FAILED;
        if ((j.loop = loop_create(&clock_system, &err)) && run(&j, &srun, &err) == 0 && !j.failed)
            status = 0;
    }
    if (err.text[0])
        fprintf(stderr, "cellspan-launch-slurm: %s\n", err.text);
    job_release(&j);
    loop_destroy(j.loop);
    words_release(&srun);
    return status;
}
