/* SPDX-License-Identifier: BSD-3-Clause */
/* pipes.h - what a worker writes to descriptors 1 and 2, sent on as LINES under credit.
 *
 * Text keeps its place among the worker's messages: text that was written before a message leaves
 * before it, and text that was written after leaves after it. A pipe and a socket have no common
 * order, so relay.c and relay_io.c do this:
 *   - before a pipe is read, its waiting bytes are counted, then the socket is emptied, and then
 *     only the counted bytes are read: a message that was sent before them has passed already;
 *   - before DONE, REPLY, CALL and INPUT pass on, all that the pipes hold is read (the sender
 *     writes nothing meanwhile);
 *   - before PUBLISH the worker asks by SYNC when its pipes are not empty. */
#ifndef WORKER_AGENT_OUTPUT_PIPES_H
#define WORKER_AGENT_OUTPUT_PIPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"
#include "base/child_lines.h"
#include "worker/agent/output/lines.h"
#include "worker/agent/output/worker_credit.h"

#define PIPES_READ_SIZE 65536u /* bytes of a pipe that are read in one turn */

struct kernel_link;
struct spool;

/* What the pipes of all workers share; everything is borrowed. */
struct pipes_io {
    struct loop *loop;
    const struct clock *clock;
    struct kernel_link *kernel;
    struct spool *spool;
    char *read_buf;  /* PIPES_READ_SIZE bytes */
    uint64_t window; /* of a new worker's credit */
    bool full;       /* nothing is read from workers until the kernel acknowledges what it got */
};

enum pipes_how {
    PIPES_RAW,   /* to the kernel as it is read: home */
    PIPES_LINES, /* to the kernel in whole lines: ranks */
    PIPES_LOG,   /* to the agent's log: zygotes, because no cell shows their text */
};

struct stream {
    struct pipes *pipes; /* borrowed: the struct that it is in */
    unsigned number;     /* the worker's descriptor: 1 or 2 */
    int fd;              /* -1: ended */
    struct watch *watch;
    struct lines lines;
};

struct pipes {
    const struct pipes_io *io; /* borrowed */
    enum pipes_how how;
    uint32_t worker, rank;
    uint64_t cell; /* the last cell that the worker was given */
    struct stream stream[2];
    unsigned drains; /* how often they were read because of a message */
    struct worker_credit credit;
    bool ended; /* the worker is dead or dying: the rest is read without credit */
    struct watch *timer;
    uint64_t due_ns;    /* when the timer fires; UINT64_MAX: off */
    struct tail errors; /* the last lines of stderr; of a zygote: of both */
};

void pipes_init(struct pipes *p, const struct pipes_io *io, enum pipes_how how, uint32_t worker,
                uint32_t rank);
void pipes_release(struct pipes *p); /* frees; the pipes are closed */

/* Text from now on belongs to this cell. fresh: what stderr held so far is not its last lines. */
void pipes_begin(struct pipes *p, uint64_t cell, bool fresh);
bool pipes_may_send(const struct pipes *p);           /* May more be sent to the kernel? */
void pipes_take(struct stream *s, struct slice data); /* sends bytes that were read */
/* Keeps text that is no output with the cell's output, for %ranks logs. */
void pipes_log(struct pipes *p, struct slice text);
void pipes_flush(struct pipes *p);            /* Sends unfinished lines that are held. */
uint64_t pipes_due_ns(const struct pipes *p); /* when pipes_tick() is; UINT64_MAX: not at all */
/* Sends held lines that have waited long enough. more: more bytes wait in the pipe. */
void pipes_tick(struct stream *s, bool more);

/* ---- pipes_io.c ---- */
/* Reads at most n bytes, which are known to be there, and sends them. */
void pipes_read(struct stream *s, size_t n);
void pipes_drain(struct pipes *p); /* Reads what both pipes hold now, and sends it. */
void pipes_end(struct stream *s);  /* call it once the worker has closed the pipe */
void pipes_close(struct pipes *p); /* nothing is read any more */
void pipes_watch(struct pipes *p); /* Has the loop watch the pipes while more may be sent. */

#endif
