/* cut.h - shuts this process' connections by inode, so that a collective that waits on them returns
 * with an error. */
#ifndef WORKER_EXT_CUT_H
#define WORKER_EXT_CUT_H

#include "base/slice.h"

/* inodes: little-endian u64s. Descriptors whose "socket:[inode]" is among them are shut down both
 * ways, not closed: their owners close them. Returns how many were. */
unsigned cut_sockets(struct slice inodes);

#endif
