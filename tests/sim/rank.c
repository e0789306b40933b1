/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/rank.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/agent.h"

#define MESSAGE_MAX 65536u
#define FIRST_PID   100000 /* made up: nobody is ever sent a signal by it */

static void go(struct rank *r);

/* ---- what it says ---- */

void rank_start(struct rank *r, struct agent *a, uint32_t worker, unsigned number)
{
    struct span m = { .kind = SPAN_READY, .worker = worker };

    *r = (struct rank){ .agent = a, .worker = worker, .number = number };
    m.v[F_READY_PID].u64 = FIRST_PID + number;
    m.v[F_READY_PYTHON].s = slice_text("3.11.0");
    m.v[F_READY_INFO].s = slice_text("{}");
    agent_say(a, &m);
}

/* The ename "" is fine: ok. */
void rank_done(struct rank *r, uint64_t cell, const char *ename, struct slice evalue)
{
    struct span m = { .kind = SPAN_DONE, .worker = r->worker, .cell = cell };
    struct buf content = BUF_INIT;

    if (*ename && buf_addf(&content, "{\"ename\":\"%s\",\"evalue\":\"%.*s\",\"traceback\":[]}",
                           ename, SLICE_ARG(evalue)) < 0)
        fprintf(stderr, "out of memory for what rank %u says\n", r->number);
    m.v[F_DONE_STATUS].s = slice_text(*ename ? "error" : "ok");
    m.v[F_DONE_CONTENT].s = buf_slice(&content);
    agent_say(r->agent, &m);
    buf_release(&content);
}

static void over(struct rank *r)
{
    watch_clear(&r->timer);
    free(r->code);
    r->code = NULL;
    r->cell = 0;
    r->script = slice_text("");
    r->step = (struct step){ .kind = STEP_END };
}

void rank_exit(struct rank *r, int signo, unsigned status)
{
    struct span m = { .kind = SPAN_EXITED, .worker = r->worker };

    m.v[F_EXITED_PID].u64 = FIRST_PID + r->number;
    m.v[F_EXITED_CODE].u64 = signo ? EXITED_SIGNAL : EXITED_STATUS;
    m.v[F_EXITED_STATUS].u64 = signo ? (uint64_t)signo : status;
    over(r);
    agent_say(r->agent, &m);
    r->worker = 0;
}

void rank_release(struct rank *r)
{
    over(r);
    r->worker = 0;
}

/* ---- its output ---- */

static int add_line(struct buf *out, const struct rank *r)
{
    const struct slice text = r->step.text;
    const char *at = text.n >= 6 ? memmem(text.p, text.n, "{rank}", 6) : NULL;

    if (!at)
        return buf_add_slice(out, text) < 0 ? -1 : buf_add(out, "\n", 1);
    return buf_addf(out, "%.*s%u%.*s\n", (int)(at - text.p), text.p, r->number,
                    (int)(text.p + text.n - at - 6), at + 6);
}

/* As many lines as one message takes. */
static void print_some(struct rank *r)
{
    struct span m = { .kind = SPAN_LINES, .worker = r->worker, .cell = r->cell };
    struct buf data = BUF_INIT;

    for (uint64_t k = 0; k < r->step.m && r->step.n > 0 && data.n < MESSAGE_MAX; k++, r->step.n--)
        if (add_line(&data, r) < 0)
            abort(); /* a lost line would be taken for the kernel's fault */
    r->out += data.n;
    m.v[F_LINES_STREAM].u64 = 1;
    m.v[F_LINES_DATA].s = buf_slice(&data);
    agent_say(r->agent, &m);
    buf_release(&data);
}

void rank_credit(struct rank *r, uint64_t bytes)
{
    r->out -= bytes < r->out ? bytes : r->out;
    if (r->cell && r->step.kind == STEP_PRINT)
        go(r);
}

/* ---- its steps ---- */

static void woken(void *arg)
{
    struct rank *r = arg;

    watch_clear(&r->timer);
    r->step.kind = STEP_END;
    go(r);
}

/* false: it goes on later. */
static bool wait_for(struct rank *r)
{
    struct err err = { "" };

    if (r->step.kind == STEP_HANG)
        return false;
    if (r->step.kind == STEP_PRINT) {
        while (r->step.n > 0 && r->out < r->agent->window)
            print_some(r);
        return r->step.n == 0;
    }
    if (!(r->timer = loop_timer(r->agent->loop, r->step.n * NS_PER_MS, 0, woken, r, &err)))
        fprintf(stderr, "%s\n", err.text);
    return false;
}

static void end(struct rank *r)
{
    const uint64_t cell = r->cell;

    over(r);
    rank_done(r, cell, "", slice_text(""));
}

static void fail(struct rank *r)
{
    char text[512];
    const uint64_t cell = r->cell;

    snprintf(text, sizeof text, "%.*s", SLICE_ARG(r->step.text));
    over(r);
    rank_done(r, cell, "RuntimeError", slice_text(text));
}

static void go(struct rank *r)
{
    while (r->step.kind > STEP_HANG || wait_for(r)) {
        r->step = script_next(&r->script, r->number, r->agent->index);
        switch (r->step.kind) {
        case STEP_PRINT:
        case STEP_SLEEP:
        case STEP_HANG:
            continue;
        case STEP_END:
            end(r);
            return;
        case STEP_FAIL:
            fail(r);
            return;
        case STEP_EXIT:
            rank_exit(r, 0, (unsigned)r->step.n);
            return;
        case STEP_LEAVE:
            agent_leave(r->agent);
            return;
        case STEP_FREEZE:
            (void)raise(SIGSTOP);
            return;
        }
    }
}

void rank_run(struct rank *r, const struct span *m)
{
    const struct slice code = m->v[F_RUN_CODE].s;

    over(r);
    r->cell = m->cell;
    if (!(r->code = malloc(code.n + 1))) {
        rank_done(r, m->cell, "MemoryError", slice_text(""));
        r->cell = 0;
        return;
    }
    memcpy(r->code, code.p, code.n);
    r->script = slice_of(r->code, code.n);
    go(r);
}

void rank_interrupt(struct rank *r, uint64_t cell)
{
    if (r->cell != cell || !cell)
        return;
    over(r);
    rank_done(r, cell, "KeyboardInterrupt", slice_text(""));
}
