/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_limit.h"
#include "base/process.h"

/* Finds the GPUs if there is no list yet. The agent asks for the list first, but this process may
 * replace one that has died. */
static int find_once(struct gpu_driver *d, const char *visible, struct err *err)
{
    return d->gpus.n || d->open ? 0 : driver_find(d, visible, err);
}

static json_t *answer_list(struct gpu_driver *d, const char *visible, struct err *err)
{
    return driver_find(d, visible, err) < 0 ? NULL : gpus_to_json(&d->gpus);
}

/* The host memory of each worker, its use of processors, and its GPUs, copied from the question. */
static json_t *read_workers(struct gpu_driver *d, const json_t *workers,
                            const struct gpu_processes *processes)
{
    json_t *list = json_array(), *cpu = cpu_use_list(&d->cpu, workers, processes);

    for (size_t i = 0; list && i < json_array_size(workers); i++) {
        const json_t *w = json_array_get(workers, i);

        if (json_array_append_new(list, json_pack("{s:O, s:I, s:O?, s:b, s:O}", "worker",
                                                  json_object_get(w, "worker"), "memory",
                                                  (json_int_t)gpu_processes_memory(processes, i),
                                                  "cpu", json_array_get(cpu, i), "suspended",
                                                  process_is_stopped((long)json_integer_value(
                                                      json_object_get(w, "pid"))),
                                                  "gpus", json_object_get(w, "gpus"))) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    json_decref(cpu);
    return list;
}

static json_t *answer_read(struct gpu_driver *d, const json_t *workers, struct err *err)
{
    struct gpu_processes processes = GPU_PROCESSES_INIT;
    json_t *said = NULL;

    if (gpu_processes_fill(&processes, workers, err) == 0)
        said = json_pack("{s:o, s:o, s:s?}", "gpus", readings_list(d, NULL, workers, &processes),
                         "workers", read_workers(d, workers, &processes), "why",
                         d->gpus.why[0] ? d->gpus.why : NULL);
    gpu_processes_release(&processes);
    return said;
}

static json_t *answer_since(struct gpu_driver *d, unsigned worker, const json_t *ask,
                            struct err *err)
{
    const json_t *workers = json_object_get(ask, "workers");
    struct gpu_processes processes = GPU_PROCESSES_INIT;
    json_t *said = events_since(d, worker);

    if (said && gpu_processes_fill(&processes, workers, err) == 0 &&
        json_object_set_new(said, "gpus",
                            readings_list(d, json_object_get(ask, "gpus"), workers, &processes)) ==
            0) {
        gpu_processes_release(&processes);
        return said;
    }
    gpu_processes_release(&processes);
    json_decref(said);
    return NULL;
}

static uint64_t room_given(struct parking *how)
{
    return how->given;
}

static uint64_t room_measured(struct parking *how)
{
    const uint64_t bytes = memory_limit_parking(&how->of);

    if (strcmp(how->of, "memory") == 0)
        how->of = "this machine";
    return bytes;
}

/* Tests say the room. */
static json_t *answer_park(struct gpu_driver *d, const json_t *ask, struct err *err)
{
    const json_t *room = json_object_get(ask, "room");
    const char *of = json_string_value(json_object_get(ask, "of"));
    struct parking how = { .nccl = json_is_true(json_object_get(ask, "nccl")),
                           .room = json_is_integer(room) ? room_given : room_measured,
                           .given = (uint64_t)json_integer_value(room),
                           .of = of ? of : "this machine" };

    return checkpoint_park(d, json_object_get(ask, "workers"), &how, err);
}

static json_t *answer(struct gpu_driver *d, const char *visible, const json_t *ask, struct err *err)
{
    const char *what = json_string_value(json_object_get(ask, "ask"));
    const json_t *uuids = json_object_get(ask, "gpus");
    const unsigned worker = (unsigned)json_integer_value(json_object_get(ask, "worker"));

    if (what && strcmp(what, "list") == 0)
        return answer_list(d, visible, err);
    if (find_once(d, visible, err) < 0)
        return NULL;
    if (what && strcmp(what, "read") == 0)
        return answer_read(d, json_object_get(ask, "workers"), err);
    if (what && strcmp(what, "mark") == 0)
        return events_mark(d, worker, uuids, err) < 0 ? NULL : json_object();
    if (what && strcmp(what, "since") == 0)
        return answer_since(d, worker, ask, err);
    if (what && strcmp(what, "park") == 0)
        return answer_park(d, ask, err);
    if (what && strcmp(what, "return") == 0)
        return checkpoint_return(d, json_object_get(ask, "workers"),
                                 json_is_true(json_object_get(ask, "parked")), err);
    return err_null(err, "there is no question \"%s\"", what ? what : "");
}

int probe_answer(struct gpu_driver *d, const char *visible, struct slice line, struct buf *out)
{
    struct err err = { "" };
    json_t *ask = json_loadb(line.p, line.n, 0, NULL);
    json_t *said = answer(d, visible, ask, &err);
    char *text;
    int rc;

    if (!said)
        said = json_pack("{s:s}", "error", err.text[0] ? err.text : "out of memory");
    text = said ? json_dumps(said, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    rc = text ? buf_addf(out, "%s\n", text) : buf_add_text(out, "{\"error\":\"out of memory\"}\n");
    free(text);
    json_decref(ask);
    json_decref(said);
    return rc;
}

/* Answers every complete line in `in`. */
static int answer_lines(struct gpu_driver *d, int fd, struct buf *in)
{
    struct slice line;
    int rc = 0;

    while (rc == 0 && buf_line(in, &line)) {
        struct buf out = BUF_INIT;

        if (probe_answer(d, getenv("CUDA_VISIBLE_DEVICES"), line, &out) < 0 ||
            fd_write(fd, buf_slice(&out)) < 0)
            rc = -1;
        buf_drop(in, line.n + 1);
        buf_release(&out);
    }
    return in->n > PROBE_LINE_MAX ? -1 : rc;
}

int probe_serve(int fd)
{
    struct gpu_driver d;
    struct buf in = BUF_INIT;
    char bytes[4096];
    int rc = 0;

    driver_init(&d);
    while (rc == 0) {
        const ssize_t n = read(fd, bytes, sizeof bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        rc = buf_add(&in, bytes, (size_t)n) < 0 ? -1 : answer_lines(&d, fd, &in);
    }
    buf_release(&in);
    checkpoint_close(&d.checkpoint);
    driver_release(&d);
    return rc < 0 ? 1 : 0;
}
