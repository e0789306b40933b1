/* SPDX-License-Identifier: BSD-3-Clause */
/* cell.h - the state of a cell that runs on ranks, and the functions that all its files use. The
 * other headers of this folder have the functions of each file. Each step has two
 * functions: NAME_begin() starts its work; NAME_poll() returns whether and how the step has ended.
 * kernel/dispatch/cell_steps.c calls both and decides the next state. */
#ifndef KERNEL_CELL_CELL_H
#define KERNEL_CELL_CELL_H

#include <jansson.h>

#include "kernel/merge/omit.h"
#include "kernel/notebook/notebook.h"

enum member_state {
    MEMBER_WAITING,
    MEMBER_RUNNING,
    MEMBER_OK,
    MEMBER_REPLACED, /* it has died, and others do its work; each state below makes the cell fail */
    MEMBER_FAILED,
    MEMBER_INTERRUPTED,
    MEMBER_DEAD
};

/* A rank that runs the cell. */
struct member {
    unsigned rank;
    uint32_t worker;
    enum member_state state;
    bool failed_by_itself;       /* it failed by itself, not because the kernel interrupted it */
    bool told;                   /* the error that is shown names it */
    json_t *error;               /* owned: {"ename","evalue","traceback"} */
    json_t *result;              /* owned: {"data","metadata"}, or NULL */
    char *note;                  /* owned: why its value was not sent, or NULL */
    char *stack;                 /* owned: its stack when an interrupt did not end it, or NULL */
    char collective[32];         /* in which hang.c has seen it rest, for the status; "": none */
    struct stack_sample *sample; /* owned by hang.c, read only in kernel/ranks/; or NULL */
    char *value;                 /* owned: a small value, in place of a blob; or NULL */
    size_t value_size;
    uint64_t blob, blob_size;
    enum omit_frames frames; /* cell_output.c, while the cell is stopped */
};

/* Whether ranks run the cell. Before and after that, home's death and an interrupt end it at once.
 */
enum cell_phase { CELL_BEFORE, CELL_RUNS, CELL_AFTER };

/* How a step ends. */
enum cell_outcome {
    CELL_STAYS, /* it has not ended */
    CELL_DONE,
    CELL_IS_TABLE,   /* the cell is %ranks */
    CELL_IS_WHERE,   /* %ranks where */
    CELL_IS_LOGS,    /* %ranks logs */
    CELL_IS_CODE,    /* %ranks code */
    CELL_IS_CHECK,   /* %ranks check */
    CELL_ASKS_FIRST, /* the cell may be refused, which must be known before ranks end for it */
    CELL_ENDS_RANKS, /* the old ranks must end first */
    CELL_IS_OVER,    /* nothing is left to do */
};

/* A step of a cell, with its functions. It is at the end of the file that does its work. The table
 * in kernel/dispatch/cell_steps.c says what comes after it. All but `begin` may be empty. */
struct cell_step {
    enum cell_phase phase;
    bool ends_ranks; /* it waits for the end of ranks: their deaths do not fail the cell */
    void (*begin)(struct cell *c); /* starts its work */
    /* called after every event: whether and how it has ended; NULL: it is the last step */
    enum cell_outcome (*poll)(struct cell *c);
    void (*fail)(struct cell *c);      /* cleans up if the cell fails in this step */
    void (*timed_out)(struct cell *c); /* cell_limit_step()'s time has come */
    /* home has answered what cell_ask_home() asked */
    void (*reply)(struct cell *c, const struct span *m, const json_t *content);
    /* a rank has answered a PROBE; false: of another step, or of another cell */
    bool (*probed)(struct cell *c, struct rank *r, const struct span *m);
    void (*ready)(struct cell *c, const struct rank *r, const struct span *m); /* it has started */
};

/* The step in which the cell is, set by cell_steps.c. Other files do not ask which one it is: what
 * they need is a field of the step. */
struct cell_now {
    const struct cell_step *step;
    uint64_t due_ns; /* see cell_limit_step() */
    /* when the step began; NEVER: slow_answers.c has said that it waits for long */
    uint64_t since_ns;
};

/* Where the cell comes from: a client's execute_request, or a CALL from home. */
struct cell_from {
    struct request *request; /* owned reference: clients show the output under this request */
    char *text;              /* owned: the whole cell */
    size_t text_size;
    unsigned count; /* In [count] */
    bool stdin_allowed;
    bool is_call; /* home waits for RETURN; else the client waits for execute_reply */
    uint64_t asker, call, call_flags; /* of a call: home's cell, home's number for it, its flags */
    char *load;                       /* owned: the function that ranks call; or NULL */
    size_t load_size;
    bool overlaps;     /* it began while other cells ran, so it belongs to their world */
    struct cell *next; /* owned: the next of the calls that wait, or of the cells that run */
    bool wants_line, wants_return; /* waits for the expanded option line; must send RETURN */
    /* owned, of exchange.c: what waits for ranks; NULL: nobody has sent a HAND */
    struct exchange *exchange;
};

/* Why the cell fails. */
struct cell_fault {
    /* of the whole cell, as when its options are wrong or ranks don't start: owned:
     * {"ename","evalue","traceback"}; or NULL */
    json_t *whole;
    json_t *shown; /* owned: the content of the error message, after it was shown */
};

/* engine_of_cell.c */
enum cell_engine_wait {
    CELL_WAITS_NOT,
    CELL_WAITS_FOR_NODES,  /* of the engine */
    CELL_WAITS_FOR_ROOM,   /* a node acknowledges too little; a line has said so */
    CELL_WAITS_FOR_ENDS,   /* of ranks that were idle for too long, and have their GPUs still */
    CELL_WAITS_FOR_PARKED, /* ranks, which are coming back to their GPUs, or leaving them */
};

struct cell_engine {
    enum cell_engine_wait waits;
    bool here;  /* --on local of a world of its own: on this machine, wherever the group is */
    bool moves; /* when the old ranks have ended, the engine's run ends; new ranks use plan.on */
    char *said; /* owned: the engine's last message, or NULL */
    struct node_errors *errors; /* owned, of node_errors.c; NULL: there are none */
};

/* prepare.c and start_ranks.c */
struct cell_prep {
    json_t *captured; /* owned: `names` of CAPTURED; NULL until home has answered */
    bool wants_gpus, wants_port, wants_capture;
    unsigned left_over; /* ranks that an earlier cell started, and that ended before they were up */
    unsigned replaced;  /* how many of these the cell has looked at: it starts what is missing */
    struct gpu_memory *gpu_memory; /* owned, of gpu_memory.c; NULL: nobody was asked */
};

/* compare.c, prepare.c and broadcast.c: home's variables that ranks lack */
struct cell_send {
    struct vars_bundles bundles;
    /* ranks that have not told yet whether they changed variables that home would overwrite */
    struct ranks comparing;
    struct broadcast *broadcast; /* owned: packed blobs that wait to be sent to ranks, or NULL */
};

/* What the client sees. */
struct cell_out {
    struct output_path *path; /* owned, of cell_output.c; NULL: the cell has no output */
    struct cell_tabs *tabs;   /* owned, in cell_panel.h; NULL: there are no tabs */
};

/* How the ranks are stopped. */
struct cell_stop {
    bool decided;               /* the error was shown, or the cell has failed: ranks must stop */
    bool stopping;              /* ranks were told to stop */
    unsigned interrupts;        /* by the user */
    uint64_t at_breakpoints_ns; /* how long workers were stopped at breakpoints, in all */
    struct stop_timers *timers; /* owned, of stop_cell.c */
    struct cut_ranks *cut;      /* owned, of cut_ranks.c; NULL: no connections are being cut */
    bool failed_running;        /* run_cell.c: the cell failed while ranks ran it */
    /* run_cell.c: all ranks of its own group have said DONE; their processes must end */
    bool ending;
};

/* live_status.c */
struct cell_live {
    bool shown;
    uint64_t due_ns;    /* time of the next update; NEVER: off */
    uint64_t gauges_ns; /* when it asks nodes again; 0: it has not asked yet */
    uint64_t opened_ns; /* when it had its plan */
    uint64_t began_ns;  /* when ranks began to run the cell; 0: they have not begun */
};

/* bind_home.c */
struct cell_bind {
    size_t waiting;      /* BINDs that home has not answered */
    json_t *expressions; /* owned: user_expressions, evaluated by home; or NULL */
};

/* %ranks and its commands */
struct cell_magic {
    json_t *table;          /* owned: what %ranks adds to RETURN; or NULL */
    struct check *check;    /* owned: %ranks check, or NULL */
    struct rank_logs *logs; /* owned: %ranks logs, or NULL */
};

struct cell {
    struct notebook *nb;
    uint64_t id;
    struct cell_from from;
    struct cell_now now;
    struct plan plan;
    bool planned; /* plan is valid and must be released */
    /* The cell fails, even if memory is too short to keep the reason. Set by cell_fail(), by
     * run_end() if a rank has failed, and by cell_end.c if the values can't be sent. */
    bool bad;
    struct cell_fault fault;
    /* its ranks run the cell: the notebook's, or the cell's own, owned: see cell_own_group() */
    struct group *group;
    struct ranks to; /* ranks that take part */
    /* the world size, set by start_ranks.c; for %ranks, prepare.c sets it to the group's */
    unsigned world;
    struct member *member; /* owned, n of them, by rank */
    /* at: index where the last search of cell_some_member() stopped */
    size_t n, at;
    struct cell_engine engine;
    struct cell_prep prep;
    struct cell_send send;
    struct cell_out out;
    struct cell_stop stop;
    struct cell_live live;
    struct cell_hang *hang; /* owned, of kernel/ranks/hang.c; NULL: no samples are taken */
    struct cell_bind bind;
    struct cell_magic magic;
};

/* The own group of a script or of --beside, which expand.c has made and which ends with the cell;
 * NULL: it has none. */
static inline struct group *cell_own_group(const struct cell *c)
{
    return c->group == c->nb->group ? NULL : c->group;
}

/* ---- cell.c ---- */
/* the cells that run */
#define CELLS_EACH(c, nb) for (struct cell *c = (nb)->cells; c; c = c->from.next)
struct cell *cell_find(const struct notebook *nb, uint64_t id); /* NULL: it does not run */
struct cell *cell_of_client(const struct notebook *nb); /* the one that is no call; NULL: none */
/* the one that has this worker as a member; NULL: none */
struct cell *cell_on(const struct notebook *nb, uint32_t worker);
void cell_append(struct cell **list, struct cell *c);
struct cell *cell_take_out(struct cell **at); /* the one at this place of its list */
/* Records the cell's error; the first error stays. The current step ends after this event. If ranks
 * run the cell, they are stopped first. Always -1. */
int cell_fail(struct cell *c, const char *ename, const char *format, ...) PRINTF_LIKE(3, 4);
/* the same; the error's text is head, then text, which may come from Python */
void cell_fail_in_words(struct cell *c, const char *ename, const char *head, struct slice text);
bool cell_is_shown(const struct cell *c); /* its streams and displays reach the client */
/* A client's, which is not silent: its result and error are published. */
bool cell_is_published(const struct cell *c);
bool cell_is_stored(const struct cell *c); /* it belongs to home's history */
bool cell_wants_value(const struct cell *c);
bool cell_is_function(const struct cell *c); /* a call whose value is wanted, whatever its size */
/* A thread of home calls a function. Calls of other threads may run at the same time, on other
 * ranks, and show their output beside this one's. */
bool cell_is_of_thread(const struct cell *c);
/* Updates of its displays reach who keeps its outputs. A server that runs cells itself
 * (jupyter-server-nbmodel, jupyter-server-documents) drops them, or keeps each as another output.
 */
bool cell_is_redrawn(const struct cell *c);
/* Of jupyter console, jupyter run or qtconsole, which show the first state of a display only. */
bool cell_is_of_console(const struct cell *c);
bool cell_is_piped(const struct cell *c); /* the client's lines are rank 0's standard input */
bool cell_is_over(const struct cell *c);  /* its last step has begun */
/* The time limit of the step that the cell is in: then cell_steps.c calls the step's timed_out().
 * NEVER: there is none, as when a step begins. */
void cell_limit_step(struct cell *c, uint64_t due_ns);
bool cell_runs(const struct cell *c); /* ranks run it, and must be stopped if it fails */
/* For messages whose answer the cell needs. -1: the message was not sent; the cell has failed. */
int cell_send(struct cell *c, const uint32_t *workers, size_t n, const struct span *m);
int cell_send_ranks(struct cell *c, const struct ranks *to, const struct span *m);
/* interrupts those of them that live, for a cell that is over */
void cell_interrupt(struct cell *c, const struct ranks *which);
void cell_send_running(struct cell *c, const struct span *m); /* to those that still run */
void cell_send_living(struct cell *c, const struct span *m);  /* also to those that have ended it */
bool cell_member_lives(const struct cell *c, const struct member *m);
int cell_send_node(struct cell *c, unsigned node, const struct span *m);
int cell_send_home(struct cell *c, const struct span *m);
/* sends home a request of this type; takes content */
int cell_ask_home(struct cell *c, const char *type, json_t *content, uint64_t flags);
/* Adds the ranks of -r, in a world of n. -1: *err says which ranks there are, or would be started.
 */
int cell_parse_ranks(const struct cell *c, unsigned n, struct ranks *which, struct err *err);
struct member *cell_worker(const struct cell *c, uint32_t worker);
struct member *cell_member(const struct cell *c, unsigned rank);
int cell_members(struct cell *c); /* makes one for each rank of c->to; -1: memory is out */
void cell_release_members(struct cell *c);
/* Is it true of a member? It is asked after each event of a member, so it starts where the last
 * search stopped: the total time stays linear. */
bool cell_some_member(struct cell *c, bool (*is)(const struct cell *, const struct member *));
bool cell_unfinished(struct cell *c);    /* a member waits or runs */
bool cell_lingers(const struct cell *c); /* some processes of its script have not ended */

/* Publishes text and HTML as a display of the cell, as output_mime() does, which others call. */
void cell_show_mime(struct cell *c, struct slice text, struct slice html, const char *name,
                    bool *shown);

/* ---- cell_end.c ---- */
/* Shows the end of a cell that ran beside others, and sends the client its reply, or home its
 * RETURN. */
void cell_end_beside(struct cell *c);

struct held_output;

/* ---- cell_output.c ---- */
/* Shows text and HTML as a display of the cell; see jupyter_display(). name, shown: for a display
 * that is updated in place (else NULL); *shown is set when it has been shown once. */
void output_mime(struct cell *c, struct slice text, struct slice html, const char *name,
                 bool *shown);
int output_open(struct cell *c, struct err *err); /* until then, and after -1, output is lost */
bool output_is_open(const struct cell *c);
void output_on_lines(struct cell *c, unsigned rank, const struct span *m);
/* whole lines, as if the rank had printed them */
void output_rank_text(struct cell *c, unsigned rank, struct slice text);
void output_rank_over(struct cell *c, unsigned rank);                 /* it prints nothing more */
void output_text(struct cell *c, unsigned stream, struct slice text); /* without merge */
/* a display of this rank, an update of one, or clear_output */
void output_display(struct cell *c, const struct member *member, const char *type,
                    const struct content *p);
/* Clears the page, after what has waited for it. wait: the next output does it. */
void output_clear(struct cell *c, bool wait);
/* What cell_clears.c has kept. */
void output_again(struct cell *c, const struct held_output *what, const struct content *p);
void output_show_held(struct cell *c); /* shows the displays that wait for those of other ranks */
/* a line of the kernel's own, on stderr */
void output_note(struct cell *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* the same for what is no warning: on stdout where a page shows it, since pages colour stderr */
void output_news(struct cell *c, const char *format, ...) PRINTF_LIKE(2, 3);
void output_flush(struct cell *c);
void output_tick(struct cell *c, uint64_t now);
uint64_t output_due(const struct cell *c);
size_t output_waiting(const struct cell *c); /* bytes that wait to be published */
void output_close(struct cell *c);

#endif
