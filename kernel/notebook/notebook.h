/* notebook.h - the state of one notebook, and what all parts of the kernel use of it: sending,
 * publishing, home's requests. Nothing in this folder knows how a cell runs on ranks. */
#ifndef KERNEL_NOTEBOOK_NOTEBOOK_H
#define KERNEL_NOTEBOOK_NOTEBOOK_H

#include <jansson.h>

#include "base/buf.h"
#include "base/ranks.h"
#include "kernel/group/group.h"
#include "kernel/group/ledger.h"
#include "kernel/jupyter/front.h"
#include "kernel/merge/gap.h"
#include "kernel/merge/pace.h"
#include "kernel/notebook/cell_ops.h"
#include "protocol/span_fields.h"

struct cell; /* kernel/cell/cell.h */

#define RECENT 64u /* requests at home that late output may still belong to */
#define NEVER  UINT64_MAX
/* bytes of a pickled result that travel home by themselves */
#define RESULT_LIMIT  (UINT64_C(64) << 20)
#define GRACE_NS      (10 * NS_PER_S)
#define STOP_GRACE_MS 2000            /* for ranks that are stopped, before they are killed */
#define STUCK_NS      (10 * NS_PER_S) /* for who was killed to end */
/* of home or its agent without an answer in between, then nothing starts unasked */
#define DEATHS_MAX 3u
/* without any sign of the ranks that start, imports included */
#define START_LIMIT_NS (120 * NS_PER_S)

/* Messages that this folder agrees on with worker/python beyond the tables. */
#define START_RANK 1u
/* a rank of a script: beside the others, it uses the GPUs of the one with its number, and ends with
 * the script */
#define START_SCRIPT      2u
#define RUN_RESULT        1u
#define RUN_NO_DISPLAY    2u
#define RUN_STDIN         4u
#define RUN_SCRIPT        8u
#define RUN_RESULT_ALWAYS 16u
#define RUN_PIPED         32u /* the client has lines for rank 0's standard input */
#define CAPTURE_NONE      1u
#define CAPTURE_RECORD    2u
#define CAPTURE_SCRIPT    4u
#define CAPTURE_PUSH      8u
#define CAPTURE_PYTHON    16u
#define BIND_DICT         0u
#define BIND_VALUE        1u
#define BIND_MORE         2u
#define BIND_LAST         3u
#define CALL_SHOWN        1u /* its streams and displays are shown */
#define CALL_VALUE        2u /* its value comes with RETURN */
#define EXECUTE_SILENT    1u
#define EXECUTE_STORE     2u
#define EXECUTE_STDIN     4u

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
    bool asked;              /* which GPUs it has, and has not answered yet */
    bool known;              /* it has said so */
    unsigned gpus, gpus_all; /* those that others don't hold; all */
    /* who holds them: "held: GPU 1 by alice (pid 7, since 14:02)", or "" */
    char held[400];
};

/* A home that is BROKEN could not start: the next that is asked of it is another try, for the user
 * may have installed what was missing. */
enum home_state { HOME_STARTING, HOME_READY, HOME_BROKEN };

/* One that home waits for; at most one at a time. */
struct question {
    uint64_t home; /* the number under which it asked */
    uint64_t id;   /* of the PROBEs */
    uint64_t due_ns;
    struct ranks waiting; /* those that have not answered */
    json_t *answers;      /* owned: [[rank, answer], …]; NULL: nothing is asked */
};

/* Home: the process in which ordinary cells run. */
struct home {
    enum home_state state;
    unsigned deaths;         /* of home or the agent since home last answered */
    char *cwd;               /* owned: its folder when it started, or "" */
    struct asked *asked;     /* in the order in which home got them */
    struct asked *executing; /* the execute among them, or NULL */
    /* the cell at home awaits: comm messages need not wait for its end */
    bool awaits;
    bool warmed;    /* what ranks are forked from was told to get ready */
    unsigned count; /* In [count] is what home runs, or ran last */
    struct pace *pace;
    struct gap *gap; /* owned: with page */
    /* owned reference: home's last cell, whose output its streams are */
    struct request *parent;
    /* owned reference: whose they are instead, as home says; NULL: it says nothing */
    struct request *owner;
    struct buf early[2]; /* what home wrote to 1 and 2 before there was a cell to show it */
    struct recent {
        uint64_t cell;
        struct request *r;
    } recent[RECENT];
    unsigned recent_at;
};

/* Execute requests that wait, and comm messages behind them. */
struct queue {
    struct request **item; /* owned references */
    size_t n;
    bool aborting; /* requests are taken in to be aborted, and none begins */
};

/* Cells that have run, for %ranks logs; ranks 0: home's. */
struct ran_list {
    struct ran {
        uint64_t id;
        unsigned count, ranks;
    } *of; /* owned, n of them */
    size_t n, room;
};

/* By node: what it said of its memory and GPUs. */
struct gauge_list {
    struct gauge *of; /* owned, n of them */
    unsigned n;
};

/* Those that wait for a line, in the order in which they are shown. */
struct prompt_list {
    struct prompt *first; /* owned */
    uint64_t due_ns;      /* until then the first of them waits for lower ranks to ask before it */
};

/* Numbers that are given next. */
struct next_numbers {
    uint64_t cell, blob;
    uint32_t worker;
};

struct interpreter {
    char *python, *python_version, *run_id; /* owned; see struct dispatch_config */
};

struct notebook {
    struct cell_ops ops;
    struct interpreter config;
    struct next_numbers next;
    unsigned count; /* of the last cell that counted */
    struct queue queue;
    struct home home;
    struct cell *cell; /* on ranks now, or NULL */
    /* owned reference: the last cell on ranks, for what they print after it */
    struct request *rank_parent;
    struct group *group;
    struct machine *machine; /* owned: this one, then those of the group's engine */
    size_t machines;
    bool away; /* the agent is gone, and none was started in its place */
    struct prompt_list prompts;
    /* owned: what the page under Jupyter's server takes; NULL: another client has all */
    struct page *page;
    struct ran_list ran;
    struct gauge_list gauges;
    struct question question;
    struct where *where;  /* %ranks where that wait for stacks */
    bool broadcasts_fail; /* one did: variables go the ordinary way, until --fresh */
    bool over;            /* shutdown was asked for */
};

/* ---- lookup.c ---- */
/* A true or false of what is asked; `normally` where it says neither. */
bool request_flag(const struct request *r, const char *name, bool normally);
uint64_t notebook_now(const struct notebook *nb);
/* The rank whose process it is, of the notebook's group or of the script that runs; *g (may be
 * NULL) is that group. NULL: another process is that rank. */
struct rank *notebook_rank(const struct notebook *nb, uint32_t worker, struct group **g);
/* the one that runs: the script's, else the notebook's */
const struct group *notebook_shown(const struct notebook *nb);
unsigned notebook_node_of(const struct notebook *nb, uint32_t worker);
const char *notebook_node_name(const struct notebook *nb, unsigned node); /* for people */

/* ---- send.c ---- */
void notebook_start_home(struct notebook *nb);
/* Another agent for this machine instead of one that is gone; it starts home by itself. */
int notebook_revive(struct notebook *nb, struct err *err);
/* -1: it did not leave; the reason is in the log, and in *err where that is not NULL. Nothing
 * leaves while the agent is away. */
int notebook_send_to(struct notebook *nb, const uint32_t *workers, size_t n, const struct span *m,
                     struct err *err);
/* Sends m to each rank of the group that has a process and that wanted() says. 0 if there is none.
 */
typedef bool (*rank_wanted_f)(const struct rank *r, const void *arg);
int notebook_send_ranks(struct notebook *nb, const struct group *g, rank_wanted_f wanted,
                        const void *arg, const struct span *m, struct err *err);
bool rank_in_set(const struct rank *r, const void *ranks); /* arg is a struct ranks */
/* for what nobody waits for */
void notebook_send(struct notebook *nb, uint32_t worker, const struct span *m);
/* to its agent */
int notebook_send_node(struct notebook *nb, unsigned node, const struct span *m, struct err *err);
void notebook_drop(struct notebook *nb, uint64_t blob); /* 0: none */
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
struct request *queue_take(struct notebook *nb); /* the caller's reference; NULL: empty */
bool queue_holds_execute(const struct notebook *nb);
/* The first that is no execute request; the caller's reference. NULL: there is none. */
struct request *queue_take_comm(struct notebook *nb);
/* An error aborts what was sent before its reply was seen: take in first, then reply, then
 * abort. */
void queue_take_in(struct notebook *nb);
void queue_abort(struct notebook *nb); /* replies aborted to the execute requests that wait */

/* ---- home.c ---- */
/* forwards any request but execute */
void home_ask(struct notebook *nb, struct request *r);
void home_execute(struct notebook *nb, struct request *r, unsigned count);
/* "busy" and, unless silent, the cell's text */
void notebook_announce(struct notebook *nb, struct request *r, unsigned count);
void home_ready(struct notebook *nb, const struct span *m);
bool home_reply(struct notebook *nb,
                const struct span *m); /* false: to nothing that is asked here */
void home_lines(struct notebook *nb, const struct span *m);
void home_publish(struct notebook *nb, const struct span *m);
void home_owner(struct notebook *nb, const struct span *m);
/* Home is gone: all that it was asked gets this error; borrowed. */
void home_fail(struct notebook *nb, const json_t *error);
void home_disown(struct notebook *nb); /* its streams belong to its last cell again */
void home_flush(struct notebook *nb);  /* what it printed goes out */
void home_release(struct notebook *nb);
/* "execute_request" -> "execute_reply". false: comm messages, for instance, have no reply. */
MUST_USE bool home_reply_type(const char *type, char out[static 64]);
/* Text that home writes before the first cell, of a startup file say, would be seen by nobody:
 * clients show what belongs to a cell. So the first that clients see shows it. False: it is not
 * kept. */
bool home_keep_early(struct notebook *nb, unsigned stream, struct slice text);
void home_tell_early(struct notebook *nb, const struct request *r);
const struct request *home_parent_of(const struct notebook *nb, uint64_t cell);

/* ---- info.c ---- */
void info_reply(struct notebook *nb, struct request *r);
bool info_complete(struct notebook *nb, struct request *r); /* false: home's to answer */
bool info_inspect(struct notebook *nb, struct request *r);
void info_ready(struct notebook *nb, const struct span *ready);

/* ---- question.c ---- */
void question_take(struct notebook *nb, const struct span *m); /* an ASK */
/* a PROBED; false: of another */
bool question_message(struct notebook *nb, const struct rank *r, const struct span *m);
/* home gets what there is: a cell is to begin */
void question_over(struct notebook *nb);
void question_tick(struct notebook *nb);
uint64_t question_due(const struct notebook *nb);
void question_release(struct notebook *nb);

/* ---- cells_ran.c ---- */
/* This cell runs, as In [count], on some of so many ranks; 0: at home. */
void cells_ran_note(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks);

#endif
