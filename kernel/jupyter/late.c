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

#include "kernel/jupyter/outbound.h"

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

struct late {
    struct loop *loop;
    struct iopub *iopub;
    late_send_f send;
    void *arg;
    struct watch *timer;
    struct outbound *first, **last; /* owned: the replies that wait */
    size_t marked; /* how many of them, the first ones, wait for the output below */
    size_t behind; /* bytes before the mark that had not left at the last check */
    uint64_t gap_ns, progress_ns;
    struct {
        long pid;               /* the program that started the kernel; 0: unknown */
        uint64_t ticks, budget; /* its CPU time, and the CPU time with which it has read all */
        unsigned rests;         /* checks in a row that found it asleep */
    } client;
};

static void check_soon(struct late *l)
{
    loop_timer_again(l->timer, l->gap_ns);
    l->gap_ns = l->gap_ns < CHECK_MAX_NS ? 2 * l->gap_ns : CHECK_MAX_NS;
}

/* Begins to wait for all output until now, for all replies until now. */
static void mark(struct late *l)
{
    l->marked = 0;
    for (const struct outbound *o = l->first; o; o = o->next)
        l->marked++;
    if (!l->marked)
        return;
    iopub_mark(l->iopub);
    l->behind = SIZE_MAX;
    l->gap_ns = FIRST_CHECK_NS;
    l->progress_ns = clock_now(loop_clock(l->loop));
    l->client.rests = 0;
    l->client.ticks = l->client.budget = 0;
    check_soon(l);
}

static void send_first(struct late *l, size_t n)
{
    for (; n > 0 && l->first; n--) {
        struct outbound *o = l->first;

        if (!(l->first = o->next))
            l->last = &l->first;
        l->send(l->arg, o);
    }
}

/* In ticks of the system. */
static uint64_t reading_ticks(size_t bytes)
{
    const long hz = sysconf(_SC_CLK_TCK);

    return (uint64_t)bytes * READING_NS * (uint64_t)(hz > 0 ? hz : 100) / NS_PER_S + 2;
}

/* Looks at the client. true: it sleeps, or nobody knows. */
static bool client_sleeps(struct late *l, bool *progress)
{
    struct proc_process now;
    bool rests;

    if (l->client.pid <= 0 || proc_rests(l->client.pid, &now, &rests) < 0)
        return true;
    l->client.rests = rests ? l->client.rests + 1 : 0;
    *progress = *progress || now.ticks > l->client.ticks;
    l->client.ticks = now.ticks;
    return l->client.rests >= RESTS;
}

/* Has it used so much CPU time, since all of the output left, that it has read it? */
static bool client_has_read(struct late *l)
{
    if (!l->client.budget)
        l->client.budget = l->client.ticks + reading_ticks(iopub_unread(l->iopub));
    return l->client.ticks >= l->client.budget;
}

/* A client that sleeps although it has not got everything waits for the reply before it reads, or
 * another client does not read. */
static bool is_over(struct late *l)
{
    const uint64_t now = clock_now(loop_clock(l->loop));
    const size_t behind = iopub_behind(l->iopub);
    bool progress = behind < l->behind;
    const bool sleeps = client_sleeps(l, &progress);

    l->behind = behind;
    if (progress)
        l->progress_ns = now;
    return (behind == 0 && (sleeps || client_has_read(l))) ||
           now - l->progress_ns >= (sleeps ? ASLEEP_NS : NO_PROGRESS_NS);
}

static void check(void *arg)
{
    struct late *l = arg;

    if (!is_over(l)) {
        check_soon(l);
        return;
    }
    iopub_set_read(l->iopub);
    send_first(l, l->marked);
    mark(l);
}

bool late_keep(struct late *l, struct outbound *o)
{
    if (!l->first && iopub_unread(l->iopub) <= LITTLE)
        return false;
    o->next = NULL;
    *l->last = o;
    l->last = &o->next;
    if (l->first == o)
        mark(l);
    return true;
}

void late_client(struct late *l, long pid)
{
    l->client.pid = pid;
}

struct late *late_create(struct loop *loop, struct iopub *iopub, late_send_f send, void *arg,
                         struct err *err)
{
    struct late *l = calloc(1, sizeof *l);

    if (!l)
        return err_null(err, "out of memory");
    l->loop = loop;
    l->iopub = iopub;
    l->send = send;
    l->arg = arg;
    l->last = &l->first;
    if (!(l->timer = loop_timer(loop, LOOP_OFF, 0, check, l, err))) {
        free(l);
        return NULL;
    }
    return l;
}

void late_destroy(struct late *l)
{
    if (!l)
        return;
    watch_stop(l->timer);
    send_first(l, SIZE_MAX);
    free(l);
}
