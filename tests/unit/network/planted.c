/* SPDX-License-Identifier: BSD-3-Clause */
/* planted.c - faults that a test plants. Most are between the files of kernel and agent: the linker
 * takes the functions here for theirs (ld --wrap). */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/network/fleet.h"
#include "worker/agent/net/frame_batch.h"
#include "worker/agent/net/knock.h"
#include "worker/agent/net/redial.h"

enum planted planted;
size_t letter_size, arriving_size;

/* says: what the check says that finds it; it depends on which end notices it first */
static const struct {
    const char *name, *says, *or_says;
} rows[PLANTED_KINDS] = {
    [PLANTED_NONE] = { "none", "" },
    [PLANTED_TOLD_ONE_MORE] = { "told-one-more", "was to come", "it acknowledges" },
    [PLANTED_RESUME_BEHIND] = { "resume-behind", "was to come" },
    [PLANTED_RESUME_ACKED] = { "resume-acked", "was to come" },
    [PLANTED_RESUME_HANDED] = { "resume-handed", "was to come" },
    [PLANTED_FREED_EARLY] = { "freed-early", "it acknowledges", "it has received" },
    [PLANTED_OLD_CONNECTION] = { "old-connection", "was to come" },
    [PLANTED_TWO_CONNECTIONS] = { "two-connections", "has two live connections" },
    [PLANTED_VOIDED_KEY] = { "voided-key", "was admitted" },
    [PLANTED_KEY_AT_KNOCK] = { "key-at-knock", "with a voided key" },
    [PLANTED_STOP_IS_LOSS] = { "stop-is-loss", "the kernel gave an agent up", "an agent gave its" },
    [PLANTED_OWN_STOP] = { "own-stop", "the kernel gave an agent up" },
    [PLANTED_SLOW_IS_LOSS] = { "slow-is-loss", "the kernel gave an agent up" },
    [PLANTED_NO_BOUND] = { "no-bound", "MiB" },
    [PLANTED_NEWEST_ONLY] = { "newest-only", "was refused" },
    [PLANTED_TWO_REFUSALS] = { "two-refusals", "was refused" },
    [PLANTED_GIVES_UP] = { "gives-up", "an agent gave its kernel up" },
    [PLANTED_NEVER_LONGER] = { "never-longer", "the network is whole", "nothing was in the way" },
    [PLANTED_FIRST_FORGOTTEN] = { "first-forgotten", "the kernel gave an agent up" },
    [PLANTED_LOST_CHILD] = { "lost-child", "its parent is gone" },
    [PLANTED_TWO_WAYS] = { "two-ways", "was to come" },
    [PLANTED_HELLO_ONCE] = { "hello-once", "was not answered" },
    [PLANTED_ONE_HOLDS_ALL] = { "one-holds-all", "the network is whole", "nothing was in the way" },
};

const char *planted_name(enum planted p)
{
    return rows[p].name;
}

bool planted_is_found(enum planted p, const char *why)
{
    return strstr(why, rows[p].says) || (rows[p].or_says && strstr(why, rows[p].or_says));
}

enum planted planted_of(const char *name)
{
    for (unsigned i = 0; i < PLANTED_KINDS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return (enum planted)i;
    return PLANTED_KINDS;
}

/* ---- the session's functions ---- */

uint64_t __real_session_tell(struct session *s);
int __real_session_resume(struct session *s, uint64_t n, struct err *err);
void *__real_session_next(struct session *s);
int __real_session_keep(struct session *s, void *item, size_t size, struct err *err);
uint64_t __real_beat_check(struct beat *b, uint64_t now);
uint64_t __wrap_session_tell(struct session *s);
int __wrap_session_resume(struct session *s, uint64_t n, struct err *err);
void *__wrap_session_next(struct session *s);
int __wrap_session_keep(struct session *s, void *item, size_t size, struct err *err);
uint64_t __wrap_beat_check(struct beat *b, uint64_t now);

uint64_t __wrap_session_tell(struct session *s)
{
    return __real_session_tell(s) + (planted == PLANTED_TOLD_ONE_MORE && s->received > 20);
}

int __wrap_session_resume(struct session *s, uint64_t n, struct err *err)
{
    if (planted == PLANTED_RESUME_BEHIND && n < s->numbered)
        n++;
    else if (planted == PLANTED_RESUME_ACKED)
        n = s->acked;
    else if (planted == PLANTED_RESUME_HANDED)
        n = s->handed;
    return __real_session_resume(s, n, err);
}

/* The message that was handed out before this one is freed. */
void *__wrap_session_next(struct session *s)
{
    struct err err;

    if (planted == PLANTED_FREED_EARLY && s->connected && session_acked(s, s->handed, &err) < 0)
        abort();
    return __real_session_next(s);
}

/* No fault: what the kernel sends counts as large as it says that it is. */
int __wrap_session_keep(struct session *s, void *item, size_t size, struct err *err)
{
    return __real_session_keep(s, item, letter_size ? letter_size : size, err);
}

/* No fault: the same of what an agent receives. */
bool __real_session_received(struct session *s, size_t size);
bool __wrap_session_received(struct session *s, size_t size);

bool __wrap_session_received(struct session *s, size_t size)
{
    return __real_session_received(s, arriving_size ? arriving_size : size);
}

/* No fault: an agent's session is known. */
void __real_session_init(struct session *s, session_free_f free_item);
void __wrap_session_init(struct session *s, session_free_f free_item);

void __wrap_session_init(struct session *s, session_free_f free_item)
{
    __real_session_init(s, free_item);
    agent_end_session(s);
}

/* ---- an agent's way back ---- */

enum redial_key __real_redial_attempt(struct redial *r, uint64_t now, uint32_t chance);
void __real_redial_admitted(struct redial *r, uint64_t now);
void __real_redial_was_slow(struct redial *r);
bool __real_redial_is_over(const struct redial *r, uint64_t now);
bool __real_redial_was_refused(const struct redial *r);
void __real_frame_batch_socket(struct frame_batch *b, void *socket);
enum redial_key __wrap_redial_attempt(struct redial *r, uint64_t now, uint32_t chance);
void __wrap_redial_admitted(struct redial *r, uint64_t now);
void __wrap_redial_was_slow(struct redial *r);
bool __wrap_redial_is_over(const struct redial *r, uint64_t now);
bool __wrap_redial_was_refused(const struct redial *r);
void __wrap_frame_batch_socket(struct frame_batch *b, void *socket);

enum redial_key __wrap_redial_attempt(struct redial *r, uint64_t now, uint32_t chance)
{
    const enum redial_key key = __real_redial_attempt(r, now, chance);

    return planted == PLANTED_NEWEST_ONLY ? REDIAL_NEWEST : key;
}

void __wrap_redial_admitted(struct redial *r, uint64_t now)
{
    const uint64_t over_ns = r->over_ns;

    if (r->refusals % 2)
        kernel_end_fleet()->counts.second_key++;
    __real_redial_admitted(r, now);
    if (planted == PLANTED_GIVES_UP)
        r->over_ns = over_ns;
}

void __wrap_redial_was_slow(struct redial *r)
{
    if (planted != PLANTED_NEVER_LONGER)
        __real_redial_was_slow(r);
}

/* No fault: children that hear of a silent network from their parent are counted. */
void __real_redial_begin(struct redial *r, uint64_t now, uint64_t resume_ns, bool out);
void __wrap_redial_begin(struct redial *r, uint64_t now, uint64_t resume_ns, bool out);

void __wrap_redial_begin(struct redial *r, uint64_t now, uint64_t resume_ns, bool out)
{
    struct fleet *f = kernel_end_fleet();

    f->counts.told += out && f->checks.met_ns[SIDE_AGENT][turns_running()] == now;
    __real_redial_begin(r, now, resume_ns, out);
}

/* No fault: so are sockets that dial beside others. */
bool __real_redial_beside(struct redial *r, uint64_t now, uint32_t chance);
bool __wrap_redial_beside(struct redial *r, uint64_t now, uint32_t chance);

bool __wrap_redial_beside(struct redial *r, uint64_t now, uint32_t chance)
{
    const bool due = __real_redial_beside(r, now, chance);

    kernel_end_fleet()->counts.beside += due;
    return due;
}

/* ---- dial.c's sockets ---- */

struct knock *__real_knock_start(struct loop *loop, const struct knock_to *to, knock_f f, void *arg,
                                 struct err *err);
struct knock *__wrap_knock_start(struct loop *loop, const struct knock_to *to, knock_f f, void *arg,
                                 struct err *err);

struct knock *__wrap_knock_start(struct loop *loop, const struct knock_to *to, knock_f f, void *arg,
                                 struct err *err)
{
    if (sockets_wait_for_answer(turns_owner(loop))) {
        kernel_end_fleet()->counts.held++;
        if (planted == PLANTED_ONE_HOLDS_ALL)
            return err_null(err, "another endpoint has taken the connection");
    }
    return __real_knock_start(loop, to, f, arg, err);
}

static bool is_refused_early(const struct redial *r)
{
    return planted == PLANTED_TWO_REFUSALS && r->refusals >= 2;
}

bool __wrap_redial_is_over(const struct redial *r, uint64_t now)
{
    return is_refused_early(r) || __real_redial_is_over(r, now);
}

bool __wrap_redial_was_refused(const struct redial *r)
{
    return is_refused_early(r) || __real_redial_was_refused(r);
}

/* NULL: what is said waits, until something arrives through the parent, which has just answered. */
void __wrap_frame_batch_socket(struct frame_batch *b, void *socket)
{
    if (planted == PLANTED_TWO_WAYS && !socket)
        socket = sockets_last();
    __real_frame_batch_socket(b, socket);
}

/* ---- the kernel ---- */

uint64_t __wrap_beat_check(struct beat *b, uint64_t now)
{
    const uint64_t late = __real_beat_check(b, now);

    return planted == PLANTED_OWN_STOP ? 0 : late;
}

void __real_tree_move_node_cut(struct to_agents *out, struct node_link *link);
void __wrap_tree_move_node_cut(struct to_agents *out, struct node_link *link);

/* Who is reached through an agent whose connection has ended comes back by itself. */
void __wrap_tree_move_node_cut(struct to_agents *out, struct node_link *link)
{
    __real_tree_move_node_cut(out, link);
    for (size_t k = 1; planted == PLANTED_LOST_CHILD && k < out->fan.nodes->n; k++) {
        struct node_link *child = out->fan.nodes->link[k];

        if (child->move == TREE_MOVE_DONE && child->parent == link)
            node_failures_lose(kernel_end_agents(), child, "its parent is gone");
    }
}
