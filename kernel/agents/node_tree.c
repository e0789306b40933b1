/* SPDX-License-Identifier: BSD-3-Clause */
/* Level 0 has TREE_FAN nodes. Each following level has TREE_FAN times as many as the one above.
 * Node p of a level is a child of node (p mod size of the level above). */
#include "kernel/agents/to_agents.h"

struct level {
    unsigned start, size; /* of the level */
    unsigned above;       /* the size of that above it; 0: there is none */
};

static struct level level_of(unsigned index)
{
    struct level l = { 0, TREE_FAN, 0 };

    while (index - l.start >= l.size) {
        l.start += l.size;
        l.above = l.size;
        l.size *= TREE_FAN;
    }
    return l;
}

unsigned tree_parent(unsigned index)
{
    const struct level l = level_of(index);

    return l.above ? l.start - l.above + (index - l.start) % l.above : TREE_NONE;
}

unsigned tree_child(unsigned index, unsigned k)
{
    const struct level l = level_of(index);

    return k < TREE_FAN ? l.start + l.size + (index - l.start) + k * l.size : TREE_NONE;
}
