/* SPDX-License-Identifier: BSD-3-Clause */
/* forward.h - forwards connections through a mux, as ssh does. One end listens on a unix socket,
 * and the other end dials for each connection that comes there. Between them are two descriptors,
 * such as the pipes of an ssh. At rest an end with one connection has less than 16 KiB of memory.
 * The program must ignore SIGPIPE. */
#ifndef BASE_MUX_FORWARD_H
#define BASE_MUX_FORWARD_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/loop/loop.h"

/* ---- a relay, docs/launchers.md ---- */
/* The agent asks its launcher for one by a line of stdout; its folder follows, and after a tab
 * why it can't reach the kernel. */
#define RELAY_WANTED   "cellspan-relay: wanted "
#define RELAY_UNWANTED "cellspan-relay: unwanted" /* it has reached the kernel directly */
/* Meanwhile this file in its folder says why, for `cellspan-agent --presence`: a launcher whose
 * connection to the agent has broken does not get its lines. */
#define RELAY_WANTED_FILE "relay-wanted"
/* The line after which `cellspan-agent --relay FOLDER` writes frames. */
#define RELAY_READY  "cellspan-relay: ready"
#define RELAY_SOCKET "relay" /* in the folder */
/* A variable of the agent's environment: its launcher starts relays. */
#define RELAY_OFFER "CELLSPAN_RELAY_OFFERED"

struct forward;

struct forward_spec {
    int in, out; /* from and to the other end; non-blocking; the callee closes them */
    /* The line after which the frames of the other end begin. What comes before it is the text of
     * start files, and is dropped. NULL: nothing does */
    const char *mark;
    /* The end that listens: the path of its socket, which takes the place of an old one. NULL: it
     * dials. */
    const char *listen;
    const struct sockaddr *dial; /* copied */
    socklen_t dial_size;
    /* counts the bytes of connections that come from the other end; borrowed; NULL: nobody asks */
    _Atomic uint64_t *count;
    void (*up)(void *arg); /* the mark has come; NULL: nobody asks */
    /* Called once: the other end has ended (why "": it has said so), or nothing came from it for
     * half a minute, or what came makes no sense. To be stopped then, or later. */
    void (*over)(void *arg, const char *why);
    void *arg;
};

/* NULL: *err says why; the descriptors are closed. */
struct forward *forward_start(struct loop *loop, const struct forward_spec *spec, struct err *err);
/* Closes all connections, and tells the other end. NULL is fine. */
void forward_stop(struct forward *f);

/* How many bytes of its connections a relay has received for an agent: a number in a file of the
 * agent's folder, which both map. A connection on one machine does not tell its reader that a part
 * of a large message has come. Makes the file if it is not there; relays that follow one another go
 * on counting. NULL: *err says why. */
_Atomic uint64_t *relayed_open(const char *folder, struct err *err);
void relayed_close(_Atomic uint64_t *count); /* the file stays; NULL is fine */

#endif
