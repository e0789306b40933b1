/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/agent_lines.h"
#include "base/process.h"
#include "launchers/launcher.h"
#include "launchers/agent_script.h"
#include "launchers/environment_modules.h"
#include "launchers/slurm/srun_output.h"
#include "launchers/slurm/step.h"

#define FLUSH_NS (2 * NS_PER_S) /* Slurm may give its reason this much later than a task's end */
/* how long agents may take to end after their stdin; then the job is cancelled */
#define POLITE_NS (8 * NS_PER_S)
#define STOP_NS   (3 * NS_PER_S)
#define FATE_MAX  20u
#define FATE_NS   (300 * NS_PER_MS)
#define TASKS_MAX 65536u

static void set_timer(struct job *j, struct watch **timer, uint64_t ns, loop_f f)
{
    struct err err = { "" };

    if (*timer)
        loop_timer_again(*timer, ns);
    else
        /* ignore a failure: out of memory, and the rest works without this timer */
        *timer = loop_timer(j->loop, ns, 0, f, j, &err);
}

static unsigned count_up(const struct job *j)
{
    unsigned n = 0;

    for (unsigned i = 0; i < j->n; i++)
        n += j->task[i].up;
    return n;
}

/* ---- failures ---- */

static void fail(void *arg, unsigned i, const char *text)
{
    struct job *j = arg;
    struct task *t = &j->task[i];

    if (t->failed)
        return;
    t->failed = j->failed = true;
    report_failed(i, "%s%s%s%s%s%s", t->node ? t->node : "", t->node ? ": " : "", text,
                  j->why ? " (" : "", j->why ? j->why : "", j->why ? ")" : "");
}

/* Prefers the error text of an agent that exited: srun only knows its exit status. */
static const char *reason_of(const struct task *t)
{
    return t->words && strstr(t->end, " ended: Exited with ") ? t->words : t->end;
}

static void flush(void *arg)
{
    struct job *j = arg;

    for (unsigned i = 0; i < j->n; i++)
        if (j->task[i].end) {
            fail(j, i, reason_of(&j->task[i]));
            free(j->task[i].end);
            j->task[i].end = NULL;
        }
}

/* Fails the agents that are not up limit_ns after the first one was, or, if none is up, after
 * the job got its nodes. */
static void too_late(void *arg)
{
    struct job *j = arg;
    char text[256];

    if (!j->n) {
        fprintf(
            stderr,
            "cellspan-launch-slurm: job %lu has its nodes, but no agent has come up within %u s\n",
            j->id, (unsigned)(j->limit_ns / NS_PER_S));
        j->failed = true;
        job_end(j);
        return;
    }
    for (unsigned i = 0; i < j->n; i++)
        if (!j->task[i].up) {
            snprintf(
                text, sizeof text,
                "the agent of task %u of %u has not come up %u s after the first; `scontrol show job %lu` "
                "and sinfo tell of its node",
                i, j->n, (unsigned)(j->limit_ns / NS_PER_S), j->id);
            fail(j, i, text);
            delivery_without(&j->delivery, i);
        }
}

static void note_end(struct job *j, unsigned i, const char *how)
{
    const struct task *t = &j->task[i];
    char text[1024];

    if (i >= j->n || t->down)
        return;
    relays_without(&j->relays, i);
    delivery_without(&j->delivery, i);
    if (container_state_failed(&t->container))
        container_state_text(&t->container, how, t->words ? t->words : "", text, sizeof text);
    else
        delivery_end(&j->delivery, i, how, j->program, j->prefix, text, sizeof text);
    text_replace(&j->task[i].end, text);
    set_timer(j, &j->flush, FLUSH_NS, flush);
}

/* ---- what srun says ---- */

static void job_known(struct job *j, unsigned long id)
{
    if (j->id || !id || !j->own)
        return;
    j->id = id;
    waiting_job_begin(&j->waiting, j->loop, id);
}

/* Reports Slurm's reason at once. Agents that are up live on for KillWait; others close their
 * connections at the same time, and the reason should come before that. */
static void cut_short(struct job *j)
{
    const char *what = j->own ? "job" : "the step in job";
    char text[128];

    snprintf(text, sizeof text, "Slurm ended %s %lu", what, j->id);
    for (unsigned i = 0; i < j->n; i++)
        if (!j->kill_wait || !j->task[i].up)
            fail(j, i, text);
        else if (!j->task[i].failed)
            report_notice(i, j->kill_wait, "Slurm ends %s %lu (%s)", what, j->id,
                          j->why ? j->why : "out of memory");
}

/* Does the line have the reason for Slurm's other lines, before or after it? */
static bool is_reason(const char *line)
{
    return strstr(line, "DUE TO") || strstr(line, "Task launch for ");
}

static void note_why(struct job *j, const char *line)
{
    static const char *const whys[] = { "CANCELLED AT", "Node failure on", "oom_kill",
                                        "has been revoked" };
    bool found = is_reason(line);

    for (size_t i = 0; i < sizeof whys / sizeof *whys && !found; i++)
        found = strstr(line, whys[i]);
    if (found && !(j->why && is_reason(j->why)))
        text_replace(&j->why, line);
    if (strstr(line, " CANCELLED AT ") && strncmp(line, "slurmstepd", 10) == 0)
        cut_short(j);
}

/* A line that came before any task was up. */
static void keep_early(struct job *j, unsigned task, const char *line)
{
    if (buf_addf(&j->early, "%u: %s\n", task, line) < 0)
        fprintf(stderr, "cellspan-launch-slurm: out of memory\n");
}

/* Records an agent's error text. */
static void note_words(struct job *j, unsigned i, const char *line)
{
    char text[512];

    if (i < j->n && container_state_failed(&j->task[i].container)) /* of what runs the container */
        text_replace(&j->task[i].words, line);
    if (!srun_output_words(line, j->program, text, sizeof text))
        return;
    if (i < j->n)
        text_replace(&j->task[i].words, text);
    else if (!j->n)
        keep_early(j, i, line);
}

/* Handles "NODE: WHY". Slurm does not say which task it is: fails any task that is not up. */
static void not_started(struct job *j, const char *node)
{
    const size_t n = strcspn(node, ":");
    char text[512];

    for (unsigned i = 0; i < j->n; i++)
        if (!j->task[i].up && !j->task[i].node) {
            if ((j->task[i].node = strndup(node, n)))
                report_node(i, j->task[i].node, 0);
            snprintf(text, sizeof text, "Slurm could not start the agent there: %s",
                     node + n + strspn(node + n, ": "));
            delivery_without(&j->delivery, i);
            fail(j, i, text);
            return;
        }
}

static void node_failed(struct job *j, const char *node)
{
    for (unsigned i = 0; i < j->n; i++)
        if (j->task[i].node && strcmp(j->task[i].node, node) == 0 && !j->task[i].failed) {
            note_end(j, i, "node failure");
            j->task[i].down = true;
        }
}

/* Records the ends of tasks. srun's own lines can come before those of the tasks. */
static void note_ends(struct job *j, const struct srun_output *s, const char *line)
{
    for (long i = ranks_next(&s->tasks, 0); j->n && i >= 0;
         i = ranks_next(&s->tasks, (unsigned)i + 1))
        note_end(j, (unsigned)i, s->text);
    if (!j->n)
        keep_early(j, 0, line);
}

static void note(struct job *j, unsigned task, const struct srun_output *s, const char *line)
{
    if (s->kind == SRUN_UNSTARTED)
        not_started(j, s->text);
    note_why(j, line);
    if (s->kind == SRUN_TEXT)
        note_words(j, task, line);
    else if (s->kind == SRUN_TASKS)
        note_ends(j, s, line);
    else if (s->kind == SRUN_NODE)
        node_failed(j, s->text);
}

static void note_early(struct job *j)
{
    struct srun_output s;
    unsigned task;
    char *end;

    for (char *line = j->early.p; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (srun_output_read(&s, srun_output_unlabel(line, &task)) < 0)
            continue;
        note(j, task, &s, srun_output_unlabel(line, &task));
        srun_output_release(&s);
    }
    buf_release(&j->early);
}

static void err_line(void *arg, const char *labelled)
{
    struct job *j = arg;
    unsigned task;
    const char *line = srun_output_unlabel(labelled, &task);
    struct srun_output s;

    if (srun_output_read(&s, line) < 0)
        return;
    job_known(j, s.job);
    if (s.kind == SRUN_ALLOCATED)
        waiting_job_allocated(&j->waiting);
    if (!j->asked_to_end) /* after that the tasks are expected to end, though srun reports errors */
        note(j, task, &s, line);
    if (s.kind != SRUN_NOISE && s.kind != SRUN_QUEUED && s.kind != SRUN_ALLOCATED)
        fprintf(stderr, "%s\n", line);
    srun_output_release(&s);
}

static bool make_tasks(struct job *j, unsigned n)
{
    if (j->n || n < 1 || n > TASKS_MAX)
        return j->n != 0;
    if (!(j->task = calloc(n, sizeof *j->task)) ||
        delivery_tasks(&j->delivery, n, j->loop, j->in, fail, j) < 0)
        return false;
    j->n = n;
    for (unsigned i = 0; i < n; i++)
        j->task[i].container.image = j->image;
    report_tells_ends();
    report_nodes(n);
    note_early(j);
    return true;
}

/* Handles the line "PROCID NTASKS JOB NODE STEP" of a task. */
static void task_up(struct job *j, const char *words)
{
    unsigned long id, step = 0;
    unsigned i, n;
    char node[256];

    if (sscanf(words, "%u %u %lu %255s %lu", &i, &n, &id, node, &step) < 4 || !make_tasks(j, n) ||
        i >= j->n || j->task[i].up)
        return;
    job_known(j, id);
    delivery_step(&j->delivery, id, step);
    waiting_job_stop(&j->waiting);
    j->task[i].up = true;
    text_replace(&j->task[i].node, node);
    report_node(i, node, 0);
    delivery_up(&j->delivery, i);
    if (count_up(j) == j->n) {
        watch_clear(&j->late);
        time_left_begin(&j->left, j->loop, j->id);
    } else if (count_up(j) == 1)
        set_timer(j, &j->late, j->limit_ns, too_late);
}

/* Handles a word of a task's script. */
static void script_word(struct job *j, unsigned i, const char *word)
{
    struct task *t = &j->task[i];

    if (text_begins(word, SCRIPT_FOUND)) {
        relays_found(&j->relays, i, word + strlen(SCRIPT_FOUND));
        if (t->container.busy) /* the kernel's clock stands */
            report_node(i, t->node, 0);
    }
    if (!j->asked_to_end)
        container_state_word(&t->container, i, t->node ? t->node : "a node", word);
    /* its end may have come first, and this says why */
    if (t->end && (text_begins(word, SCRIPT_REFUSED) || text_begins(word, CONTAINER_UNABLE) ||
                   text_begins(word, MODULES_FAILED)))
        note_end(j, i, "exit code 127");
}

static void out_line(void *arg, const char *labelled)
{
    struct job *j = arg;
    unsigned number;
    const char *line = srun_output_unlabel(labelled, &number);
    const size_t mark = strlen(SCRIPT_MARK), task = strlen(SCRIPT_MARK STEP_TASK);

    if (strncmp(line, SCRIPT_MARK STEP_TASK, task) == 0)
        task_up(arg, line + task);
    else if (strncmp(line, SCRIPT_MARK, mark) == 0) {
        delivery_line(&j->delivery, number, line + mark);
        if (number < j->n)
            script_word(j, number, line + mark);
    } else if (number >= j->n ||
               !relays_line(&j->relays, j->loop, j->id, number, j->task[number].node, line))
        fprintf(stderr, "%s\n", line);
}

static void out_ready(void *arg, int fd, unsigned events)
{
    struct job *j = arg;

    (void)events;
    if (child_lines_read(&j->out_lines, fd, out_line, j))
        return;
    watch_clear(&j->out_watch);
    fd_close(&j->out);
}

static void err_ready(void *arg, int fd, unsigned events)
{
    struct job *j = arg;

    (void)events;
    if (child_lines_read(&j->err_lines, fd, err_line, j))
        return;
    watch_clear(&j->err_watch);
    fd_close(&j->errs);
}

/* ---- the queue ---- */

static void runs(void *arg)
{
    struct job *j = arg;

    if (!j->late && !j->asked_to_end)
        set_timer(j, &j->late, j->limit_ns, too_late);
}

static void waits(void *arg)
{
    struct job *j = arg;

    watch_clear(&j->late);
}

static void hopeless(void *arg)
{
    struct job *j = arg;

    j->failed = true;
    job_end(j);
}

/* ---- the end ---- */

static void finish_job(struct job *j)
{
    flush(j);
    j->over = true;
    loop_stop(j->loop);
}

/* Reports Slurm's final state of the job, unless it is normal or unknown. */
static void conclude(struct job *j, const char *state)
{
    static const char *const fine[] = { "", "COMPLETED", "COMPLETING", "RUNNING", "FAILED" };
    char text[512];

    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (strncmp(state, fine[i], strcspn(state, "|")) == 0 &&
            strlen(fine[i]) == strcspn(state, "|")) {
            state = NULL;
            break;
        }
    if (state) {
        const int n = (int)strcspn(state, "|");
        const char *reason = state[n] ? state + n + 1 : "None";

        snprintf(text, sizeof text, "Slurm ended job %lu: %.*s%s%s", j->id, n, state,
                 strcmp(reason, "None") == 0 ? "" : ", ",
                 strcmp(reason, "None") == 0 ? "" : reason);
        for (unsigned i = 0; i < j->n; i++)
            text_replace(&j->task[i].end, text);
        if (!j->n)
            fprintf(stderr, "cellspan-launch-slurm: %s\n", text);
        j->failed = true;
    } else if (j->why && j->status != 0)
        for (unsigned i = 0; i < j->n; i++)
            if (!j->task[i].end)
                text_replace(&j->task[i].end, "Slurm ended the step");
    if (j->status != 0)
        j->failed = true;
    finish_job(j);
}

static void ask_fate(void *arg);

/* Handles squeue's answer "STATE|REASON". While COMPLETING, the reason is not known yet. One that
 * is missing is asked for once more. */
static void fate_answered(void *arg, const char *line)
{
    struct job *j = arg;
    const bool known = strchr(line, '|') != NULL;

    if (strncmp(line, "COMPLETING", 10) == 0 || strncmp(line, "RUNNING", 7) == 0
            ? ++j->fates < FATE_MAX
            : !known && !j->fates++)
        set_timer(j, &j->fate, FATE_NS, ask_fate);
    else
        conclude(j, known ? line : "");
}

static void ask_fate(void *arg)
{
    struct job *j = arg;
    char id[32];
    const char *const argv[] = { "squeue", "--noheader", "--states=all", "--jobs",
                                 id,       "--format",   "%T|%r",        NULL };

    snprintf(id, sizeof id, "%lu", j->id);
    slurm_command_release(&j->command); /* an earlier question does not matter any more */
    if (!slurm_command_start(&j->command, j->loop, argv, fate_answered, j))
        conclude(j, "");
}

void job_ended(struct job *j, int status)
{
    j->pid = 0;
    j->status = status;
    while (j->out >= 0 && fd_waiting(j->out))
        out_ready(j, j->out, LOOP_READ);
    while (j->errs >= 0 && fd_waiting(j->errs))
        err_ready(j, j->errs, LOOP_READ);
    child_lines_end(&j->out_lines, out_line, j);
    child_lines_end(&j->err_lines, err_line, j);
    waiting_job_stop(&j->waiting);
    watch_clear(&j->late);
    watch_clear(&j->flush);
    time_left_release(&j->left);
    if (j->asked_to_end && j->signo != SIGKILL)
        finish_job(j);
    else if (j->own && j->id && !j->asked_to_end)
        ask_fate(j);
    else
        conclude(j, "");
}

/* First cancels the job with scancel, which sends SIGTERM to the agents so that they end properly.
 * A SIGTERM to srun would kill them at once. */
static void stop(void *arg)
{
    struct job *j = arg;
    char id[32];
    const char *const argv[] = { "scancel", id, NULL };
    bool can_cancel = j->own && j->id;

    if (j->cancelled || !can_cancel)
        j->signo = j->signo ? SIGKILL : SIGTERM;
    if (can_cancel) {
        j->cancelled = true;
        snprintf(id, sizeof id, "%lu", j->id);
        slurm_command_release(&j->command);
        (void)slurm_command_start(&j->command, j->loop, argv, NULL, NULL);
    }
    if (j->pid > 0 && j->signo)
        (void)kill(j->pid, j->signo);
    set_timer(j, &j->stop, STOP_NS, stop);
}

void job_end(struct job *j)
{
    if (j->asked_to_end)
        return;
    j->asked_to_end = true;
    delivery_stop(&j->delivery);
    relays_stop(&j->relays);
    if (j->in >= 0 && count_up(j)) /* else they would look for a srun that is gone */
        (void)!fd_write(j->in, slice_text(AGENT_LINE_END));
    fd_close(&j->in);
    waiting_job_stop(&j->waiting);
    watch_clear(&j->fate);
    watch_clear(&j->late);
    watch_clear(&j->flush);
    if (j->pid == 0) /* srun has ended, and only Slurm's reason was missing */
        finish_job(j);
    else if (count_up(j))
        set_timer(j, &j->stop, POLITE_NS, stop);
    else
        /* as far as we know, srun is still launching and ignores its stdin: cancel its job */
        stop(j);
}

void job_hurry(struct job *j)
{
    if (!j->asked_to_end)
        job_end(j);
    else if (j->pid > 0 && !j->signo)
        stop(j);
}

/* ---- start ---- */

int job_start(struct job *j, const struct words *argv, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;

    j->waiting.runs = runs;
    j->waiting.waits = waits;
    j->waiting.hopeless = hopeless;
    j->waiting.arg = j;
    spec.argv = (const char *const *)argv->v;
    spec.session = true;
    spec.die_with_parent = true;
    spec.last_words = SIGTERM; /* then srun cancels its job, even a waiting one */
    j->pid = process_start_streams(&spec, &j->in, &j->out, &j->errs, err);
    if (j->pid <= 0) {
        j->pid = 0;
        return -1;
    }
    if (fd_nonblock(j->in, true) < 0 ||
        !(j->out_watch = loop_fd(j->loop, j->out, LOOP_READ, out_ready, j, err)) ||
        !(j->err_watch = loop_fd(j->loop, j->errs, LOOP_READ, err_ready, j, err)))
        return -1;
    return 0;
}

void job_release(struct job *j)
{
    delivery_release(&j->delivery);
    relays_stop(&j->relays);
    fd_close(&j->in);
    fd_close(&j->out);
    fd_close(&j->errs);
    for (unsigned i = 0; i < j->n; i++) {
        free(j->task[i].node);
        free(j->task[i].end);
        free(j->task[i].words);
        container_state_release(&j->task[i].container);
    }
    free(j->task);
    waiting_job_release(&j->waiting);
    free(j->why);
    buf_release(&j->early);
    child_lines_release(&j->out_lines);
    child_lines_release(&j->err_lines);
    slurm_command_release(&j->command);
    time_left_release(&j->left);
}
