/* pure.c - the state machines of kernel and agent run without sockets, processes and a clock. This
 * program is linked with their objects and without ZeroMQ (tests/unit/Local.mk). A simulator can do
 * the same: it provides requests, a log, a clock and the callbacks of cell_ops.h. */
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"
#include "worker/agent/processes/worker_state.h"

/* ---- what a simulator provides: a client's requests, and a log ---- */

struct request {
    unsigned refs;
    const char *type;
    char *text;
    json_t *content;
};

struct request *request_ref(struct request *r)
{
    r->refs++;
    return r;
}

void request_unref(struct request *r)
{
    if (!r || --r->refs > 0)
        return;
    free(r->text);
    json_decref(r->content);
    free(r);
}

const char *request_type(const struct request *r)
{
    return r->type;
}

const char *request_subshell(const struct request *r)
{
    (void)r;
    return NULL;
}

const json_t *request_content(const struct request *r)
{
    return r->content;
}

struct slice request_part(const struct request *r, enum jupyter_part part)
{
    return slice_text(part == JUPYTER_CONTENT ? r->text : "{}");
}

const struct slice *request_buffers(const struct request *r, size_t *n)
{
    (void)r;
    *n = 0;
    return NULL;
}

void log_at(enum log_level level, const char *part, const char *format, ...)
{
    (void)level, (void)part, (void)format;
}

void ask(struct world *w, const char *type, const char *content)
{
    struct request *r = malloc(sizeof *r);

    *r = (struct request){ 1, type, strdup(content), json_loads(content, 0, NULL) };
    dispatch_request(w->nb, r);
    settle(w);
    request_unref(r);
}

/* ---- what it runs ---- */

static void a_cell_runs(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    next(&w, "%%distribute\n1");
    provide(&w);
    ok(logged(&w, "send RUN 2") && logged(&w, "send RUN 3"), "a cell starts on two ranks");
    all_done(&w, 2, 3);
    ok(is_over(&w, "\"status\":\"ok\""), "and ends when both are done");
    world_close(&w);
}

static void time_is_given(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    next(&w, "%%distribute --timeout 1h\nwait()");
    provide(&w);
    pass(&w, 3599 * NS_PER_S);
    ok(!times(&w, "send INTERRUPT"), "a cell may run for an hour");
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send INTERRUPT"), "and is interrupted a second after it, in no time at all");
    world_close(&w);
}

/* The agent's part of a rank's death, and the kernel's. */
static void a_rank_dies(void)
{
    const struct death segv = { true, EXITED_SIGNAL, SIGSEGV };
    struct span m = { .kind = SPAN_EXITED };
    struct death_cause cause = { .python = "python3", .ready = true, .death = segv };
    struct buf text = BUF_INIT;
    struct worker_state s;
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    worker_state_init(&s);
    ok(!worker_state_signal(&s, SIGTERM), "a signal waits until the process is known");
    ok(worker_state_set_pid(&s, 1003, NULL, w.now) == SIGTERM, "and is sent then");
    ok(worker_state_expect_end(&s, w.now) && s.end_due_ns > w.now, "its end is expected");
    ok(worker_state_overdue(&s, true) == WORKER_WAIT, "a process may take its time to die");
    cause.ours = worker_state_killed(&s, &segv);
    ok(!cause.ours, "the agent has not sent SIGSEGV");
    next(&w, "%%distribute\n1");
    provide(&w);
    if (death_cause_text(&cause, &text) < 0)
        abort();
    m.v[F_EXITED_PID].u64 = (uint64_t)s.pid;
    m.v[F_EXITED_CODE].u64 = segv.code;
    m.v[F_EXITED_STATUS].u64 = (uint64_t)segv.status;
    m.v[F_EXITED_CAUSE].s = buf_slice(&text);
    m.v[F_EXITED_STACK].s = m.v[F_EXITED_STDERR].s = m.v[F_EXITED_GPU].s = slice_text("");
    say(&w, 3, m);
    done(&w, 2, "ok", "", "");
    ok(is_over(&w, "SIGSEGV"), "the cell ends with the signal of the rank that died");
    buf_release(&text);
    world_close(&w);
}

int main(void)
{
    a_cell_runs();
    time_is_given();
    a_rank_dies();
    return plan_done();
}
