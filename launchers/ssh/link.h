/* link.h - one host: runs ssh as a child process, which logs in there, starts the agent, and keeps
 * its stdin open. */
#ifndef LAUNCHERS_SSH_LINK_H
#define LAUNCHERS_SSH_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop/loop.h"
#include "base/child_lines.h"
#include "base/tail.h"
#include "launchers/ssh/cause.h"
#include "launchers/ssh/hosts.h"
#include "launchers/words.h"

struct link;

/* Settings that all links share and borrow. */
struct link_plan {
    struct loop *loop;
    const struct words *ssh; /* the command, followed by our options */
    struct slice line;       /* from script_line() */
    const char *secret;      /* NULL: there is none */
    const char *program;     /* the agent's name */
    const char *prefix;      /* CELLSPAN_REMOTE_PREFIX; NULL: not set */
    uint64_t patience_ns;    /* limit from ssh's start to the remote shell's "ready" */
    /* called when a link is up or over, so that another may connect; maybe several times */
    void (*settled)(void *arg);
    /* finds another link to the same machine that is not over; or NULL */
    struct link *(*twin)(void *arg, const struct link *l);
    void *arg;
};

enum link_state {
    LINK_WAITING,    /* ssh is not started yet */
    LINK_CONNECTING, /* ssh runs */
    LINK_UP,         /* the remote shell runs and was sent its line */
    LINK_OVER,       /* ssh has ended and won't be started again */
};

struct link {
    const struct link_plan *plan;
    const struct ssh_host *host;
    unsigned agent; /* its number */
    enum link_state state;
    bool failed; /* it ended although it was not told to */
    bool told;   /* it was told to end */
    bool late;   /* we killed it because no shell answered in time */
    bool missing;
    unsigned tries;
    pid_t pid; /* of ssh; 0: none */
    int in, out, errs;
    char *found, *version; /* see cause.h */
    char *machine;         /* what identifies the machine; NULL: not known */
    char *heard;           /* the last line of stdout before the shell started */
    struct buf send;       /* bytes to write to stdin */
    struct child_lines out_lines, err_lines;
    struct tail errors; /* the end of stderr */
    struct watch *out_watch, *err_watch, *in_watch, *timer;
};

void link_init(struct link *l, const struct link_plan *plan, const struct ssh_host *host,
               unsigned agent);
void link_release(struct link *l);
/* Starts ssh. A failure is reported to the kernel, and then the link is over. */
void link_start(struct link *l);
/* Ends the agent by closing its stdin. If ssh is not started yet, the link is over at once; if it
 * is connecting, it gets SIGTERM. */
void link_end(struct link *l);
/* Signals ssh's process group, if it runs. */
void link_kill(struct link *l, int signo);
/* Call it when ssh has ended: reports it, or starts ssh again if that may help. */
void link_ended(struct link *l, int status);

#endif
