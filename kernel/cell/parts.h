/* parts.h - the functions of a cell on ranks, by file; cell.h has its state. Each step has two
 * functions: NAME_begin() starts its work; NAME_look() returns whether and how the step has ended.
 * kernel/dispatch/cell_steps.c calls both and decides the next state. */
#ifndef KERNEL_CELL_PARTS_H
#define KERNEL_CELL_PARTS_H

#include "kernel/cell/cell.h"
#include "kernel/notebook/notebook.h"

/* ---- cell.c ---- */
/* Records the cell's error; the first error stays. The current step ends after this event. If ranks
 * run the cell, they are stopped first. Always -1. */
int cell_fail(struct cell *c, const char *ename, const char *format, ...) PRINTF_LIKE(3, 4);
/* the same; the error's text is head, then text, which may come from Python */
void cell_fail_in_words(struct cell *c, const char *ename, const char *head, struct slice text);
bool cell_is_shown(const struct cell *c); /* its streams and displays reach the client */
bool cell_wants_value(const struct cell *c);
bool cell_is_piped(const struct cell *c); /* the client's lines are rank 0's standard input */
bool cell_runs(const struct cell *c);     /* ranks run it, and must be stopped if it fails */
/* For messages whose answer the cell needs. -1: the message was not sent; the cell has failed. */
int cell_send(struct cell *c, const uint32_t *workers, size_t n, const struct span *m);
int cell_send_ranks(struct cell *c, const struct ranks *to, const struct span *m);
/* interrupts those of them that live, for a cell that is over */
void cell_interrupt(struct cell *c, const struct ranks *which);
void cell_send_running(struct cell *c, const struct span *m); /* to those that still run */
int cell_send_node(struct cell *c, unsigned node, const struct span *m);
int cell_send_home(struct cell *c, const struct span *m);
/* sends home a request of this type; takes content */
int cell_ask_home(struct cell *c, const char *type, json_t *content, uint64_t flags);
struct member *cell_worker(const struct cell *c, uint32_t worker);
struct member *cell_member(const struct cell *c, unsigned rank);
int cell_members(struct cell *c); /* makes one for each rank of c->to; -1: memory is out */
void cell_release_members(struct cell *c);
bool cell_unfinished(struct cell *c);    /* a member waits or runs */
bool cell_lingers(const struct cell *c); /* some processes of its script have not ended */

/* ---- expand.c ---- */
void expand_begin(struct cell *c);
enum cell_outcome expand_look(struct cell *c);
void expand_reply(struct cell *c, const json_t *content);

/* ---- end_ranks.c ---- */
void end_ranks_begin(struct cell *c);
enum cell_outcome end_ranks_look(struct cell *c);

/* ---- machines.c ---- */
struct machines {
    struct machine *first, *end;
};
#define MACHINES_EACH(m, all) for (struct machine *m = (all).first; m < (all).end; m++)
/* The machines on which the group's ranks may run; borrowed. */
struct machines machines_of(const struct notebook *nb);
/* The cell's ranks run on this machine, or will when the group has moved. */
bool machines_are_here(const struct cell *c);
/* The same for the ranks of this cell, which may have a group of their own. */
struct machines machines_of_cell(const struct cell *c);
struct machine *machine_of(const struct notebook *nb, unsigned node); /* NULL: unknown */
unsigned machines_lost(const struct notebook *nb);
void machines_forget(struct notebook *nb); /* all but this machine */
/* Adds the engine's n nodes from `first` on, once. -1: memory is out */
int machines_add(struct notebook *nb, unsigned first, unsigned n);

/* ---- engine_of_cell.c ---- */
int engine_choose(struct cell *c);              /* checks --on; -1: the cell has failed */
bool group_is_somewhere(const struct group *g); /* it has ranks or an engine's run */
void engine_begin(struct cell *c);
enum cell_outcome engine_look(struct cell *c);
void engine_fail(struct cell *c);
/* ends the engine's run and its ranks */
void engine_leave(struct notebook *nb);
/* does the same, and forgets --on: the next ranks run on this machine */
void engine_end(struct notebook *nb);
/* forgets the --on that failed: ranks may run where the next cell says, or here */
void engine_settle(struct notebook *nb);
bool engine_is_torn(const struct notebook *nb); /* it has lost nodes */
/* the machines for the cell's ranks are known, and need not be started first */
bool engine_is_known(const struct cell *c);
void engine_lost(struct notebook *nb, unsigned node, const char *why);
void engine_event(struct notebook *nb, unsigned engine, enum engine_event event, const char *text);

/* ---- node_errors.c ---- */
void node_errors_add(struct cell *c, unsigned node, const char *name, const char *why);
void node_errors_look(struct cell *c); /* fails the cell when no node is still starting */
void node_errors_fail(struct cell *c); /* fails the cell; the text names the nodes so far */
void node_errors_release(struct cell *c);

/* ---- placement.c ---- */
struct placement {
    struct place_node *node; /* owned, n of them: the cell's machines that are not lost */
    size_t n;
};
int placement_open(const struct cell *c, struct placement *p); /* -1: memory is out */
/* the node's index in p->node, or PLACE_NOWHERE */
unsigned placement_find(const struct placement *p, unsigned node);
void placement_gpus(struct notebook *nb, unsigned node, const struct span *m); /* a GPUS */
struct place_want placement_want(const struct cell *c); /* the GPUs that its ranks want */
/* the world's size; 0: it depends on the machines */
unsigned placement_world(const struct cell *c);
/* asks machines for their GPUs if the placement depends on them; -1: the cell has failed */
int placement_ask(struct cell *c);
bool placement_wait(const struct cell *c); /* a machine has not answered */

/* ---- start_ranks.c ---- */
void start_begin(struct cell *c);
/* false: too few machines are left for all ranks, so the living ranks must end first */
bool start_look(struct cell *c);
/* --fresh: asks whether there is room for the cell's ranks; fails the cell if there is none, while
 * the old ranks still live. If the machines are not known yet, nothing can be asked. */
void start_try_begin(struct cell *c);
bool start_try_look(struct cell *c); /* false: a machine has not answered */
/* a rank is ready: the others get the whole time limit again */
void start_progress(struct cell *c);
/* fails the cell if the Python of READY does not match home's */
void start_check(struct notebook *nb, const struct rank *r, struct slice version);
void start_late(struct cell *c); /* no rank has become ready for too long */

/* ---- prepare.c ---- */
void prepare_choose_begin(struct cell *c);
enum cell_outcome prepare_choose_look(struct cell *c);
void prepare_ask_begin(struct cell *c);
enum cell_outcome prepare_ask_look(struct cell *c);
void prepare_begin(struct cell *c);
enum cell_outcome prepare_look(struct cell *c);
void prepare_ship_begin(struct cell *c);
enum cell_outcome prepare_ship_look(struct cell *c);
/* a CAPTURED, PACKED or PORT */
void prepare_message(struct cell *c, unsigned node, const struct span *m);

/* ---- room.c ---- */
void room_begin(struct cell *c);
bool room_look(struct cell *c); /* false: it waits for ranks */
/* a PROBED; false: it answers another question */
bool room_message(struct cell *c, const struct rank *r, const struct span *m);
void room_tick(struct cell *c, uint64_t now);
void room_over(struct cell *c); /* interrupts ranks that have not answered */

/* ---- follow.c ---- */
/* sends FOLLOW to ranks whose settings differ from home's; -1: the cell has failed */
int follow_tell(struct cell *c);

/* ---- compare.c ---- */
void compare_begin(struct cell *c);
enum cell_outcome compare_look(struct cell *c);
/* a PROBED; false: it answers another question */
bool compare_message(struct cell *c, struct rank *r, const struct span *m);
void compare_over(struct cell *c); /* the cell is over: interrupts ranks that still compare */

/* ---- broadcast.c ---- */
/* takes the blob of PACKED and sends it to ranks, now or later */
void broadcast_packed(struct cell *c, const struct span *packed);
/* a PROBED; false: it answers another question */
bool broadcast_message(struct cell *c, uint32_t worker, const struct span *m);
/* a rank's DONE says that it lacks the names that were sent */
void broadcast_failed(struct cell *c, const struct span *done);
void broadcast_late(struct cell *c); /* no rank has sent the id in time */
void broadcast_over(struct cell *c);
void broadcast_release(struct cell *c);

/* ---- world.c ---- */
/* No two of these ranks use the same GPU (true also if they have none). NCCL needs this. */
bool world_gpus_are_own(const struct cell *c, const struct ranks *to);
bool world_is_near(const struct cell *c, const struct ranks *to); /* they are on one machine */
json_t *world_env(const struct cell *c);                          /* RUN's `env`; new */
int world_add_layout(const struct cell *c, struct buf *out);      /* RUN's `layout` */
/* Adds "env" and "layout" of the cell's world, as in RUN. -1: memory is out. */
MUST_USE int world_add(const struct cell *c, json_t *to);

/* ---- rendezvous.c ---- */
/* *out: an address of `node` whose family (IPv4, IPv6) all these n nodes have; if there is none,
 * its first address; "": it has no address. -1: memory is out. */
int rendezvous_at(const struct notebook *nb, unsigned node, const unsigned *nodes, size_t n,
                  struct buf *out);
/* Adds all its addresses, each in 16 bytes: IPv6, or IPv4 mapped to that. -1: memory is out. */
MUST_USE int rendezvous_add_bytes(const struct notebook *nb, unsigned node, struct buf *out);

/* ---- run_cell.c ---- */
/* %pull from one rank, given as a number: it pulls values, not lists by rank */
bool run_pulls_values(const struct cell *c);
/* Adds the names that %pull wants, comma-separated. -1: memory is out. */
MUST_USE int run_add_pulled(const struct cell *c, struct buf *out);
void run_begin(struct cell *c);
/* members that did not get their message will not answer it */
void run_leave_out(struct cell *c);
enum cell_outcome run_look(struct cell *c);
/* all members have ended: shows their errors */
enum cell_outcome run_end(struct cell *c);

/* ---- hand.c ---- */
void hand_up(struct cell *c, const struct member *member, const struct span *m); /* to home */
void hand_down(struct cell *c, const struct span *m);                            /* to a rank */
void hand_interrupt(struct cell *c); /* home may be running the user's code for ranks */

/* ---- rank_ends.c ---- */
void rank_ends_done(struct notebook *nb, struct rank *r, const struct span *m);
void rank_ends_exited(struct notebook *nb, uint32_t worker, const struct span *m);
/* the node is lost, and all its ranks with it */
void rank_ends_lost(struct notebook *nb, unsigned node, const char *why);

/* ---- cell_output.c ---- */
/* Shows a MIME bundle as a display of the cell; see jupyter_display(). name, shown: for a display
 * that is updated in place (else NULL); *shown is set when it has been shown once. */
void output_bundle(struct cell *c, struct slice text, struct slice html, const char *name,
                   bool *shown);
int output_open(struct cell *c, struct err *err);
void output_lines(struct cell *c, unsigned rank, const struct span *m);
void output_text(struct cell *c, unsigned stream, struct slice text); /* without merge */
/* rank: a label above the display names it; -1: no label */
void output_display(struct cell *c, long rank, const char *type, const struct content *p);
/* a line of the kernel's own, on stderr */
void output_note(struct cell *c, const char *format, ...) PRINTF_LIKE(2, 3);
void output_flush(struct cell *c);
void output_tick(struct cell *c);
uint64_t output_due(const struct cell *c);
void output_close(struct cell *c);

/* ---- stop_ranks.c ---- */
void stop_running(struct cell *c); /* interrupts the members that still run */
void stop_over(struct cell *c);    /* all members have ended: turns the timers off */
/* a member has failed: waits a moment for others to fail alike, then stops the rest */
void stop_after_failure(struct cell *c);
void stop_tick(struct cell *c, uint64_t now);
void stop_by_interrupt(struct cell *c); /* by the user */
/* of `cellspan run`: passes the signal on to the script's ranks */
void stop_by_signal(struct cell *c, unsigned signal);
/* SIGKILL reaches ranks in after_ns; those that live STUCK_NS longer are left behind */
void stop_killed(struct cell *c, uint64_t after_ns);
/* sends the signal, and SIGKILL after grace_ms; the ranks become RANK_STOPPING */
void stop_kill(struct notebook *nb, struct group *g, const struct ranks *which, unsigned signal,
               uint64_t grace_ms);
void stop_stack(struct cell *c, uint32_t worker, struct slice text);

/* ---- disconnect.c ---- */
void disconnect_begin(struct cell *c);
void disconnect_ends(struct cell *c, unsigned node, const struct span *m);
void disconnect_tick(struct cell *c, uint64_t now);
void disconnect_release(struct cell *c);

/* ---- left_behind.c ---- */
void left_behind_tick(struct cell *c, uint64_t now);

/* ---- error_text.c ---- */
/* the content of the error message; NULL: nothing failed, or memory is out */
json_t *error_of_cell(struct cell *c);
/* names ranks that failed with the same error after it was shown */
void error_note_late(struct cell *c);
/* names running ranks, which are killed now, and where each hangs */
void error_note_hangs(struct cell *c);
/* takes error and shows it at once; only the first is shown */
void error_show(struct cell *c, json_t *error);
/* the part of faulthandler's text that shows the main thread */
const char *error_main_thread(const char *stack);
/* the main thread's innermost frame, and the line of the cell that led there */
int error_place(const char *stack, struct buf *out);
/* {"ename","evalue","traceback"} of a rank's death, and of home's */
json_t *error_of_death(const struct notebook *nb, const struct rank *r, const struct span *m);
json_t *error_of_exit(const char *ename, const char *who, const struct span *m);

/* ---- prompts.c ---- */
/* An INPUT from home (rank -1) or a rank; it is shown under r when it is the first. */
void prompts_add(struct notebook *nb, const struct request *r, uint32_t worker, long rank,
                 bool labelled, const struct span *m);
/* an INPUT with `over`: removes the prompt */
void prompts_take_back(struct notebook *nb, uint32_t worker, const struct span *m);
void prompts_leave(struct notebook *nb, uint32_t worker); /* removes all prompts of a worker */
void prompts_stop(struct notebook *nb); /* ranks are interrupted: removes all their prompts */
void prompts_answer(struct notebook *nb, struct request *r); /* an input_reply */
bool prompts_wait(const struct notebook *nb);                /* there is a prompt */
void prompts_tick(struct notebook *nb);
uint64_t prompts_due(const struct notebook *nb);
void prompts_release(struct notebook *nb);

/* ---- live_status.c ---- */
void live_begin(struct cell *c); /* the ranks begin to run the cell */
void live_tick(struct cell *c, uint64_t now);
void live_cleared(struct cell *c); /* rank 0 cleared the cell's output */
void live_end(struct cell *c);

/* ---- rank_usage.c ---- */
struct rank_usage_text {
    char gpu[64];
    char other[96];
};
struct status_rank;
void rank_usage_ask(struct notebook *nb);        /* asks all nodes that have ranks */
bool rank_usage_wait(const struct notebook *nb); /* some may still answer in time */
bool rank_usage_have_gpus(const struct notebook *nb);
void rank_usage_take(struct notebook *nb, unsigned node, const struct span *m); /* a GAUGES */
/* Fills in memory and GPUs of the rank, from its node's last answer; strings point into text. */
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
