/* SPDX-License-Identifier: BSD-3-Clause */
/* beat.h - which peer has been silent for too long. The time is an argument. If this host was
 * suspended or is too busy, its own timers are late. That time does not count as silence. */
#ifndef BASE_BEAT_H
#define BASE_BEAT_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

/* One peer. */
struct peer_times {
    uint64_t heard, sent; /* when the last message came from it, and went to it */
    uint64_t slept;     /* since then this host was suspended for so long, which is silence, too */
    bool was_suspended; /* beat_is_over() found that this host was, and nothing was heard since */
};

/* When all peers are checked. */
struct beat {
    uint64_t timeout_ns;
    uint64_t due_ns; /* of the next check */
};

void beat_init(struct beat *b, uint64_t timeout_ns, uint64_t now);
void beat_start(struct beat *b, uint64_t now); /* The checks begin now. */
uint64_t beat_wait(const struct beat *b);      /* How long to wait until the next check. */
/* Call it when the wait is over. Returns how late the check is, for peer_times_allow_late(). A
 * check that is BEAT_SUSPENDED_NS late or more means that the host was suspended: start the times
 * of all peers again. */
#define BEAT_SUSPENDED_NS NS_PER_S
MUST_USE uint64_t beat_check(struct beat *b, uint64_t now);
/* The check of an agent, whose only peer is the kernel. true: the kernel has been silent for too
 * long. If this host was suspended, the silence counts from now on, but only once: if nothing is
 * heard after that either, the kernel has given up this node. */
MUST_USE bool beat_is_over(struct beat *b, struct peer_times *p, uint64_t now);

void peer_times_start(struct peer_times *p, uint64_t now);
void peer_times_heard(struct peer_times *p, uint64_t now);
/* This host was suspended for so long, which the times do not count, but which is to be. */
void peer_times_slept(struct peer_times *p, uint64_t ns);
/* Does not count the time by which a check was late. */
void peer_times_allow_late(struct peer_times *p, uint64_t late, uint64_t now);
/* a BEAT is to be sent */
bool peer_times_beat_due(const struct beat *b, const struct peer_times *p, uint64_t now);
/* For how long the peer has been silent at the time `known`. */
uint64_t peer_times_silence_ns(const struct peer_times *p, uint64_t known);
/* Has the peer been silent for too long at the time `known`? For a peer that is reached through
 * other peers, `known` is the time at which those were last heard, because its messages may still
 * be there. */
bool peer_times_silent(const struct beat *b, const struct peer_times *p, uint64_t known);

#endif
