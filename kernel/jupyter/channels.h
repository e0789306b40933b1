/* SPDX-License-Identifier: BSD-3-Clause */
/* channels.h - Jupyter's five sockets. Verifies messages that come in and passes them on; signs
 * messages that go out. It decides nothing about cells. By itself it serves what needs no
 * interpreter and no state: the heartbeat (in a thread), connect_request, usage_request and
 * iopub_welcome. It drops messages that are malformed, unsigned, wrongly signed, replayed or too
 * large; it counts them and logs only some of each kind. */
#ifndef KERNEL_JUPYTER_CHANNELS_H
#define KERNEL_JUPYTER_CHANNELS_H

#include <jansson.h>

#include "base/loop/loop.h"
#include "protocol/jupyter.h"

struct channels;
struct request;

/* The content of a message, borrowed. */
struct content {
    struct slice content;  /* a JSON object */
    struct slice metadata; /* a JSON object, or empty */
    const struct slice *buffers;
    size_t n;
};

enum channel { CHANNEL_SHELL, CHANNEL_CONTROL, CHANNEL_STDIN };

/* Called with every verified request (borrowed; request_ref() keeps it). */
typedef void (*channels_request_f)(void *arg, struct request *r);

/* Binds the five sockets of the connection file at path `file`. NULL: *err names the file or the
 * address, and the fix. */
struct channels *channels_create(struct loop *loop, const char *file, channels_request_f f,
                                 void *arg, struct err *err);
void channels_destroy(struct channels *ch); /* waits up to 1 s until queued messages have left */

/* Sends a reply of `type` to the client that sent r, on the same socket. */
MUST_USE int channels_reply(struct channels *ch, struct request *r, const char *type,
                            const struct content *p, struct err *err);
/* Publishes a message to every subscriber. r NULL: parent_header is {}. Copies or sends the bytes
 * before it returns. What can't leave yet is queued in order, so a missing reader is not an error.
 */
MUST_USE int channels_publish(struct channels *ch, const struct request *r, const char *type,
                              const struct content *p, struct err *err);
/* Publishes a status: "busy", "idle", "starting". "busy" also sets the time when the work on r
 * began; r's reply has it as `started`, which clients show. */
MUST_USE int channels_status(struct channels *ch, struct request *r, const char *state,
                             struct err *err);
/* Is a cell running? OCCUPIED_SUBSHELLS: only in subshells. */
enum occupied { OCCUPIED_NOT, OCCUPIED_SUBSHELLS, OCCUPIED };

/* While a cell is running, each idle (but that of a debug_request) is followed by a busy with
 * parent_header {}, and such a busy is repeated twice a minute. Otherwise the idle of another
 * request would let a server that stops idle kernels stop this one. If a subshell is involved, the
 * busy is sent three seconds later, because such clients get an idle for each subshell cell and
 * expect no message right after it. */
void channels_on_idle(struct channels *ch, enum occupied (*occupied)(void *arg), void *arg);
/* Sends input_request on stdin to the client that sent r, at once or when that client has connected
 * its stdin. First drops its old replies. */
MUST_USE int channels_ask(struct channels *ch, const struct request *r, struct slice prompt,
                          bool password, struct err *err);
/* The last question is not sent any more, if it still waits for that channel. */
void channels_ask_over(struct channels *ch);

/* On control: how much of iopub a client has read, as {"subscriber", "bytes"}; see iopub_read().
 * Other clients may lose streams when they read nothing for long. */
#define CHANNELS_READ "cellspan_read"

/* Above HIGH, programs that print should be stopped; below LOW they may continue. */
#define CHANNELS_WAITING_HIGH (8u << 20)
#define CHANNELS_WAITING_LOW  (2u << 20)
/* Bytes of iopub that wait for slow subscribers. */
size_t channels_waiting(const struct channels *ch);
/* `drained` is called when channels_waiting() was above HIGH and falls below LOW. */
void channels_on_drained(struct channels *ch, loop_f drained, void *arg);
/* The program that started the kernel, which is its client: the reply of a cell that has printed
 * much waits until that program has read the output, since it may drop what comes long after the
 * reply. */
void channels_client(struct channels *ch, long pid);
/* Reads and passes on every message that has already arrived on shell. Call it before queued cells
 * are aborted, so that these are aborted too. */
void channels_drain_shell(struct channels *ch);

/* A request. It has a reference count; what these functions return is borrowed from it. */
struct request *request_ref(struct request *r);
/* It has been answered, and its client was told so. */
void request_end(struct request *r);
bool request_is_over(const struct request *r);
/* How many outputs (streams, displays, errors) its cell has. */
void request_add_outputs(struct request *r, int n);
int request_outputs(const struct request *r);
void request_unref(struct request *r); /* NULL is fine */
enum channel request_channel(const struct request *r);
const char *request_type(const struct request *r);      /* "execute_request" */
const char *request_id(const struct request *r);        /* the msg_id of its header */
const char *request_subshell(const struct request *r);  /* its subshell_id; NULL: none */
const json_t *request_content(const struct request *r); /* an object, always */
/* The raw text of a part; that of JUPYTER_PARENT may be any bytes. */
struct slice request_part(const struct request *r, enum jupyter_part part);
const struct slice *request_buffers(const struct request *r, size_t *n);
/* Do both requests come from the same client (identity)? */
bool request_same_client(const struct request *a, const struct request *b);

#endif
