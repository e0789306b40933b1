/* parts.h - the parts of a cell on ranks, file by file; cell.h has its state. A state's functions
 * are NAME_begin(), which does its work or asks for it, and NAME_look(), which says whether and how
 * it has ended. kernel/dispatch/cell_steps.c calls them, and says what follows on what. */
#ifndef KERNEL_CELL_PARTS_H
#define KERNEL_CELL_PARTS_H

#include "kernel/cell/cell.h"
#include "kernel/group/place.h"
#include "kernel/notebook/notebook.h"

/* ---- cell.c ---- */
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
void cell_send_running(struct cell *c, const struct span *m); /* to those that still run */
int cell_send_node(struct cell *c, unsigned node, const struct span *m);
int cell_send_home(struct cell *c, const struct span *m);
struct member *cell_worker(const struct cell *c, uint32_t worker);
int cell_members(struct cell *c); /* one for each rank of c->to */
void cell_release_members(struct cell *c);
bool cell_unfinished(struct cell *c);    /* a member waits or runs */
bool cell_lingers(const struct cell *c); /* processes of its script have not ended */

/* ---- expand.c ---- */
void expand_begin(struct cell *c);
enum cell_outcome expand_look(struct cell *c);
void expand_reply(struct cell *c, const json_t *content);

/* ---- end_ranks.c ---- */
void end_ranks_begin(struct cell *c);
enum cell_outcome end_ranks_look(struct cell *c);

/* ---- machines.c ---- */
size_t machines_of(const struct notebook *nb, struct machine **first); /* the group's; borrowed */
struct machine *machine_of(const struct notebook *nb, unsigned node);  /* NULL: none of its */
unsigned machines_lost(const struct notebook *nb);
void machines_forget(struct notebook *nb);                         /* all but this one */
int machines_add(struct notebook *nb, unsigned first, unsigned n); /* -1: memory is out */

/* ---- engine_of_cell.c ---- */
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

/* ---- node_errors.c ---- */
void node_errors_add(struct cell *c, unsigned node, const char *name, const char *why);
void node_errors_look(struct cell *c); /* has each come, or not? */
void node_errors_fail(struct cell *c); /* of those that are known to be absent */
void node_errors_tick(struct cell *c, uint64_t now);
void node_errors_release(struct cell *c);

/* ---- placement.c ---- */
struct placement {
    struct place_node *node; /* owned, n of them: those that are not lost */
    size_t n;
};
int placement_open(const struct notebook *nb, struct placement *s); /* -1: memory is out */
/* index; PLACE_NOWHERE: it is none of them */
unsigned placement_find(const struct placement *s, unsigned node);
void placement_gpus(struct notebook *nb, unsigned node, const struct span *m);
struct place_want placement_want(const struct cell *c); /* what its ranks want of GPUs */
/* its size; 0: that is for the machines to say */
unsigned placement_world(const struct cell *c);
/* for their GPUs, if it depends on them; -1: the cell has failed */
int placement_ask(struct cell *c);
bool placement_wait(const struct cell *c); /* for an answer */

/* ---- start_ranks.c ---- */
void start_begin(struct cell *c);
/* false: the ranks that are left end first, for there is no room for all */
bool start_look(struct cell *c);
/* a rank came: the limit for the others begins anew */
void start_progress(struct cell *c);
/* READY said it */
void start_check(struct notebook *nb, const struct rank *r, struct slice version);
void start_tick(struct cell *c, uint64_t now);

/* ---- prepare.c ---- */
void prepare_choose_begin(struct cell *c);
enum cell_outcome prepare_choose_look(struct cell *c);
void prepare_ask_begin(struct cell *c);
enum cell_outcome prepare_ask_look(struct cell *c);
void prepare_begin(struct cell *c);
enum cell_outcome prepare_look(struct cell *c);
void prepare_ship_begin(struct cell *c);
enum cell_outcome prepare_ship_look(struct cell *c);
/* CAPTURED, PACKED, PORT */
void prepare_message(struct cell *c, unsigned node, const struct span *m);

/* ---- follow.c ---- */
/* the ranks that were told something else; -1: the cell has failed */
int follow_tell(struct cell *c);

/* ---- compare.c ---- */
void compare_begin(struct cell *c);
enum cell_outcome compare_look(struct cell *c);
/* a PROBED; false: not one that is waited for */
bool compare_message(struct cell *c, struct rank *r, const struct span *m);
void compare_over(struct cell *c); /* the cell is: nobody is to look any more */

/* ---- broadcast.c ---- */
/* takes its blob; ships it now or later */
void broadcast_packed(struct cell *c, const struct span *packed);
/* a PROBED; false: not the one that is waited for */
bool broadcast_message(struct cell *c, uint32_t worker, const struct span *m);
void broadcast_failed(struct cell *c,
                      const struct span *done); /* a rank's DONE: it lacks the names */
void broadcast_tick(struct cell *c, uint64_t now);
uint64_t broadcast_due(const struct cell *c);
void broadcast_over(struct cell *c);
void broadcast_release(struct cell *c);

/* ---- world.c ---- */
/* Has each of these ranks GPUs that no other one has, as far as GPUs are given? NCCL takes no
 * others. */
bool world_gpus_are_own(const struct cell *c, const struct ranks *to);
bool world_is_near(const struct cell *c, const struct ranks *to); /* they are on one machine */
json_t *world_env(const struct cell *c);                          /* as RUN has it */
int world_add_layout(const struct cell *c, struct buf *out);
/* Adds "env" and "layout" as RUN has them, of the world that the cell is in. -1: memory is out. */
MUST_USE int world_add(const struct cell *c, json_t *to);

/* ---- rendezvous.c ---- */
/* Writes into *out at which address of `node` all these n nodes can meet it; where there is none,
 * its first; "": it has none. -1: memory is out. */
int rendezvous_at(const struct notebook *nb, unsigned node, const unsigned *nodes, size_t n,
                  struct buf *out);

/* ---- run_cell.c ---- */
/* %pull of one rank that is named by its number: no lists */
bool run_pulls_values(const struct cell *c);
void run_begin(struct cell *c);
enum cell_outcome run_look(struct cell *c);
/* all have ended: what failed is shown */
enum cell_outcome run_end(struct cell *c);

/* ---- rank_ends.c ---- */
void rank_ends_done(struct notebook *nb, struct rank *r, const struct span *m);
void rank_ends_exited(struct notebook *nb, uint32_t worker, const struct span *m);
void rank_ends_lost(struct notebook *nb, unsigned node, const char *why); /* all ranks of a node */

/* ---- cell_output.c ---- */
/* A MIME bundle as a display of the cell; see jupyter_display(). name and *shown: of one that is
 * updated in place; it is made first, which sets *shown. */
void output_bundle(struct cell *c, struct slice text, struct slice html, const char *name,
                   bool *shown);
int output_open(struct cell *c, struct err *err);
void output_lines(struct cell *c, unsigned rank, const struct span *m);
void output_text(struct cell *c, unsigned stream, struct slice text); /* as it is */
/* rank: for a label above it, or -1 */
void output_display(struct cell *c, long rank, const char *type, const struct content *p);
/* a line of ours, on stderr */
void output_note(struct cell *c, const char *format, ...) PRINTF_LIKE(2, 3);
void output_flush(struct cell *c);
void output_tick(struct cell *c);
uint64_t output_due(const struct cell *c);
void output_close(struct cell *c);

/* ---- stop_ranks.c ---- */
void stop_running(struct cell *c); /* those that still run are to end */
/* none runs any more: nothing is left to be done about them */
void stop_over(struct cell *c);
void stop_after_failure(struct cell *c); /* somebody failed: look again after a moment */
void stop_tick(struct cell *c, uint64_t now);
void stop_by_interrupt(struct cell *c); /* by the user */
/* of `cellspan run`: goes on to the script's ranks */
void stop_by_signal(struct cell *c, unsigned signal);
/* ranks are, in so long: who does not end then is left behind */
void stop_killed(struct cell *c, uint64_t after_ns);
void stop_kill(struct notebook *nb, struct group *g, const struct ranks *which, unsigned signal,
               uint64_t grace_ms);
void stop_stack(struct cell *c, uint32_t worker, struct slice text);
uint64_t stop_due(const struct cell *c);

/* ---- disconnect.c ---- */
void disconnect_begin(struct cell *c);
void disconnect_ends(struct cell *c, unsigned node, const struct span *m);
void disconnect_tick(struct cell *c, uint64_t now);
void disconnect_release(struct cell *c);

/* ---- left_behind.c ---- */
void left_behind_tick(struct cell *c, uint64_t now);

/* ---- error_text.c ---- */
/* the content of the error message, from its members */
json_t *error_of_cell(struct cell *c);
/* ranks that failed like those that it tells of, but later */
void error_note_late(struct cell *c);
void error_note_hangs(struct cell *c);
/* takes error; the first is shown, at once */
void error_show(struct cell *c, json_t *error);
/* of faulthandler's text: the part that tells of it */
const char *error_main_thread(const char *stack);
/* its innermost frame, and the line of the cell that led there */
int error_place(const char *stack, struct buf *out);
/* {"ename","evalue","traceback"} */
json_t *error_of_death(const struct notebook *nb, const struct rank *r, const struct span *m);
json_t *error_of_exit(const char *ename, const char *who, const struct span *m);

/* ---- prompts.c ---- */
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

/* ---- live_status.c ---- */
void live_begin(struct cell *c); /* its ranks run */
void live_tick(struct cell *c, uint64_t now);
void live_cleared(struct cell *c); /* rank 0 cleared the cell's output */
void live_end(struct cell *c);

/* ---- rank_usage.c ---- */
struct rank_usage_text {
    char gpu[64];
    char other[96];
};
struct status_rank;
void rank_usage_ask(struct notebook *nb);        /* the nodes on which ranks live */
bool rank_usage_wait(const struct notebook *nb); /* some have not answered, and may still */
bool rank_usage_have_gpus(const struct notebook *nb);
void rank_usage_take(struct notebook *nb, unsigned node, const struct span *m);
/* Fills in what the rank's node said of it; texts are borrowed from text. */
void rank_usage_row(const struct notebook *nb, const struct rank *r, struct rank_usage_text *text,
                    struct status_rank *row);
void rank_usage_release(struct notebook *nb);

/* ---- bind_home.c ---- */
void bind_begin(struct cell *c);
enum cell_outcome bind_look(struct cell *c);
void bind_reply(struct cell *c, const struct span *reply, const json_t *content);
void bind_drop_blobs(struct cell *c);

/* ---- finish.c ---- */
void finish_begin(struct cell *c);

#endif
