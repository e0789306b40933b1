/* meter.h - does anything come on a tcp connection? Whole messages or not: a large one over a slow
 * link is no silence. Also what comes once more because an acknowledgement was lost counts: the
 * other side is there. */
#ifndef BASE_METER_H
#define BASE_METER_H

#include <stdbool.h>
#include <stdint.h>

struct meter {
    int fd;            /* borrowed, from whoever may close it at any time; -1: none */
    uint64_t inode;    /* of the connection: another one may get its number */
    uint32_t segments; /* with data, that had come on it when it was looked at last; wraps */
};

#define METER_INIT { -1, 0, 0 }

/* Of this one from now on; the same again changes nothing. -1: of none. So that a bad link is not
 * silent where it need not be, what is lost again and again is not sent after twice as long each
 * time: while little is on the way, at one pace for a while (Linux: TCP_THIN_LINEAR_TIMEOUTS, in
 * its networking/tcp-thin documentation), and after 3 s at most (Linux 6.15 and later:
 * TCP_RTO_MAX_MS). The system gives the connection up as late as before (TCP_USER_TIMEOUT of
 * tcp(7)). */
void meter_watch(struct meter *m, int fd);
/* Has data come since the last call, or since it is watched? It need not have been read. false also
 * where the system does not say (Linux does, in TCP_INFO of tcp(7)). */
bool meter_moved(struct meter *m);

#endif
