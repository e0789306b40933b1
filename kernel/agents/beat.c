/* beat.c - see beat.h. */
#include "kernel/agents/beat.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

#define DEFAULT_S   10.0
#define LEAST_S     0.1
#define MOST_S      86400.0
#define LOOK_MAX_NS (250 * NS_PER_MS) /* who is lost is named within a second */
/* of the timeout: so many beats may get lost before it is over */
#define PARTS 5u

int beat_init(struct beat *b, const char *text, uint64_t now, struct err *err)
{
    double seconds = DEFAULT_S;
    char *end;

    if (text && *text) {
        errno = 0;
        seconds = strtod(text, &end);
        if (errno || *end || !(seconds >= LEAST_S && seconds <= MOST_S))
            return err_set(
                err, "CELLSPAN_HEARTBEAT_TIMEOUT=%.40s: seconds are wanted, from %.1f to %.0f",
                text, LEAST_S, MOST_S);
    }
    *b = (struct beat){ .timeout_ns = (uint64_t)(seconds * (double)NS_PER_S) };
    beat_start(b, now);
    return 0;
}

void beat_start(struct beat *b, uint64_t now)
{
    b->due_ns = now + beat_wait(b);
}

uint64_t beat_wait(const struct beat *b)
{
    const uint64_t part = b->timeout_ns / (2 * PARTS);

    return part < LOOK_MAX_NS ? part : LOOK_MAX_NS;
}

uint64_t beat_look(struct beat *b, uint64_t now)
{
    const uint64_t late = now > b->due_ns ? now - b->due_ns : 0;

    beat_start(b, now);
    return late;
}

void pulse_start(struct pulse *p, uint64_t now)
{
    p->heard = p->sent = now;
}

void pulse_forgive(struct pulse *p, uint64_t late, uint64_t now)
{
    p->heard = p->heard + late < now ? p->heard + late : now;
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* Both ways count: what we send without an answer says nothing about the other. A look comes only
 * every beat_wait, so that what would be due before the next is due now. */
bool pulse_is_due(const struct beat *b, const struct pulse *p, uint64_t now)
{
    const uint64_t older = p->heard < p->sent ? p->heard : p->sent;

    return since(older, now) + beat_wait(b) > b->timeout_ns / PARTS;
}

bool pulse_is_lost(const struct beat *b, const struct pulse *p, uint64_t known)
{
    return since(p->heard, known) >= b->timeout_ns;
}
