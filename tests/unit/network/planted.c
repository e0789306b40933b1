/* SPDX-License-Identifier: BSD-3-Clause */
/* planted.c - faults that a test plants. Those of the session are between the ends and session.c:
 * the linker takes these functions for the session's (ld --wrap). */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"

enum planted planted;

/* says: what the check says that finds it */
static const struct {
    const char *name, *says;
} rows[PLANTED_KINDS] = {
    [PLANTED_NONE] = { "none", "" },
    [PLANTED_TOLD_ONE_MORE] = { "told-one-more", "it acknowledges" },
    [PLANTED_RESUME_BEHIND] = { "resume-behind", "was to come" },
    [PLANTED_RESUME_ACKED] = { "resume-acked", "was to come" },
    [PLANTED_RESUME_HANDED] = { "resume-handed", "was to come" },
    [PLANTED_FREED_EARLY] = { "freed-early", "it acknowledges" },
    [PLANTED_OLD_CONNECTION] = { "old-connection", "was to come" },
    [PLANTED_TWO_CONNECTIONS] = { "two-connections", "has two live connections" },
    [PLANTED_VOIDED_KEY] = { "voided-key", "was admitted" },
    [PLANTED_KEY_AT_KNOCK] = { "key-at-knock", "with a voided key" },
    [PLANTED_STOP_IS_LOSS] = { "stop-is-loss", "the kernel gave an agent up" },
    [PLANTED_OWN_STOP] = { "own-stop", "the kernel gave an agent up" },
    [PLANTED_SLOW_IS_LOSS] = { "slow-is-loss", "the kernel gave an agent up" },
    [PLANTED_NO_BOUND] = { "no-bound", "MiB" },
    [PLANTED_NEWEST_ONLY] = { "newest-only", "was refused" },
    [PLANTED_TWO_REFUSALS] = { "two-refusals", "was refused" },
    [PLANTED_GIVES_UP] = { "gives-up", "an agent gave its kernel up" },
};

const char *planted_name(enum planted p)
{
    return rows[p].name;
}

const char *planted_says(enum planted p)
{
    return rows[p].says;
}

enum planted planted_of(const char *name)
{
    for (unsigned i = 0; i < PLANTED_KINDS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return (enum planted)i;
    return PLANTED_KINDS;
}

void letter_free(void *letter)
{
    struct letter *l = letter;

    if (--l->refs == 0)
        free(l);
}

/* ---- the session's functions ---- */

uint64_t __real_session_tell(struct session *s);
int __real_session_resume(struct session *s, uint64_t n, struct err *err);
void *__real_session_next(struct session *s);
uint64_t __wrap_session_tell(struct session *s);
int __wrap_session_resume(struct session *s, uint64_t n, struct err *err);
void *__wrap_session_next(struct session *s);

uint64_t __wrap_session_tell(struct session *s)
{
    return __real_session_tell(s) + (planted == PLANTED_TOLD_ONE_MORE && s->received > 20);
}

int __wrap_session_resume(struct session *s, uint64_t n, struct err *err)
{
    if (planted == PLANTED_RESUME_BEHIND && n < s->numbered)
        n++;
    else if (planted == PLANTED_RESUME_ACKED)
        n = s->acked;
    else if (planted == PLANTED_RESUME_HANDED)
        n = s->handed;
    return __real_session_resume(s, n, err);
}

/* The message that was handed out before this one is freed. */
void *__wrap_session_next(struct session *s)
{
    struct err err;

    if (planted == PLANTED_FREED_EARLY && s->connected && session_acked(s, s->handed, &err) < 0)
        abort();
    return __real_session_next(s);
}
