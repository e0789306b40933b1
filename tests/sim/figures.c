/* SPDX-License-Identifier: BSD-3-Clause */
/* figures.c - measurements: the launch, empty cells, lines, the return of agents whose connections
 * have ended, and the resources that the kernel used for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/scenes.h"
#include "tests/sim/usage.h"

#define LIMIT_S 120u
#define LINES   100u
#define FOLDS   3u

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *v, unsigned n, double q)
{
    qsort(v, n, sizeof *v, by_size);
    return v[(unsigned)(q * (n - 1) + 0.5)];
}

static bool cell(struct driver *d, const char *code, struct outcome *o)
{
    driver_cell(d, code, 0, LIMIT_S, o);
    if (o->answered && o->ok)
        return true;
    fprintf(stderr, "cellspan-sim: %s: %s %s\n", code, o->answered ? o->ename : "no answer",
            o->evalue);
    return false;
}

static bool launch(struct driver *d, unsigned agents)
{
    char code[128];
    struct outcome o;
    bool good;

    snprintf(code, sizeof code, "%%%%distribute -n %u --on sim:%u\npass\n", agents * SCENE_RANKS,
             agents);
    good = cell(d, code, &o);
    printf("  \"agents\": %u, \"ranks\": %u, \"launch_s\": %.3f, \"launch_cpu_s\": %.3f", agents,
           agents * SCENE_RANKS, o.seconds, o.cpu);
    outcome_release(&o);
    return good;
}

/* Cells that do nothing: out to all ranks, and back. */
static bool warm(struct driver *d, unsigned repeat)
{
    double *wall = calloc(repeat, sizeof *wall), *cpu = calloc(repeat, sizeof *cpu);
    bool good = wall && cpu;
    struct outcome o;

    for (unsigned k = 0; good && k < repeat; k++) {
        good = cell(d, "%%distribute\npass\n", &o);
        wall[k] = o.seconds * 1000;
        cpu[k] = o.cpu * 1000;
        outcome_release(&o);
    }
    if (good) {
        const double p50 = quantile(wall, repeat, 0.5), p95 = quantile(wall, repeat, 0.95);

        printf(",\n  \"p50_ms\": %.3f, \"p95_ms\": %.3f, \"cpu_ms\": %.3f", p50, p95,
               quantile(cpu, repeat, 0.5));
    }
    free(wall);
    free(cpu);
    return good;
}

/* Every rank prints LINES equal lines, `part` in a message. */
static bool fold(struct driver *d, unsigned agents, unsigned part)
{
    const double lines = (double)agents * SCENE_RANKS * LINES;
    double wall[FOLDS], cpu[FOLDS];
    char code[128];
    struct outcome o;
    bool good = true;

    snprintf(code, sizeof code, "%%%%distribute\nprint %u %u step done, loss 0.125\n", LINES, part);
    for (unsigned k = 0; good && k < FOLDS; k++) {
        good = cell(d, code, &o);
        wall[k] = o.seconds;
        cpu[k] = o.cpu * 1e6 / lines;
        outcome_release(&o);
    }
    if (good)
        printf(",\n  \"fold%u_s\": %.3f, \"fold%u_us_a_line\": %.4f", part,
               quantile(wall, FOLDS, 0.5), part, quantile(cpu, FOLDS, 0.5));
    return good;
}

/* All connections end at once, and the next cell needs every agent back. */
static bool resume(struct driver *d)
{
    double wall[FOLDS];
    struct outcome o;
    bool good = true;

    for (unsigned k = 0; good && k < FOLDS; k++) {
        driver_cut(d);
        good = cell(d, "%%distribute\npass\n", &o);
        wall[k] = o.seconds;
        outcome_release(&o);
    }
    if (good)
        printf(",\n  \"resume_s\": %.3f", quantile(wall, FOLDS, 0.5));
    return good;
}

/* The network is out for longer than agents take to notice, so they dial beside sockets that wait.
 * The kernel and its client talk by unix sockets. */
static bool outage(struct driver *d, unsigned seconds)
{
    double wall[FOLDS];
    struct outcome o;
    bool good = true;

    for (unsigned k = 0; good && k < FOLDS; k++) {
        if (system("iptables -w -I INPUT -i lo -p tcp -j DROP") != 0)
            return false;
        (void)sleep(seconds);
        if (system("iptables -w -D INPUT 1") != 0)
            return false;
        good = cell(d, "%%distribute\npass\n", &o);
        wall[k] = o.seconds;
        outcome_release(&o);
    }
    if (good)
        printf(",\n  \"outage_s\": %.3f", quantile(wall, FOLDS, 0.5));
    return good;
}

int figures_run(const struct driver_to *to, unsigned agents, unsigned repeat, unsigned outage_s)
{
    struct err err = { "" };
    struct driver *d = driver_start(to, &err);
    unsigned left;
    bool good;

    if (!d) {
        fprintf(stderr, "cellspan-sim: %s\n", err.text);
        return 1;
    }
    printf("{\n");
    good = launch(d, agents) && warm(d, repeat) && fold(d, agents, LINES) && fold(d, agents, 10) &&
           resume(d) && (!outage_s || outage(d, outage_s));
    printf(",\n  \"rss_mib\": %.1f, \"peak_mib\": %.1f\n}\n", usage_mib(driver_kernel(d), "VmRSS"),
           usage_mib(driver_kernel(d), "VmHWM"));
    left = driver_stop(d);
    if (left)
        fprintf(stderr, "cellspan-sim: %u processes are left\n", left);
    return good && left == 0 ? 0 : 1;
}
