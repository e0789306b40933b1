/* tree.h - the tree of an engine's nodes. The first TREE_FAN have a connection to the kernel, and
 * each node has at most TREE_FAN children. Each level is filled evenly before the next one. Pure.
 */
#ifndef KERNEL_AGENTS_TREE_H
#define KERNEL_AGENTS_TREE_H

#define TREE_FAN  32u
#define TREE_NONE 0xffffffffu

/* The parent of the node with that index among its engine's nodes; TREE_NONE: the kernel. */
unsigned tree_parent(unsigned index);
/* Its k-th child, from 0; there may be fewer nodes than that. TREE_NONE: no node has so many. */
unsigned tree_child(unsigned index, unsigned k);

#endif
