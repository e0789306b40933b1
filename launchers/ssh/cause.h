/* cause.h - why a host has no agent, in words: from what ssh said and how it ended. */
#ifndef LAUNCHERS_SSH_CAUSE_H
#define LAUNCHERS_SSH_CAUSE_H

#include <stdbool.h>

#include "base/buf.h"

enum cause_stage {
    CAUSE_CONNECTING, /* ssh has not said that the shell is there */
    CAUSE_SEARCHING,  /* the shell is there, the agent not yet */
    CAUSE_RUNNING,    /* the agent ran */
};

struct cause {
    const char *host;
    const char *login;   /* as ssh is given it: USER@HOST; NULL: as host */
    const char *program; /* the agent's own name */
    const char *prefix;  /* CELLSPAN_REMOTE_PREFIX; NULL: not set */
    const char *found;   /* its path there; NULL: unknown */
    const char *version; /* what it says of itself; NULL: unknown */
    const char *said;    /* last lines of stderr, '\n' between them; "" when there were none */
    const char *heard;   /* last line of stdout before the shell was there; NULL: none */
    enum cause_stage stage;
    bool missing; /* the script said that there is no agent */
    int status;   /* as wait() gives it */
};

#define CAUSE_TEXT_SIZE 1024

/* Writes one line into text, never empty. */
void cause_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE]);
/* Whether the same may succeed a moment later: a server, or a jump host, that takes only so many
 * logins at once. */
bool cause_is_passing(const struct cause *c);

#endif
