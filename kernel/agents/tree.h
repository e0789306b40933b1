/* tree.h - who is whose parent among the nodes of a run: the first TREE_FAN have a connection to
 * the kernel, and nobody has more than TREE_FAN children. Each level is filled evenly before the
 * next one. Pure. */
#ifndef KERNEL_AGENTS_TREE_H
#define KERNEL_AGENTS_TREE_H

#define TREE_FAN  32u
#define TREE_NONE 0xffffffffu

/* The parent of the node with that index in its run; TREE_NONE: the kernel. */
unsigned tree_parent(unsigned index);
/* Its k-th child, from 0, whether or not the run is so large; TREE_NONE: it never has so many. */
unsigned tree_child(unsigned index, unsigned k);

#endif
