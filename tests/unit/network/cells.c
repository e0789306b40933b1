/* SPDX-License-Identifier: BSD-3-Clause */
/* cells.c - a cell on ranks of another machine, with the code of kernel and agent, while the
 * connection between them is cut and reset. Their messages wait in sim.c until the session has
 * brought them to the other side. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/agent/sim.h"
#include "tests/unit/network/fleet.h"

#define LINES 40u
#define FIRST 2u /* the workers */
#define LAST  3u
#define STEPS 200000u

struct scene {
    struct world world;
    struct clock clock;
    struct sim sim;
    struct fleet fleet;
    unsigned printed[LAST + 1];
    uint64_t resumes; /* of the agent whose cell it is, while the cell ran */
    bool was_up;
};

static void carry(void *arg, bool up, size_t size)
{
    struct scene *s = arg;

    if (up)
        (void)agent_end_print(&s->fleet, 0, 0, size);
    else
        kernel_end_order(&s->fleet, size);
}

static void carried(void *arg, enum side to)
{
    ((struct scene *)arg)->sim.come[to == SIDE_KERNEL]++;
}

static bool is_running(const struct scene *s)
{
    return s->sim.agent.workers.first && strstr(s->sim.log.p, "to 2: RUN") &&
           strstr(s->sim.log.p, "to 3: RUN");
}

/* One of the ranks prints its next line; when all are printed, it is done. */
static void print_next(struct scene *s, unsigned worker)
{
    char line[32];

    if (s->printed[worker] > LINES)
        return;
    snprintf(line, sizeof line, "<%u:%u>\n", worker, s->printed[worker]++);
    if (s->printed[worker] <= LINES)
        sim_prints(&s->sim, worker, 1, line);
    else
        sim_done(&s->sim, worker, "ok", "", "");
}

static void step(struct scene *s)
{
    const uint64_t now = s->fleet.now;

    fleet_step(&s->fleet);
    if (!s->was_up && agent_end_is_up(&s->fleet, 0) && is_running(s))
        s->resumes++;
    s->was_up = agent_end_is_up(&s->fleet, 0);
    if (is_running(s) && dice_chance(&s->fleet.dice, 20))
        print_next(s, FIRST + (unsigned)dice_roll(&s->fleet.dice, LAST - FIRST + 1));
    sim_turn(&s->sim);
    if (s->fleet.now > now)
        sim_pass(&s->sim, s->fleet.now - now);
}

/* Every line once, and in order. */
static bool has_lines(const struct scene *s, unsigned worker)
{
    const char *at = s->world.log.p;
    char line[32];

    for (unsigned k = 0; at && k < LINES; k++) {
        snprintf(line, sizeof line, "<%u:%u>", worker, k);
        if ((at = strstr(at, line)) && strstr(at + 1, line))
            return false;
    }
    return at;
}

static void open_scene(struct scene *s, uint64_t seed)
{
    const struct rounds r = { .seed = seed };
    unsigned trouble;

    home_open(&s->world, &s->clock);
    sim_open(&s->sim, &s->world, &s->clock, 1);
    fleet_begin(&s->fleet, &r, seed);
    trouble = s->fleet.trouble;
    /* with a longer way, which breaks over and over, it would not be back in time */
    s->fleet.path[0].delay_ns %= NS_PER_S / 4;
    s->fleet.path[0].jitter_ns %= NS_PER_S / 4;
    s->fleet.carried = carried;
    s->fleet.carried_arg = s->sim.carry_arg = s;
    /* an agent whose first connection leads nowhere is not waited for */
    s->fleet.trouble = 0;
    while (!agent_end_is_up(&s->fleet, 0))
        fleet_step(&s->fleet);
    s->fleet.trouble = trouble;
    s->sim.carry = carry;
    run(&s->world, "%%distribute -n 2 --on ssh:h1\nprint(1)");
    all_up(&s->world, 1);
}

static bool is_good(const struct scene *s)
{
    return !s->fleet.broken && !s->world.nb->cells && has_lines(s, FIRST) && has_lines(s, LAST) &&
           strstr(s->world.log.p, "\"status\":\"ok\"");
}

static bool survives(uint64_t seed, uint64_t *resumes, char why[static 400])
{
    static struct scene s;
    bool good;

    s = (struct scene){ .printed = { 0 } };
    open_scene(&s, seed);
    for (unsigned k = 0; k < STEPS && !s.fleet.broken && s.world.nb->cells; k++)
        step(&s);
    good = is_good(&s);
    *resumes += s.resumes;
    if (!good)
        snprintf(why, 400, "(seed %llu): %s", (unsigned long long)seed,
                 s.fleet.broken ? s.fleet.why : "the cell is not over, or lines are missing");
    fleet_release(&s.fleet);
    good = sim_close(&s.sim) && good;
    world_close(&s.world);
    return good;
}

bool cells_survive(uint64_t n, char why[static 400])
{
    uint64_t resumes = 0;

    for (uint64_t seed = 1; seed <= n; seed++)
        if (!survives(seed, &resumes, why))
            return false;
    snprintf(why, 400, "(%llu times in %llu cells)", (unsigned long long)resumes,
             (unsigned long long)n);
    return resumes > n;
}
