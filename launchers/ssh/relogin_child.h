/* SPDX-License-Identifier: BSD-3-Clause */
/* relogin_child.h - the way to an agent whose ssh has broken: logs in anew, as often as needed,
 * and runs `cellspan-agent --presence FOLDER` there, which says whether the agent is there, when it
 * is not any more, and whether it wants a relay. */
#ifndef LAUNCHERS_SSH_RELOGIN_CHILD_H
#define LAUNCHERS_SSH_RELOGIN_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "launchers/launcher.h"
#include "launchers/login_limit.h"

struct relogin_child;

struct relogin_child_spec {
    struct loop *loop;
    struct login_limit *login_limit; /* borrowed; NULL: it need not wait for others */
    const char *host;                /* for what the user reads; borrowed */
    const char *boot;                /* the machine's boot id was that; NULL: not known; borrowed */
    uint64_t limit_ns;               /* from the start of ssh until it says something */
    struct words *argv;              /* the whole command; taken, and left empty */
    /* The agent is gone; restarted: with its machine. */
    void (*gone)(void *arg, bool restarted);
    /* The agent wants a relay, and says what RELAY_WANTED does; NULL: it wants none. Also if that
     * is not new. */
    void (*wanted)(void *arg, const char *said);
    void (*over)(void *arg); /* its process has ended after relogin_child_end() */
    void *arg;
};

/* Appends the command for the host's shell, of whatever kind: it runs program, the agent's, which
 * looks into the agent's folder. If the program can't be run, because its own folder went with the
 * agent or is away at the moment, a shell looks for the agent's process. */
MUST_USE int relogin_child_command(struct buf *line, const char *program, const char *folder);
/* NULL: *err says why. */
struct relogin_child *relogin_child_start(const struct relogin_child_spec *spec, struct err *err);
/* Tells the agent to end, as far as there is a way to it. False: nothing is to be waited for. A
 * login that goes on may last; the caller ends it by relogin_child_kill(). */
bool relogin_child_end(struct relogin_child *l);
void relogin_child_kill(struct relogin_child *l, int signo); /* NULL is fine */
/* Ends its process, for which the caller still has to wait. NULL is fine. */
void relogin_child_stop(struct relogin_child *l);
/* A process has ended. true: it was this one. NULL is fine. */
bool relogin_child_ended(struct relogin_child *l, pid_t pid, int status);

#endif
