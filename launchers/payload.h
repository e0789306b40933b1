/* SPDX-License-Identifier: BSD-3-Clause */
/* payload.h - what is sent to a machine that lacks cellspan: the files of this installation, or of
 * a wheel. Python makes it (worker/python/cellspan/_install): it runs when a launcher starts, so
 * that the answer is there when the first machine wants its script. */
#ifndef LAUNCHERS_PAYLOAD_H
#define LAUNCHERS_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define PAYLOAD_HASH   64u
#define PAYLOAD_FOLDER 16u /* as many of its digits are in the name of the folder on a machine */
#define PAYLOAD_ALSO   '+' /* the packages that ranks need are sent, too, for "3.11", say */

/* What can be sent to machines of one architecture. */
struct payload_row {
    char arch[32]; /* as `uname -m` says it; then maybe PAYLOAD_ALSO and a version of Python */
    char hash[PAYLOAD_HASH + 1];
    char libc[16];    /* the oldest glibc that its programs run with: "2.28" */
    char *why;        /* owned: why it can't be sent; NULL: it can */
    struct buf bytes; /* SCRIPT_PUT with all that follows it; empty until it is made */
    size_t files;     /* where in them the files begin, after the program */
};

struct payload {
    const char *python, *agent, *wheels; /* borrowed; wheels: "" for none */
    char *program;                       /* owned: the path of payload.py; NULL: nothing is sent */
    pid_t pid;               /* of the Python that lists them; 0: none, or it has ended */
    int out;                 /* from it; -1: the answer is known */
    uint64_t until_ns;       /* how long the answer is waited for */
    struct payload_row *row; /* owned */
    size_t n;
    char *script; /* owned: the Python program that unpacks it there */
    char *lacks;  /* owned: one whose status is 3 if its Python has not the packages; NULL: none */
    bool said[2]; /* the user knows that it is sent, without the packages and with them */
};

#define PAYLOAD_INIT { .out = -1 }

void payload_release(struct payload *p);
/* Asks what can be sent, unless the user forbids it (CELLSPAN_INSTALL). agent: its path here. */
void payload_ask(struct payload *p, const char *agent);
/* Call it for a child that was waited for. true: it was the program that was asked. */
bool payload_child_ended(struct payload *p, pid_t pid);
/* Waits for the answer. false: nothing can be sent, to no machine. */
bool payload_known(struct payload *p);
/* Reads the answer; see payload.py. -1: memory is out, or it is none. */
MUST_USE int payload_read(struct payload *p, const char *answer);
/* Why nothing is sent to a machine like this one, as text for the user; NULL: it is not forbidden,
 * and nothing is known. */
const char *payload_why_not(const struct payload *p);
/* What a machine takes, by what its script says of it: its architecture and C library
 * ("glibc-2.36"). NULL: *err says why there is nothing. */
struct payload_row *payload_for(struct payload *p, const char *arch, const char *libc,
                                struct err *err);
/* What is sent with it; "": nothing. */
const char *payload_with(const struct payload_row *row);
/* Makes its bytes, unless they are there. Blocks. */
MUST_USE int payload_make(const struct payload *p, struct payload_row *row, struct err *err);

#endif
