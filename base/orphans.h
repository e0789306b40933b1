/* orphans.h - lists and kills our child processes, including orphans that we have adopted. */
#ifndef BASE_ORPHANS_H
#define BASE_ORPHANS_H

#include <sys/types.h>

/* The parent of a process; 0: there is no such process; -1: this system does not tell. */
pid_t orphans_parent(pid_t pid);
/* Sends SIGKILL to each of our children, and to the group it leads, except `spare` (0: none). */
void orphans_kill(pid_t spare);
/* The same, with n children to spare. */
void orphans_kill_but(const pid_t *spare, size_t n);

#endif
