/* SPDX-License-Identifier: BSD-3-Clause */
/* death_report.c - see gpu.h: finds out what went wrong on a dead worker's GPUs. */
#include <stdlib.h>

#include "base/utf8.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/gpu_errors.h"

#define LIMIT_NS (700 * NS_PER_MS) /* a death must be reported within a second */

struct death_report {
    struct gpu_text_to {
        gpu_text_f f;
        void *arg;
    } to;
    bool oom;
    unsigned n;
    struct gpu gpu[]; /* copies: the list may change before the answer comes */
};

/* Passes the text on, cut between two characters if it is too long. */
static void tell(const struct death_report *a, struct buf *text)
{
    if (text->n >= GPU_TEXT_MAX) {
        text->n = utf8_cut(buf_slice(text), GPU_TEXT_MAX - 1);
        text->p[text->n] = '\0';
    }
    a->to.f(a->to.arg, text->n ? text->p : "");
}

static void answered(void *arg, const json_t *said, const char *why)
{
    struct death_report *a = arg;
    struct buf text = BUF_INIT;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < a->n; i++) {
        rc = i ? buf_add_text(&text, "; ") : 0;
        if (rc == 0)
            rc = gpu_errors_add_gpu(&a->gpu[i], said, a->oom, &text);
    }
    if (rc == 0 && !said)
        rc = buf_addf(&text, " (%s)", why);
    if (rc < 0)
        buf_clear(&text);
    tell(a, &text);
    buf_release(&text);
    free(a);
}

static struct death_report *death_report_create(const struct gpu_allocations *d,
                                                const struct allocation *s)
{
    struct death_report *a = calloc(1, sizeof *a + s->n * sizeof a->gpu[0]);

    for (unsigned i = 0; a && i < s->n; i++) {
        const struct gpu *one = gpus_find(&d->gpus, s->hold[i].uuid);

        if (one)
            a->gpu[a->n++] = *one;
    }
    return a;
}

/* Asks the process about the worker's GPUs. Takes ownership of a. what: the question: "since" for a
 * dead worker, "read" for a living one. */
static void question(struct gpu_allocations *d, struct death_report *a, const char *what,
                     uint32_t worker, const struct gpu_worker *others, size_t n)
{
    json_t *workers = allocations_workers(d, others, n),
           *uuids = allocation_uuids(allocations_find(d, worker)), *ask = NULL;
    struct err err = { "" };

    if (workers && uuids) {
        ask = json_pack("{s:s, s:I, s:o, s:o}", "ask", what, "worker", (json_int_t)worker, "gpus",
                        uuids, "workers", workers);
    } else {
        json_decref(workers);
        json_decref(uuids);
    }
    if (probe_client_ask(d->client, ask, LIMIT_NS, answered, a, &err) < 0)
        answered(a, NULL, err.text);
}

static void examine(struct gpu_allocations *d, const char *what, uint32_t worker, bool oom,
                    const struct gpu_worker *others, size_t n, gpu_text_f f, void *arg)
{
    const struct allocation *s = allocations_find(d, worker);
    struct death_report *a = s ? death_report_create(d, s) : NULL;

    if (!a) {
        f(arg, "");
        return;
    }
    a->to = (struct gpu_text_to){ f, arg };
    a->oom = oom;
    question(d, a, what, worker, others, n);
}

void gpu_death_report(struct gpu_allocations *d, uint32_t worker, struct slice said,
                      const struct gpu_worker *others, size_t n, gpu_text_f f, void *arg)
{
    examine(d, "since", worker, gpu_errors_say_oom(said), others, n, f, arg);
}

void gpu_full(struct gpu_allocations *d, uint32_t worker, const struct gpu_worker *all, size_t n,
              gpu_text_f f, void *arg)
{
    examine(d, "read", worker, true, all, n, f, arg);
}
