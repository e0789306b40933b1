/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies of cells that wait for clients. Some clients (nbclient, and with it papermill and
 * nbconvert) read a cell's output for a few seconds after its reply, and drop what comes later. So
 * the reply of a cell that has printed much leaves when its output has left, and when the program
 * that started the kernel has read it. What that program has received but not read is in its own
 * memory, where nobody else can count it. But a program that has something to read does not sleep.
 * So it has read everything when all of its threads sleep, or when it has used far more CPU time
 * than reading takes. A program on a busy machine, or one that is stopped again and again, gets the
 * wall time that it needs. */
#include "kernel/jupyter/private.h"

#include <stdlib.h>
#include <unistd.h>

#include "kernel/jupyter/out_message.h"

/* What a client reads in a small part of a second even if it seldom runs. */
#define LITTLE ((size_t)1 << 20)
/* Checks first after 1 ms, and then ever less often. */
#define FIRST_CHECK_NS NS_PER_MS
#define CHECK_MAX_NS   (16 * NS_PER_MS)
#define RESTS          2u /* this many checks in a row must find it asleep */
/* CPU time in which any client has read a byte; nbclient takes about 25 ns */
#define READING_NS 100u
/* how long nothing has moved when the reply leaves: if the client sleeps, and in any case */
#define ASLEEP_NS      NS_PER_S
#define NO_PROGRESS_NS (10 * NS_PER_S)

struct waiting_replies {
    struct loop *loop;
    struct iopub *iopub;
    waiting_replies_send_f send;
    void *arg;
    struct watch *timer;
    struct out_message *first, **last; /* owned: the replies that wait */
    size_t marked; /* how many of them, the first ones, wait for the output below */
    size_t behind; /* bytes before the mark that had not left at the last check */
    uint64_t gap_ns, progress_ns;
    struct {
        long pid;               /* the program that started the kernel; 0: unknown */
        uint64_t ticks, budget; /* its CPU time, and the CPU time with which it has read all */
        unsigned rests;         /* checks in a row that found it asleep */
    } client;
};

static void check_soon(struct waiting_replies *w)
{
    loop_timer_again(w->timer, w->gap_ns);
    w->gap_ns = w->gap_ns < CHECK_MAX_NS ? 2 * w->gap_ns : CHECK_MAX_NS;
}

/* Begins to wait for all output until now, for all replies until now. */
static void mark(struct waiting_replies *w)
{
    w->marked = 0;
    for (const struct out_message *o = w->first; o; o = o->next)
        w->marked++;
    if (!w->marked)
        return;
    iopub_mark(w->iopub);
    w->behind = SIZE_MAX;
    w->gap_ns = FIRST_CHECK_NS;
    w->progress_ns = clock_now(loop_clock(w->loop));
    w->client.rests = 0;
    w->client.ticks = w->client.budget = 0;
    check_soon(w);
}

static void send_first(struct waiting_replies *w, size_t n)
{
    for (; n > 0 && w->first; n--) {
        struct out_message *o = w->first;

        if (!(w->first = o->next))
            w->last = &w->first;
        w->send(w->arg, o);
    }
}

/* In ticks of the system. */
static uint64_t reading_ticks(size_t bytes)
{
    const long hz = sysconf(_SC_CLK_TCK);

    return (uint64_t)bytes * READING_NS * (uint64_t)(hz > 0 ? hz : 100) / NS_PER_S + 2;
}

/* Looks at the client. true: it sleeps, or nobody knows. */
static bool client_sleeps(struct waiting_replies *w, bool *progress)
{
    struct proc_process now;
    bool rests;

    if (w->client.pid <= 0 || proc_rests(w->client.pid, &now, &rests) < 0)
        return true;
    w->client.rests = rests ? w->client.rests + 1 : 0;
    *progress = *progress || now.ticks > w->client.ticks;
    w->client.ticks = now.ticks;
    return w->client.rests >= RESTS;
}

/* Has it used so much CPU time, since all of the output left, that it has read it? */
static bool client_has_read(struct waiting_replies *w)
{
    if (!w->client.budget)
        w->client.budget = w->client.ticks + reading_ticks(iopub_unread(w->iopub));
    return w->client.ticks >= w->client.budget;
}

/* A client that sleeps although it has not got everything waits for the reply before it reads, or
 * another client does not read. */
static bool is_over(struct waiting_replies *w)
{
    const uint64_t now = clock_now(loop_clock(w->loop));
    const size_t behind = iopub_behind(w->iopub);
    bool progress = behind < w->behind;
    const bool sleeps = client_sleeps(w, &progress);

    w->behind = behind;
    if (progress)
        w->progress_ns = now;
    return (behind == 0 && (sleeps || client_has_read(w))) ||
           now - w->progress_ns >= (sleeps ? ASLEEP_NS : NO_PROGRESS_NS);
}

static void check(void *arg)
{
    struct waiting_replies *w = arg;

    if (!is_over(w)) {
        check_soon(w);
        return;
    }
    iopub_set_read(w->iopub);
    send_first(w, w->marked);
    mark(w);
}

bool waiting_replies_keep(struct waiting_replies *w, struct out_message *o)
{
    if (!w->first && iopub_unread(w->iopub) <= LITTLE)
        return false;
    o->next = NULL;
    *w->last = o;
    w->last = &o->next;
    if (w->first == o)
        mark(w);
    return true;
}

void waiting_replies_client(struct waiting_replies *w, long pid)
{
    w->client.pid = pid;
}

struct waiting_replies *waiting_replies_create(struct loop *loop, struct iopub *iopub,
                                               waiting_replies_send_f send, void *arg,
                                               struct err *err)
{
    struct waiting_replies *w = calloc(1, sizeof *w);

    if (!w)
        return err_null(err, "out of memory");
    w->loop = loop;
    w->iopub = iopub;
    w->send = send;
    w->arg = arg;
    w->last = &w->first;
    if (!(w->timer = loop_timer(loop, LOOP_OFF, 0, check, w, err))) {
        free(w);
        return NULL;
    }
    return w;
}

void waiting_replies_destroy(struct waiting_replies *w)
{
    if (!w)
        return;
    watch_stop(w->timer);
    send_first(w, SIZE_MAX);
    free(w);
}
