/* SPDX-License-Identifier: BSD-3-Clause */
/* Home's questions to idle ranks: which names they have, and what completes a name. Home gets the
 * answers that come within WAIT_NS, or before the next cell begins. */
#include <stdlib.h>

#include "base/log.h"
#include "kernel/notebook/notebook.h"

#define WAIT_NS (300 * NS_PER_MS)

/* At most one at a time. */
struct question {
    uint64_t home; /* home's number for it */
    uint64_t id;   /* the kernel's number for it, in PROBEs */
    uint64_t due_ns;
    struct ranks waiting; /* ranks that have not answered */
    json_t *answers;      /* owned: [[rank, answer], …] */
};

static int send_waiting(struct notebook *nb, const struct span *m)
{
    return notebook_send_ranks(nb, nb->group, rank_in_set, &nb->question->waiting, m, NULL);
}

/* home: its number for the question. Takes the answers. */
static void tell(struct notebook *nb, uint64_t home, json_t *answers)
{
    struct span m = { .kind = SPAN_ASK_REPLY, .worker = SPAN_WORKER_HOME, .cell = home };
    struct buf text = BUF_INIT;
    const int rc = text_json(&text, answers);

    m.v[F_ASK_REPLY_ANSWERS].s = rc == 0 ? buf_slice(&text) : slice_text("[]");
    notebook_send(nb, SPAN_WORKER_HOME, &m);
    buf_release(&text);
}

/* Interrupts the ranks that have not answered, and sends home the answers that have come. */
void question_end(struct notebook *nb)
{
    struct question *q = nb->question;
    struct span interrupt = { .kind = SPAN_INTERRUPT };

    if (!q)
        return;
    interrupt.cell = q->id;
    if (send_waiting(nb, &interrupt) < 0)
        log_debug("question", "ranks that have not answered were not stopped");
    tell(nb, q->home, q->answers);
    q->answers = NULL;
    question_release(nb);
}

static int add_idle(struct notebook *nb, bool all)
{
    for (unsigned k = 0; k < nb->group->size && (all || k == 0); k++)
        if (nb->group->rank[k].state == RANK_IDLE && ranks_add(&nb->question->waiting, k) < 0)
            return -1;
    return 0;
}

static int ask(struct notebook *nb, const struct span *m)
{
    struct span probe = { .kind = SPAN_PROBE, .cell = nb->question->id };

    probe.v[F_PROBE_WHAT].s = m->v[F_ASK_WHAT].s;
    probe.v[F_PROBE_CONTENT].s = m->v[F_ASK_CONTENT].s;
    return send_waiting(nb, &probe);
}

void question_on_ask(struct notebook *nb, const struct span *m)
{
    struct question *q;

    question_end(nb); /* an earlier home process may have asked, and has ended */
    if (!(q = nb->question = calloc(1, sizeof *q)) || !(q->answers = json_array())) {
        question_release(nb);
        tell(nb, m->cell, json_array());
        return;
    }
    q->home = m->cell;
    q->id = notebook_next_cell(nb);
    q->due_ns = notebook_now(nb) + WAIT_NS;
    if (nb->cells || add_idle(nb, m->v[F_ASK_ALL].u64 != 0) < 0 || ask(nb, m) < 0)
        ranks_clear(&q->waiting);
    if (ranks_count(&q->waiting) == 0)
        question_end(nb);
}

bool question_on_probed(struct notebook *nb, const struct rank *r, const struct span *m)
{
    struct question *q = nb->question;

    if (!q || m->cell != q->id)
        return false;
    if (slice_is(m->v[F_PROBED_STATUS].s, "ok") &&
        json_array_append_new(q->answers, json_pack("[i, o]", (int)r->number,
                                                    text_parse(m->v[F_PROBED_CONTENT].s))) < 0)
        log_debug("question", "rank %u answers with something that is no answer", r->number);
    ranks_remove(&q->waiting, r->number);
    if (ranks_count(&q->waiting) == 0)
        question_end(nb);
    return true;
}

void question_tick(struct notebook *nb)
{
    if (nb->question && notebook_now(nb) >= nb->question->due_ns)
        question_end(nb);
}

uint64_t question_due(const struct notebook *nb)
{
    return nb->question ? nb->question->due_ns : NEVER;
}

void question_release(struct notebook *nb)
{
    if (!nb->question)
        return;
    json_decref(nb->question->answers);
    ranks_release(&nb->question->waiting);
    free(nb->question);
    nb->question = NULL;
}
