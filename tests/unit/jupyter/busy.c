/* SPDX-License-Identifier: BSD-3-Clause */
/* busy.c - when "busy" follows an idle, by a clock that the test sets. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "kernel/jupyter/channels.h"
#include "tests/unit/jupyter/client.h"
#include "tests/unit/tap.h"

#define PLACES 4u /* marks among the messages: after the idle, at 2.9 s, at 3.1 s, at 33 s */

struct steps {
    struct loop *loop;
    struct channels *channels;
    struct watch *timer;
    enum occupied occupied;
    unsigned n;
};

static uint64_t now_ns = NS_PER_S;

static uint64_t set_now(void *arg)
{
    (void)arg;
    return now_ns;
}

static uint64_t wall_now(void *arg)
{
    return clock_system.wall_ns(arg);
}

static enum occupied is_occupied(void *arg)
{
    return ((struct steps *)arg)->occupied;
}

static void ignore(void *arg, struct request *r)
{
    (void)arg;
    (void)r;
}

static void status(struct channels *ch, const char *state)
{
    struct err err = { "" };

    if (channels_status(ch, NULL, state, &err) < 0)
        abort();
}

/* Sets the clock, lets the loop turn once with it, then leaves a mark. */
static void step(void *arg)
{
    static const uint64_t at_ms[PLACES] = { 0, 2900, 3100, 33200 };
    struct steps *s = arg;
    struct err err = { "" };

    if (s->n % 2 == 0) {
        now_ns = NS_PER_S + at_ms[s->n / 2] * NS_PER_MS;
    } else if (channels_publish(s->channels, NULL, "stream",
                                &(struct content){ .content = slice_text("{}") }, &err) < 0) {
        abort();
    }
    if (++s->n == 2 * PLACES)
        loop_stop(s->loop);
    else
        loop_timer_again(s->timer, 0);
}

static void subscribe(struct test_client *c, struct channels *ch)
{
    struct received r;
    bool heard = false;

    for (int i = 0; i < WAIT_MS && !heard; i++) {
        status(ch, "starting");
        heard = client_hear(c, PORT_IOPUB, 1, &r);
    }
    if (!heard)
        abort();
    received_release(&r);
}

/* The messages as text: "i" idle, "b" busy, "|" a mark. */
static void hear(struct test_client *c, char *out, size_t size)
{
    size_t n = 0;
    unsigned marks = 0;
    struct received r;

    while (marks < PLACES && n + 1 < size && client_hear(c, PORT_IOPUB, WAIT_MS, &r)) {
        const char *state = content_text(&r, "execution_state");

        if (slice_is(slice_text(r.m.type), "stream")) {
            out[n++] = '|';
            marks++;
        } else if (strcmp(state, "starting") != 0) {
            out[n++] = state[0];
        }
        received_release(&r);
    }
    out[n] = '\0';
}

static void after_an_idle(const char *dir, enum occupied by, const char *wanted, const char *name)
{
    const struct clock clock = { .now_ns = set_now, .wall_ns = wall_now };
    struct steps s = { .occupied = by };
    struct connection to;
    struct test_client c;
    struct err err = { "" };
    char file[128], heard[32];

    now_ns = NS_PER_S;
    connection_over_ipc(&to, dir, "busy");
    snprintf(file, sizeof file, "%s/busy.json", dir);
    if (connection_write(&to, file, &err) < 0 || !(s.loop = loop_create(&clock, &err)) ||
        !(s.channels = channels_create(s.loop, file, ignore, NULL, &err)) ||
        !(s.timer = loop_timer(s.loop, 0, 0, step, &s, &err)))
        abort();
    channels_on_idle(s.channels, is_occupied, &s);
    client_open(&c, &to, "client-one", "session-1", (struct test_keys){ NULL, NULL, NULL });
    subscribe(&c, s.channels);
    status(s.channels, "idle");
    if (loop_run(s.loop, &err) < 0)
        abort();
    hear(&c, heard, sizeof heard);
    is_text(heard, wanted, "%s", name);
    client_close(&c);
    channels_destroy(s.channels);
    loop_destroy(s.loop);
    connection_release(&to);
    unlink(file);
}

int main(void)
{
    char dir[] = "/tmp/cellspan-test-XXXXXX";
    struct err err = { "" };

    if (!mkdtemp(dir) || random_open(&err) < 0)
        abort();
    after_an_idle(dir, OCCUPIED_NOT, "i||||", "a free kernel stays idle");
    after_an_idle(dir, OCCUPIED, "ib|||b|",
                  "while a cell runs, busy follows at once, then each 30 s");
    after_an_idle(dir, OCCUPIED_SUBSHELLS, "i||b|b|",
                  "while a subshell's cell runs, busy follows after 3 s, then each 30 s");
    rmdir(dir);
    return plan_done();
}
