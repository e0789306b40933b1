/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers whether an agent may connect (declared in listen.h).
 *
 * An agent may dial before its engine has said how many nodes there are. Its question is kept for a
 * moment: an agent that is told to try again would wait until its handshake times out. */
#include "kernel/agents/listen.h"

#include <inttypes.h>
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

void agents_zap_refused(struct agents_zap *z, const char *what)
{
    unsigned k = 0;

    while (k < z->n_reasons && strcmp(z->reason[k].what, what) != 0)
        k++;
    if (k < z->n_reasons || k == REASONS_MAX) {
        log_debug("agents", "refused again: a connection that %s", what);
    } else {
        z->reason[z->n_reasons++] = (struct zap_refusal){ what, 0 };
        log_warn("agents", "refused: a connection that %s (more of this kind are only counted)",
                 what);
    }
    if (k < REASONS_MAX)
        z->reason[k].count++;
}

/* With the key's beginning, a connection with an agent's old key is not taken for one with its new
 * one. */
void agents_zap_user(unsigned node, const unsigned char key[KEY_SIZE],
                     char user[static AGENTS_ZAP_USER_SIZE])
{
    uint64_t begin;

    memcpy(&begin, key, sizeof begin);
    (void)snprintf(user, AGENTS_ZAP_USER_SIZE, "%u.%016" PRIx64, node, begin);
}

/* Answers the question. false: it can't be answered yet. */
static bool judge(struct agents_zap *z, const struct zap_question *q, bool may_wait)
{
    const unsigned char *const key = slice_is(zap_domain(q), AGENTS_ZAP_DOMAIN) ? zap_key(q) : NULL;
    unsigned node = 0;
    const enum key_verdict v = allowed_keys_ask(z->allowed, key, &node);
    char user[AGENTS_ZAP_USER_SIZE] = "";

    if (v == KEY_UNKNOWN_YET && may_wait)
        return false;
    if (v == KEY_ALLOWED)
        agents_zap_user(node, key, user);
    else
        agents_zap_refused(z, key_verdict_words(v));
    zap_answer(z->zap, q,
               v == KEY_ALLOWED       ? ZAP_YES
               : v == KEY_UNKNOWN_YET ? ZAP_LATER
                                      : ZAP_NO,
               user);
    return true;
}

static bool keep(struct agents_zap *z, const struct zap_question *q, uint64_t now)
{
    struct kept_question *row;

    if (z->n_kept == KEPT_MAX || !(row = rows_add(&z->kept, &z->n_kept, &z->room, sizeof *row)))
        return false;
    *row = (struct kept_question){ *q, now };
    return true;
}

static void judge_kept(void *arg)
{
    struct agents_zap *z = arg;
    const uint64_t now = clock_now(loop_clock(z->loop));
    size_t left = 0;

    for (size_t i = 0; i < z->n_kept; i++)
        if (!judge(z, &z->kept[i].q, now - z->kept[i].since_ns < KEPT_NS)) {
            if (left < i) /* they are large */
                z->kept[left] = z->kept[i];
            left++;
        }
    z->n_kept = left;
    if (left) {
        loop_timer_again(z->again, AGAIN_NS);
        return;
    }
    free(z->kept);
    z->kept = NULL;
    z->room = 0;
}

static void asked(struct zap *zap, const struct zap_question *q, void *arg)
{
    struct agents_zap *z = arg;
    const bool first = z->n_kept == 0;

    (void)zap;
    if (judge(z, q, true))
        return;
    if (!keep(z, q, clock_now(loop_clock(z->loop))))
        (void)judge(z, q, false);
    else if (first)
        loop_timer_again(z->again, AGAIN_NS);
}

struct agents_zap *agents_zap_create(struct loop *loop, void *context,
                                     const struct allowed_keys *allowed, struct err *err)
{
    struct agents_zap *z = calloc(1, sizeof *z);

    if (!z)
        return err_null(err, "out of memory");
    z->loop = loop;
    z->allowed = allowed;
    if (!(z->again = loop_timer(loop, LOOP_OFF, 0, judge_kept, z, err)) ||
        !(z->zap = zap_open(loop, context, asked, z, err))) {
        agents_zap_destroy(z);
        return NULL;
    }
    return z;
}

void agents_zap_destroy(struct agents_zap *z)
{
    if (!z)
        return;
    for (unsigned k = 0; k < z->n_reasons; k++)
        log_info("agents", "refused in all: %lu connections that %s", z->reason[k].count,
                 z->reason[k].what);
    zap_close(z->zap);
    watch_stop(z->again);
    free(z->kept);
    free(z);
}
