/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - the sessions with the workers' debuggers, as only the files of this folder see them.
 */
#ifndef KERNEL_DEBUG_PRIVATE_H
#define KERNEL_DEBUG_PRIVATE_H

#include "kernel/debug/debug.h"

/* A worker. Its slot makes its ids unique among all workers'. */
struct debug_session {
    struct debug_session *next;
    uint32_t worker;
    long rank;
    unsigned slot;
    bool attached;      /* it has answered `attach` */
    uint64_t attaching; /* seq of an `attach` that it has not answered; 0: none */
    bool silent;        /* it let a request's time pass, and has sent nothing since */
    uint64_t asked;     /* seq of its part of the active request; 0: none */
    json_int_t main;    /* its main thread, in its own number; 0: unknown */
    json_t *stopped;    /* owned: its last `stopped`, as clients have it; NULL: it runs */
    uint64_t order;     /* when it stopped first, as a count; it keeps this while it steps */
    bool steps;         /* a client has told it to step */
};

/* A request of a client. */
struct asked_of {
    struct asked_of *next;
    void *request;
    json_t *message; /* owned */
};

/* The request that is being done. */
struct active {
    struct asked_of *of; /* owned; NULL: none */
    size_t waiting;      /* workers that have not answered */
    bool joins;          /* it went to all */
    json_t *answer;      /* owned: the answer so far, or NULL */
    uint64_t due_ns;
};

struct debug {
    struct debug_ops ops;
    char *prefix;
    struct debug_session *sessions; /* owned; home is first if it is there */
    uint64_t seq, order;
    unsigned joined; /* counts the slots that were looked at */
    bool started, attached;
    struct asked_of *first, **last; /* owned: requests that wait */
    struct active active;
    json_t *initialize, *attach; /* owned: arguments of the client's; or NULL */
    json_t *breaks;              /* owned: {command and path: request} */
    json_t *texts;               /* owned: {file name: text} of dumpCell */
    long chosen;                 /* the rank that `%ranks debug` has chosen; -2: none */
    uint64_t restate_ns; /* when clients are told again which thread is first; or UINT64_MAX */
    struct debug_session *shown; /* the session that clients last got to see as stopped; borrowed */
};

/* ---- ids.c ---- */
/* Replaces ids that a worker has sent by the numbers that clients see. */
void ids_out(json_t *value, unsigned slot);
/* Replaces ids in a request's arguments by the worker's own numbers. Returns the slot; -1: the
 * arguments have no id. */
long ids_in(json_t *arguments);
json_int_t id_out(json_int_t own, unsigned slot);

/* ---- sessions.c ---- */
struct debug_session *session_of(const struct debug *d, uint32_t worker);
struct debug_session *session_of_slot(const struct debug *d, long slot);
/* The session that clients show: the rank chosen by `%ranks debug` if it is stopped, else the one
 * that stopped first, else home, else any. */
struct debug_session *session_focus(const struct debug *d);
bool session_knows(const struct debug_session *s); /* it has got an `attach`, which it does first */
const char *session_name(const struct debug_session *s, char out[static 32]); /* "rank 3" */
/* Sends a request; takes arguments. 0: it could not be sent. Else its seq. */
uint64_t session_ask(struct debug *d, struct debug_session *s, const char *command,
                     json_t *arguments);
/* Sends `attach` with all that clients have set so far; takes nothing. */
uint64_t session_attach(struct debug *d, struct debug_session *s);
void session_runs(struct debug *d, struct debug_session *s); /* it is not stopped any more */
void session_event(struct debug *d, struct debug_session *s, json_t *event,
                   uint64_t now); /* takes event */

/* ---- answers.c: of the active request ---- */
const char *answers_command(const struct debug *d);
json_t *answers_arguments(const struct debug *d); /* borrowed */
/* Adds a worker's answer to those that came before; takes it. */
void answers_join(struct debug *d, struct debug_session *s, json_t *more);
const char *answers_path(const json_t *arguments); /* its file's name; "": none */
bool answers_sets_breaks(const char *command);
void answers_note_breaks(struct debug *d);     /* for workers that come later, and debugInfo */
void answers_note_lines(struct debug *d);      /* pydevd may have moved breakpoints */
json_t *answers_breaks(const struct debug *d); /* as debugInfo lists them */

/* ---- line_numbers.c: for VS Code, in place ---- */
void lines_in(const struct debug *d, json_t *request);
void lines_out(const struct debug *d, const json_t *request, json_t *answer);

/* ---- workers.c ---- */
json_t *worker_file_name(const struct debug *d, struct slice text);

/* ---- debug.c ---- */
void debug_end_request(struct debug *d);        /* ends the active request */
void debug_next(struct debug *d, uint64_t now); /* begins the next one, if none is active */

#endif
