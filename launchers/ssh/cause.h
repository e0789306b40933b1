/* SPDX-License-Identifier: BSD-3-Clause */
/* cause.h - writes why a host has no agent, from ssh's messages and its exit status. */
#ifndef LAUNCHERS_SSH_CAUSE_H
#define LAUNCHERS_SSH_CAUSE_H

#include <stdbool.h>

#include "launchers/container.h"

enum cause_stage {
    CAUSE_CONNECTING, /* the remote shell has not started yet */
    CAUSE_SEARCHING,  /* the shell runs, and the agent is not found yet */
    CAUSE_RUNNING,    /* the agent was started */
};

struct cause {
    const char *host;
    const char *login;   /* ssh's argument, USER@HOST; NULL: the same as host */
    const char *program; /* the agent's name */
    const char *prefix;  /* CELLSPAN_REMOTE_PREFIX; NULL: not set */
    const char *found;   /* the agent's path there; NULL: unknown */
    const char *version; /* the agent's --version; NULL: unknown */
    const char *unsent;  /* why cellspan could not be sent there; NULL: nobody tried */
    const struct container_state *container; /* NULL: there is to be none */
    const char *said;  /* last lines of stderr, separated by '\n'; "" if there were none */
    const char *heard; /* last line of stdout before the shell started; NULL: none */
    enum cause_stage stage;
    bool missing; /* the script reported that there is no agent */
    int status;   /* ssh's, from wait() */
};

#define SSH_FAILED      255 /* exit status of ssh if the login fails, or the connection */
#define CAUSE_TEXT_SIZE 1024

/* Writes one line into text; it is never empty. */
void cause_text(const struct cause *c, char text[static CAUSE_TEXT_SIZE]);
/* May another try succeed a moment later? For example, a server or a jump host may limit the number
 * of logins at a time. */
bool cause_is_passing(const struct cause *c);

#endif
