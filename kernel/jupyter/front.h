/* front.h - Jupyter's five sockets. Verifies messages that come in and passes them on; signs
 * messages that go out. It decides nothing about cells. By itself it serves what needs no
 * interpreter and no state: the heartbeat (in a thread), connect_request, usage_request and
 * iopub_welcome. It drops messages that are malformed, unsigned, wrongly signed, replayed or too
 * large; it counts them and logs only some of each kind. */
#ifndef KERNEL_JUPYTER_FRONT_H
#define KERNEL_JUPYTER_FRONT_H

#include <jansson.h>

#include "base/loop/loop.h"
#include "protocol/jupyter.h"

struct front;
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
typedef void (*front_request_f)(void *arg, struct request *r);

/* Binds the five sockets of the connection file at path `file`. NULL: *err names the file or the
 * address, and the fix. */
struct front *front_create(struct loop *loop, const char *file, front_request_f f, void *arg,
                           struct err *err);
void front_destroy(struct front *f); /* waits up to 1 s until queued messages have left */

/* Sends a reply of `type` to the client that sent r, on the same socket. */
MUST_USE int front_reply(struct front *f, struct request *r, const char *type,
                         const struct content *p, struct err *err);
/* Publishes a message to every subscriber. r NULL: parent_header is {}. Copies or sends the bytes
 * before it returns. What can't leave yet is queued in order, so a missing reader is not an error.
 */
MUST_USE int front_publish(struct front *f, const struct request *r, const char *type,
                           const struct content *p, struct err *err);
/* Publishes a status: "busy", "idle", "starting". "busy" also sets the time when the work on r
 * began; r's reply has it as `started`, which clients show. */
MUST_USE int front_status(struct front *f, struct request *r, const char *state, struct err *err);
/* occupied: is a cell running? While it returns true, each idle is followed by a busy with
 * parent_header {}, and such a busy is repeated twice a minute. Otherwise the idle of another
 * request would let a server that stops idle kernels stop this one. */
void front_on_idle(struct front *f, bool (*occupied)(void *arg), void *arg);
/* Sends input_request on stdin to the client that sent r. First drops its old replies. */
MUST_USE int front_ask(struct front *f, const struct request *r, struct slice prompt, bool password,
                       struct err *err);

/* Above HIGH, programs that print should be stopped; below LOW they may continue. */
#define FRONT_WAITING_HIGH (8u << 20)
#define FRONT_WAITING_LOW  (2u << 20)
/* Bytes of iopub that wait for slow subscribers. */
size_t front_waiting(const struct front *f);
/* `drained` is called when front_waiting() was above HIGH and falls below LOW. */
void front_on_drained(struct front *f, loop_f drained, void *arg);
/* Reads and passes on every message that has already arrived on shell. Call it before queued cells
 * are aborted, so that these are aborted too. */
void front_drain_shell(struct front *f);

/* A request. It has a reference count; what these functions return is borrowed from it. */
struct request *request_ref(struct request *r);
void request_unref(struct request *r); /* NULL is fine */
enum channel request_channel(const struct request *r);
const char *request_type(const struct request *r);          /* "execute_request" */
const json_t *request_content(const struct request *r);     /* an object, always */
struct slice request_content_text(const struct request *r); /* the raw text */
struct slice request_header(const struct request *r);
struct slice request_metadata(const struct request *r);
const struct slice *request_buffers(const struct request *r, size_t *n);
/* Do both requests come from the same client (identity)? */
bool request_same_client(const struct request *a, const struct request *b);

#endif
