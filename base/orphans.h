/* orphans.h - our children, as the system lists them: also those that came to us when their parents
 * ended. */
#ifndef BASE_ORPHANS_H
#define BASE_ORPHANS_H

#include <sys/types.h>

/* The parent of a process; 0: there is no such process; -1: this system doesn't tell. */
pid_t orphans_parent(pid_t pid);
/* SIGKILL to every child of ours but `spare` (0: none), with its process group if it leads one. */
void orphans_kill(pid_t spare);
/* The same, but for all of n. */
void orphans_kill_but(const pid_t *spare, size_t n);

#endif
