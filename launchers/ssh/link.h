/* link.h - one host: the ssh child that logs in there, starts the agent, and holds its stdin
 * open. */
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

/* What all links share; borrowed by each. */
struct link_plan {
    struct loop *loop;
    const struct words *ssh; /* the command, with our options behind it */
    struct slice line;       /* script_line's */
    const char *secret;      /* NULL: there is none */
    const char *program;     /* the agent's own name */
    const char *prefix;      /* CELLSPAN_REMOTE_PREFIX; NULL: not set */
    uint64_t patience_ns;    /* from ssh's start to its shell's first word */
    /* a link is up, or over: another may connect. May be followed by more calls */
    void (*settled)(void *arg);
    /* another link to the same machine, which is not over; or NULL */
    struct link *(*twin)(void *arg, const struct link *l);
    void *arg;
};

enum link_state {
    LINK_WAITING,    /* its turn has not come */
    LINK_CONNECTING, /* ssh runs */
    LINK_UP,         /* the shell is there, its line is sent */
    LINK_OVER,       /* ssh has ended, and won't be started again */
};

struct link {
    const struct link_plan *plan;
    const struct ssh_host *host;
    unsigned agent; /* its number */
    enum link_state state;
    bool failed; /* it ended against its will */
    bool told;   /* to end */
    bool late;   /* we killed it, for no shell answered in time */
    bool missing;
    unsigned tries;
    pid_t pid; /* of ssh; 0: none */
    int in, out, errs;
    char *found, *version; /* see cause.h */
    char *machine;         /* what tells it from all others; NULL: not known */
    char *heard;           /* the last line of stdout before the shell was there */
    struct buf send;       /* what stdin is still to get */
    struct child_lines out_lines, err_lines;
    struct tail errors; /* the end of stderr */
    struct watch *out_watch, *err_watch, *in_watch, *timer;
};

void link_init(struct link *l, const struct link_plan *plan, const struct ssh_host *host,
               unsigned agent);
void link_release(struct link *l);
/* Starts ssh. What fails is told to the kernel, and leaves the link over. */
void link_start(struct link *l);
/* Ends the agent's stdin; one that waits is over at once, and one that connects is told to end. */
void link_end(struct link *l);
/* Signals ssh and what it started, if it runs. */
void link_kill(struct link *l, int signo);
/* ssh has ended: reports, or tries again, when that may help. */
void link_ended(struct link *l, int status);

#endif
