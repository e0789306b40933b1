/* silence.h - has the kernel not been heard of for too long? Pure: time is given.
 *
 * A host that slept or was frozen heard nothing in that time, and that is nobody's fault: its own
 * look is late then, and it counts anew, once. If the kernel is silent after that as well, it has
 * given this node up. */
#ifndef WORKER_AGENT_NET_SILENCE_H
#define WORKER_AGENT_NET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* a look this late was not just kept waiting by a busy machine */
#define SILENCE_LATE_NS (2 * NS_PER_S)

struct silence {
    uint64_t timeout_ns; /* 0: any silence is fine */
    uint64_t since_ns;   /* when something was heard last, or counting began anew */
    uint64_t due_ns;     /* when the next look should be */
    bool forgiven;       /* counting began anew, and nothing was heard since */
};

void silence_begin(struct silence *s, uint64_t timeout_ns, uint64_t now_ns);
void silence_heard(struct silence *s, uint64_t now_ns);
/* How long to wait for the next look. */
uint64_t silence_wait(const struct silence *s);
/* A look, when that time is over. true: the kernel is gone. */
bool silence_is_over(struct silence *s, uint64_t now_ns);

#endif
