/* SPDX-License-Identifier: BSD-3-Clause */
/* turns.c - the loops of the kernel and of the agents, as base/loop/loop.h has them: timers by the
 * fleet's clock, and ZeroMQ sockets, which sockets.c has. */
#include <stdlib.h>

#include "tests/unit/network/fleet.h"

struct later {
    struct later *next;
    loop_f f; /* NULL: free(arg) */
    void *arg;
};

struct watch {
    struct watch *next;
    struct loop *loop;
    loop_f f;
    void *arg;
    void *socket;    /* NULL: it is a timer */
    uint64_t due_ns; /* UINT64_MAX: it is off */
    uint64_t every_ns;
    bool stopped; /* freed at the end of the turn */
};

struct loop {
    struct watch *first, **last;
    struct later *later, **last_later;
    bool stopped; /* the process ends with this turn */
};

static struct fleet *fleet; /* one at a time */
static struct loop loops[FLEET_AGENTS + 1];
static unsigned running;

void turns_open(struct fleet *f)
{
    fleet = f;
    for (unsigned i = 0; i <= FLEET_AGENTS; i++)
        loops[i] = (struct loop){ .last = &loops[i].first, .last_later = &loops[i].later };
}

struct loop *turns_loop(unsigned who)
{
    return &loops[who];
}

/* The kernel's code has none in this program. */
static struct loop *of(struct loop *loop)
{
    return loop ? loop : &loops[FLEET_KERNEL];
}

unsigned turns_owner(const struct loop *loop)
{
    return (unsigned)(loop - loops);
}

static uint64_t now_ns(void *arg)
{
    (void)arg;
    return fleet->now;
}

static const struct clock the_clock = { .now_ns = now_ns };

const struct clock *loop_clock(const struct loop *loop)
{
    (void)loop;
    return &the_clock;
}

/* ---- watches ---- */

static struct watch *add(struct loop *loop, void *socket, loop_f f, void *arg)
{
    struct watch *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    *w = (struct watch){
        .loop = of(loop), .f = f, .arg = arg, .socket = socket, .due_ns = UINT64_MAX
    };
    *w->loop->last = w;
    w->loop->last = &w->next;
    return w;
}

struct watch *loop_timer(struct loop *loop, uint64_t after_ns, uint64_t every_ns, loop_f f,
                         void *arg, struct err *err)
{
    struct watch *w = add(loop, NULL, f, arg);

    (void)err;
    w->every_ns = every_ns;
    loop_timer_again(w, after_ns);
    return w;
}

void loop_timer_again(struct watch *w, uint64_t after_ns)
{
    w->due_ns = after_ns == LOOP_OFF ? UINT64_MAX : fleet->now + after_ns;
}

void loop_timer_off(struct watch *w)
{
    w->due_ns = UINT64_MAX;
}

struct watch *loop_zmq(struct loop *loop, void *socket, loop_f f, void *arg, struct err *err)
{
    (void)err;
    return add(loop, socket, f, arg);
}

void watch_stop(struct watch *w)
{
    if (w)
        w->stopped = true;
}

void watch_clear(struct watch **w)
{
    watch_stop(*w);
    *w = NULL;
}

int loop_later(struct loop *loop, loop_f f, void *arg)
{
    struct later *l = malloc(sizeof *l);

    if (!l)
        abort();
    *l = (struct later){ NULL, f, arg };
    *of(loop)->last_later = l;
    of(loop)->last_later = &l->next;
    return 0;
}

void loop_free(struct loop *loop, void *p)
{
    (void)!loop_later(loop, NULL, p);
}

/* ---- turns ---- */

static void sweep(struct loop *loop)
{
    for (struct watch **at = &loop->first; *at;) {
        struct watch *w = *at;

        if (!w->stopped) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
    loop->last = &loop->first;
    while (*loop->last)
        loop->last = &(*loop->last)->next;
}

static void end_turn(struct loop *loop)
{
    struct later *l;

    while ((l = loop->later)) {
        if (!(loop->later = l->next))
            loop->last_later = &loop->later;
        if (l->f)
            l->f(l->arg);
        else
            free(l->arg);
        free(l);
    }
    sweep(loop);
}

/* false: no socket has anything to read. */
static bool read_sockets(struct loop *loop)
{
    bool any = false;

    for (struct watch *w = loop->first; w && !loop->stopped; w = w->next)
        if (w->socket && !w->stopped && sockets_has(w->socket)) {
            w->f(w->arg);
            any = true;
        }
    return any;
}

unsigned turns_running(void)
{
    return running;
}

void turns_take(unsigned who)
{
    running = who;
    while (read_sockets(&loops[who]))
        ;
    end_turn(&loops[who]);
}

static struct watch *next_timer(const struct loop *loop)
{
    struct watch *next = NULL;

    for (struct watch *w = loop->first; w; w = w->next)
        if (!w->stopped && w->due_ns != UINT64_MAX && (!next || w->due_ns < next->due_ns))
            next = w;
    return next;
}

void turns_tick(unsigned who)
{
    struct loop *loop = &loops[who];
    struct watch *w;

    running = who;
    while (!loop->stopped && (w = next_timer(loop)) && w->due_ns <= fleet->now) {
        w->due_ns = w->every_ns ? fleet->now + w->every_ns : UINT64_MAX;
        w->f(w->arg);
        end_turn(loop);
    }
}

uint64_t turns_due_ns(unsigned who)
{
    const struct watch *w = next_timer(&loops[who]);

    return w ? w->due_ns : UINT64_MAX;
}

void turns_stop(unsigned who)
{
    loops[who].stopped = true;
}

void turns_end(unsigned who)
{
    end_turn(&loops[who]);
    for (struct watch *w = loops[who].first; w; w = w->next)
        w->stopped = true;
    sweep(&loops[who]);
    loops[who].stopped = false;
}
