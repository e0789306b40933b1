/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/waiting_job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launchers/launcher.h"
#include "launchers/slurm/srun_output.h"

#define FIRST_POLL_NS (NS_PER_S / 2)
#define PAUSE_NS      (2 * NS_PER_S) /* grows to the next: */
#define PAUSE_MAX_NS  (30 * NS_PER_S)

#define UNKNOWN "?" /* squeue has not answered yet */

static void ask(void *arg);

static void ask_in(struct waiting_job *q, uint64_t ns)
{
    struct err err = { "" };

    if (q->poll)
        loop_timer_again(q->poll, ns);
    else
        /* ignore a failure: out of memory, and the rest works without this timer */
        q->poll = loop_timer(q->loop, ns, 0, ask, q, &err);
}

static void say(struct waiting_job *q, const char *state, const char *reason, const char *start)
{
    const char *meaning = slurm_reason_meaning(reason);
    const bool dated = isdigit((unsigned char)*start);

    if (strcmp(state, "PENDING") == 0)
        report_say("job %lu waits in the queue: %s%s%s%s%s%s", q->id, reason, meaning ? ": " : "",
                   meaning ? meaning : "", dated ? " (expected to start at " : "",
                   dated ? start : "", dated ? ")" : "");
    else if (strcmp(state, "CONFIGURING") == 0)
        report_say("job %lu has its nodes; they are starting", q->id);
    else if (strcmp(state, "RUNNING") == 0) {
        report_say("job %lu runs; its agents are starting", q->id);
        q->runs(q->arg);
    } else
        report_say("job %lu: %s: %s", q->id, state, reason);
}

static void note_state(struct waiting_job *q, const char *state, const char *reason,
                       const char *start)
{
    if (q->state && strcmp(q->state, state) == 0)
        return;
    if (q->state && strcmp(q->state, UNKNOWN) == 0)
        q->waits(q->arg);
    text_replace(&q->state, state);
    q->pause_ns = PAUSE_NS;
    say(q, state, reason, start);
    if (strcmp(state, "PENDING") == 0 && slurm_reason_hopeless(reason)) {
        fprintf(stderr, "cellspan-launch-slurm: job %lu can't start as it was asked for: %s\n",
                q->id, reason);
        q->hopeless(q->arg);
    }
}

/* The kernel has to know that there is a job, which may wait for long. */
static void note_no_state(struct waiting_job *q)
{
    if (!q->state) {
        text_replace(&q->state, UNKNOWN);
        report_say("job %lu: squeue does not answer; it is asked again", q->id);
    }
    if (q->allocated && q->state && strcmp(q->state, UNKNOWN) == 0)
        q->runs(q->arg);
}

/* Handles squeue's answer "STATE|REASON|START". Without one, as where Slurm is busy, it is asked
 * again. */
static void answered(void *arg, const char *line)
{
    struct waiting_job *q = arg;
    char *copy = strdup(line), *reason = copy ? strchr(copy, '|') : NULL,
         *start = reason ? strchr(reason + 1, '|') : NULL;

    if (q->pause_ns < PAUSE_MAX_NS)
        q->pause_ns += q->pause_ns / 2;
    if (start) {
        *reason++ = *start++ = '\0';
        note_state(q, copy, reason, start);
    } else {
        note_no_state(q);
    }
    if (q->loop)
        ask_in(q, q->pause_ns);
    free(copy);
}

static void ask(void *arg)
{
    struct waiting_job *q = arg;
    char id[32];
    const char *const argv[] = {
        "squeue", "--noheader", "--jobs", id, "--format", "%T|%r|%S", NULL
    };

    snprintf(id, sizeof id, "%lu", q->id);
    if (!slurm_command_start(&q->command, q->loop, argv, answered, q))
        ask_in(q, PAUSE_MAX_NS);
}

void waiting_job_begin(struct waiting_job *q, struct loop *loop, unsigned long id)
{
    q->loop = loop;
    q->id = id;
    q->pause_ns = PAUSE_NS;
    ask_in(q, FIRST_POLL_NS);
}

void waiting_job_allocated(struct waiting_job *q)
{
    q->allocated = true;
    if (q->loop && q->state && strcmp(q->state, UNKNOWN) == 0)
        q->runs(q->arg);
}

void waiting_job_stop(struct waiting_job *q)
{
    q->loop = NULL;
    watch_clear(&q->poll);
    slurm_command_release(&q->command);
}

void waiting_job_release(struct waiting_job *q)
{
    waiting_job_stop(q);
    free(q->state);
    q->state = NULL;
}
