/* cut.h - shuts down connections of this process by their inodes, so that a collective that waits
 * on them returns with an error. */
#ifndef WORKER_EXT_CUT_H
#define WORKER_EXT_CUT_H

#include "base/slice.h"

/* inodes: little-endian u64s. Shuts down descriptors whose "socket:[inode]" is among them in both
 * directions, but does not close them: their owners do. Returns how many. */
unsigned cut_sockets(struct slice inodes);

#endif
