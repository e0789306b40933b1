/* SPDX-License-Identifier: BSD-3-Clause */
/* Small look-ups: the time, new numbers, a rank by its worker, a node's name and whether it
 * takes more, a flag of a request,
 * the parts of a PUBLISH, the cells that have run. */
#include "kernel/notebook/notebook.h"

#include <stdio.h>
#include <string.h>

#include "base/rows.h"

uint64_t notebook_now(const struct notebook *nb)
{
    return clock_now(nb->ops.clock);
}

void notebook_init_numbers(struct notebook *nb)
{
    nb->next = (struct next_numbers){ .cell = 1, .blob = 1, .worker = SPAN_WORKER_HOME + 1 };
}

uint64_t notebook_next_cell(struct notebook *nb)
{
    return nb->next.cell++;
}

uint32_t notebook_next_worker(struct notebook *nb)
{
    return nb->next.worker++;
}

uint64_t notebook_next_blobs(struct notebook *nb, unsigned n)
{
    nb->next.blob += n;
    return nb->next.blob - n;
}

const struct group *notebook_shown(const struct notebook *nb)
{
    return nb->script_group && nb->script_group->size ? nb->script_group : nb->group;
}

struct rank *notebook_rank(const struct notebook *nb, uint32_t worker, struct group **g)
{
    struct rank *r = group_worker(nb->group, worker);
    const bool its = !r && nb->script_group && (r = group_worker(nb->script_group, worker));

    if (g)
        *g = its ? nb->script_group : nb->group;
    return r;
}

unsigned notebook_node_of(const struct notebook *nb, uint32_t worker)
{
    const struct rank *r = worker == SPAN_WORKER_HOME ? NULL : notebook_rank(nb, worker, NULL);

    return r ? r->node : NODE_HERE;
}

const char *notebook_node_name(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    return info && info->name[0] ? info->name
           : node == NODE_HERE   ? "this machine"
                                 : "a node without a name";
}

const struct node *notebook_full_node(const struct notebook *nb, unsigned node)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);

    return info && info->state == NODE_UP && info->full ? info : NULL;
}

struct subshell *notebook_subshell(const struct notebook *nb, const struct request *r)
{
    const char *id = nb->home.subshells.first ? request_subshell(r) : NULL;
    struct subshell *s = NULL;

    if (id && (nb->home.subshells.comms || strncmp(request_type(r), "comm_", 5) != 0))
        for (s = nb->home.subshells.first; s && (s->deleted || strcmp(s->id, id) != 0);)
            s = s->next;
    return s;
}

bool request_flag(const struct request *r, const char *name, bool normally)
{
    const json_t *value = json_object_get(request_content(r), name);

    return json_is_boolean(value) ? json_is_true(value) : normally;
}

bool request_is_of_python(const struct request *r)
{
    return strchr(request_id(r), '_');
}

bool published_read(struct published *p, const struct span *m)
{
    const struct slice type = m->v[F_PUBLISH_TYPE].s;

    p->content = (struct content){ .content = m->v[F_PUBLISH_CONTENT].s,
                                   .metadata = m->v[F_PUBLISH_METADATA].s,
                                   .buffers = m->v[F_PUBLISH_BUFFERS].list.item,
                                   .n = m->v[F_PUBLISH_BUFFERS].list.n };
    p->size = p->content.content.n + p->content.metadata.n;
    for (size_t k = 0; k < p->content.n; k++)
        p->size += p->content.buffers[k].n;
    if (type.n >= sizeof p->type)
        return false;
    snprintf(p->type, sizeof p->type, "%.*s", SLICE_ARG(type));
    return true;
}

#define RAN_MAX 4096u /* entries; at this number the older half is forgotten */

void notebook_note_ran(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks)
{
    struct ran *row;

    if (nb->ran.n == RAN_MAX) {
        nb->ran.n /= 2;
        memmove(nb->ran.of, nb->ran.of + nb->ran.n, nb->ran.n * sizeof *nb->ran.of);
    }
    if ((row = rows_add(&nb->ran.of, &nb->ran.n, &nb->ran.room, sizeof *row)))
        *row = (struct ran){ .id = id, .count = count, .ranks = ranks };
}
