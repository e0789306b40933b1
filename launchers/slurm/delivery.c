/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/delivery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "launchers/agent_script.h"
#include "launchers/launcher.h"
#include "launchers/slurm/step.h"

/* So long after the last answer of a task, the others begin without those that have not answered,
 * and so long after that these have failed. */
#define LATE_S   20u
#define FAILED_S 40u

static void deliver(struct delivery *d);
static void no_answer(void *arg);

static void forget_secret(struct delivery *d)
{
    if (d->secret)
        memory_wipe(d->secret, strlen(d->secret));
    free(d->secret);
    d->secret = NULL;
}

int delivery_secret(struct delivery *d, const char *secret)
{
    return (d->secret = strdup(secret)) ? 0 : -1;
}

void delivery_release(struct delivery *d)
{
    for (unsigned i = 0; i < d->n; i++) {
        free(d->task[i].version);
        free(d->task[i].unsent);
    }
    free(d->task);
    free(d->why);
    d->task = NULL;
    d->why = NULL;
    d->n = 0;
    delivery_stop(d);
    payload_release(&d->payload);
}

void delivery_stop(struct delivery *d)
{
    d->in = -1;
    watch_clear(&d->watch);
    watch_clear(&d->limit);
    if (d->send.p)
        memory_wipe(d->send.p, d->send.cap);
    buf_release(&d->send);
    forget_secret(d);
    sbcast_release(&d->sbcast);
}

/* ---- to srun's stdin ---- */

static void in_ready(void *arg, int fd, unsigned events)
{
    struct delivery *d = arg;
    const ssize_t n = write(fd, d->send.p, d->send.n);

    (void)events;
    if (n > 0)
        buf_drop(&d->send, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        buf_clear(&d->send); /* srun is gone, which is reported elsewhere */
    if (d->send.n)
        return;
    watch_clear(&d->watch);
    if (d->send.p)
        memory_wipe(d->send.p, d->send.cap);
}

static void write_on(struct delivery *d)
{
    struct err err = { "" };

    if (!d->watch && !(d->watch = loop_fd(d->loop, d->in, LOOP_WRITE, in_ready, d, &err)))
        fprintf(stderr, "cellspan-launch-slurm: out of memory\n");
}

/* The last line that all tasks read before those are the agents'. */
static int add_secret(struct delivery *d)
{
    const int rc = d->secret ? buf_addf(&d->send, STEP_SECRET "%s\n", d->secret) : 0;

    forget_secret(d);
    return rc;
}

int delivery_tasks(struct delivery *d, unsigned n, struct loop *loop, int in,
                   delivery_failed_f failed, void *arg)
{
    if (d->on && !(d->task = calloc(n, sizeof *d->task)))
        return -1;
    d->n = d->on ? n : 0;
    d->loop = loop;
    d->in = in;
    d->failed = failed;
    d->arg = arg;
    if (!d->on && d->secret) {
        if (add_secret(d) < 0)
            return -1;
        write_on(d);
    }
    return 0;
}

void delivery_step(struct delivery *d, unsigned long job, unsigned long step)
{
    d->job = job;
    d->step = step;
}

/* ---- what tasks lack ---- */

/* What task i lacks; NULL: nothing, or an earlier task lacks the same. There is one for each kind
 * of machine. */
static struct payload_row *first_row(const struct delivery *d, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (d->task[k].row == d->task[i].row)
            return NULL;
    return d->task[i].row;
}

/* Makes what tasks lack, and counts its bytes. */
static int make_rows(struct delivery *d, size_t *bytes, struct err *err)
{
    struct payload_row *row;

    *bytes = 0;
    for (unsigned i = 0; i < d->n; i++) {
        if (!(row = first_row(d, i)))
            continue;
        if (payload_make(&d->payload, row, err) < 0)
            return -1;
        *bytes += row->bytes.n - row->files;
    }
    return 0;
}

/* Adds what tasks lack. */
static int add_rows(struct delivery *d)
{
    struct payload_row *row;

    for (unsigned i = 0; i < d->n; i++)
        if ((row = first_row(d, i)) && buf_add_slice(&d->send, buf_slice(&row->bytes)) < 0)
            return -1;
    return 0;
}

/* ---- by sbcast ---- */

static unsigned count_lacking(const struct delivery *d)
{
    unsigned n = 0;

    for (unsigned i = 0; i < d->n; i++)
        n += d->task[i].row != NULL;
    return n;
}

/* Adds the files of a row to what sbcast sends, and to what the tasks read how they are found. */
static int add_file(struct delivery *d, const struct payload_row *row, size_t all, struct err *err)
{
    const size_t start = d->sbcast.n, n = row->bytes.n - row->files;

    if (sbcast_add(&d->sbcast, (struct slice){ row->bytes.p + row->files, n }, err) < 0)
        return -1;
    if (buf_addf(&d->send, SCRIPT_GET "%zu %s %zu %s %zu %zu\n%s", n, row->hash,
                 strlen(d->payload.script), row->arch, start, all, d->payload.script) < 0)
        return err_set(err, "out of memory");
    return 0;
}

/* Waits anew for those that have not answered. */
static void wait_on(struct delivery *d)
{
    const uint64_t ns = (d->done ? FAILED_S : LATE_S) * NS_PER_S;
    struct err err = { "" };

    if (d->limit)
        loop_timer_again(d->limit, ns);
    else /* without memory for it, all wait */
        d->limit = loop_timer(d->loop, ns, 0, no_answer, d, &err);
}

/* Does a node do what takes long, and was told to the user? */
static bool one_is_busy(const struct delivery *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->task[i].busy)
            return true;
    return false;
}

/* Is there a task that could begin now, which waits for others? */
static bool one_waits(const struct delivery *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (d->task[i].known && d->task[i].answered)
            return true;
    return false;
}

/* What is stuck on one node, such as its home folder, must not hold back the others. Where there
 * are no others, the kernel's limit for agents that do not come holds. */
static void begin_without(struct delivery *d)
{
    unsigned silent = 0, late = 0;

    for (unsigned i = 0; i < d->n; i++)
        if (!d->task[i].known) {
            d->task[i].known = d->task[i].late = true;
            d->task[i].row = NULL;
            silent += !d->task[i].answered;
            late++;
        }
    if (!late) /* all wait for sbcast */
        return;
    if (silent)
        report_say(
            "%u of %u nodes have not said whether they lack it, %u s after the last answer: the others begin",
            silent, d->n, LATE_S);
    else
        report_say(
            "it is not installed on %u of %u nodes %u s after the last answer: the others begin",
            late, d->n, LATE_S);
    deliver(d);
    wait_on(d);
}

/* How a late task has failed. */
static void late_text(const struct delivery_task *t, char *text, size_t size)
{
    if (t->answered)
        snprintf(
            text, size,
            "it has not installed cellspan %u s after the last answer of a node: does its home folder, "
            "or another place for it (~/.cache, XDG_RUNTIME_DIR, /dev/shm), not answer?",
            LATE_S + FAILED_S);
    else
        snprintf(
            text, size,
            "it has not said whether it has cellspan %u s after the last answer of a node: does its home "
            "folder, or the notebook's folder there, not answer?",
            LATE_S + FAILED_S);
}

static void no_answer(void *arg)
{
    struct delivery *d = arg;
    char text[256];

    if (one_is_busy(d)) {
        wait_on(d);
        return;
    }
    if (!d->done) {
        if (one_waits(d))
            begin_without(d);
        else
            wait_on(d);
        return;
    }
    for (unsigned i = 0; i < d->n; i++)
        if (d->task[i].late) {
            late_text(&d->task[i], text, sizeof text);
            d->failed(d->arg, i, text);
        }
}

/* The file may be on all nodes, on some or on none: each task looks, and answers again. */
static void sbcast_ended(void *arg, const char *line)
{
    struct delivery *d = arg;

    if (*line)
        text_replace(&d->why, line);
    wait_on(d);
    for (unsigned i = 0; i < d->n; i++)
        d->task[i].known = !d->task[i].row;
    write_on(d);
    deliver(d);
}

/* false: it can't be sent in this way. */
static bool cast(struct delivery *d, size_t bytes)
{
    struct payload_row *row;
    struct err err = { "" };
    bool good = true;

    d->cast = true;
    for (unsigned i = 0; good && i < d->n; i++)
        good = !(row = first_row(d, i)) || add_file(d, row, bytes, &err) == 0;
    good = good && sbcast_start(&d->sbcast, d->loop, d->job, d->step, sbcast_ended, d);
    if (!good)
        buf_clear(&d->send);
    return good;
}

/* ---- when each task is known ---- */

/* What is sent with it to one of them at least. */
static const char *what_with(const struct delivery *d)
{
    const char *with = "";

    for (unsigned i = 0; i < d->n && !*with; i++)
        if (d->task[i].row)
            with = payload_with(d->task[i].row);
    return with;
}

/* Sends to the tasks what they lack; to many by sbcast, since srun itself sends to each of them
 * what it reads on stdin. true: it is on its way by sbcast, after which they answer again. */
static bool send_rows(struct delivery *d, unsigned lacking, struct err *err)
{
    const bool many = d->n > SCRIPT_FEW, fit = many && !d->unfit;
    size_t bytes;

    if (make_rows(d, &bytes, err) < 0)
        return false;
    if (!d->cast)
        report_say("version " CELLSPAN_VERSION
                   "%s is sent to %u of %u nodes, which lack it (%.1f MiB%s)",
                   what_with(d), lacking, d->n, (double)bytes / (1 << 20),
                   fit ? ", by sbcast" : "");
    if (fit && !d->cast && cast(d, bytes))
        return true;
    if (many)
        report_say("sbcast has not brought it to %u of %u nodes%s%s%s: it comes by srun's stdin",
                   lacking, d->n, d->why ? " (" : "", d->why ? d->why : "", d->why ? ")" : "");
    if (add_rows(d) < 0)
        (void)err_set(err, "out of memory");
    return false;
}

/* Sends all when each task is known. A task that lacks what can't be sent ends when it reads that
 * nothing else comes. */
static void deliver(struct delivery *d)
{
    struct err err = { "" };
    const unsigned lacking = count_lacking(d);

    for (unsigned i = 0; i < d->n; i++)
        if (!d->task[i].known)
            return;
    if (d->done || d->in < 0 || slurm_command_busy(&d->sbcast.command) ||
        (lacking && send_rows(d, lacking, &err)))
        return;
    d->done = true;
    if (buf_add_text(&d->send, SCRIPT_GO) < 0 || add_secret(d) < 0)
        (void)err_set(&err, "out of memory");
    if (err.text[0])
        fprintf(stderr, "cellspan-launch-slurm: cellspan can't be sent: %s\n", err.text);
    write_on(d);
}

/* words: "ARCH LIBC" */
static void lacks(struct delivery *d, struct delivery_task *t, const char *words)
{
    struct err err = { "" };
    char arch[32], libc[32];

    t->known = true;
    if (sscanf(words, "%31s %31s", arch, libc) == 2 &&
        !(t->row = payload_for(&d->payload, arch, libc, &err)))
        text_replace(&t->unsent, err.text);
}

/* A task's word on what it lacks, or has now. */
static void answers(struct delivery *d, struct delivery_task *t, const char *word)
{
    const bool late = t->late;

    t->late = false;
    if (!text_begins(word, SCRIPT_MISSING)) {
        free(t->unsent);
        t->unsent = NULL;
        t->known = true;
        t->row = NULL;
    } else if (late)
        text_replace(&t->unsent,
                     t->answered
                         ? "sbcast has not brought it, which its node has said too late"
                         : "its node has said too late that it lacks it; run the cell again");
    else if (!t->known)
        lacks(d, t, word + strlen(SCRIPT_MISSING));
    t->answered = true;
}

void delivery_line(struct delivery *d, unsigned task, const char *word)
{
    struct delivery_task *t = task < d->n ? &d->task[task] : NULL;

    if (!t)
        return;
    t->busy = text_begins(word, CONTAINER_SAYS);
    if (d->limit)
        wait_on(d);
    if (strcmp(word, SCRIPT_UNFIT) == 0) {
        d->unfit = true;
        text_replace(&d->why, "a node has no folder in /tmp for it that is yours alone");
    } else if (text_begins(word, SCRIPT_MISSING) || strcmp(word, SCRIPT_HAS) == 0 ||
               text_begins(word, SCRIPT_FOUND))
        answers(d, t, word);
    else if (text_begins(word, SCRIPT_VERSION) && (!t->known || t->late))
        text_replace(&t->version, word + strlen(SCRIPT_VERSION));
    else if (text_begins(word, SCRIPT_REFUSED)) {
        t->late = false;
        text_replace(&t->unsent, word + strlen(SCRIPT_REFUSED));
    }
    deliver(d);
}

/* Once all tasks run, there is a time limit for their answers. Before that, tasks that do not run
 * yet have a limit of their own. */
static void wait_if_all_up(struct delivery *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (!d->task[i].up && !d->task[i].known)
            return;
    if (!d->done && !d->limit && d->in >= 0)
        wait_on(d);
}

void delivery_up(struct delivery *d, unsigned task)
{
    if (task >= d->n)
        return;
    d->task[task].up = true;
    wait_if_all_up(d);
}

void delivery_without(struct delivery *d, unsigned task)
{
    if (task >= d->n)
        return;
    d->task[task].known = true;
    d->task[task].answered = d->task[task].late = d->task[task].busy = false;
    d->task[task].row = NULL;
    deliver(d);
    wait_if_all_up(d);
}

void delivery_end(const struct delivery *d, unsigned task, const char *how, const char *program,
                  const char *prefix, char *text, size_t size)
{
    const struct delivery_task *t = task < d->n ? &d->task[task] : NULL;

    if (strstr(how, "exit code 127") || (t && t->unsent))
        script_missing(text, size, program, prefix, t ? t->version : NULL,
                       t ? t->unsent : payload_why_not(&d->payload));
    else
        snprintf(text, size, "%s ended: %s", program, how);
}
