/* hosts.h - SPEC of the engine ssh: host1,host2*4,user@host3,gpu[1-3,07-09]. */
#ifndef LAUNCHERS_SSH_HOSTS_H
#define LAUNCHERS_SSH_HOSTS_H

#include <stddef.h>

#include "base/err.h"

struct ssh_host {
    char *destination; /* owned: what ssh is given, user@host3 */
    const char *name;  /* the host alone, within destination */
    unsigned slots;    /* how many ranks it takes; 0: the spec doesn't say */
};

struct ssh_hosts {
    struct ssh_host *v; /* owned */
    size_t n;
};

#define SSH_HOSTS_INIT { NULL, 0 }

void ssh_hosts_release(struct ssh_hosts *hosts);
/* Reads a whole spec into empty *hosts. The err names the word that is wrong. */
MUST_USE int ssh_hosts_parse(struct ssh_hosts *hosts, const char *spec, struct err *err);
/* Refuses more ranks than the hosts take, where each of them says how many. */
MUST_USE int ssh_hosts_check(const struct ssh_hosts *hosts, unsigned ranks, struct err *err);

#endif
