/* cell.h - a cell that runs on ranks: its state, its ranks' parts in it, and what its steps know of
 * each other. For the files of this folder alone, which include it with room.h. */
#ifndef KERNEL_CELL_CELL_H
#define KERNEL_CELL_CELL_H

#include <jansson.h>

#include "base/buf.h"
#include "base/ranks.h"
#include "kernel/group/group.h"
#include "kernel/group/ship.h"
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
    char *note;              /* owned: why its value did not travel, or NULL */
    char *stack;             /* owned: where it hung, as asked for, or NULL */
    char *place;             /* owned: where it was when last looked at, or NULL */
    uint64_t place_ns;       /* since when it has been there */
    enum member_waits waits; /* there, for others */
    bool looked;             /* it answered the last look */
    uint64_t blob, blob_size;
};

/* Machines that did not come up. */
struct absent {
    struct absent_row {
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

enum cell_state {
    CELL_EXPANDING, /* home expands {name} in the option line */
    /* home says what the cell reads, and whether that can travel, before ranks end for it
     * (--fresh) */
    CELL_ASKING,
    CELL_STOPPING,  /* old processes end first (--fresh, %ranks stop) */
    CELL_ENGINE,    /* the engine's machines come up */
    CELL_LOOKING,   /* %ranks: nodes and ranks say how and where they are */
    CELL_GATHERING, /* ranks start, home captures, the agent looks for a port */
    CELL_SHIPPING,  /* home packs what ranks lack */
    CELL_RUNNING,
    CELL_BINDING, /* home takes the result */
    CELL_OVER,
};

struct cell {
    struct notebook *nb;
    struct cell *next_ended;
    uint64_t id;
    struct request *request; /* owned reference: the execute_request it is shown under */
    char *text;              /* owned: the cell as it came */
    size_t text_size;
    bool is_call; /* home waits for RETURN; else the client for execute_reply */
    uint64_t call, call_flags;
    unsigned count;
    bool stdin_allowed, stop_on_error, store;
    bool silent; /* its result and error are not published */
    enum cell_state state;
    struct plan plan;
    bool planned;        /* plan is to be released */
    struct group *group; /* whose ranks run it: the notebook's, or a script's own */
    /* owned: of a script; ends with the cell. NULL: the notebook's ranks run it */
    struct group *passing;
    struct ranks to; /* ranks that take part */
    unsigned world;
    struct member *member; /* owned, n of them, by rank */
    size_t n;
    /* where a member that is not over, a rank that starts, was found last */
    size_t open, starting;
    json_t *captured; /* owned; NULL while home looks */
    bool wants_places, wants_port, wants_capture, wants_return;
    /* once its old ranks have ended, the engine's run ends too, and plan.on is where others
     * start */
    bool moves;
    char *said;    /* owned: the engine's last words, or NULL */
    bool recorded; /* home was told to write it into the history */
    struct shipments ships;
    /* those that have not said yet whether they changed what home wants to send again */
    struct ranks comparing;
    size_t packed;
    unsigned pulled;     /* %pull: names done */
    size_t binds;        /* BINDs that home has not answered */
    struct cast *cast;   /* owned: PACKED blobs on their way to ranks, or NULL */
    struct check *check; /* owned: of %ranks check, or NULL */
    json_t *table;       /* owned: %ranks as rows, for RETURN; or NULL */
    json_t *expressions; /* owned: user_expressions as home evaluated them, or NULL */
    struct logs *logs;   /* owned: of %ranks logs, or NULL */
    struct merge *merge;
    struct gap *gap; /* between them, where a page takes only so much; or NULL */
    struct pace *pace;
    /* the last display that was left out, for the end of the gap */
    struct {
        char type[24];
        long rank;
        struct buf content;
    } kept;
    bool labelled;       /* a display of another rank than the first was shown */
    struct buf progress; /* bars as they stand, to be shown */
    bool progress_shown, progress_due, progress_done;
    uint64_t progress_ns;
    json_t *error; /* owned: the content of the error message once it was shown */
    /* it is to end as an error, even if memory was too short to say which */
    bool bad;
    /* owned: a failure of the whole cell in words (usage, start), a string, or NULL */
    json_t *failed;
    char *failed_name; /* owned: its ename */
    unsigned interrupts;
    uint64_t interrupted_ns;    /* when the first came */
    uint64_t gone_ns;           /* until then those that were killed end; NEVER: nobody was */
    enum cell_state gone_state; /* of the cell, when they were */
    uint64_t began_ns;          /* when its ranks began to run it */
    bool live_shown, live_off;
    uint64_t live_ns, look_ns; /* when its status, the table of ranks, are due; NEVER: off */
    /* when stacks are looked at next, NEVER: off; how long a wait may last */
    uint64_t hang_ns, hang_limit_ns;
    uint64_t hang_id;  /* of the last look, 0: none yet */
    size_t hang_asked; /* ranks that it has still to hear from */
    /* what NCCL said in it of ranks that are not equally far; "": nothing */
    char hang_nccl[256];
    uint64_t gauges_ns; /* when its status asks nodes again; 0: it has not yet */
    struct ends ends;
    struct absent absent;
    bool ending; /* all has been said, and the processes of its script are ending */
    bool judged, stopping, timed_out, listed;
    /* ranks that were putting a traceback into words got more time for it */
    bool patient;
    /* NEVER: off */
    uint64_t judge_ns, judge_limit_ns, sever_ns, kill_ns, list_ns, timeout_ns, start_ns;
};

#endif
