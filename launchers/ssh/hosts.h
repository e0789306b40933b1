/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.h - parses the SPEC of the engine ssh: host1,host2*4,user@host3,gpu[1-3,07-09]. */
#ifndef LAUNCHERS_SSH_HOSTS_H
#define LAUNCHERS_SSH_HOSTS_H

#include <stddef.h>

#include "base/err.h"

struct ssh_host {
    char *destination; /* owned: ssh's argument, user@host3 */
    const char *name;  /* only the host; points into destination */
    unsigned slots;    /* how many ranks it takes; 0: not given */
};

struct ssh_hosts {
    struct ssh_host *v; /* owned */
    size_t n;
};

#define SSH_HOSTS_INIT { NULL, 0 }

unsigned ssh_host_ranks(const struct ssh_host *host); /* how many it takes, at least 1 */
void ssh_hosts_release(struct ssh_hosts *hosts);
/* Parses a spec into *hosts, which must be empty. *err names the wrong word. */
MUST_USE int ssh_hosts_parse(struct ssh_hosts *hosts, const char *spec, struct err *err);
/* If all hosts have slots: refuses more ranks than there are slots. */
MUST_USE int ssh_hosts_check(const struct ssh_hosts *hosts, unsigned ranks, struct err *err);

#endif
