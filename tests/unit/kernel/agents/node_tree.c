/* SPDX-License-Identifier: BSD-3-Clause */
/* The parents in a tree of nodes. */
#include "kernel/agents/to_agents.h"

#include "tests/unit/tap.h"

static void trees_are_balanced(void)
{
    static unsigned children[40000];
    unsigned most = 0, wrong = 0;

    for (unsigned i = 0; i < 40000; i++) {
        const unsigned parent = tree_parent(i);

        if (i < TREE_FAN) {
            wrong += parent != TREE_NONE;
            continue;
        }
        wrong += parent >= i || tree_child(parent, children[parent]) != i;
        if (++children[parent] > most)
            most = children[parent];
    }
    is_int(
        wrong, 0,
        "the first 32 have none, every other one has a parent of lower index, who counts it in order");
    is_int(most, TREE_FAN, "nobody has more than 32 children");
    is_int(children[0], TREE_FAN, "node 0 has 32 in a large run");
    is_int(tree_parent(33), 1, "33 is below 1");
    is_int(tree_parent(32 + 1024), 32, "the third level begins below the second");
    is_int(tree_child(5, TREE_FAN), TREE_NONE, "there is no 33rd child");
}

int main(void)
{
    trees_are_balanced();
    return plan_done();
}
