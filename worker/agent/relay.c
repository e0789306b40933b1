/* SPDX-License-Identifier: BSD-3-Clause */
/* relay.c - which messages and blobs pass between the kernel and a worker, and when (declared in
 * private.h). */
#include "worker/agent/private.h"

#include <fcntl.h>

#include "base/blob.h"
#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/blobs/transfer_io.h"
#include "worker/agent/output/pipes.h"
#include "worker/agent/net/uplink.h"
#include "worker/agent/processes/worker.h"
#include "worker/link/packet.h"

/* ---- down ---- */

static void link_failed(struct worker *w, const struct err *err)
{
    char name[48];

    /* Usually the worker has just died: the end of the socket, or SIGCHLD, will tell. */
    log_info("relay", "%s: %s", worker_name(w, name), err->text);
    worker_expect_end(w);
}

/* These don't wait behind a message whose blob is on its way. */
static bool is_urgent(enum span_kind kind)
{
    const enum span_thread thread = span_info(kind)->thread;

    return thread == SPAN_THREAD_READING || thread == SPAN_THREAD_DEBUGGING ||
           thread == SPAN_THREAD_FINDING || kind == SPAN_EXIT;
}

/* The sender of a lost message would wait for ever for an answer. So the worker ends, and its death
 * says why. */
static void message_lost(struct worker *w, size_t bytes)
{
    worker_broke(w, "there was no memory, or no descriptor, for a message of %zu bytes to it",
                 bytes);
}

static void keep(struct worker *w, bool urgent, struct slice msg, int blob_fd)
{
    const int fd = blob_fd < 0 ? -1 : fcntl(blob_fd, F_DUPFD_CLOEXEC, 3);

    if ((blob_fd >= 0 && fd < 0) || outbox_add(&w->outbox, urgent, msg, fd) < 0)
        message_lost(w, msg.n);
}

static void send_or_keep(struct worker *w, bool urgent, struct slice msg, int blob_fd)
{
    struct err err = { "" };
    int rc = 1;

    if (w->link_fd < 0)
        return;
    if (outbox_is_empty(&w->outbox) || (urgent && !outbox_has_urgent(&w->outbox)))
        rc = packet_send(w->link_fd, msg.p, msg.n, blob_fd, &err);
    if (rc < 0)
        link_failed(w, &err);
    if (rc != 1)
        return;
    keep(w, urgent, msg, blob_fd);
    worker_watch(w);
}

void relay_send_waiting(struct worker *w)
{
    const struct outbox_message *waiting;
    struct err err = { "" };

    while ((waiting = outbox_first(&w->outbox)) && w->link_fd >= 0) {
        const int rc = packet_send(w->link_fd, waiting->p, waiting->n, waiting->blob_fd, &err);

        if (rc == 1)
            break;
        if (rc < 0)
            link_failed(w, &err);
        outbox_pop(&w->outbox);
    }
    worker_watch(w);
}

/* ---- blobs that are not here ---- */

static void send_without_blob(struct worker *w, const struct span *head, struct slice msg,
                              const char *why)
{
    struct buf now = BUF_INIT;
    struct err err = { "" };

    log_warn("relay", "blob %llu is not here: %s", (unsigned long long)head->blob, why);
    if (stand_in_for_blob(msg, why, &now, &err) < 0)
        worker_broke(w, "it could not be told that what was sent to it is not here (%s): %s", why,
                     err.text);
    else
        send_or_keep(w, is_urgent(head->kind), buf_slice(&now), -1);
    buf_release(&now);
}

static void release(struct worker *w, struct outbox_message *waiting, const struct blob *b,
                    const char *error)
{
    const int fd = b ? fcntl(b->fd, F_DUPFD_CLOEXEC, 3) : -1;
    struct buf now = BUF_INIT;
    struct err err = { "" };

    if (fd < 0 && !error)
        error = "there was no descriptor left for its bytes";
    if (fd >= 0)
        outbox_ready(waiting, fd);
    else if (stand_in_for_blob(slice_of(waiting->p, waiting->n), error, &now, &err) < 0 ||
             outbox_replace(&w->outbox, waiting, buf_slice(&now)) < 0) {
        stand_in_patch(waiting->p);
        outbox_ready(waiting, -1);
    }
    buf_release(&now);
}

void relay_settle(struct agent *a, uint64_t blob, const char *error)
{
    struct outbox_message *waiting;

    for (struct worker *w = a->workers.first; w; w = w->next) {
        if (!outbox_waiting(&w->outbox, blob))
            continue;
        while ((waiting = outbox_waiting(&w->outbox, blob)))
            release(w, waiting, error ? NULL : blobs_get(&a->blobs, blob), error);
        relay_send_waiting(w);
    }
}

static void wait_for_blob(struct worker *w, const struct span *head, struct slice msg)
{
    if (w->link_fd < 0)
        return;
    if (outbox_add_waiting(&w->outbox, msg, head->blob) < 0)
        message_lost(w, msg.n);
}

static bool is_awaited(const struct agent *a, uint64_t blob)
{
    for (const struct worker *w = a->workers.first; w; w = w->next)
        if (outbox_waiting(&w->outbox, blob))
            return true;
    return false;
}

/* Drops the variables that the cell was to get. Blobs that only this cell waits for need not be
 * sent. */
static void forget_binds(struct worker *w, uint64_t cell)
{
    struct outbox_message *waiting;

    while ((waiting = outbox_find(&w->outbox, SPAN_BIND, cell))) {
        const uint64_t blob = waiting->waits;

        outbox_remove(&w->outbox, waiting);
        if (blob && !is_awaited(w->all->agent, blob))
            transfer_io_unwanted(w->all->agent->transfers, blob);
    }
}

/* The cell's RUN still waits for a blob, or for room in the socket. An interrupt would reach the
 * worker before it, and be lost. So the agent answers for the worker. */
static bool interrupt_waiting(struct worker *w, const struct span *head)
{
    struct outbox_message *run = outbox_find(&w->outbox, SPAN_RUN, head->cell),
                          *waiting = run ? run : outbox_find(&w->outbox, SPAN_FETCH, head->cell);
    const bool unbound = outbox_find(&w->outbox, SPAN_BIND, head->cell) != NULL;
    struct buf done = BUF_INIT;
    struct err err = { "" };
    bool answered;

    if (!waiting)
        return false;
    answered = stand_in_for_cell(w->id, head->cell, unbound, &done, &err) == 0 &&
               uplink_send(w->all->agent->kernel.uplink, w->id, buf_slice(&done), &err) == 0;
    if (answered) {
        outbox_remove(&w->outbox, waiting);
        forget_binds(w, head->cell);
    } else {
        log_error("relay", "%s", err.text);
    }
    buf_release(&done);
    return answered;
}

/* What was printed before a cell says nothing about a death in it. */
static bool begins_cell(const struct span *head, struct slice msg)
{
    struct span m;
    struct err unused = { "" };
    bool executes;

    if (head->kind != SPAN_REQUEST || span_decode(&m, msg.p, msg.n, &unused) < 0)
        return head->kind == SPAN_RUN;
    executes = slice_is(m.v[F_REQUEST_TYPE].s, "execute_request");
    span_release(&m);
    return executes;
}

void relay_down(struct worker *w, const struct span *head, struct slice msg)
{
    const bool has_blob = head->blob != 0 && head->blob_size != 0;
    const struct blob *b = has_blob ? blobs_get(&w->all->agent->blobs, head->blob) : NULL;

    if (head->kind == SPAN_RUN || head->kind == SPAN_REQUEST || head->kind == SPAN_FETCH)
        pipes_begin(&w->pipes, head->cell, begins_cell(head, msg));
    if (head->kind == SPAN_INTERRUPT && interrupt_waiting(w, head))
        return;
    if (has_blob && !b && transfer_io_expects(w->all->agent->transfers, head->blob))
        wait_for_blob(w, head, msg);
    else if (has_blob && (!b || b->size != head->blob_size))
        send_without_blob(w, head, msg, transfer_io_why(w->all->agent->transfers, head->blob));
    else
        send_or_keep(w, is_urgent(head->kind), msg, b ? b->fd : -1);
}

void relay_tell(struct worker *w, const struct span *m)
{
    struct buf msg = BUF_INIT;
    struct err err = { "" };

    if (span_encode(m, &msg, &err) < 0)
        worker_broke(w, "it could not be told something: %s", err.text);
    else
        send_or_keep(w, is_urgent(m->kind), buf_slice(&msg), -1);
    buf_release(&msg);
}

/* ---- up ---- */

/* Keeps the blob that came along. -1: the worker broke the protocol. */
static int take_blob(struct worker *w, const struct span *head, struct packet *p)
{
    struct err err = { "" };
    uint64_t size;

    if (p->blob_fd < 0 && head->blob && head->blob_size) {
        worker_broke(w, "it announced %llu bytes and sent none",
                     (unsigned long long)head->blob_size);
        return -1;
    }
    if (p->blob_fd < 0)
        return 0;
    if (blob_check(p->blob_fd, &size, &err) < 0 || head->blob == 0 || size != head->blob_size) {
        worker_broke(w, "it sent bytes that can't be kept: %s",
                     err.text[0] ? err.text : "their number or size is wrong");
        return -1;
    }
    if (blobs_put(&w->all->agent->blobs, head->blob, size, packet_take_blob(p)) < 0)
        log_error("relay", "out of memory: blob %llu is lost", (unsigned long long)head->blob);
    return 0;
}

static int note_ready(struct worker *w, struct slice msg)
{
    struct err err = { "" };
    struct span m;
    pid_t pid;

    if (span_decode(&m, msg.p, msg.n, &err) < 0) {
        worker_broke(w, "its READY: %s", err.text);
        return -1;
    }
    pid = (pid_t)m.v[F_READY_PID].u64;
    span_release(&m);
    w->state.ready = true;
    if (w->state.pid == 0 && !worker_may_be(w->all, pid)) {
        worker_broke(w, "it says that it is process %lld, which is no child of the agent",
                     (long long)pid);
        return -1;
    }
    if (w->state.pid == 0)
        worker_set_pid(w, pid);
    return 0;
}

static void answer_sync(struct worker *w)
{
    const struct span m = { .kind = SPAN_SYNCED, .worker = w->id };

    pipes_drain(&w->pipes);
    relay_tell(w, &m);
}

/* After sending such a message a worker writes nothing more: it waits, or is done. */
static bool is_after_text(enum span_kind kind)
{
    return kind == SPAN_REPLY || kind == SPAN_DONE || kind == SPAN_CALL || kind == SPAN_INPUT;
}

static void pass_up(struct worker *w, const struct span *head, struct slice msg)
{
    const int64_t counts = head->kind == SPAN_PUBLISH ? worker_credit_of_publish(msg) : 0;
    struct err err = { "" };

    if (counts < 0) {
        worker_broke(w, "it sent a PUBLISH that is torn");
        return;
    }
    if (is_after_text(head->kind))
        pipes_drain(&w->pipes);
    pipes_flush(&w->pipes);
    if (head->kind == SPAN_DONE && gpu_oom_takes(w, msg))
        return;
    if (uplink_send(w->all->agent->kernel.uplink, w->id, msg, &err) < 0)
        worker_broke(w, "what it said is lost: %s", err.text);
    worker_credit_take(&w->pipes.credit, (uint64_t)counts);
}

void relay_up(struct worker *w, struct packet *p)
{
    const struct span_info *info;
    struct err err = { "" };
    struct span head;

    if (span_peek(&head, p->p, p->n, &err) < 0) {
        worker_broke(w, "it sent a message that can't be read: %s", err.text);
        return;
    }
    info = span_info((unsigned)head.kind);
    if (info->ways & SPAN_WORKER_TO_AGENT)
        answer_sync(w);
    else if (!(info->ways & SPAN_WORKER_TO_KERNEL))
        worker_broke(w, "it sent %s, which is not for it to send", info->name);
    else if (head.kind == SPAN_READY && note_ready(w, slice_of(p->p, p->n)) < 0)
        return;
    else if (take_blob(w, &head, p) == 0)
        pass_up(w, &head, slice_of(p->p, p->n));
}
