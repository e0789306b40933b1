/* pipes.h - what workers write to descriptors 1 and 2, sent on as LINES; the order between text and
 * messages; credit.
 *
 * The order rule: text that was written before a message goes before it, text that was written
 * after goes after. A pipe and a socket tell no common order, so:
 *   - before a pipe is read, its waiting bytes are counted, then the socket is emptied, then only
 *   the counted bytes
 *     are read: a message sent before them has passed already;
 *   - before DONE, REPLY, CALL and INPUT pass on, whatever the pipes hold is read (their sender
 *   writes nothing meanwhile);
 *   - before PUBLISH the worker asks by SYNC when its pipes are not empty. */
#ifndef WORKER_AGENT_OUTPUT_PIPES_H
#define WORKER_AGENT_OUTPUT_PIPES_H

#include "base/loop/loop.h"
#include "base/slice.h"

struct worker;

void pipes_event(struct loop *loop, int fd, unsigned events, void *stream);
/* lines_out_f: sends one LINES of `stream`. */
int pipes_put(void *stream, struct slice data, unsigned flags);
/* Reads what both pipes hold now, and sends it. */
void pipes_drain(struct worker *w);
/* Sends what is held of unfinished lines. */
void pipes_flush(struct worker *w);

#endif
