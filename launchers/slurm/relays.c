/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/relays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mux/forward.h"
#include "launchers/relay_child.h"
#include "launchers/slurm/step.h"

struct relay_place {
    char *agent; /* owned; NULL: not known */
    struct relay_child *child;
};

/* NULL: memory is out. */
static struct relay_place *place_of(struct relays *r, unsigned task)
{
    struct relay_place *more;

    if (task < r->n)
        return &r->place[task];
    if (!(more = realloc(r->place, (task + 1) * sizeof *more)))
        return NULL;
    memset(more + r->n, 0, (task + 1 - r->n) * sizeof *more);
    r->place = more;
    r->n = task + 1;
    return &r->place[task];
}

void relays_found(struct relays *r, unsigned task, const char *agent)
{
    struct relay_place *p = place_of(r, task);

    if (p)
        text_replace(&p->agent, agent);
}

/* said: the agent's folder, and after a tab why it wants a relay. */
static int start(struct relay_place *p, struct loop *loop, unsigned long job, const char *node,
                 const char *said, struct err *err)
{
    struct words argv = WORDS_INIT;
    struct relay_child_spec spec = { .loop = loop, .host = node, .way = "srun", .argv = &argv };
    char *folder = strndup(said, strcspn(said, "\t"));

    if (!folder || step_relay(&argv, job, node, p->agent, folder) < 0)
        (void)err_set(err, "out of memory");
    else {
        spec.why = said + strlen(folder) + (said[strlen(folder)] == '\t');
        p->child = relay_child_start(&spec, err);
    }
    words_release(&argv);
    free(folder);
    return p->child ? 0 : -1;
}

bool relays_line(struct relays *r, struct loop *loop, unsigned long job, unsigned task,
                 const char *node, const char *line)
{
    const bool wanted = text_begins(line, RELAY_WANTED);
    struct relay_place *p = task < r->n ? &r->place[task] : NULL;
    struct err err = { "" };

    if (!wanted && strcmp(line, RELAY_UNWANTED) != 0)
        return false;
    if (!p || !p->agent || !node)
        return true;
    if (!wanted) {
        relay_child_stop(p->child);
        p->child = NULL;
    } else if (!p->child && start(p, loop, job, node, line + strlen(RELAY_WANTED), &err) < 0)
        fprintf(stderr, "%s: no relay: %s\n", node, err.text);
    return true;
}

void relays_ended(struct relays *r, pid_t pid)
{
    for (unsigned i = 0; i < r->n; i++)
        if (relay_child_ended(r->place[i].child, pid))
            return;
}

void relays_without(struct relays *r, unsigned task)
{
    if (task >= r->n)
        return;
    relay_child_stop(r->place[task].child);
    free(r->place[task].agent); /* so it gets no other one */
    r->place[task] = (struct relay_place){ NULL, NULL };
}

void relays_stop(struct relays *r)
{
    for (unsigned i = 0; i < r->n; i++)
        relays_without(r, i);
    free(r->place);
    *r = (struct relays){ NULL, 0 };
}
