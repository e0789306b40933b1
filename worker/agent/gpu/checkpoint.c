/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "worker/agent/gpu/driver.h"
#include "worker/agent/gpu/headroom.h"

#define LOCK_MS  10000u /* for all processes: their GPUs must end what they were given before */
#define NCCL_MIN 610    /* the first driver that moves NCCL's communicators between processes */
/* A process needs this much of the host's memory beyond what it has on its GPUs. */
#define EXTRA (UINT64_C(64) << 20)
#define GIB   ((double)(UINT64_C(1) << 30))

#define NEEDS(member, ...) LIBRARY_NEEDS(struct checkpoint_calls, member, __VA_ARGS__)
#define LIKES(member, ...) LIBRARY_LIKES(struct checkpoint_calls, member, __VA_ARGS__)

static const struct library_row rows[] = {
    NEEDS(init, "cuInit"),
    LIKES(error_string, "cuGetErrorString"),
    NEEDS(state, "cuCheckpointProcessGetState"),
    NEEDS(lock, "cuCheckpointProcessLock"),
    NEEDS(away, "cuCheckpointProcessCheckpoint"),
    NEEDS(back, "cuCheckpointProcessRestore"),
    NEEDS(unlock, "cuCheckpointProcessUnlock"),
};

/* The processes of the workers that use CUDA. */
struct movers {
    struct checkpoint_calls *calls;
    const json_t *workers;
    struct mover {
        long pid;
        size_t worker; /* index in workers */
        int state;     /* enum checkpoint_state */
    } *v;              /* owned */
    size_t n;
    char why[300]; /* why not all are where they should be; "": they are */
    bool crowded;  /* only because of others that are leaving their GPUs just now */
};

void checkpoint_close(struct checkpoint_calls *calls)
{
    library_close(calls->library);
    memset(calls, 0, sizeof *calls);
}

static int words(const struct checkpoint_calls *c, int result, const char *what, struct err *err)
{
    const char *text = NULL;

    if (c->error_string && c->error_string(result, &text) == 0 && text)
        return err_set(err, "%s: %s (CUDA error %d)", what, text, result);
    return err_set(err, "%s: CUDA error %d", what, result);
}

static int open_calls(struct checkpoint_calls *c, struct err *err)
{
    const char *names[LIBRARY_PLACES], *used = "";
    const size_t n = library_of_driver(setting_text(SETTING_CUDA_LIBRARY), "libcuda.so.1", "",
                                       names);
    struct err why = { "" };
    int result;

    if (c->library)
        return 0;
    if (!(c->library = library_open(names, n, &used, &why)))
        return err_set(err, "there is no CUDA driver (%s)", why.text);
    if (library_fill(c->library, used, rows, sizeof rows / sizeof rows[0], c, &why) < 0) {
        log_info("gpu", "%s", why.text);
        (void)err_set(err, "the driver can't do it (570 or newer can)");
    } else if ((result = c->init(0)) == 0) {
        return 0;
    } else {
        (void)words(c, result, "the CUDA driver can't be initialised", err);
    }
    checkpoint_close(c);
    return -1;
}

/* ---- who is there ---- */

static void look(struct movers *m, struct mover *p)
{
    int state = CHECKPOINT_NONE;

    if (m->calls->state((int)p->pid, &state) != 0 || state < CHECKPOINT_RUNNING)
        state = CHECKPOINT_NONE;
    p->state = state > CHECKPOINT_FAILED && state != CHECKPOINT_NONE ? CHECKPOINT_FAILED : state;
}

/* After a step. Where it is now is not known if the driver does not say. */
static void look_again(struct movers *m, struct mover *p)
{
    look(m, p);
    if (p->state == CHECKPOINT_NONE && !process_has_ended(p->pid))
        p->state = CHECKPOINT_FAILED;
}

static int find(struct movers *m, const struct gpu_processes *all, struct err *err)
{
    if (!(m->v = calloc(all->n + 1, sizeof *m->v)))
        return err_set(err, "out of memory");
    for (size_t i = 0; i < all->n; i++) {
        struct mover *p = &m->v[m->n];

        *p = (struct mover){ .pid = all->v[i].pid, .worker = all->v[i].worker };
        look(m, p);
        m->n += p->state != CHECKPOINT_NONE;
    }
    return 0;
}

static const char *who(const struct movers *m, size_t worker)
{
    const char *name = json_string_value(
        json_object_get(json_array_get(m->workers, worker), "who"));

    return name ? name : "a rank";
}

/* The first reason stays. */
static void blame(struct movers *m, const struct mover *p, const char *what, int result)
{
    struct err err = { "" };

    (void)words(m->calls, result, what, &err);
    log_warn("gpu", "process %ld of %s: %s", p->pid, who(m, p->worker), err.text);
    if (!m->why[0])
        snprintf(m->why, sizeof m->why, "%s: %.200s", who(m, p->worker), err.text);
}

/* ---- is there room? ---- */

static bool has_mover(const struct movers *m, json_int_t pid)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].pid == pid)
            return true;
    return false;
}

/* Adds what the workers' processes have on one GPU. false: m->why says why they can't be moved. */
static bool add_need(struct movers *m, const json_t *gpu, uint64_t *need)
{
    const json_t *list = json_object_get(gpu, "ours"), *one;
    const json_int_t used = json_integer_value(json_object_get(gpu, "used"));
    size_t k;

    if (!json_is_true(json_object_get(gpu, "processes_known"))) {
        snprintf(m->why, sizeof m->why, "the driver does not list who uses GPU %d",
                 (int)json_integer_value(json_object_get(gpu, "index")));
        return false;
    }
    json_array_foreach (list, k, one) {
        const json_t *bytes = json_object_get(one, "memory");
        const char *name = json_string_value(json_object_get(one, "who"));

        if (!has_mover(m, json_integer_value(json_object_get(one, "pid")))) {
            snprintf(m->why, sizeof m->why, "%s uses a GPU, and the driver can't move it",
                     name ? name : "a rank");
            return false;
        }
        *need += (uint64_t)(json_is_integer(bytes) ? json_integer_value(bytes) : used);
    }
    return true;
}

/* Their GPUs, each once. NULL: memory is out. */
static json_t *gpus_of(const json_t *workers)
{
    json_t *seen = json_object(), *list = json_array(), *worker, *uuid;
    size_t i, k;
    int rc = seen && list ? 0 : -1;

    json_array_foreach (workers, i, worker)
        json_array_foreach (json_object_get(worker, "gpus"), k, uuid) {
            const char *name = json_string_value(uuid);

            if (rc == 0 && name && !json_object_get(seen, name))
                rc = json_object_set_new(seen, name, json_true()) < 0
                         ? -1
                         : json_array_append(list, uuid);
        }
    json_decref(seen);
    if (rc == 0)
        return list;
    json_decref(list);
    return NULL;
}

static int measure(struct movers *m, const struct gpu_driver *d, const struct gpu_processes *all,
                   uint64_t *need, struct err *err)
{
    json_t *uuids = gpus_of(m->workers), *gpu;
    json_t *gpus = uuids ? readings_list(d, uuids, m->workers, all) : NULL;
    size_t k;

    *need = m->n * EXTRA;
    json_array_foreach (gpus, k, gpu)
        if (!add_need(m, gpu, need))
            break;
    json_decref(uuids);
    json_decref(gpus);
    return gpus ? 0 : err_set(err, "out of memory");
}

/* ---- the driver's steps ---- */

static bool apply(struct movers *m, struct mover *p, int (*f)(int, struct checkpoint_args *),
                  unsigned timeout_ms, const char *what)
{
    struct checkpoint_args args = { .timeout_ms = timeout_ms };
    const int result = f((int)p->pid, &args);

    if (result != 0)
        blame(m, p, what, result);
    look_again(m, p);
    return result == 0;
}

static void drop_ended(struct movers *m)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].state != CHECKPOINT_NONE)
            m->v[kept++] = m->v[i];
    m->n = kept;
}

static uint64_t now_ms(void)
{
    return clock_now(&clock_system) / NS_PER_MS;
}

/* Also for tests/gpu, which compares it with a copy. */
static void log_time(const struct movers *m, const char *what, uint64_t since_ms)
{
    log_info("gpu", "GPU memory of %zu process%s %s in %.2f s", m->n, m->n == 1 ? "" : "es", what,
             (double)(now_ms() - since_ms) / 1000);
}

static void send_away(struct movers *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].state == CHECKPOINT_LOCKED &&
            !apply(m, &m->v[i], m->calls->away, 0, "its GPU memory could not be moved"))
            return;
}

static void unlock_all(struct movers *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].state == CHECKPOINT_LOCKED)
            (void)apply(m, &m->v[i], m->calls->unlock, 0, "it could not be unlocked");
}

/* Where the GPUs have no room for one, all go away again: ranks wait for each other. */
static void bring_back(struct movers *m)
{
    bool room = true;

    for (size_t i = 0; room && i < m->n; i++)
        room = m->v[i].state != CHECKPOINT_AWAY ||
               apply(m, &m->v[i], m->calls->back, 0, "its GPU memory could not be restored") ||
               m->v[i].state != CHECKPOINT_AWAY;
    if (!room)
        send_away(m);
    unlock_all(m);
}

/* All processes are locked before the first is moved, since they may share memory. */
static void lock_all(struct movers *m)
{
    const uint64_t until = now_ms() + LOCK_MS;

    for (size_t i = 0; i < m->n; i++) {
        const uint64_t now = now_ms();

        if (m->v[i].state == CHECKPOINT_RUNNING &&
            !apply(m, &m->v[i], m->calls->lock, now < until ? (unsigned)(until - now) : 1,
                   "it could not be locked"))
            return;
    }
}

/* ---- answers ---- */

/* others: the state of a worker that has no process in m. */
static const char *state_of(const struct movers *m, size_t worker, const char *others)
{
    bool lost = false, none = true, some = false;

    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].worker == worker) {
            none = false;
            lost = lost || m->v[i].state == CHECKPOINT_FAILED || m->v[i].state == CHECKPOINT_LOCKED;
            some = some || m->v[i].state == CHECKPOINT_AWAY;
        }
    return none ? others : lost ? "lost" : some ? "parked" : "running";
}

static json_t *answer(const struct movers *m, const char *others, uint64_t bytes)
{
    json_t *states = json_array(), *worker;
    size_t i;

    json_array_foreach (m->workers, i, worker)
        if (states &&
            json_array_append_new(states, json_pack("[O, s]", json_object_get(worker, "worker"),
                                                    state_of(m, i, others))) < 0) {
            json_decref(states);
            states = NULL;
        }
    return json_pack("{s:o, s:s?, s:I, s:b}", "states", states, "why", m->why[0] ? m->why : NULL,
                     "bytes", (json_int_t)bytes, "crowded", m->crowded);
}

static bool may_begin(struct movers *m, const struct gpu_driver *d, bool nccl)
{
    const char *const driver = d->gpus.driver;

    if (nccl && strtol(driver, NULL, 10) < NCCL_MIN)
        snprintf(m->why, sizeof m->why,
                 "they have NCCL communicators with each other, which driver %d or newer can move; "
                 "this is %.40s",
                 NCCL_MIN, driver[0] ? driver : "an unknown one");
    for (size_t i = 0; !m->why[0] && i < m->n; i++)
        if (m->v[i].state != CHECKPOINT_RUNNING)
            snprintf(m->why, sizeof m->why, "%s: another program has locked it, or it has failed",
                     who(m, m->v[i].worker));
    return !m->why[0];
}

/* No user can have more on the machine's GPUs. */
static uint64_t most_memory(const struct gpu_driver *d)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < d->gpus.n; i++)
        bytes += d->gpus.v[i].memory;
    return bytes ? bytes : UINT64_MAX;
}

static uint64_t measured(void *arg)
{
    struct parking *how = arg;

    return how->room(how);
}

static bool has_room(struct movers *m, const struct gpu_driver *d, uint64_t need,
                     struct parking *how, struct headroom *reserved)
{
    struct headroom_others others;
    uint64_t room;

    *reserved = (struct headroom){ .folder = -1, .fd = -1 };
    if (m->why[0])
        return false;
    if (need > (room = measured(how)))
        snprintf(m->why, sizeof m->why, "they need %.1f GiB of memory, and %s has %.1f GiB left",
                 (double)need / GIB, how->of, (double)room / GIB);
    else if (!headroom_take(reserved, need, measured, how, most_memory(d), &others)) {
        m->crowded = true;
        snprintf(m->why, sizeof m->why,
                 "they need %.1f GiB of memory, and of the %.1f GiB that %s has left, %.1f GiB are "
                 "reserved for ranks that are being parked, of %s",
                 (double)need / GIB, (double)room / GIB, how->of, (double)others.bytes / GIB,
                 others.who);
    }
    return !m->why[0];
}

/* 1: the driver can do it, and *m has the processes; 0: it can't, see m->why; -1: *err. */
static int begin(struct movers *m, struct gpu_driver *d, const json_t *workers,
                 struct gpu_processes *all, struct err *err)
{
    struct err why = { "" };

    *m = (struct movers){ .calls = &d->checkpoint, .workers = workers };
#ifndef __x86_64__
    (void)err_set(&why, "the driver can do it on x86-64 only");
#endif
    if (why.text[0] || open_calls(m->calls, &why) < 0) {
        snprintf(m->why, sizeof m->why, "%.*s", (int)sizeof m->why - 1, why.text);
        return 0;
    }
    return gpu_processes_fill(all, workers, err) < 0 || find(m, all, err) < 0 ? -1 : 1;
}

static json_t *end(struct movers *m, struct gpu_processes *all, json_t *said)
{
    gpu_processes_release(all);
    free(m->v);
    return said;
}

static void park(struct movers *m)
{
    uint64_t since;

    lock_all(m);
    drop_ended(m);
    since = now_ms();
    if (!m->why[0])
        send_away(m);
    drop_ended(m);
    if (!m->why[0])
        log_time(m, "left", since);
    else
        bring_back(m);
}

json_t *checkpoint_park(struct gpu_driver *d, const json_t *workers, struct parking *how,
                        struct err *err)
{
    struct gpu_processes all = GPU_PROCESSES_INIT;
    struct headroom reserved;
    struct movers m;
    uint64_t need = 0;
    const int can = begin(&m, d, workers, &all, err);

    if (can < 0 || (can && may_begin(&m, d, how->nccl) && measure(&m, d, &all, &need, err) < 0))
        return end(&m, &all, NULL);
    if (has_room(&m, d, need, how, &reserved))
        park(&m);
    headroom_give_back(&reserved);
    return end(&m, &all, answer(&m, m.why[0] ? "running" : "parked", need));
}

json_t *checkpoint_return(struct gpu_driver *d, const json_t *workers, bool parked, struct err *err)
{
    struct gpu_processes all = GPU_PROCESSES_INIT;
    struct movers m;
    const int can = begin(&m, d, workers, &all, err);
    const uint64_t since = now_ms();
    bool away = false;

    if (can < 0)
        return end(&m, &all, NULL);
    if (can == 0)
        return end(&m, &all, answer(&m, parked ? "parked" : "lost", 0));
    bring_back(&m);
    drop_ended(&m);
    log_time(&m, "came back", since);
    for (size_t i = 0; i < m.n; i++)
        away = away || m.v[i].state == CHECKPOINT_AWAY;
    return end(&m, &all, answer(&m, parked && away ? "parked" : "running", 0));
}
