/* silence.c - see silence.h. */
#include "worker/agent/net/silence.h"

#define LOOKS       10u /* within the timeout */
#define LOOK_MAX_NS (500 * NS_PER_MS)

uint64_t silence_wait(const struct silence *s)
{
    const uint64_t part = s->timeout_ns / LOOKS;

    return part < LOOK_MAX_NS ? part + 1 : LOOK_MAX_NS;
}

void silence_begin(struct silence *s, uint64_t timeout_ns, uint64_t now_ns)
{
    *s = (struct silence){ .timeout_ns = timeout_ns, .since_ns = now_ns };
    s->due_ns = now_ns + silence_wait(s);
}

void silence_heard(struct silence *s, uint64_t now_ns)
{
    s->since_ns = now_ns;
    s->forgiven = false;
}

bool silence_is_over(struct silence *s, uint64_t now_ns)
{
    const bool late = now_ns > s->due_ns && now_ns - s->due_ns >= SILENCE_LATE_NS;

    s->due_ns = now_ns + silence_wait(s);
    if (late && !s->forgiven) {
        s->forgiven = true;
        s->since_ns = now_ns;
    }
    return s->timeout_ns > 0 && now_ns > s->since_ns && now_ns - s->since_ns >= s->timeout_ns;
}
