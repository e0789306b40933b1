/* SPDX-License-Identifier: BSD-3-Clause */
/* notebook.h - the state of one notebook, and the functions that all folders above use: sending,
 * publishing, requests that home answers. Nothing here knows how a cell runs on ranks. */
#ifndef KERNEL_NOTEBOOK_NOTEBOOK_H
#define KERNEL_NOTEBOOK_NOTEBOOK_H

#include <jansson.h>

#include "kernel/comms/comms.h"
#include "kernel/group/vars_plan.h"
#include "kernel/jupyter/channels.h"
#include "kernel/merge/omit.h"
#include "kernel/merge/pace.h"
#include "kernel/notebook/cell_ops.h"
#include "magics/plan.h"
#include "protocol/span_fields.h"

struct cell; /* kernel/cell/cell.h */

#define RECENT 64u /* home's last requests; late output may belong to any of them */
#define NEVER  UINT64_MAX
/* bytes: a larger pickled result is not sent home unless the user pulls it */
#define RESULT_LIMIT   (UINT64_C(64) << 20)
#define STOP_GRACE_MS  2000            /* from SIGTERM to SIGKILL, for ranks that are stopped */
#define LEFT_BEHIND_NS (10 * NS_PER_S) /* a killed process that lives longer is left behind */
/* After this many deaths of home or its agent without an answer in between, they start again only
 * for a request of the user. */
#define DEATHS_MAX 3u
/* The cell fails if no rank becomes ready for this long; imports are included. */
#define START_LIMIT_NS (120 * NS_PER_S)

/* A request that home is answering. */
struct asked {
    struct asked *next;
    uint64_t cell;
    struct request *r;         /* owned reference */
    struct subshell *subshell; /* it is asked for this one; borrowed; NULL: the main shell */
    bool execute;
    bool stop_on_error;
    bool silent;
    bool interrupted;    /* while it ran; dispatch.c */
    bool told_suspended; /* a notice has said that home is stopped; slow_answers.c */
    uint64_t asked_ns;
    unsigned count;
};

/* A node on which the group's ranks may live; kernel/agents/node.h has its name and state. */
/* A cell waits for GPUs of a node (node_gpus.c). */
struct gpu_wait {
    uint64_t cell;  /* its number */
    unsigned wants; /* GPUs; 0: nobody waits */
    unsigned more;  /* of them those that fresh ranks don't get from the old ones */
    unsigned ahead; /* notebooks that wait, too, and come first */
    uint64_t until_ns;
    uint64_t next_ns; /* when to ask again; NEVER: the answer is awaited */
    bool noted;       /* a line has said that the cell waits */
    bool parked;      /* for those of parked ranks, and no others */
};

struct group_node {
    unsigned number;
    bool lost;
    char why[200];           /* why it is lost; may be cut */
    bool mig;                /* its GPUs are MIG instances */
    bool asked;              /* it was asked for its GPUs and has not answered yet */
    bool known;              /* it has answered, and its driver could list the GPUs */
    unsigned gpus, gpus_all; /* GPUs that nobody else holds; all GPUs */
    char held[400]; /* "held: GPU 1 by alice (pid 7, since 14:02)"; or why it has no GPUs; or "" */
    struct gpu_wait wait;
    char stuck[200]; /* who comes first, and waits for GPUs that living ranks keep; or "" */
    char quota[600]; /* why ranks may not have all that nobody holds; "" if they may */
};

/* HOME_BROKEN: home could not start. The next request for home tries again, since the user may have
 * installed what was missing. */
enum home_state { HOME_STARTING, HOME_READY, HOME_BROKEN };

/* Execute requests that wait, and the comm messages that came after them. */
struct queue {
    struct request **item; /* owned references */
    size_t n, room;
    bool aborting; /* true: new requests only join the queue, since they will be aborted */
};

/* A subshell: a thread of home that runs cells beside the main shell's. Home makes the thread with
 * the first message for this id; a subshell outlives its home. */
struct subshell {
    struct subshell *next;
    struct notebook *nb;
    char id[64];
    bool deleted; /* it goes when its cell is over; clients don't see it any more */
    struct queue queue;
    struct asked *executing; /* its cell; borrowed, of home.asked; NULL: it runs none */
    struct request *parent;  /* owned reference: its last cell, under which its text is shown */
    unsigned count;          /* the In [count] of that cell */
    struct pace *pace;       /* owned: the text of its cell; NULL: it has run none */
    struct omit *omit;       /* owned; NULL: notebook->output_limit is NULL */
};

struct subshells {
    struct subshell *first; /* owned */
    unsigned made;
    bool comms; /* comm messages run in the subshell that they name, not in the main shell */
};

/* Home: the process in which ordinary cells run. */
struct home {
    /* send.c starts it, home.c sees that it is ready, from_home.c that it has ended */
    enum home_state state;
    /* deaths of home (from_home.c) or the agent (dispatch.c) since home last answered (home.c) */
    unsigned deaths;
    char *cwd;               /* owned: its working directory when it was ready (home.c), or "" */
    struct asked *asked;     /* in the order in which home got them */
    struct asked *executing; /* the main shell's execute_request among them, or NULL */
    /* home's cell is in an await, so home can handle comm messages before the cell ends;
     * from_home.c sets it, home.c clears it with the answer */
    bool awaits;
    bool warmed;      /* the zygote was told to start (home.c), and has not ended (dispatch.c) */
    bool no_debugger; /* its Python has no debugpy */
    unsigned count;   /* the In [count] that home runs, or ran last */
    struct pace *pace;
    struct omit *omit;      /* owned; NULL: notebook->output_limit is NULL */
    struct request *parent; /* owned reference: home's last cell; home's output is shown under it */
    /* owned reference: home has said that its output belongs to this cell instead; or NULL */
    struct request *output_parent;
    struct subshells subshells;
    struct find_list *finds; /* owned: what ranks have asked it about code; NULL: nothing yet */
    struct buf early[2];     /* output to 1 and 2 for the next cell; see home_keep() */
    struct recent {
        uint64_t cell;
        struct request *r;
    } recent[RECENT];
    unsigned recent_at;
};

/* Calls of home that wait, and the client's cell that waits for calls. */
struct call_list {
    struct cell *first;      /* owned, the oldest first */
    struct held_calls *held; /* owned, in kernel/dispatch/may_begin.h: calls that are held back */
    /* owned, of awaited.c: stands for the first request of the queue, to show what it waits for;
     * NULL: it waits for no call */
    struct cell *client;
};

/* What is answered while another cell runs. */
struct immediate_list {
    struct where *where; /* owned: `%ranks where`, until ranks have sent their stacks */
    struct cell *cells;  /* owned: `%ranks` and `%ranks logs`, until nodes have answered */
};

/* Cells that have run, for %ranks logs; ranks 0: the cell ran at home. */
struct ran_list {
    struct ran {
        uint64_t id;
        unsigned count, ranks;
    } *of; /* owned, n of them */
    size_t n, room;
};

/* Prompts that wait for a line of the user, in the order in which they are shown. */
struct prompt_list {
    struct prompt *first; /* owned */
    uint64_t due_ns;      /* until then the first one waits: lower ranks may ask too */
};

/* A comm message of a page that a rank has not answered. */
struct comm_unanswered {
    struct comm_unanswered *next;
    uint64_t cell;
    uint32_t worker;
    uint64_t sent_ns;
    struct request *r; /* owned reference */
    bool late;         /* a cell waited too long for it, so its callback was interrupted */
    size_t printed;    /* bytes of its text that were shown */
    struct notebook *nb;
    struct pace *pace; /* owned: its text; NULL: it has printed nothing */
};

/* Comms of home and ranks. */
struct comm_list {
    struct comm_table *table; /* owned */
    bool full;                /* the next update waits: Jupyter's server would drop it now */
    /* owned: ids of the closed comms for which pages still need a comm_close; or NULL */
    json_t *closing;
    struct request *closes; /* owned reference: the parent of these comm_close messages */
    struct comm_unanswered *unanswered; /* owned, in the order in which they were sent */
};

/* The next free numbers; lookup.c. */
struct next_numbers {
    uint64_t cell, blob;
    uint32_t worker;
};

struct notebook_settings {
    /* owned; all as in struct dispatch_config, until home says its Python's version (info.c) */
    char *python, *python_version, *run_id;
    unsigned char key[32];
    bool nccl_shares;
    bool status;
    bool code; /* the notebook's own modules go to other machines */
    struct plan_defaults cells;
    uint64_t hang_notice_ns;
};

/* What ends ranks although no cell asks for it. */
struct unasked_ends {
    struct notices *notices;   /* owned, of kernel/cell/notices.c; NULL: there was none */
    struct idle_release *idle; /* owned, of kernel/cell/idle_release.c */
};

struct notebook {
    struct cell_ops ops;
    struct notebook_settings config;
    struct next_numbers next;
    /* In [count] of the last cell that has a number of its own; dispatch.c sets it, and where.c and
     * debug_rank.c for the cells that they answer themselves */
    unsigned count;
    struct queue queue; /* the main shell's */
    struct home home;
    /* owned: the cells that run on ranks now, the oldest first; nearly always there is at most one.
     * cell_begin.c adds them, cell_end.c removes them */
    struct cell *cells;
    struct call_list calls;
    /* owned reference: the last cell on ranks; ranks' later output is shown under it */
    struct request *rank_parent;
    struct group *group;
    /* borrowed from the cell that runs a script, else NULL; expand.c sets it, cell_end.c clears it
     */
    struct group *script_group;
    /* owned: this machine, which dispatch.c adds, then the nodes of the group's engine:
     * group_nodes.c adds them, engine_of_cell.c removes them */
    struct group_node *node;
    size_t nodes;
    /* this machine's agent is gone; set by dispatch.c, cleared by send.c when it starts another */
    bool agent_gone;
    struct prompt_list prompts;
    /* owned: how much output Jupyter's server lets through; NULL: the client has no such limit */
    struct output_limit *output_limit;
    struct ran_list ran;
    /* owned, of rank_usage.c: what nodes have reported of memory and GPUs; NULL: nothing */
    struct gauge_list *gauges;
    struct question *question; /* owned: what home asks idle ranks; NULL: nothing */
    struct comm_list comms;
    struct debugger *debugger; /* owned; NULL until a client asks for it */
    struct unasked_ends ends;
    struct immediate_list immediate;
    bool broadcasts_fail; /* one failed: no more of them until a cell with --fresh */
    bool shutdown_asked;  /* a client has asked for shutdown */
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
/* The subshell that the request is for; NULL: the main shell, or none that is there. */
struct subshell *notebook_subshell(const struct notebook *nb, const struct request *r);
/* A boolean field of the request's content; `normally` if it has none. */
bool request_flag(const struct request *r, const char *name, bool normally);
/* Is it of a client in Python? The message ids of jupyter_client are SESSION_PID_NUMBER. */
bool request_is_of_python(const struct request *r);
uint64_t notebook_now(const struct notebook *nb);
void notebook_init_numbers(struct notebook *nb);
/* New numbers: of a cell or of another question that is answered by it, of a worker, and the first
 * of n blobs. None is used twice. */
uint64_t notebook_next_cell(struct notebook *nb);
uint32_t notebook_next_worker(struct notebook *nb);
uint64_t notebook_next_blobs(struct notebook *nb, unsigned n);
/* The rank with this worker, in the notebook's group or in the group of the script that runs; g may
 * be NULL, *g is that group. NULL: no rank has this worker any more. */
struct rank *notebook_rank(const struct notebook *nb, uint32_t worker, struct group **g);
/* the group of the script that runs, else the notebook's */
const struct group *notebook_shown(const struct notebook *nb);
unsigned notebook_node_of(const struct notebook *nb, uint32_t worker);
const char *notebook_node_name(const struct notebook *nb, unsigned node); /* for people */
/* The node, if it is up and so much is kept for it until its agent acknowledges it that nothing
 * large may be added; else NULL. */
#define NOTEBOOK_ROOM_NS (200 * NS_PER_MS) /* between two looks whether there is room again */
const struct node *notebook_full_node(const struct notebook *nb, unsigned node);
/* records, for %ranks logs, that this cell runs as In [count]. ranks: the group's size; 0: it runs
 * at home. */
void notebook_note_ran(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks);

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
/* Asks those of the notebook's group that are in the set, with a new number, which answers have:
 * *id.
 */
MUST_USE int notebook_ask_ranks(struct notebook *nb, const struct ranks *which, struct span *m,
                                uint64_t *id, struct err *err);
bool rank_in_set(const struct rank *r, const void *ranks); /* arg is a struct ranks */
/* for messages that need no answer */
void notebook_send(struct notebook *nb, uint32_t worker, const struct span *m);
/* to the node's agent */
int notebook_send_node(struct notebook *nb, unsigned node, const struct span *m, struct err *err);
/* adds a cell that home does not run to its history */
void notebook_record(struct notebook *nb, uint64_t cell, unsigned count, struct slice code);
void notebook_drop(struct notebook *nb, uint64_t blob); /* 0: none */
/* parent, here and below: clients show the message under this request; may be NULL */
void publish_content(struct notebook *nb, const struct request *parent, const char *type,
                     const struct content *p);
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
struct queue *queue_of(struct notebook *nb, const struct request *r); /* its shell's */
void queue_add(struct queue *q, struct request *r);
struct request *queue_take(struct queue *q);        /* the caller's reference; NULL: empty */
struct request *queue_first(const struct queue *q); /* borrowed; NULL: empty */
void queue_release(struct queue *q);
bool queue_holds_execute(const struct notebook *nb);
/* The first request that is not an execute_request; the caller's reference. NULL: none. */
struct request *queue_take_comm(struct notebook *nb);
/* An error aborts all requests that the client sent before it saw the reply. So call
 * queue_drain_shell(), then reply, then queue_abort(). */
void queue_drain_shell(struct notebook *nb);
/* replies aborted to the execute requests that wait */
void queue_abort(struct notebook *nb, struct queue *q);
/* The same for a cell r that was answered while others waited: only the requests of its client in
 * the same queue, without the first `before` ones, which came before it. */
void queue_abort_after(struct notebook *nb, const struct request *r, size_t before);

/* ---- home.c ---- */
/* forwards any request but execute_request, to the main shell or the subshell that it names */
void home_ask(struct notebook *nb, struct request *r);
/* s: NULL: in the main shell */
void home_execute(struct notebook *nb, struct subshell *s, struct request *r, unsigned count);
/* asks for what only subshells have: home sends this content back as the reply's */
void home_ask_subshell(struct notebook *nb, struct subshell *s, struct request *r,
                       struct slice content);
/* "busy" and, unless silent, the cell's text */
void notebook_announce(struct notebook *nb, struct request *r, unsigned count);
void home_ready(struct notebook *nb, const struct span *m);
/* false: it answers no request of the notebook's */
bool home_reply(struct notebook *nb, const struct span *m);
void home_lines(struct notebook *nb, const struct span *m);
void home_publish(struct notebook *nb, const struct span *m);
void home_output_parent(struct notebook *nb, const struct span *m);
/* Home is gone: answers all its open requests with this error, which is borrowed. */
void home_fail(struct notebook *nb, const json_t *error);
void home_disown(struct notebook *nb); /* home's output belongs to its last cell again */
void home_flush(struct notebook *nb);  /* publishes the output that waits */
void home_release(struct notebook *nb);
/* "execute_request" -> "execute_reply". false: comm messages, for instance, have no reply. */
MUST_USE bool home_reply_type(const char *type, char out[static 64]);
/* Keeps text for the next cell that is not silent. false: there is too much, or memory is out. */
bool home_keep(struct notebook *nb, unsigned stream, struct slice text);
/* Keeps text that home writes before the first cell, for example from a startup file. Clients show
 * only output that belongs to a cell, so the first cell shows it. false: it is not kept. */
bool home_keep_early(struct notebook *nb, unsigned stream, struct slice text);
const struct request *home_parent_of(const struct notebook *nb, uint64_t cell);
/* the request that home answers under this number, or NULL; borrowed */
const struct asked *home_asked(const struct notebook *nb, uint64_t cell);

/* ---- subshells.c ---- */
/* Clients make, delete and list subshells, on control. */
void subshells_create(struct notebook *nb, struct request *r);
void subshells_delete(struct notebook *nb, struct request *r);
void subshells_list(struct notebook *nb, struct request *r);
void subshells_create_again(struct notebook *nb); /* a home that has started makes them */
void subshells_refuse(struct notebook *nb, struct request *r); /* it names none that is there */
void subshells_interrupt(struct notebook *nb);                 /* the cells of all */
void subshells_sweep(struct notebook *nb);     /* frees those that are deleted and run nothing */
bool subshells_run(const struct notebook *nb); /* one runs a cell */
void subshells_release(struct notebook *nb);

/* ---- subshell_text.c ---- */
/* What a subshell's cell shows. Its text comes as messages, not through home's pipes. */
MUST_USE int subshell_text_begin(struct subshell *s, struct request *r, unsigned count);
void subshell_text_publish(struct subshell *s, const struct published *p);
void subshell_text_flush(struct subshell *s); /* publishes the text that waits */
/* before a comm message: without the last lines of a text whose middle is left out */
void subshell_text_flush_pace(struct subshell *s);
void subshell_text_tick(struct subshell *s);
uint64_t subshell_text_due(const struct subshell *s);
size_t subshell_text_waiting(const struct subshell *s); /* bytes */
void subshell_text_release(struct subshell *s);

/* ---- comm_routes.c ---- */
/* May a message of a page be sent to this worker? false: it must be dropped, which a line under
 * `parent` says now and then. */
bool notebook_has_room(struct notebook *nb, uint32_t worker, const struct request *parent);
/* A comm message of a page: false: it is for home. */
MUST_USE bool comm_routes_take(struct notebook *nb, struct request *r);
void comm_routes_info(struct notebook *nb, struct request *r); /* comm_info_request */
/* A rank has served a message. */
void comm_routes_on_reply(struct notebook *nb, uint32_t worker, const struct span *m);
void comm_routes_gone(struct notebook *nb, uint32_t worker); /* it answers none any more */
/* The first message that waits for this worker's answer, with this number (0: any); or NULL. */
struct comm_unanswered *comm_unanswered_of(const struct notebook *nb, uint32_t worker,
                                           uint64_t cell);
/* What its callback prints, at the rate of a cell's text. */
void comm_unanswered_text(struct comm_unanswered *t, unsigned stream, struct slice text);
void comm_unanswered_flush(struct comm_unanswered *t);
void comm_unanswered_tick(struct notebook *nb);
uint64_t comm_unanswered_due(const struct notebook *nb);
void comm_routes_interrupt(struct notebook *nb); /* the callbacks that ranks run */
/* A cell wants to run on these ranks: interrupts callbacks for which it has waited too long.
 * *since_ns: the cell's; NEVER at first. */
typedef void (*comm_late_f)(void *arg, unsigned rank, unsigned seconds);
void comm_routes_interrupt_late(struct notebook *nb, uint64_t *since_ns, const struct ranks *to,
                                comm_late_f late, void *arg);
uint64_t comm_routes_late_due(const struct notebook *nb, uint64_t since_ns);
uint64_t comm_routes_due(const struct notebook *nb); /* when comm_output_tick() has work */
void comm_routes_release(struct notebook *nb);

/* ---- comm_output.c ---- */
/* A comm message of home or a rank, to be shown under `parent`. */
void comm_output_take(struct notebook *nb, uint32_t worker, const struct request *parent,
                      const struct published *p);
/* Publishes a comm message, and counts it for Jupyter's server. */
void comm_output_send(struct notebook *nb, const struct request *parent, const char *type,
                      const struct content *p);
/* Before a display of this worker: its updates leave; notes which widget is shown where. */
void comm_output_display(struct notebook *nb, uint32_t worker, const struct published *p);
/* Updates that wait leave now; worker 0: of all. */
void comm_output_flush(struct notebook *nb, uint32_t worker);
void comm_output_tick(struct notebook *nb);
/* The rank has ended: closes its comms, and its widgets become text. Returns how many. */
size_t comm_output_gone(struct notebook *nb, uint32_t worker, const struct request *parent,
                        const char *why);
void comm_output_forget(struct notebook *nb, uint32_t worker); /* home: pages are not told */

/* ---- info.c ---- */
void info_reply(struct notebook *nb, struct request *r);
bool info_complete(struct notebook *nb, struct request *r); /* false: home must answer */
bool info_inspect(struct notebook *nb, struct request *r);
void info_ready(struct notebook *nb, const struct span *ready);

/* ---- question.c ---- */
void question_on_ask(struct notebook *nb, const struct span *m); /* an ASK */
/* a PROBED; false: it answers another question */
bool question_on_probed(struct notebook *nb, const struct rank *r, const struct span *m);
/* a cell begins: home gets the answers that have come */
void question_end(struct notebook *nb);
void question_tick(struct notebook *nb);
uint64_t question_due(const struct notebook *nb);
void question_release(struct notebook *nb);

/* ---- finds.c ---- */
void finds_take(struct notebook *nb, uint32_t worker, const struct span *m); /* a rank's FIND */
void finds_answered(struct notebook *nb, const struct span *m);              /* home's FOUND */
void finds_leave(struct notebook *nb, uint32_t worker); /* it needs no answer any more */
void finds_home_gone(struct notebook *nb);              /* those that wait get an error */
/* The modules that answers brought to other machines since this was last called: to how many, and
 * how much to the one that got most. false: to none. */
struct sent_code {
    uint64_t modules, files, bytes; /* files: modules, too */
    size_t hosts;
};
bool finds_sent(struct notebook *nb, struct sent_code *out);
/* The package of many files that other machines get at the moment; NULL: none. */
const char *finds_package(const struct notebook *nb, uint64_t *files);
void finds_tick(struct notebook *nb);
uint64_t finds_due(const struct notebook *nb);
void finds_release(struct notebook *nb);

/* ---- json_text.c ---- */
/* Converts JSON to text and back, and helps to write text for users. */

/* Appends the value; takes it (also when it fails; NULL fails). */
MUST_USE int text_json(struct buf *out, json_t *value);
/* Parses text that must be a JSON object or array; NULL: it is not. The caller frees it. */
json_t *text_parse(struct slice text);
/* The string under this name, borrowed; "" if there is none. Text from users may contain NULs:
 * use text_slice() for it. */
const char *text_field(const json_t *object, const char *name);
const char *text_display_id(const json_t *content); /* a display's own id, or NULL */
/* A page shows the text/html of this display, and not in a frame of its own. */
bool text_shows_html(const json_t *content);
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
