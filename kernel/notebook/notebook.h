/* notebook.h - the state of one notebook, and the functions that all folders above use: sending,
 * publishing, requests that home answers. Nothing here knows how a cell runs on ranks. */
#ifndef KERNEL_NOTEBOOK_NOTEBOOK_H
#define KERNEL_NOTEBOOK_NOTEBOOK_H

#include <jansson.h>

#include "kernel/group/vars_bundle.h"
#include "kernel/jupyter/front.h"
#include "kernel/merge/gap.h"
#include "kernel/merge/pace.h"
#include "kernel/notebook/cell_ops.h"
#include "protocol/span_fields.h"

struct cell; /* kernel/cell/cell.h */

#define RECENT 64u /* home's last requests; late output may belong to any of them */
#define NEVER  UINT64_MAX
/* bytes: a larger pickled result is not sent home unless the user pulls it */
#define RESULT_LIMIT  (UINT64_C(64) << 20)
#define GRACE_NS      (10 * NS_PER_S) /* default of --grace */
#define STOP_GRACE_MS 2000            /* from SIGTERM to SIGKILL, for ranks that are stopped */
#define STUCK_NS      (10 * NS_PER_S) /* a killed process that lives longer is left behind */
/* After so many deaths of home or its agent without an answer in between, they start again only for
 * a request of the user. */
#define DEATHS_MAX 3u
/* The cell fails if no rank becomes ready for so long; imports are included. */
#define START_LIMIT_NS (120 * NS_PER_S)

/* A request that home is answering. */
struct asked {
    struct asked *next;
    uint64_t cell;
    struct request *r; /* owned reference */
    bool execute;
    bool stop_on_error;
    bool silent;
    unsigned count;
};

/* A machine on which the group's ranks may live. */
struct machine {
    unsigned node;
    bool lost;
    bool mig;                /* its GPUs are MIG instances */
    bool asked;              /* it was asked for its GPUs and has not answered yet */
    bool known;              /* it has answered, and its driver could list the GPUs */
    unsigned gpus, gpus_all; /* GPUs that nobody else holds; all GPUs */
    char held[400]; /* "held: GPU 1 by alice (pid 7, since 14:02)"; or why it has no GPUs; or "" */
};

/* HOME_BROKEN: home could not start. The next request for home tries again, since the user may have
 * installed what was missing. */
enum home_state { HOME_STARTING, HOME_READY, HOME_BROKEN };

/* A question of home's to idle ranks (ASK); at most one at a time. */
struct question {
    uint64_t home; /* home's number for it */
    uint64_t id;   /* the kernel's number for it, in PROBEs */
    uint64_t due_ns;
    struct ranks waiting; /* ranks that have not answered */
    json_t *answers;      /* owned: [[rank, answer], …]; NULL: home asks nothing now */
};

/* Home: the process in which ordinary cells run. */
struct home {
    enum home_state state;
    unsigned deaths;         /* deaths of home or the agent since home last answered */
    char *cwd;               /* owned: its working directory when it started, or "" */
    struct asked *asked;     /* in the order in which home got them */
    struct asked *executing; /* the execute_request among them, or NULL */
    /* home's cell is in an await, so home can handle comm messages before the cell ends */
    bool awaits;
    bool warmed;    /* the zygote was told to start */
    unsigned count; /* the In [count] that home runs, or ran last */
    struct pace *pace;
    struct gap *gap; /* owned; NULL: notebook->page is NULL */
    /* owned reference: home's last cell; home's output is shown under it */
    struct request *parent;
    /* owned reference: home has said that its output belongs to this cell instead; or NULL */
    struct request *owner;
    struct buf early[2]; /* output to 1 and 2 before the first cell */
    struct recent {
        uint64_t cell;
        struct request *r;
    } recent[RECENT];
    unsigned recent_at;
};

/* Execute requests that wait, and the comm messages that came after them. */
struct queue {
    struct request **item; /* owned references */
    size_t n, room;
    bool aborting; /* true: new requests only join the queue, since they will be aborted */
};

/* Cells that have run, for %ranks logs; ranks 0: the cell ran at home. */
struct ran_list {
    struct ran {
        uint64_t id;
        unsigned count, ranks;
    } *of; /* owned, n of them */
    size_t n, room;
};

/* By node: its last report of memory and GPUs. */
struct gauge_list {
    struct gauge *of; /* owned, n of them */
    unsigned n;
};

/* Prompts that wait for a line of the user, in the order in which they are shown. */
struct prompt_list {
    struct prompt *first; /* owned */
    uint64_t due_ns;      /* until then the first one waits: lower ranks may ask too */
};

/* The next free numbers. */
struct next_numbers {
    uint64_t cell, blob;
    uint32_t worker;
};

struct notebook_settings {
    char *python, *python_version, *run_id; /* owned; all as in struct dispatch_config */
    bool status;
    uint64_t hang_notice_ns;
};

struct notebook {
    struct cell_ops ops;
    struct notebook_settings config;
    struct next_numbers next;
    unsigned count; /* In [count] of the last cell that has a number of its own */
    struct queue queue;
    struct home home;
    /* the cell that runs on ranks now, or NULL; cell_begin.c sets it and finish.c clears it */
    struct cell *cell;
    /* owned reference: the last cell on ranks; ranks' later output is shown under it */
    struct request *rank_parent;
    struct group *group;
    struct group *script_group; /* borrowed from the cell that runs a script, else NULL */
    struct machine *machine;    /* owned: this machine, then those of the group's engine */
    size_t machines;
    /* this machine's agent is gone; set by dispatch.c, cleared by send.c when it starts another */
    bool away;
    struct prompt_list prompts;
    /* owned: how much output Jupyter's server lets through; NULL: the client has no such limit */
    struct page *page;
    struct ran_list ran;
    struct gauge_list gauges;
    struct question question;
    struct where *where;  /* `%ranks where` requests that wait for stacks */
    bool broadcasts_fail; /* one failed: no more of them until a cell with --fresh */
    bool over;            /* a client has asked for shutdown */
};

/* ---- lookup.c ---- */
/* A PUBLISH. */
struct published {
    char type[64];
    struct content content; /* borrowed from the message */
    size_t size;            /* bytes, for credit */
};
/* false: its type is longer than any of Jupyter's; the size is right. */
MUST_USE bool published_read(struct published *p, const struct span *m);
/* A boolean field of the request's content; `normally` if it has none. */
bool request_flag(const struct request *r, const char *name, bool normally);
uint64_t notebook_now(const struct notebook *nb);
/* The rank with this worker, in the notebook's group or in the group of the script that runs; g may
 * be NULL, *g is that group. NULL: no rank has this worker any more. */
struct rank *notebook_rank(const struct notebook *nb, uint32_t worker, struct group **g);
/* the group of the script that runs, else the notebook's */
const struct group *notebook_shown(const struct notebook *nb);
unsigned notebook_node_of(const struct notebook *nb, uint32_t worker);
const char *notebook_node_name(const struct notebook *nb, unsigned node); /* for people */

/* ---- send.c ---- */
void notebook_start_home(struct notebook *nb);
/* Starts this machine's agent again; the agent starts home. */
int notebook_revive(struct notebook *nb, struct err *err);
/* -1: the message was not sent; the log has the reason, and *err if err is not NULL. While this
 * machine's agent is gone, nothing is sent to workers here. */
int notebook_send_to(struct notebook *nb, const uint32_t *workers, size_t n, const struct span *m,
                     struct err *err);
/* Sends m to the ranks that have a process and for which wanted() is true; 0 if there are none. */
typedef bool (*rank_wanted_f)(const struct rank *r, const void *arg);
int notebook_send_ranks(struct notebook *nb, const struct group *g, rank_wanted_f wanted,
                        const void *arg, const struct span *m, struct err *err);
bool rank_in_set(const struct rank *r, const void *ranks); /* arg is a struct ranks */
/* for messages that need no answer */
void notebook_send(struct notebook *nb, uint32_t worker, const struct span *m);
/* to the node's agent */
int notebook_send_node(struct notebook *nb, unsigned node, const struct span *m, struct err *err);
/* adds a cell that home does not run to its history */
void notebook_record(struct notebook *nb, uint64_t cell, unsigned count, struct slice code);
void notebook_drop(struct notebook *nb, uint64_t blob); /* 0: none */
/* parent, here and below: clients show the message under this request; may be NULL */
void publish(struct notebook *nb, const struct request *parent, const char *type,
             struct slice content);
/* takes content */
void publish_json(struct notebook *nb, const struct request *parent, const char *type,
                  json_t *content);
void publish_stream(struct notebook *nb, const struct request *parent, unsigned stream,
                    struct slice text);
/* takes content */
void reply_json(struct notebook *nb, struct request *r, const char *type, json_t *content);

/* ---- queue.c ---- */
void queue_add(struct notebook *nb, struct request *r);
struct request *queue_take(struct notebook *nb);        /* the caller's reference; NULL: empty */
struct request *queue_first(const struct notebook *nb); /* borrowed; NULL: empty */
bool queue_holds_execute(const struct notebook *nb);
/* The first request that is not an execute_request; the caller's reference. NULL: none. */
struct request *queue_take_comm(struct notebook *nb);
/* An error aborts all requests that the client sent before it saw the reply. So call
 * queue_take_in(), then reply, then queue_abort(). */
void queue_take_in(struct notebook *nb);
void queue_abort(struct notebook *nb); /* replies aborted to the execute requests that wait */

/* ---- home.c ---- */
/* forwards any request but execute_request */
void home_ask(struct notebook *nb, struct request *r);
void home_execute(struct notebook *nb, struct request *r, unsigned count);
/* "busy" and, unless silent, the cell's text */
void notebook_announce(struct notebook *nb, struct request *r, unsigned count);
void home_ready(struct notebook *nb, const struct span *m);
/* false: it answers no request of the notebook's */
bool home_reply(struct notebook *nb, const struct span *m);
void home_lines(struct notebook *nb, const struct span *m);
void home_publish(struct notebook *nb, const struct span *m);
void home_owner(struct notebook *nb, const struct span *m);
/* Home is gone: answers all its open requests with this error, which is borrowed. */
void home_fail(struct notebook *nb, const json_t *error);
void home_disown(struct notebook *nb); /* home's output belongs to its last cell again */
void home_flush(struct notebook *nb);  /* publishes the output that waits */
void home_release(struct notebook *nb);
/* "execute_request" -> "execute_reply". false: comm messages, for instance, have no reply. */
MUST_USE bool home_reply_type(const char *type, char out[static 64]);
/* Keeps text that home writes before the first cell, for example from a startup file. Clients show
 * only output that belongs to a cell, so the first cell shows it. false: it is not kept. */
bool home_keep_early(struct notebook *nb, unsigned stream, struct slice text);
/* publishes that text under r */
void home_tell_early(struct notebook *nb, const struct request *r);
const struct request *home_parent_of(const struct notebook *nb, uint64_t cell);

/* ---- info.c ---- */
void info_reply(struct notebook *nb, struct request *r);
bool info_complete(struct notebook *nb, struct request *r); /* false: home must answer */
bool info_inspect(struct notebook *nb, struct request *r);
void info_ready(struct notebook *nb, const struct span *ready);

/* ---- question.c ---- */
void question_take(struct notebook *nb, const struct span *m); /* an ASK */
/* a PROBED; false: it answers another question */
bool question_message(struct notebook *nb, const struct rank *r, const struct span *m);
/* a cell begins: home gets the answers that have come */
void question_over(struct notebook *nb);
void question_tick(struct notebook *nb);
uint64_t question_due(const struct notebook *nb);
void question_release(struct notebook *nb);

/* ---- cells_ran.c ---- */
/* Records that this cell runs as In [count]. ranks: the group's size; 0: it runs at home. */
void cells_ran_note(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks);

/* ---- json_text.c ---- */
/* Converts JSON to text and back, and helps to write text for users. */

/* Appends the value; takes it (also when it fails; NULL fails). */
MUST_USE int text_json(struct buf *out, json_t *value);
/* Parses text that must be a JSON object or array; NULL: it is not. The caller frees it. */
json_t *text_parse(struct slice text);
/* The string under this name, borrowed; "" if there is none. Text from users may contain NULs:
 * use text_slice() for it. */
const char *text_field(const json_t *object, const char *name);
struct slice text_slice(const json_t *object, const char *name);
struct slice text_of(const json_t *string); /* the same for the string itself */
/* A new string: head, then text. NULL: memory is out, or text is not UTF-8. */
json_t *text_joined(const char *head, struct slice text);
/* A new error of Jupyter's, whose traceback is one line. */
json_t *text_error(const char *ename, struct slice evalue);
/* Removes an incomplete UTF-8 character at the end, which snprintf() may have left: Jansson refuses
 * such text. */
void text_trim(char *text);
/* Cuts a list of numbers and ranges ("2, 4-9" or "2,4-9") that is too long for a sentence: "2, 4-9,
 * … (39 in all)". -1: memory is out. */
MUST_USE int text_shorten(struct buf *list, size_t count);
/* Appends the notice about lines and displays of In [count] that the page does not get. */
MUST_USE int text_left_out(struct buf *out, size_t lines, size_t displays, unsigned count);
/* Appends "3" or "0-2", cut like that. false: there are no ranks, or memory is out. */
bool text_ranks(const struct ranks *ranks, struct buf *out);
/* The signal's name, "SIGKILL", or "signal 77" for an unknown one. The result may point to out. */
const char *text_signal(unsigned long signo, char out[static 24]);

/* The content of a reply if memory is too short to build one. */
#define NO_MEMORY                                                                                  \
    "{\"status\":\"error\",\"ename\":\"MemoryError\",\"evalue\":\"the kernel is out of memory\",\"traceback\":[]}"

#endif
