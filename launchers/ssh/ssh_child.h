/* SPDX-License-Identifier: BSD-3-Clause */
/* ssh_child.h - one host: runs ssh as a child process, which logs in there, starts the agent, and
 * keeps its stdin open. */
#ifndef LAUNCHERS_SSH_SSH_CHILD_H
#define LAUNCHERS_SSH_SSH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "base/child_lines.h"
#include "launchers/container.h"
#include "launchers/ssh/cause.h"
#include "launchers/ssh/hosts.h"
#include "launchers/launcher.h"
#include "launchers/login_limit.h"

struct ssh_child;
struct relogin_child;
struct relay_child;

/* Settings that all children share and borrow. */
struct ssh_plan {
    struct loop *loop;
    const struct words *ssh; /* the command, followed by our options */
    const char *secret;      /* NULL: there is none */
    const char *program;     /* the agent's name */
    struct payload *payload; /* what is sent to a host that lacks cellspan */
    const char *prefix;      /* CELLSPAN_REMOTE_PREFIX; NULL: not set */
    const char *image;       /* agents run in containers of it; NULL: in none */
    bool outlasts;           /* agents outlast their ssh: see docs/launchers.md, --stdin end */
    uint64_t limit_ns;       /* limit from ssh's start to the remote shell's "ready" */
    /* the line of script_line(), when the first host wants it */
    struct slice (*line)(void *arg);
    struct login_limit *login_limit; /* how many go on at once */
    /* called when a child is over; maybe several times */
    void (*settled)(void *arg);
    /* called when a child's ssh has broken, and before the kernel is told */
    void (*broken)(void *arg);
    /* finds another child to the same machine that is not over; or NULL. *ranks: those of all names
     * of the machine, as far as they are known */
    struct ssh_child *(*twin)(void *arg, const struct ssh_child *c, unsigned *ranks);
    void *arg;
};

enum ssh_child_state {
    SSH_WAITING,    /* ssh is not started yet */
    SSH_CONNECTING, /* ssh runs */
    SSH_UP,         /* the remote shell runs and was sent its line */
    SSH_BROKEN,     /* ssh has broken, and another one asks for the agent */
    SSH_OVER,       /* ssh has ended and won't be started again */
};

struct ssh_child {
    const struct ssh_plan *plan;
    const struct ssh_host *host;
    unsigned agent; /* its number */
    enum ssh_child_state state;
    bool failed;       /* it ended although it was not told to */
    bool asked_to_end; /* it was told to end */
    bool late;         /* we killed it because no shell answered in time */
    bool missing;
    unsigned tries;
    struct login login;
    pid_t pid; /* of ssh; 0: none */
    int in, out, errs;
    char *found, *version, *unsent; /* see cause.h */
    char *machine;                  /* what identifies the machine; NULL: not known */
    struct container_state container;
    char *heard;        /* the last line of stdout before the shell started */
    struct buf send;    /* bytes to write to stdin */
    struct slice after; /* what comes after those; borrowed from the payload */
    bool sent;          /* cellspan was sent there */
    struct child_lines out_lines, err_lines;
    struct tail errors; /* the end of stderr */
    struct watch *out_watch, *err_watch, *in_watch, *timer;
    struct relay_child *relay;     /* the agent's way to the kernel; NULL: it needs none */
    char *folder;                  /* the agent's; NULL: not known */
    char *boot;                    /* the machine's boot id when it broke; NULL: not known */
    char *broke;                   /* how it did */
    struct relogin_child *relogin; /* NULL: it did not */
};

void ssh_child_init(struct ssh_child *c, const struct ssh_plan *plan, const struct ssh_host *host,
                    unsigned agent);
void ssh_child_release(struct ssh_child *c);
/* Starts ssh when plan->login_limit lets it. A failure is reported to the kernel, and then the
 * child is over. */
void ssh_child_start(struct ssh_child *c);
/* Ends the agent by its stdin. If ssh is not started yet, the child is over at once; if it
 * is connecting, it gets SIGTERM. */
void ssh_child_end(struct ssh_child *c);
void ssh_child_kill(struct ssh_child *c, int signo); /* Signals ssh's process group, if it runs. */
/* A process has ended: perhaps that of the child's relay, or of its relogin child. */
void ssh_child_other_ended(struct ssh_child *c, pid_t pid, int status);
/* Call it when ssh has ended: reports it, or starts ssh again if that may help. */
void ssh_child_ended(struct ssh_child *c, int status);

#endif
