/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the program cellspan-launch-mpi, the engine "mpi". One mpirun starts an agent on each
 * node. docs/launchers.md says what every engine is told and must do. If this process is killed,
 * mpirun gets a SIGTERM, at which it ends its processes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child_lines.h"
#include "base/loop/loop.h"
#include "base/path.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "launchers/launcher.h"
#include "launchers/environment_modules.h"
#include "launchers/mpi/mpirun.h"
#include "launchers/ssh/cause.h"

/* How long agents may take to end after our stdin: the kernel has told them to, unless it was
 * killed. Then mpirun gets SIGTERM, then SIGKILL. */
#define POLITE_NS NS_PER_S
#define STOP_NS   (3 * NS_PER_S)
/* from ssh's last reason to the failure of those that are not up: Hydra waits for them for ever */
#define REASONS_NS  (5 * NS_PER_S)
#define REASONS_MAX 64u
/* from the end of an agent that was told to end to the word that it is gone: if mpirun ends
 * meanwhile, as it mostly does, how that ended says why. The kernel waits 10 s for such a word. */
#define ENDS_NS    (7 * NS_PER_S)
#define HELD_LINES 40u

struct mpi_task {
    char *node;    /* owned; NULL: it has not said */
    char *machine; /* owned: identifies it; NULL: not known */
    char *version; /* owned: of the agent there; NULL: not known */
    char *words;   /* owned: the last line that its agent wrote to stderr; NULL: none */
    struct container_state state;
    bool missing;  /* there is no agent */
    bool ended;    /* as it does when it is told to */
    bool failed;   /* that was reported */
    unsigned ends; /* how many of its two streams have said that the agent has ended */
};

struct mpi_job {
    struct loop *loop;
    const char *program, *prefix; /* the agent's name; CELLSPAN_REMOTE_PREFIX or NULL. Borrowed */
    char *mpirun;                 /* owned: its path */
    enum mpi_kind kind;
    pid_t pid;
    struct mpi_stream {
        int fd;
        struct child_lines lines;
        struct watch *watch;
    } stream[2]; /* its stdout and stderr */
    int signo;   /* the last one that mpirun was sent */
    bool asked_to_end, failed;
    struct mpi_task *task;
    unsigned n;           /* 0: not known yet */
    struct words reasons; /* lines in which ssh says why a host can't be reached */
    unsigned up;          /* tasks that have said their node */
    struct tail held;     /* the last lines of text since all were up */
    struct watch *in, *stop, *unreached, *ends;
};

/* ---- what its processes say ---- */

static bool make_tasks(struct mpi_job *j, unsigned n)
{
    if (j->n || n < 1 || n > MPI_NOBODY)
        return j->n != 0;
    if (!(j->task = calloc(n, sizeof *j->task)))
        return false;
    j->n = n;
    report_tells_ends();
    report_nodes_together(n);
    return true;
}

/* "NUMBER HOW_MANY NODE" */
static void task_up(struct mpi_job *j, const char *words)
{
    unsigned i, n;
    char node[256];

    if (sscanf(words, "%u %u %255s", &i, &n, node) < 3 || !make_tasks(j, n) || i >= j->n)
        return;
    j->up += !j->task[i].node;
    text_replace(&j->task[i].node, node);
    report_node(i, node, 0);
}

static void fail(struct mpi_job *j, unsigned i, const char *text)
{
    if (j->task[i].failed || j->asked_to_end)
        return;
    j->task[i].failed = j->failed = true;
    report_failed(i, "%s", text);
}

static const char *name_of(const struct mpi_task *t)
{
    return t->node ? t->node : "a node";
}

/* Hydra goes round the list of hosts again if more agents were asked for. */
static void machine_known(struct mpi_job *j, unsigned i, const char *machine)
{
    char text[CAUSE_TEXT_SIZE];

    text_replace(&j->task[i].machine, machine);
    for (unsigned k = 0; k < j->n; k++)
        if (k != i && !j->task[k].failed && j->task[k].machine &&
            strcmp(j->task[k].machine, machine) == 0) {
            snprintf(
                text, sizeof text,
                "%s: it has an agent already, and one runs on each machine: ask for fewer than "
                "%u with mpirun's -n, name each host once, or name more hosts; the cell's -n is "
                "the number of ranks",
                name_of(&j->task[i]), j->n);
            fail(j, i, text);
            return;
        }
}

static void agent_ended(struct mpi_job *j, unsigned i, int status)
{
    const struct mpi_task *t = &j->task[i];
    const struct cause cause = {
        .host = name_of(t),
        .program = j->program,
        .prefix = j->prefix,
        .version = t->version,
        .container = &t->state,
        .said = t->words ? t->words : "",
        .stage = CAUSE_RUNNING,
        .missing = t->missing,
        .status = status << 8, /* as wait() has it */
    };
    char text[CAUSE_TEXT_SIZE];

    if (t->node && (status == 0 || status == 128 + SIGTERM)) {
        j->task[i].ended = true;
        loop_timer_again(j->ends, ENDS_NS);
        return;
    }
    cause_text(&cause, text);
    fail(j, i, text);
}

/* mpirun lives on, and nobody knows why these agents have ended. */
static void ended_alone(void *arg)
{
    struct mpi_job *j = arg;

    for (unsigned i = 0; i < j->n && !j->asked_to_end; i++)
        if (j->task[i].ended && !j->task[i].failed) {
            j->task[i].failed = j->failed = true;
            report_gone(i,
                        "%s: its agent has ended, and %s, which had started it, has not said why",
                        name_of(&j->task[i]), path_name(j->mpirun));
        }
}

/* The agent's last words are on stderr, what the script says of it on stdout. */
static void stream_ended(struct mpi_job *j, unsigned i, int status)
{
    if (++j->task[i].ends == 2)
        agent_ended(j, i, status);
}

static void marked(struct mpi_job *j, unsigned i, const char *line)
{
    if (text_begins(line, MPI_TASK)) {
        task_up(j, line + strlen(MPI_TASK));
        return;
    }
    if (i >= j->n)
        return;
    if (text_begins(line, SCRIPT_MACHINE))
        machine_known(j, i, line + strlen(SCRIPT_MACHINE));
    else if (text_begins(line, SCRIPT_VERSION))
        text_replace(&j->task[i].version, line + strlen(SCRIPT_VERSION));
    else if (strcmp(line, SCRIPT_MISSING) == 0)
        j->task[i].missing = true;
    else if (text_begins(line, MODULES_FAILED))
        container_state_word(&j->task[i].state, i, name_of(&j->task[i]), line);
    else if (text_begins(line, MPI_ENDED))
        stream_ended(j, i, (int)strtol(line + strlen(MPI_ENDED), NULL, 10) & 0xff);
}

/* Lines come as they are until all agents are up, for the kernel's error if they don't come in
 * time. Later ones are needed only if mpirun ends, and follow the line that says how it ended. */
static void show(struct mpi_job *j, const char *node, const char *line)
{
    struct buf text = BUF_INIT;

    if (buf_addf(&text, "%s%s%s\n", node, *node ? ": " : "", line) < 0)
        buf_clear(&text);
    if (!j->n || j->up < j->n)
        fwrite(text.p, 1, text.n, stderr);
    else if (tail_add(&j->held, buf_slice(&text)) < 0)
        tail_clear(&j->held);
    buf_release(&text);
}

/* Text of an agent, or of mpirun: shown in the cell if something fails. */
static void take_text(struct mpi_job *j, unsigned i, const char *line)
{
    if (i < j->n)
        text_replace(&j->task[i].words, line);
    else if (mpi_is_reason(line) && j->reasons.n < REASONS_MAX &&
             words_add(&j->reasons, line) == 0) {
        loop_timer_again(j->unreached, REASONS_NS);
        return; /* it will be explained */
    }
    if (j->asked_to_end) /* what mpirun says when it is told to end explains nothing */
        return;
    show(j, i < j->n && j->task[i].node ? j->task[i].node : "", line);
}

static void take_line(void *arg, const char *labelled)
{
    unsigned i;
    const char *line = mpi_unlabel(labelled, &i);

    if (text_begins(line, SCRIPT_MARK))
        marked(arg, i, line + strlen(SCRIPT_MARK));
    else
        take_text(arg, i, line);
}

static void stream_over(struct mpi_stream *s)
{
    watch_clear(&s->watch);
    fd_close(&s->fd);
}

static void stream_ready(void *arg, int fd, unsigned events)
{
    struct mpi_job *j = arg;
    struct mpi_stream *s = &j->stream[fd == j->stream[1].fd];

    (void)events;
    if (!child_lines_read(&s->lines, fd, take_line, j))
        stream_over(s);
}

/* ---- the end ---- */

static void stop(void *arg)
{
    struct mpi_job *j = arg;

    j->signo = j->signo ? SIGKILL : SIGTERM;
    if (j->pid > 0)
        (void)kill(j->pid, j->signo);
    loop_timer_again(j->stop, STOP_NS);
}

static void told_to_end(void *arg)
{
    struct mpi_job *j = arg;

    j->asked_to_end = true;
    if (!j->signo)
        stop(j);
}

/* mpirun starts its daemons by ssh, whose words come among its own. */
static void explain(const struct mpi_job *j, size_t reason, char text[static CAUSE_TEXT_SIZE])
{
    const char *const said = j->reasons.v[reason];
    char host[256];
    const struct cause cause = {
        .host = mpi_host(said, host), .said = said, .stage = CAUSE_CONNECTING, .status = 255 << 8
    };

    cause_text(&cause, text);
}

/* Which task was to run on which host is not known: any that is not up fails. */
static void unreached(void *arg)
{
    struct mpi_job *j = arg;
    char text[CAUSE_TEXT_SIZE], host[256];
    size_t reason = 0;

    if (j->asked_to_end)
        return;
    for (unsigned i = 0; i < j->n && reason < j->reasons.n; i++)
        if (!j->task[i].node && !j->task[i].failed) {
            explain(j, reason, text);
            report_node(i, mpi_host(j->reasons.v[reason++], host), 0);
            fail(j, i, text);
        }
    if (j->n)
        return;
    for (; reason < j->reasons.n; reason++) {
        explain(j, reason, text);
        fprintf(stderr, "%s\n", text);
    }
    j->failed = true;
    told_to_end(j);
}

static void say_how(const struct mpi_job *j, int status)
{
    const char *const name = path_name(j->mpirun);
    struct buf held = BUF_INIT;

    if (tail_text(&j->held, HELD_LINES, &held) < 0)
        buf_clear(&held);
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s was killed by signal %d", name, WTERMSIG(status));
    else
        fprintf(stderr, "%s ended with status %d", name, WEXITSTATUS(status));
    fprintf(stderr, "%s%s", held.n ? "; the last lines:\n" : "\n", held.n ? held.p : "");
    buf_release(&held);
}

static void mpirun_ended(struct mpi_job *j, int status)
{
    j->pid = 0;
    for (struct mpi_stream *s = j->stream; s < j->stream + 2; s++) {
        while (s->fd >= 0 && fd_waiting(s->fd))
            stream_ready(j, s->fd, LOOP_READ);
        child_lines_end(&s->lines, take_line, j);
    }
    /* MPICH's ends with status 0 at a SIGTERM if the agents do */
    if (!j->asked_to_end) {
        j->failed = j->failed || status != 0;
        if (!j->n && status != 0)
            unreached(j);
        say_how(j, status);
    }
    loop_stop(j->loop);
}

static void child_ended(void *arg)
{
    struct mpi_job *j = arg;
    int status;

    if (j->pid > 0 && waitpid(j->pid, &status, WNOHANG) == j->pid)
        mpirun_ended(j, status);
}

static void stdin_ready(void *arg, int fd, unsigned events)
{
    struct mpi_job *j = arg;

    (void)events;
    if (!fd_is_over(fd))
        return;
    watch_clear(&j->in);
    if (!j->n) /* no agent has heard of it */
        told_to_end(j);
    j->asked_to_end = true;
    if (!j->signo)
        loop_timer_again(j->stop, POLITE_NS);
}

/* ---- the beginning ---- */

static int start(struct mpi_job *j, const struct words *argv, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    int in = -1;

    spec.argv = (const char *const *)argv->v;
    spec.session = true;
    spec.die_with_parent = true;
    spec.last_words = SIGTERM;
    j->pid = process_start_streams(&spec, &in, &j->stream[0].fd, &j->stream[1].fd, err);
    fd_close(&in);
    if (j->pid < 0)
        return -1;
    for (struct mpi_stream *s = j->stream; s < j->stream + 2; s++)
        if (!(s->watch = loop_fd(j->loop, s->fd, LOOP_READ, stream_ready, j, err)))
            return -1;
    return 0;
}

static int run(struct mpi_job *j, const struct words *argv, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

    (void)signal(SIGPIPE, SIG_IGN);
    if (!(j->loop = loop_create(&clock_system, err)) ||
        !loop_signal(j->loop, SIGCHLD, child_ended, j, err) ||
        !(j->stop = loop_timer(j->loop, LOOP_OFF, 0, stop, j, err)) ||
        !(j->unreached = loop_timer(j->loop, LOOP_OFF, 0, unreached, j, err)) ||
        !(j->ends = loop_timer(j->loop, LOOP_OFF, 0, ended_alone, j, err)))
        return -1;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!process_ignores(signals[i]) && !loop_signal(j->loop, signals[i], told_to_end, j, err))
            return -1;
    if (!(j->in = loop_fd(j->loop, STDIN_FILENO, LOOP_READ, stdin_ready, j, err)))
        return -1;
    return start(j, argv, err) < 0 ? -1 : loop_run(j->loop, err);
}

/* Finds mpirun, and which MPI it belongs to. Blocks, which is fine before the loop runs. */
static int find_mpirun(struct mpi_job *j, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf text = BUF_INIT;
    struct err why = { "" };
    int rc;

    if (!(j->mpirun = runtime_on_path("mpirun")) && !(j->mpirun = runtime_on_path("mpiexec")))
        return err_set(
            err,
            "no MPI is here: there is neither mpirun nor mpiexec on PATH. Load its module before "
            "Jupyter starts, or install one: " MPI_INSTALL);
    spec.argv = (const char *const[]){ j->mpirun, "--version", NULL };
    spec.die_with_parent = true;
    if (process_output(&spec, SIZE_MAX, PROCESS_ANSWER_NS, &text, &why) < 0)
        (void)err_set(err, "%s", why.text);
    j->kind = mpi_kind_of(text.n ? text.p : "");
    if (j->kind == MPI_UNKNOWN)
        rc = err_set(
            err, "%s is of no MPI that is known here (Open MPI, MPICH, Intel MPI): it says: %.*s",
            j->mpirun, text.n ? (int)strcspn(text.p, "\n") : 7, text.n ? text.p : "nothing");
    else
        rc = mpi_version_check(j->kind, j->mpirun, text.p, err);
    buf_release(&text);
    return rc;
}

/* A hostfile that can't be read, or is longer than this, is left to mpirun. */
static int check_hosts(const struct mpi_job *j, const struct words *spec, struct err *err)
{
    static const char *const numbers[] = { "n", "np", "c", NULL };
    static const char *const lists[] = { "host", "H", "hosts", "hostlist", NULL };
    static const char *const files[] = { "hostfile", "machinefile", "default-hostfile", "f", NULL };
    static char text[256 * 1024];
    struct words listed = WORDS_INIT, filed = WORDS_INIT;
    const char *value, *file = "";
    unsigned n = 0;
    int rc = 0;

    for (size_t at = 0; (value = mpi_option_value(spec, numbers, &at));)
        n = (unsigned)strtoul(value, NULL, 10);
    for (size_t at = 0; rc == 0 && (value = mpi_option_value(spec, lists, &at));)
        rc = mpi_hosts_of_list(&listed, value);
    for (size_t at = 0; rc == 0 && (value = mpi_option_value(spec, files, &at)); file = value) {
        const struct slice said = file_start(value, text, sizeof text);

        rc = said.n < sizeof text ? mpi_hosts_of_file(&filed, said) : 0;
    }
    if (rc < 0)
        rc = err_set(err, "out of memory");
    if (rc == 0 && (rc = mpi_hosts_check(&listed, "the list of hosts", j->kind, n, err)) == 0)
        rc = mpi_hosts_check(&filed, file, j->kind, n, err);
    words_release(&listed);
    words_release(&filed);
    return rc;
}

/* Composes mpirun's command line. */
static int prepare(struct mpi_job *j, struct words *argv, const struct launch_arguments *a,
                   struct err *err)
{
    char *cwd = getcwd(NULL, 0);
    struct words spec = WORDS_INIT, command = WORDS_INIT;
    struct script_setting set[SCRIPT_SETTINGS];
    struct script_spec script = { .prefix = setting_text(SETTING_REMOTE_PREFIX),
                                  .cwd = cwd,
                                  .setting = set,
                                  .modules = modules_told(),
                                  .settings = script_settings(set) };
    int rc = a->image ? err_set(err, "--in %s: agents of mpirun run in no container", a->image)
                      : find_mpirun(j, err);

    j->program = path_name(a->command[0]);
    j->prefix = script.prefix;
    for (char **word = a->command; rc == 0 && *word; word++)
        rc = words_add(&command, *word);
    if (rc == 0 &&
        (words_add(&command, "--agent-from") < 0 || words_add(&command, MPI_NUMBER) < 0 ||
         words_add(&command, "--stdin") < 0 || words_add(&command, "none") < 0))
        rc = err_set(err, "out of memory");
    script.command = command.v;
    if (rc == 0 && (rc = words_split(&spec, a->spec, err)) == 0 &&
        (rc = mpi_options_check(&spec, err)) == 0 && (rc = check_hosts(j, &spec, err)) == 0)
        rc = mpi_compose(argv, j->kind, j->mpirun, &spec, &script, err);
    words_release(&spec);
    words_release(&command);
    free(cwd);
    return rc;
}

static void release(struct mpi_job *j)
{
    for (unsigned i = 0; i < j->n; i++) {
        free(j->task[i].node);
        free(j->task[i].machine);
        free(j->task[i].version);
        free(j->task[i].words);
        container_state_release(&j->task[i].state);
    }
    free(j->task);
    free(j->mpirun);
    for (struct mpi_stream *s = j->stream; s < j->stream + 2; s++) {
        stream_over(s);
        child_lines_release(&s->lines);
    }
    words_release(&j->reasons);
    tail_release(&j->held);
    loop_destroy(j->loop);
}

int main(int argc, char **argv)
{
    struct mpi_job j = { .stream = { { -1, CHILD_LINES_TEXT, NULL },
                                     { -1, CHILD_LINES_TEXT, NULL } },
                         .reasons = WORDS_INIT,
                         .held = TAIL_INIT };
    struct words mpirun = WORDS_INIT;
    struct launch_arguments a;
    struct err err = { "" };
    int status = LAUNCH_CANNOT;
    const int read = launch_arguments_read(
        &a, argc, argv,
        "Runs one cellspan agent on each of the hosts of an mpirun; SPEC holds options of "
        "mpirun.",
        &err);

    if (read > 0)
        return 0;
    if (read == 0 && prepare(&j, &mpirun, &a, &err) == 0) {
        status = LAUNCH_FAILED;
        if (run(&j, &mpirun, &err) == 0 && !j.failed)
            status = 0;
    }
    if (err.text[0])
        fprintf(stderr, "cellspan-launch-mpi: %s\n", err.text);
    release(&j);
    words_release(&mpirun);
    return status;
}
