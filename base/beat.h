/* beat.h - who was silent for too long. The time is given. A host that slept, was frozen, or is too
 * busy, sees it by its own timers, which come late: for that time nobody is to blame. Pure. */
#ifndef BASE_BEAT_H
#define BASE_BEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct pulse {
    uint64_t heard, sent; /* when the last message went either way */
};

struct beat {
    uint64_t timeout_ns;
    uint64_t due_ns; /* when the next look should be */
};

void beat_init(struct beat *b, uint64_t timeout_ns, uint64_t now);
/* The looks begin now. */
void beat_start(struct beat *b, uint64_t now);
/* How long to wait until the next look. */
uint64_t beat_wait(const struct beat *b);
/* To be called when the wait is over. How late that is, for pulse_forgive(); at least
 * BEAT_SLEPT_NS: so late that the host must have slept, and every pulse starts anew. */
#define BEAT_SLEPT_NS NS_PER_S
MUST_USE uint64_t beat_look(struct beat *b, uint64_t now);

void pulse_start(struct pulse *p, uint64_t now);
/* while we were late nobody was silent */
void pulse_forgive(struct pulse *p, uint64_t late, uint64_t now);
/* a BEAT is to be sent */
bool pulse_is_due(const struct beat *b, const struct pulse *p, uint64_t now);
/* Silent for too long, as far as is known at `known`: of one that is reached by way of others when
 * those were heard last, for what comes behind that may be with them. */
bool pulse_is_lost(const struct beat *b, const struct pulse *p, uint64_t known);

#endif
