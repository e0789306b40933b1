/* SPDX-License-Identifier: BSD-3-Clause */
/* private.h - what runs beside home's cells, and messages from home and ranks, for the files of
 * this folder. */
#ifndef KERNEL_DISPATCH_PRIVATE_H
#define KERNEL_DISPATCH_PRIVATE_H

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/live_status.h"
#include "kernel/cell/prompts.h"
#include "kernel/cell/slow_answers.h"
#include "kernel/dispatch/dispatch.h"
#include "kernel/dispatch/may_begin.h"
#include "kernel/ranks/check.h"
#include "kernel/ranks/ranks.h"

/* ---- cell_steps.c ---- */
void cell_steps_init(struct cell *c); /* until cell_steps_begin() */
void cell_steps_begin(struct cell *c);
bool cell_steps_go_on(struct cell *c); /* enters the next states; true: the cell is over */
/* for the step in which the cell is: home's reply to cell_ask_home(), a PROBED, a READY */
void cell_steps_reply(struct cell *c, const struct span *m);
bool cell_steps_probed(struct cell *c, struct rank *r, const struct span *m); /* false: not taken */
void cell_steps_ready(struct cell *c, const struct rank *r, const struct span *m);
void cell_steps_tick(struct cell *c, uint64_t now);
uint64_t cell_steps_due(const struct cell *c);

/* ---- cell_begin.c ---- */
bool cell_is_ours(struct request *r);
/* The --ranks of a cell that takes the group as it is, and its -n (0: not given). The caller frees
 * them. NULL: another cell, it names none, or memory is out. */
char *cell_named_ranks(struct slice text, unsigned *n);
/* The same of a call that waits; its -n is in its plan. Borrowed. */
const char *cell_call_ranks(const struct cell *c);
/* A client's cell, which has not begun. The caller owns it. NULL: memory is out. */
struct cell *cell_of_request(struct notebook *nb, struct request *r, unsigned count);
void cell_begin(struct notebook *nb, struct request *r, unsigned count);
void cell_enter(struct notebook *nb, struct cell *c); /* it runs from now on */
/* The cell of a CALL; it does not begin. The caller owns it. NULL: memory is out. */
struct cell *cell_of_call(struct notebook *nb, const struct span *m);
void cell_drop_returns(struct notebook *nb); /* calls that run send home no RETURN */
void cell_destroy(struct cell *c);           /* NULL is fine */

/* ---- async_calls.c ---- */
bool async_is_of_subshell(const struct cell *c); /* a subshell's thread waits for this call */
bool async_runs(const struct cell *c);           /* meanwhile home runs other cells */
/* Is this text `%ranks stop` or `%ranks restart`, for all ranks that run the cell? */
bool async_is_stopped_by(const struct cell *c, struct slice code);
/* All cells that run on ranks are asynchronous calls (CALL_ASYNC), and none of those that the main
 * shell has made is being prepared or ends: home waits for these. */
bool home_waits_for_none(const struct notebook *nb);
/* Does the main shell wait for a cell on ranks? A call of a thread says nothing of the main shell.
 */
bool async_home_waits(const struct notebook *nb);
/* Does an interrupt end this cell on ranks, or this call that waits? */
bool async_is_interrupted(const struct cell *c);
/* If the next cell or call stops the ranks, what they do beside home's cells is interrupted. true:
 * it was interrupted just now. */
bool async_calls_interrupt(struct notebook *nb);

/* ---- awaited.c ---- */
/* What can't begin yet because of calls, and whose client sees no other reason, shows after a while
 * what it waits for. */
void awaited_update(struct notebook *nb); /* another cell of a client may wait now */
void awaited_over(struct notebook *nb);   /* that cell begins or ends */
/* Takes that cell from the queue, for an interrupt; the caller owns the request. NULL: none waits,
 * or it ends the calls itself. */
struct request *awaited_take(struct notebook *nb);
void awaited_tick(struct notebook *nb);
uint64_t awaited_due(const struct notebook *nb);

/* ---- immediate.c ---- */
/* Answers a client's `%ranks`, `%ranks logs` or `--help` if a cell runs, at home or on ranks, and
 * none of this client waits. */
bool immediate_request(struct notebook *nb, struct request *r);
/* Takes ownership of the call if it is one of these and another cell runs, and answers it beside
 * that cell. false: it must wait for its turn. */
bool immediate_call(struct notebook *nb, struct cell *c);
void immediate_tick(struct notebook *nb);
uint64_t immediate_due(const struct notebook *nb);
size_t immediate_waiting(const struct notebook *nb); /* bytes that wait to be published */
void immediate_on_logs(struct notebook *nb, unsigned node, const struct span *m); /* a LOGS */
void immediate_on_found(struct notebook *nb, const struct span *m);               /* home's FOUND */
void immediate_lost(struct notebook *nb, unsigned node);
void immediate_drop(struct notebook *nb); /* home, which waits for calls, is gone */

/* ---- from_home.c ---- */
void pass_comms(struct notebook *nb); /* sends those that wait in the queue to home now */
void from_home(struct notebook *nb, const struct span *m);
/* Home has ended: fails the cells on ranks that wait for home. Returns the error for home's open
 * requests, which the caller passes to home_fail() and frees. NULL: memory is out. */
json_t *from_home_exited(struct notebook *nb, const struct span *m);
/* The same when home ended with its agent. Call from_home_tell_lost() first, while the cells on
 * ranks are there: a line says that home's variables are gone, if it had any. */
json_t *from_home_lost(struct notebook *nb, const char *why);
void from_home_tell_lost(struct notebook *nb);
/* Shows text of home: of pace_create() and of what it prints. arg: the notebook. */
int from_home_text(void *arg, unsigned stream, struct slice text);
/* Jupyter's server, that process, lets only a limited amount of output through to the page. false:
 * memory is out. */
bool from_home_limit(struct notebook *nb, long server);

/* ---- from_ranks.c ---- */
void from_ranks(struct notebook *nb, uint32_t worker, const struct span *m);
/* Publishes text that may belong to a cell that is over; see dispatch_late_parent(). */
void late_stream(struct notebook *nb, const struct request *parent, unsigned stream,
                 struct slice text);

#endif
