/* front.h - Jupyter's five sockets: what comes in is verified and handed on, what goes out is
 * signed. A door: it decides nothing about cells. It answers by itself what needs no interpreter
 * and nobody's state: the heartbeat (own thread), connect_request, usage_request, iopub_welcome;
 * and it drops, counting and logging once, what is malformed, unsigned, wrongly signed, replayed or
 * too large. */
#ifndef KERNEL_JUPYTER_FRONT_H
#define KERNEL_JUPYTER_FRONT_H

#include <jansson.h>

#include "base/loop/loop.h"
#include "base/slice.h"
#include "protocol/jupyter.h"

struct front;
struct request;

enum channel { CHANNEL_SHELL, CHANNEL_CONTROL, CHANNEL_STDIN };

/* Called with every verified request (borrowed; request_ref() keeps it). */
typedef void (*front_request_f)(void *arg, struct request *r);

/* Binds the five sockets that the connection file names. file is a path. NULL: *err names the file
 * or address, and the fix. */
struct front *front_create(struct loop *loop, const char *file, front_request_f f, void *arg,
                           struct err *err);
void front_destroy(struct front *f); /* waits up to 1 s for what is queued to leave */

/* A reply of `type` to the socket and identity that asked. content is a JSON object as text,
 * borrowed. */
MUST_USE int front_reply(struct front *f, struct request *r, const char *type, struct slice content,
                         struct err *err);
/* With metadata (JSON object as text) and buffers. */
MUST_USE int front_reply_with(struct front *f, struct request *r, const char *type,
                              struct slice content, struct slice metadata,
                              const struct slice *buffers, size_t n, struct err *err);
/* To every subscriber. r NULL: parent_header is {}. metadata may be empty. Bytes are copied or sent
 * before it returns. Never fails for want of a reader: what can't leave yet is queued in order. */
MUST_USE int front_publish(struct front *f, const struct request *r, const char *type,
                           struct slice content, struct slice metadata, const struct slice *buffers,
                           size_t n, struct err *err);
/* status: "busy", "idle", "starting". With "busy" the work on r begins: its reply says when, as
 * `started`, which clients show. */
MUST_USE int front_status(struct front *f, struct request *r, const char *state, struct err *err);
/* occupied: is a cell under way? While it says so, each idle is followed by a busy whose
 * parent_header is {}, and one comes twice a minute: every request has its own idle, and a server
 * that heard nothing since would stop the kernel. */
void front_on_idle(struct front *f, bool (*occupied)(void *arg), void *arg);
/* input_request on stdin, to the identity that sent r; stale replies of it are dropped first. */
MUST_USE int front_ask(struct front *f, const struct request *r, struct slice prompt, bool password,
                       struct err *err);

/* Over HIGH whoever prints should be held; under LOW it goes on. */
#define FRONT_WAITING_HIGH (8u << 20)
#define FRONT_WAITING_LOW  (2u << 20)
/* Bytes of iopub that wait for slow subscribers; called back when they fall under the mark after
 * having been over it. */
size_t front_waiting(const struct front *f);
void front_on_drained(struct front *f, loop_f drained, void *arg);
/* Takes in every message that has already arrived on shell (handing each on): before queued cells
 * are aborted. */
void front_drain_shell(struct front *f);

/* A request: counted; all that it gives is borrowed from it. */
struct request *request_ref(struct request *r);
void request_unref(struct request *r); /* NULL is fine */
enum channel request_channel(const struct request *r);
const char *request_type(const struct request *r);          /* "execute_request" */
const json_t *request_content(const struct request *r);     /* an object, always */
struct slice request_content_text(const struct request *r); /* as it came */
struct slice request_header(const struct request *r);
struct slice request_metadata(const struct request *r);
const struct slice *request_buffers(const struct request *r, size_t *n);
/* Does another request come from the same client (identity)? */
bool request_same_client(const struct request *a, const struct request *b);

#endif
