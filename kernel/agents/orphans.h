/* orphans.h - processes that users' code left behind come to the kernel, their subreaper, when their agent is gone. */
#ifndef KERNEL_AGENTS_ORPHANS_H
#define KERNEL_AGENTS_ORPHANS_H

/* SIGKILL to every child of this process but `spare` (0: none), and to its process group. Returns how many. Where
 * /proc does not tell, nobody is found. */
int orphans_kill(long spare);

#endif
