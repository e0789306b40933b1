/* room.h - what the files of this folder share, and nobody else includes: the notebook and home
 * here, the cell that runs on ranks in cell.h.
 *
 * What all use
 *   lookup.c       the time, ranks by their worker, names of nodes
 *   send.c         messages to agents, home and ranks; published messages and replies
 *   text.c         between JSON trees and their text
 *   ran.c          which cells have run
 * Requests and home
 *   queue.c        execute requests that wait, and their abort
 *   home.c         requests that home answers, and its output
 *   info.c         kernel_info, and completion and help of the magics: answered here
 *   question.c     what home asks of ranks that run nothing
 *   prompts.c      lines that home and ranks want of the user
 * A cell on ranks, in the order of its states
 *   cell.c         what all of its steps use: its failure, its members, sending
 *   expand.c       from its text to its plan
 *   engine.c       on which machines its ranks live; absent.c names those that did not come up
 *   end_ranks.c    ranks end before others start
 *   gather.c       what must be there before it runs: ranks, captured names, a port
 *   machines.c, sites.c, start.c   which machines and GPUs there are; where ranks start
 *   follow.c       what ranks follow home in: its environment, options, modules
 *   compare.c      what ranks have changed is not overwritten by what home has changed
 *   cast.c         variables to the ranks, the large ones from GPU to GPU
 *   world.c, meet.c   the environment of its ranks, and where they meet
 *   fanout.c       RUN and FETCH, and the end of what they begin
 *   ends.c         a rank is done, or dead
 *   stream.c       lines of the ranks through merge and pace to the client
 *   judge.c, sever.c, left_behind.c   what failed first, and how the others are stopped
 *   report.c       tracebacks, deaths and hangs in words
 *   live.c, gauges.c   the display under a cell that runs for a while; what nodes say of memory
 *   bind.c         what home is given
 *   finish.c       reply, and the end
 * %ranks
 *   table.c, where.c, hang.c, logs.c
 *   check.c        (check.h), answers.c what it takes in, facts.c and verdict.c what that means
 * What puts them together
 *   steps.c        the table: what follows on what
 *   cell_begin.c   a request or a call becomes a cell
 *   from_home.c, from_ranks.c   messages go to the part that waits for them
 *   notebook.c     who gets which request, and what is next
 */
#ifndef KERNEL_CELL_ROOM_H
#define KERNEL_CELL_ROOM_H

#include <jansson.h>

#include "base/buf.h"
#include "base/ranks.h"
#include "kernel/cell/cell.h"
#include "kernel/cell/doors.h"
#include "kernel/cell/notebook.h"
#include "kernel/group/group.h"
#include "kernel/group/ledger.h"
#include "kernel/jupyter/front.h"
#include "kernel/merge/pace.h"
#include "protocol/span_fields.h"

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
    char *python, *python_version, *run_id; /* owned; see struct notebook_config */
};

struct notebook {
    struct doors doors;
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
    struct where *where; /* %ranks where that wait for stacks */
    bool casts_fail;     /* one did: variables go the ordinary way, until --fresh */
    bool over;           /* shutdown was asked for */
};

/* lookup.c */
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

/* send.c */
void notebook_start_home(struct notebook *nb);
/* Another agent for this machine instead of one that is gone; it starts home by itself. */
int notebook_revive(struct notebook *nb, struct err *err);
/* -1: it did not leave; the reason is in the log, and in *err where that is not NULL. Nothing
 * leaves while the agent is away. */
int notebook_send_to(struct notebook *nb, const uint32_t *workers, size_t n, const struct span *m,
                     struct err *err);
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
/* A MIME bundle as a display of the cell; see jupyter_display(). name and *shown: of one that is
 * updated in place; it is made first, which sets *shown. */
void publish_bundle(struct cell *c, struct slice text, struct slice html, const char *name,
                    bool *shown);
/* takes content */
void reply_json(struct notebook *nb, struct request *r, const char *type, json_t *content);

/* queue.c */
void queue_add(struct notebook *nb, struct request *r);
struct request *queue_take(struct notebook *nb); /* the caller's reference; NULL: empty */
bool queue_holds_execute(const struct notebook *nb);
/* The first that is no execute request; the caller's reference. NULL: there is none. */
struct request *queue_take_comm(struct notebook *nb);
/* An error aborts what was sent before its reply was seen: take in first, then reply, then
 * abort. */
void queue_take_in(struct notebook *nb);
void queue_abort(struct notebook *nb); /* replies aborted to the execute requests that wait */

/* home.c */
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

/* info.c */
void info_reply(struct notebook *nb, struct request *r);
bool info_complete(struct notebook *nb, struct request *r); /* false: home's to answer */
bool info_inspect(struct notebook *nb, struct request *r);
void info_ready(struct notebook *nb, const struct span *ready);

/* from_home.c */
void from_home(struct notebook *nb, const struct span *m);
void from_home_exited(struct notebook *nb, const struct span *m);
void from_home_lost(struct notebook *nb,
                    const char *why); /* with its agent, which starts another */

/* cell_begin.c */
bool cell_is_ours(struct request *r);
void cell_begin(struct notebook *nb, struct request *r, unsigned count);
void cell_begin_call(struct notebook *nb, const struct span *m);
void cell_destroy(struct cell *c);

/* steps.c */
void steps_begin(struct cell *c);
void steps_go_on(struct cell *c); /* it takes the steps that are due; CELL_OVER: it is over */
void steps_tick(struct cell *c, uint64_t now);
uint64_t steps_due(const struct cell *c);

/* cell.c */
/* The cell is to end with this error, unless it has another one already. The step that it is in
 * goes no further; ranks that run are stopped first. */
void cell_fail(struct cell *c, const char *ename, const char *format, ...) PRINTF_LIKE(3, 4);
/* of Python's, behind the head */
void cell_fail_in_words(struct cell *c, const char *ename, const char *head, struct slice text);
bool cell_is_shown(const struct cell *c); /* its streams and displays reach the client */
bool cell_wants_value(const struct cell *c);
bool cell_is_piped(const struct cell *c); /* the client's lines are rank 0's standard input */
bool cell_runs(const struct cell *c);     /* on ranks, which are stopped if it fails */
/* Sends what an answer is waited for; -1: it did not leave, and the cell has failed. */
int cell_send(struct cell *c, const uint32_t *workers, size_t n, const struct span *m);
int cell_send_ranks(struct cell *c, const struct ranks *to, const struct span *m);
int cell_send_node(struct cell *c, unsigned node, const struct span *m);
int cell_send_home(struct cell *c, const struct span *m);
struct member *cell_worker(struct cell *c, uint32_t worker);
int cell_members(struct cell *c); /* one for each rank of c->to */
void cell_release_members(struct cell *c);
bool cell_unfinished(struct cell *c);    /* a member waits or runs */
bool cell_lingers(const struct cell *c); /* processes of its script have not ended */

/* expand.c */
void expand_begin(struct cell *c);
enum cell_outcome expand_look(struct cell *c);
void expand_reply(struct cell *c, const json_t *content);

/* machines.c */
size_t machines_of(const struct notebook *nb, struct machine **first); /* the group's; borrowed */
struct machine *machine_of(const struct notebook *nb, unsigned node);  /* NULL: none of its */
unsigned machines_lost(const struct notebook *nb);
int machines_add(struct notebook *nb, unsigned first, unsigned n); /* -1: memory is out */

/* engine.c */
int engine_choose(struct cell *c);              /* --on; -1: the cell has failed */
bool group_is_somewhere(const struct group *g); /* has ranks, or an engine */
void engine_begin(struct cell *c);
enum cell_outcome engine_look(struct cell *c);
void engine_fail(struct cell *c);
/* ends the run, and with it the ranks that are left there */
void engine_leave(struct notebook *nb);
void engine_end(struct notebook *nb); /* that too, and the group is nowhere any more */
/* the user has said where, or wants no place any more */
void engine_settle(struct notebook *nb);
bool engine_is_torn(const struct notebook *nb); /* it has lost machines */
void engine_lost(struct notebook *nb, unsigned node, const char *why);
void engine_event(struct notebook *nb, unsigned engine, enum engine_event event, const char *text);

/* meet.c */
/* Writes into *out at which address of `node` all these n nodes can meet it; where there is none,
 * its first; "": it has none. -1: memory is out. */
int meet_at(const struct notebook *nb, unsigned node, const unsigned *nodes, size_t n,
            struct buf *out);

/* absent.c */
void absent_add(struct cell *c, unsigned node, const char *name, const char *why);
void absent_look(struct cell *c); /* has each come, or not? */
void absent_fail(struct cell *c); /* of those that are known to be absent */
void absent_tick(struct cell *c, uint64_t now);
void absent_release(struct cell *c);

/* sites.c */
struct sites {
    struct place_node *node; /* owned, n of them: those that are not lost */
    size_t n;
};
int sites_open(const struct notebook *nb, struct sites *s); /* -1: memory is out */
/* index; PLACE_NOWHERE: it is none of them */
unsigned sites_find(const struct sites *s, unsigned node);
void sites_gpus(struct notebook *nb, unsigned node, const struct span *m);
struct place_want sites_want(const struct cell *c); /* what its ranks want of GPUs */
/* its size; 0: that is for the machines to say */
unsigned sites_world(const struct cell *c);
/* for their GPUs, if it depends on them; -1: the cell has failed */
int sites_ask(struct cell *c);
bool sites_wait(const struct cell *c); /* for an answer */

/* start.c */
void start_begin(struct cell *c);
/* false: the ranks that are left end first, for there is no room for all */
bool start_look(struct cell *c);
/* a rank came: the limit for the others begins anew */
void start_progress(struct cell *c);
/* READY said it */
void start_check(struct notebook *nb, const struct rank *r, struct slice version);
void start_tick(struct cell *c, uint64_t now);

/* gather.c */
void choose_begin(struct cell *c);
enum cell_outcome choose_look(struct cell *c);
void ask_first_begin(struct cell *c);
enum cell_outcome ask_first_look(struct cell *c);
void prepare_begin(struct cell *c);
enum cell_outcome prepare_look(struct cell *c);
void ship_begin(struct cell *c);
enum cell_outcome ship_look(struct cell *c);
/* CAPTURED, PACKED, PORT */
void gather_message(struct cell *c, unsigned node, const struct span *m);

/* end_ranks.c */
void end_ranks_begin(struct cell *c);
enum cell_outcome end_ranks_look(struct cell *c);

/* follow.c */
/* the ranks that were told something else; -1: the cell has failed */
int follow_tell(struct cell *c);

/* compare.c */
void compare_begin(struct cell *c);
enum cell_outcome compare_look(struct cell *c);
/* a PROBED; false: not one that is waited for */
bool compare_message(struct cell *c, struct rank *r, const struct span *m);
void compare_over(struct cell *c); /* the cell is: nobody is to look any more */

/* cast.c */
/* takes its blob; ships it now or later */
void cast_packed(struct cell *c, const struct span *packed);
/* a PROBED; false: not the one that is waited for */
bool cast_message(struct cell *c, uint32_t worker, const struct span *m);
void cast_failed(struct cell *c, const struct span *done); /* a rank's DONE: it lacks the names */
void cast_tick(struct cell *c, uint64_t now);
uint64_t cast_due(const struct cell *c);
void cast_over(struct cell *c);
void cast_release(struct cell *c);

/* world.c */
/* Has each of these ranks GPUs that no other one has, as far as GPUs are given? NCCL takes no
 * others. */
bool world_gpus_are_own(const struct cell *c, const struct ranks *to);
bool world_is_near(const struct cell *c, const struct ranks *to); /* they are on one machine */
json_t *world_env(const struct cell *c);                          /* as RUN has it */
int world_add_layout(const struct cell *c, struct buf *out);
/* Adds "env" and "layout" as RUN has them, of the world that the cell is in. -1: memory is out. */
MUST_USE int world_add(const struct cell *c, json_t *to);

/* fanout.c */
/* %pull of one rank that is named by its number: no lists */
bool fanout_pulls_values(const struct cell *c);
void run_begin(struct cell *c);
enum cell_outcome run_look(struct cell *c);
/* all have ended: what failed is shown */
enum cell_outcome run_end(struct cell *c);

/* ends.c */
void ends_done(struct notebook *nb, struct rank *r, const struct span *m);
void ends_exited(struct notebook *nb, uint32_t worker, const struct span *m);
void ends_lost(struct notebook *nb, unsigned node, const char *why); /* all ranks of a node */

/* left_behind.c */
void left_behind_tick(struct cell *c, uint64_t now);

/* from_ranks.c */
void from_ranks(struct notebook *nb, uint32_t worker, const struct span *m);

/* stream.c */
int stream_open(struct cell *c, struct err *err);
void stream_lines(struct cell *c, unsigned rank, const struct span *m);
void stream_text(struct cell *c, unsigned stream, struct slice text); /* as it is */
/* rank: for a label above it, or -1 */
void stream_display(struct cell *c, long rank, const char *type, const struct parcel *p);
/* a line of ours, on stderr */
void stream_note(struct cell *c, const char *format, ...) PRINTF_LIKE(2, 3);
void stream_flush(struct cell *c);
void stream_tick(struct cell *c);
uint64_t stream_due(const struct cell *c);
void stream_close(struct cell *c);

/* judge.c */
void judge_stop(struct cell *c); /* those that still run are to end */
/* none runs any more: nothing is left to be done about them */
void judge_rest(struct cell *c);
void judge_failure(struct cell *c); /* somebody failed: look again after a moment */
void judge_tick(struct cell *c, uint64_t now);
void judge_interrupt(struct cell *c); /* by the user */
/* of `cellspan run`: goes on to the script's ranks */
void judge_signal(struct cell *c, unsigned signal);
/* ranks are, in so long: who does not end then is left behind */
void judge_killed(struct cell *c, uint64_t after_ns);
void judge_kill(struct notebook *nb, struct group *g, const struct ranks *which, unsigned signal,
                uint64_t grace_ms);
void judge_stack(struct cell *c, uint32_t worker, struct slice text);
uint64_t judge_due(const struct cell *c);

/* sever.c */
void sever_begin(struct cell *c);
void sever_ends(struct cell *c, unsigned node, const struct span *m);
void sever_tick(struct cell *c, uint64_t now);
void sever_release(struct cell *c);

/* report.c */
/* the content of the error message, from its members */
json_t *report_error(struct cell *c);
/* ranks that failed like those that it tells of, but later */
void report_late(struct cell *c);
void report_hangs(struct cell *c);
/* takes error; the first is shown, at once */
void report_show(struct cell *c, json_t *error);
/* of faulthandler's text: the part that tells of it */
const char *report_main_thread(const char *stack);
/* its innermost frame, and the line of the cell that led there */
int report_place(const char *stack, struct buf *out);
/* {"ename","evalue","traceback"} */
json_t *report_death(const struct notebook *nb, const struct rank *r, const struct span *m);
json_t *report_exit(const char *ename, const char *who, const struct span *m);

/* bind.c */
void bind_begin(struct cell *c);
enum cell_outcome bind_look(struct cell *c);
void bind_reply(struct cell *c, const struct span *reply, const json_t *content);
void bind_drop_blobs(struct cell *c);

/* finish.c */
void finish_begin(struct cell *c);

/* gauges.c */
struct gauges_text {
    char gpu[64];
    char other[96];
};
struct status_rank;
void gauges_ask(struct notebook *nb);        /* the nodes on which ranks live */
bool gauges_wait(const struct notebook *nb); /* some have not answered, and may still */
bool gauges_have_gpus(const struct notebook *nb);
void gauges_take(struct notebook *nb, unsigned node, const struct span *m);
/* Fills in what the rank's node said of it; texts are borrowed from text. */
void gauges_row(const struct notebook *nb, const struct rank *r, struct gauges_text *text,
                struct status_rank *row);
void gauges_release(struct notebook *nb);

/* ran.c */
/* This cell runs, as In [count], on some of so many ranks; 0: at home. */
void ran_note(struct notebook *nb, uint64_t id, unsigned count, unsigned ranks);

/* logs.c */
struct logs;
void logs_begin(struct cell *c);
enum cell_outcome logs_look(struct cell *c);
void logs_take(struct cell *c, unsigned node, const struct span *m);
void logs_lost(struct cell *c, unsigned node);
void logs_tick(struct cell *c, uint64_t now);
uint64_t logs_due(const struct cell *c);
void logs_free(struct logs *l);

/* live.c */
void live_begin(struct cell *c); /* its ranks run */
void live_tick(struct cell *c, uint64_t now);
void live_cleared(struct cell *c); /* rank 0 cleared the cell's output */
void live_end(struct cell *c);

/* hang.c */
void hang_begin(struct cell *c);
void hang_tick(struct cell *c, uint64_t now);
/* false: somebody else asked for it */
bool hang_stack(struct cell *c, uint32_t worker, const struct span *m);
/* the user is asked for a line: what waits meanwhile does not hang */
void hang_put_off(struct cell *c);

/* question.c */
void question_take(struct notebook *nb, const struct span *m); /* an ASK */
/* a PROBED; false: of another */
bool question_message(struct notebook *nb, const struct rank *r, const struct span *m);
/* home gets what there is: a cell is to begin */
void question_over(struct notebook *nb);
void question_tick(struct notebook *nb);
uint64_t question_due(const struct notebook *nb);
void question_release(struct notebook *nb);

/* prompts.c */
/* An INPUT of home's (rank -1) or a rank's, shown under r when its turn has come. */
void prompts_add(struct notebook *nb, const struct request *r, uint32_t worker, long rank,
                 bool labelled, const struct span *m);
/* an INPUT that says so */
void prompts_take_back(struct notebook *nb, uint32_t worker, const struct span *m);
void prompts_leave(struct notebook *nb, uint32_t worker); /* it waits for none any more */
/* nor does any rank: they are interrupted */
void prompts_stop(struct notebook *nb);
void prompts_answer(struct notebook *nb, const struct request *r); /* an input_reply */
bool prompts_wait(const struct notebook *nb);                      /* somebody waits for a line */
void prompts_tick(struct notebook *nb);
uint64_t prompts_due(const struct notebook *nb);
void prompts_release(struct notebook *nb);

/* where.c */
/* true: it was a `%ranks where` and is being answered */
bool where_request(struct notebook *nb, struct request *r);
void where_begin(struct cell *c);
enum cell_outcome where_look(struct cell *c);
/* false: somebody else asked for it */
bool where_stack(struct notebook *nb, uint32_t worker, const struct span *m);
void where_tick(struct notebook *nb);
uint64_t where_due(const struct notebook *nb);
void where_release(struct notebook *nb);

/* table.c */
void table_begin(struct cell *c);
enum cell_outcome table_look(struct cell *c);

#endif
