/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/delivery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launchers/agent_script.h"
#include "launchers/launcher.h"

void delivery_release(struct delivery *d)
{
    for (unsigned i = 0; i < d->n; i++) {
        free(d->task[i].version);
        free(d->task[i].unsent);
    }
    free(d->task);
    d->task = NULL;
    d->n = 0;
    delivery_stop(d);
    payload_release(&d->payload);
}

void delivery_stop(struct delivery *d)
{
    watch_clear(&d->watch);
    buf_release(&d->send);
}

int delivery_tasks(struct delivery *d, unsigned n)
{
    if (d->on && !(d->task = calloc(n, sizeof *d->task)))
        return -1;
    d->n = d->on ? n : 0;
    return 0;
}

static void in_ready(void *arg, int fd, unsigned events)
{
    struct delivery *d = arg;
    const ssize_t n = write(fd, d->send.p, d->send.n);

    (void)events;
    if (n > 0)
        buf_drop(&d->send, (size_t)n);
    else if (errno != EAGAIN && errno != EINTR)
        buf_clear(&d->send); /* srun is gone, which is reported elsewhere */
    if (!d->send.n)
        delivery_stop(d);
}

/* Adds what tasks lack, each once: there is one for each kind of machine. */
static int add_rows(struct delivery *d, struct err *err)
{
    for (unsigned i = 0; i < d->n; i++) {
        struct delivery_task *t = &d->task[i];
        bool again = false;

        for (unsigned k = 0; k < i; k++)
            again = again || d->task[k].row == t->row;
        if (!t->row || again)
            continue;
        if (payload_make(&d->payload, t->row, err) < 0)
            return -1;
        if (buf_add_slice(&d->send, buf_slice(&t->row->bytes)) < 0)
            return err_set(err, "out of memory");
    }
    return 0;
}

/* Sends all when each task is known. A task that lacks what can't be sent ends when it reads that
 * nothing else comes. */
static void deliver(struct delivery *d, struct loop *loop, int in)
{
    struct err err = { "" };
    unsigned lacking = 0;
    size_t bytes;

    for (unsigned i = 0; i < d->n; i++) {
        if (!d->task[i].known)
            return;
        lacking += d->task[i].row != NULL;
    }
    if (d->done || in < 0)
        return;
    d->done = true;
    if (add_rows(d, &err) < 0)
        fprintf(stderr, "cellspan-launch-slurm: cellspan can't be sent: %s\n", err.text);
    bytes = d->send.n;
    if (lacking)
        report_say("version " CELLSPAN_VERSION
                   " is sent to %u of %u nodes, which lack it (%.1f MiB)",
                   lacking, d->n, (double)bytes / (1 << 20));
    if (buf_add_text(&d->send, SCRIPT_GO) < 0 ||
        !(d->watch = loop_fd(loop, in, LOOP_WRITE, in_ready, d, &err)))
        fprintf(stderr, "cellspan-launch-slurm: out of memory\n");
}

static void keep(char **place, const char *text)
{
    free(*place);
    *place = strdup(text);
}

/* words: "ARCH LIBC CACHE" */
static void lacks(struct delivery *d, struct delivery_task *t, const char *words)
{
    struct err err = { "" };
    char arch[32], libc[32];

    t->known = t->lacking = true;
    if (sscanf(words, "%31s %31s", arch, libc) == 2 &&
        !(t->row = payload_for(&d->payload, arch, libc, &err)))
        keep(&t->unsent, err.text);
}

void delivery_line(struct delivery *d, struct loop *loop, int in, unsigned task, const char *word)
{
    struct delivery_task *t = task < d->n ? &d->task[task] : NULL;

    if (!t)
        return;
    if (text_begins(word, SCRIPT_MISSING) && !t->known)
        lacks(d, t, word + strlen(SCRIPT_MISSING));
    else if (strcmp(word, SCRIPT_HAS) == 0)
        t->known = true;
    else if (text_begins(word, SCRIPT_VERSION) && !t->known)
        keep(&t->version, word + strlen(SCRIPT_VERSION));
    else if (text_begins(word, SCRIPT_REFUSED))
        keep(&t->unsent, word + strlen(SCRIPT_REFUSED));
    deliver(d, loop, in);
}

void delivery_without(struct delivery *d, struct loop *loop, int in, unsigned task)
{
    if (task >= d->n)
        return;
    d->task[task].known = true;
    deliver(d, loop, in);
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
