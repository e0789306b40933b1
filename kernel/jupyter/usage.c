/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes one measurement at a time; all requests that come meanwhile get the same figures. CPU
 * percentages count from the previous measurement; the first one has 0, as in psutil, which other
 * kernels use. */
#include "kernel/jupyter/private.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/process.h"
#include "base/rows.h"

struct usage {
    struct loop *loop;
    struct watch *step;
    usage_reply_f reply;
    void *arg;
    struct request **waiting; /* owned references */
    size_t n_waiting, room;
    struct proc_process *now; /* the processes of the current measurement */
    size_t n_now, at;
    uint64_t pss; /* bytes, so far */
    bool pss_seen;
    struct proc_process *before;
    size_t n_before;
    uint64_t before_ns;
    struct proc_cpu cpu_before;
};

static void step(void *arg);

struct usage *usage_create(struct loop *loop, usage_reply_f reply, void *arg, struct err *err)
{
    struct usage *u = calloc(1, sizeof *u);

    if (!u)
        return err_null(err, "out of memory");
    u->loop = loop;
    u->reply = reply;
    u->arg = arg;
    if (!(u->step = loop_timer(loop, LOOP_OFF, 0, step, u, err))) {
        free(u);
        return NULL;
    }
    return u;
}

void usage_destroy(struct usage *u)
{
    if (!u)
        return;
    watch_stop(u->step);
    for (size_t i = 0; i < u->n_waiting; i++)
        request_unref(u->waiting[i]);
    free(u->waiting);
    free(u->now);
    free(u->before);
    free(u);
}

int usage_ask(struct usage *u, struct request *r, struct err *err)
{
    struct request **row = rows_add(&u->waiting, &u->n_waiting, &u->room, sizeof(struct request *));

    if (!row)
        return err_set(err, "out of memory");
    *row = request_ref(r);
    if (u->n_waiting > 1)
        return 0;
    u->at = 0;
    u->pss = 0;
    u->pss_seen = false;
    if (proc_tree((long)getpid(), &u->now, &u->n_now) < 0)
        u->n_now = 0;
    loop_timer_again(u->step, 0);
    return 0;
}

static uint64_t ticks_before(const struct usage *u, const struct proc_process *p)
{
    for (size_t i = 0; i < u->n_before; i++)
        if (u->before[i].pid == p->pid && u->before[i].started == p->started)
            return u->before[i].ticks;
    return p->ticks; /* a new process */
}

/* The CPU time of the processes since the previous measurement, in percent of one CPU. */
static double kernel_cpu(const struct usage *u, uint64_t now_ns)
{
    const double seconds = (double)(now_ns - u->before_ns) / (double)NS_PER_S;
    uint64_t ticks = 0;

    for (size_t i = 0; i < u->n_now; i++)
        ticks += u->now[i].ticks - ticks_before(u, &u->now[i]);
    return u->before && seconds > 0 ? 100.0 * (double)ticks / (double)sysconf(_SC_CLK_TCK) / seconds
                                    : 0.0;
}

static double tenths(double percent)
{
    return (double)(long)(percent * 10.0 + 0.5) / 10.0;
}

static void set(json_t *object, const char *name, uint64_t n)
{
    json_object_set_new(object, name, json_integer((json_int_t)n));
}

static json_t *memory_json(void)
{
    struct proc_memory m;
    json_t *o;

    if (proc_memory(&m) < 0 || !(o = json_object()))
        return NULL;
    const uint64_t taken = m.total - (m.available < m.total ? m.available : m.total);

    set(o, "total", m.total);
    set(o, "available", m.available);
    json_object_set_new(o, "percent", json_real(tenths(100.0 * (double)taken / (double)m.total)));
    set(o, "used", taken);
    set(o, "free", m.free);
    set(o, "active", m.active);
    set(o, "inactive", m.inactive);
    set(o, "buffers", m.buffers);
    set(o, "cached", m.cached);
    set(o, "shared", m.shared);
    set(o, "slab", m.slab);
    return o;
}

static void add_processes(struct usage *u, json_t *content)
{
    const uint64_t now_ns = clock_now(loop_clock(u->loop));

    json_object_set_new(content, "kernel_cpu", json_real(tenths(kernel_cpu(u, now_ns))));
    if (u->pss_seen)
        set(content, "kernel_memory", u->pss);
    free(u->before);
    u->before = u->now;
    u->n_before = u->n_now;
    u->before_ns = now_ns;
    u->now = NULL;
    u->n_now = 0;
}

static void add_machine(struct usage *u, json_t *content)
{
    struct proc_cpu cpu;
    json_t *memory = memory_json();

    if (proc_cpu(&cpu) == 0) {
        if (u->cpu_before.all && cpu.all > u->cpu_before.all && cpu.busy >= u->cpu_before.busy)
            json_object_set_new(content, "host_cpu_percent",
                                json_real(tenths(100.0 * (double)(cpu.busy - u->cpu_before.busy) /
                                                 (double)(cpu.all - u->cpu_before.all))));
        u->cpu_before = cpu;
    }
    if (memory)
        json_object_set_new(content, "host_virtual_memory", memory);
}

static char *content_text(struct usage *u)
{
    char host[256] = "";
    json_t *content = json_object();
    char *text;

    gethostname(host, sizeof host - 1);
    json_object_set_new(content, "status", json_string("ok"));
    json_object_set_new(content, "hostname", json_string(host));
    set(content, "pid", (uint64_t)getpid());
    set(content, "cpu_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (u->n_now)
        add_processes(u, content);
    add_machine(u, content);
    text = json_dumps(content, JSON_COMPACT);
    json_decref(content);
    return text;
}

static void finish_usage(struct usage *u)
{
    char *text = content_text(u);
    struct request **waiting = u->waiting;
    const size_t n = u->n_waiting;

    u->waiting = NULL;
    u->n_waiting = u->room = 0;
    for (size_t i = 0; i < n; i++) {
        u->reply(u->arg, waiting[i], slice_text(text ? text : "{\"status\":\"error\"}"));
        request_unref(waiting[i]);
    }
    free(waiting);
    free(text);
}

/* Measures the next process. If it has ended, or belongs to another user, it counts 0. */
static void step(void *arg)
{
    struct usage *u = arg;
    uint64_t pss;

    if (u->at == u->n_now) {
        finish_usage(u);
        return;
    }
    if (process_memory(u->now[u->at++].pid, &pss)) {
        u->pss += pss;
        u->pss_seen = true;
    }
    loop_timer_again(u->step, 0);
}
