/* agents_zap.c - see agents_zap.h. An agent may dial before its engine has said how many nodes
 * there are. Its question is kept for a moment: an agent that is told to try again would wait
 * until its handshake times out. */
#include "kernel/agents/agents_zap.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop/zap.h"
#include "base/rows.h"

#define REASONS_MAX 16
#define KEPT_MAX    4096u /* kept questions */
#define KEPT_NS     (5 * NS_PER_S)
#define AGAIN_NS    (20 * NS_PER_MS) /* between two looks at them */

struct zap_refusal {
    const char *what;
    unsigned long count;
};

struct kept_question {
    struct zap_question q;
    uint64_t since_ns;
};

struct agents_zap {
    struct zap *zap;
    struct loop *loop;
    const struct allowed_keys *allowed;
    struct zap_refusal reason[REASONS_MAX];
    unsigned n_reasons;
    struct kept_question *kept; /* owned, n_kept of them, oldest first */
    size_t n_kept, room;
    struct watch *again;
};

void agents_zap_refused(struct agents_zap *g, const char *what)
{
    unsigned k = 0;

    while (k < g->n_reasons && strcmp(g->reason[k].what, what) != 0)
        k++;
    if (k < g->n_reasons || k == REASONS_MAX) {
        log_debug("agents", "refused again: a connection that %s", what);
    } else {
        g->reason[g->n_reasons++] = (struct zap_refusal){ what, 0 };
        log_warn("agents", "refused: a connection that %s (more of this kind are only counted)",
                 what);
    }
    if (k < REASONS_MAX)
        g->reason[k].count++;
}

/* Answers the question. false: it can't be answered yet. */
static bool judge(struct agents_zap *g, const struct zap_question *q, bool may_wait)
{
    const unsigned char *const key = slice_is(zap_domain(q), AGENTS_ZAP_DOMAIN) ? zap_key(q) : NULL;
    unsigned node = 0;
    const enum key_verdict v = allowed_keys_ask(g->allowed, key, &node);
    char user[32] = "";

    if (v == KEY_UNKNOWN_YET && may_wait)
        return false;
    if (v == KEY_ALLOWED)
        (void)snprintf(user, sizeof user, "%u", node);
    else
        agents_zap_refused(g, key_verdict_words(v));
    zap_answer(g->zap, q,
               v == KEY_ALLOWED       ? ZAP_YES
               : v == KEY_UNKNOWN_YET ? ZAP_LATER
                                      : ZAP_NO,
               user);
    return true;
}

static bool keep(struct agents_zap *g, const struct zap_question *q, uint64_t now)
{
    struct kept_question *more;

    if (g->n_kept == KEPT_MAX ||
        !(more = rows_insert(g->kept, &g->n_kept, &g->room, sizeof *more, g->n_kept, 16)))
        return false;
    g->kept = more;
    g->kept[g->n_kept - 1] = (struct kept_question){ *q, now };
    return true;
}

static void judge_kept(struct loop *loop, void *arg)
{
    const uint64_t now = clock_now(loop_clock(loop));
    struct agents_zap *g = arg;
    size_t left = 0;

    for (size_t i = 0; i < g->n_kept; i++)
        if (!judge(g, &g->kept[i].q, now - g->kept[i].since_ns < KEPT_NS)) {
            if (left < i) /* they are large */
                g->kept[left] = g->kept[i];
            left++;
        }
    g->n_kept = left;
    if (left) {
        loop_timer_again(g->again, AGAIN_NS);
        return;
    }
    free(g->kept);
    g->kept = NULL;
    g->room = 0;
}

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct agents_zap *g = arg;
    const bool first = g->n_kept == 0;

    (void)zap;
    if (judge(g, q, true))
        return;
    if (!keep(g, q, clock_now(loop_clock(g->loop))))
        (void)judge(g, q, false);
    else if (first)
        loop_timer_again(g->again, AGAIN_NS);
}

struct agents_zap *agents_zap_create(struct loop *loop, void *context,
                                     const struct allowed_keys *allowed, struct err *err)
{
    struct agents_zap *g = calloc(1, sizeof *g);

    if (!g)
        return err_null(err, "out of memory");
    g->loop = loop;
    g->allowed = allowed;
    if (!(g->again = loop_timer(loop, KEPT_NS, 0, judge_kept, g, err)) ||
        !(g->zap = zap_open(loop, context, asked, g, err))) {
        agents_zap_destroy(g);
        return NULL;
    }
    loop_timer_off(g->again);
    return g;
}

void agents_zap_destroy(struct agents_zap *g)
{
    if (!g)
        return;
    for (unsigned k = 0; k < g->n_reasons; k++)
        log_info("agents", "refused in all: %lu connections that %s", g->reason[k].count,
                 g->reason[k].what);
    zap_close(g->zap);
    watch_stop(g->again);
    free(g->kept);
    free(g);
}
