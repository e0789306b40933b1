/* cell.h - a cell that runs on ranks: its state, its ranks' parts in it, and what its steps know of
 * each other. For the files of this folder alone, which include it with room.h. */
#ifndef KERNEL_CELL_CELL_H
#define KERNEL_CELL_CELL_H

#include <jansson.h>

#include "base/buf.h"
#include "base/ranks.h"
#include "kernel/group/group.h"
#include "kernel/group/vars_bundle.h"
#include "kernel/jupyter/front.h"
#include "kernel/merge/gap.h"
#include "kernel/merge/merge.h"
#include "kernel/merge/pace.h"
#include "magics/plan.h"

enum member_state {
    MEMBER_WAITING,
    MEMBER_RUNNING,
    MEMBER_OK,
    MEMBER_FAILED,
    MEMBER_INTERRUPTED,
    MEMBER_DEAD
};

enum member_waits { WAITS_NOT, WAITS_FOR_GPU, WAITS_IN_COLLECTIVE };

/* One rank's part in a cell. */
struct member {
    unsigned rank;
    uint32_t worker;
    enum member_state state;
    /* what it said or how it died is a cause, not a consequence of our interrupt */
    bool accused;
    json_t *error;           /* owned: {"ename","evalue","traceback"} */
    json_t *result;          /* owned: {"data","metadata"}, or NULL */
    char *note;              /* owned: why its value was not sent, or NULL */
    char *stack;             /* owned: where it hung, as asked for, or NULL */
    char *place;             /* owned: where it was when last looked at, or NULL */
    uint64_t place_ns;       /* since when it has been there */
    enum member_waits waits; /* there, for others */
    bool looked;             /* it answered the last look */
    uint64_t blob, blob_size;
};

enum cell_state {
    CELL_EXPANDING, /* home expands {name} in the option line, which becomes a plan */
    CELL_CHOOSING,  /* what can be refused is refused, before anything starts or ends */
    CELL_ASKING,   /* --fresh: home says whether what the cell reads can travel, before ranks end */
    CELL_STOPPING, /* old processes end first (--fresh, %ranks stop) */
    CELL_ENGINE,   /* the engine's machines come up */
    CELL_STARTING, /* ranks start, home captures, the agent looks for a port */
    CELL_COMPARING, /* ranks say whether they changed what would be sent over theirs */
    CELL_SHIPPING,  /* home packs what ranks lack */
    CELL_TABLE,     /* %ranks: nodes say what their ranks hold */
    CELL_WHERE,     /* %ranks where: ranks say where they are */
    CELL_LOGS,      /* %ranks logs: nodes send what was printed */
    CELL_RUNNING,
    CELL_CHECKING, /* %ranks check */
    CELL_BINDING,  /* home takes the result */
    CELL_OVER,
};

/* How a step ends. */
enum cell_outcome {
    CELL_STAYS, /* it does not yet */
    CELL_DONE,
    CELL_IS_TABLE, /* what the cell is */
    CELL_IS_WHERE,
    CELL_IS_LOGS,
    CELL_IS_CHECK,
    CELL_ASKS_FIRST, /* home may refuse it, which is known before ranks end for it */
    CELL_ENDS_RANKS, /* those that there are end first */
    CELL_HAS_ALL,    /* nothing is to be sent before it runs */
    CELL_REPEATS,    /* %pull: the next name */
    CELL_IS_OVER,    /* nothing is left to do */
};

/* Machines that did not come up. */
struct node_errors {
    struct node_error {
        unsigned node;
        char *name, *why; /* owned */
        bool told;        /* a mark, of whoever walks over them */
    } *row;               /* by node */
    size_t n, room;
    uint64_t due_ns; /* until then it waits for more; NEVER: for none */
};

/* The other ends of connections that are to be cut. */
struct ends {
    uint64_t due_ns; /* until then answers are waited for; NEVER: nothing is */
    struct ends_node {
        unsigned node;
        bool waiting;
        struct buf ends; /* as in ENDS */
    } *of;               /* owned, n of them */
    size_t n;
    bool more; /* there are more than could be said */
};

/* What the cell was asked by: a client's execute_request, or a call of home's. */
struct cell_from {
    struct request *request; /* owned reference: the execute_request it is shown under */
    char *text;              /* owned: the cell as it came */
    size_t text_size;
    unsigned count; /* In [count] */
    bool stdin_allowed, stop_on_error, store;
    bool silent;  /* its result and error are not published */
    bool is_call; /* home waits for RETURN; else the client for execute_reply */
    uint64_t call, call_flags;
    bool wants_line, wants_return; /* home is to expand the option line; RETURN is to be sent */
};

/* Why it ends as an error. */
struct cell_fault {
    json_t
        *said;   /* owned: a failure of the whole cell in words (usage, start), a string, or NULL */
    char *ename; /* owned: its ename */
    json_t *shown; /* owned: the content of the error message once it was shown */
};

/* engine_of_cell.c */
struct cell_engine {
    bool wanted; /* its machines come up */
    /* once its old ranks have ended, the engine's run ends too, and plan.on is where others start
     */
    bool moves;
    char *said; /* owned: the engine's last words, or NULL */
    struct node_errors errors;
};

/* prepare.c and start_ranks.c */
struct cell_prep {
    json_t *captured; /* owned; NULL while home looks */
    bool wants_places, wants_port, wants_capture;
    bool recorded;   /* home was told to write it into the history */
    size_t starting; /* where a rank that starts was found last */
    uint64_t due_ns; /* the limit for ranks to come up; NEVER: off */
};

/* compare.c, prepare.c and broadcast.c: what ranks lack of home */
struct cell_send {
    struct vars_bundles ships;
    size_t packed; /* of them have left */
    /* those that have not said yet whether they changed what home wants to send again */
    struct ranks comparing;
    bool compares;               /* some were asked */
    struct broadcast *broadcast; /* owned: PACKED blobs on their way to ranks, or NULL */
};

/* Progress bars as they stand, to be shown. */
struct cell_bars {
    struct buf text;
    bool shown, due, done;
    uint64_t due_ns;
};

/* cell_output.c */
struct cell_out {
    struct merge *merge;
    struct gap *gap; /* between them, where a page takes only so much; or NULL */
    struct pace *pace;
    /* the last display that was left out, for the end of the gap */
    struct kept_display {
        char type[24];
        long rank;
        struct buf content;
    } kept;
    bool labelled; /* a display of another rank than the first was shown */
    struct cell_bars bars;
};

/* stop_ranks.c, disconnect.c and left_behind.c. Times are NEVER where nothing is due. */
struct cell_stop {
    bool decided, stopping, listed;
    bool patient; /* ranks that were putting a traceback into words got more time for it */
    bool ending;  /* all has been said, and the processes of its script are ending */
    uint64_t alike_ns, alike_limit_ns, disconnect_ns, kill_ns, list_ns, timeout_ns;
    unsigned interrupts;
    uint64_t interrupted_ns;    /* when the first came */
    uint64_t gone_ns;           /* until then those that were killed end */
    enum cell_state gone_state; /* of the cell, when they were */
    struct ends ends;
};

/* live_status.c */
struct cell_live {
    bool shown, off;
    uint64_t due_ns;    /* when its status is; NEVER: off */
    uint64_t gauges_ns; /* when it asks nodes again; 0: it has not yet */
    uint64_t began_ns;  /* when its ranks began to run it; 0: they have not */
};

/* hang.c */
struct cell_hang {
    uint64_t due_ns,
        limit_ns; /* when stacks are looked at next, NEVER: off; how long a wait may last */
    uint64_t id;  /* of the last look, 0: none yet */
    size_t asked; /* ranks that it has still to hear from */
    /* what NCCL said in it of ranks that are not equally far; "": nothing */
    char nccl[256];
};

/* bind_home.c */
struct cell_bind {
    size_t waiting;      /* BINDs that home has not answered */
    unsigned pulled;     /* %pull: names done */
    json_t *expressions; /* owned: user_expressions as home evaluated them, or NULL */
};

/* What %ranks shows. */
struct cell_magic {
    uint64_t due_ns;        /* when the table is; NEVER: off */
    json_t *table;          /* owned: %ranks as rows, for RETURN; or NULL */
    struct check *check;    /* owned: of %ranks check, or NULL */
    struct rank_logs *logs; /* owned: of %ranks logs, or NULL */
};

struct cell {
    struct notebook *nb;
    uint64_t id;
    struct cell_from from;
    enum cell_state state;
    struct plan plan;
    bool planned; /* plan is to be released */
    /* It ends as an error, even if memory was too short to say which. Set by cell_fail(), and by
     * run_end() if a rank has failed. */
    bool bad;
    struct cell_fault fault;
    struct group *group; /* whose ranks run it: the notebook's, or a script's own */
    /* owned: of a script; ends with the cell. NULL: the notebook's ranks run it */
    struct group *passing;
    struct ranks to; /* ranks that take part */
    /* the world size: start_ranks.c sets it, and for %ranks prepare.c: that of the group */
    unsigned world;
    struct member *member; /* owned, n of them, by rank */
    size_t n, open;        /* open: where one that is not over was found last */
    struct cell_engine engine;
    struct cell_prep prep;
    struct cell_send send;
    struct cell_out out;
    struct cell_stop stop;
    struct cell_live live;
    struct cell_hang hang;
    struct cell_bind bind;
    struct cell_magic magic;
};

#endif
