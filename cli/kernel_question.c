/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_question.c - asks a kernel that runs already, as one more of its clients (declared in
 * kernels.h). */
#include <stdlib.h>
#include <string.h>

#include "base/loop/loop.h"
#include "base/random.h"
#include "cli/client.h"
#include "cli/kernels.h"
#include "cli/private.h"
#include "protocol/jupyter.h"

#define WELCOME_NS (5 * NS_PER_S) /* until iopub is connected */

struct asked_kernel {
    struct loop *loop;
    struct client *client;
    struct watch *limit;
    struct printer *printer; /* of kernel_show() */
    const char *reply;       /* the type that is waited for */
    const char *line;        /* of kernel_show(): what is sent once iopub is connected */
    uint64_t silence_ns;     /* of kernel_show(): how long it may say nothing after that */
    bool asked, replied, idle, failed;
    json_t *content; /* owned: what came */
    struct err err;
};

static void over(struct asked_kernel *q)
{
    loop_stop(q->loop);
}

static void late(void *arg)
{
    struct asked_kernel *q = arg;

    if (q->asked)
        err_set(
            &q->err,
            "it stopped answering: it has said nothing for %u s; wait, or end it with `cellspan "
            "stop`",
            (unsigned)(q->silence_ns / NS_PER_S));
    else
        err_set(&q->err, "it does not answer: wait, or end it with `cellspan stop`");
    over(q);
}

static void ask_for_line(struct asked_kernel *q)
{
    struct buf content = BUF_INIT;
    int rc = -1;

    q->asked = true;
    loop_timer_again(q->limit, q->silence_ns);
    if (buf_add_text(&content, "{\"code\":") < 0 ||
        jupyter_quote(&content, slice_text(q->line)) < 0 ||
        buf_add_text(&content, ",\"silent\":false,\"store_history\":false,\"user_expressions\":{},"
                               "\"allow_stdin\":false,\"stop_on_error\":false}") < 0)
        err_set(&q->err, "out of memory");
    else
        rc = client_send(q->client, CLIENT_SHELL, "execute_request", buf_slice(&content), &q->err);
    buf_release(&content);
    if (rc < 0)
        over(q);
}

static void show(struct asked_kernel *q, enum client_channel channel, const char *type,
                 const json_t *content)
{
    const char *state = json_string_value(json_object_get(content, "execution_state"));
    const char *status = json_string_value(json_object_get(content, "status"));

    if (channel == CLIENT_SHELL && strcmp(type, "execute_reply") == 0) {
        q->replied = true;
        q->failed = !status || strcmp(status, "ok") != 0;
    } else if (channel == CLIENT_IOPUB && strcmp(type, "status") == 0) {
        q->idle = q->idle || (state && strcmp(state, "idle") == 0);
    } else if (channel == CLIENT_IOPUB) {
        printer_message(q->printer, type, content);
        printer_flush(q->printer);
    }
    loop_timer_again(q->limit, q->silence_ns); /* the reader of our output may have been slow */
    if ((q->replied && q->idle) || printer_broken(q->printer))
        over(q);
}

static void message(void *arg, enum client_channel channel, struct request *m, bool ours)
{
    struct asked_kernel *q = arg;
    const char *type = request_type(m);

    if (q->line && channel == CLIENT_IOPUB && !q->asked && strcmp(type, "iopub_welcome") == 0) {
        ask_for_line(q);
    } else if (q->line && ours) {
        show(q, channel, type, request_content(m));
    } else if (!q->line && channel == CLIENT_CONTROL && strcmp(type, q->reply) == 0) {
        if (!(q->content = json_deep_copy(request_content(m))))
            (void)err_set(&q->err, "it gives an answer that takes too much memory");
        over(q);
    }
}

/* To look up a name would run what the system's configuration names for that. */
static int read_file(struct connection *c, const struct running_kernel *k, struct err *err)
{
    if (!k->file)
        return err_set(err, "it was started without a connection file (-f), so it can't be asked: "
                            "use its notebook");
    if (kernel_is_elsewhere(k))
        return err_set(err, "it is root's, in a container or in other namespaces: ask it there");
    if (random_open(err) < 0 || connection_read_plain(c, k->file, err) < 0)
        return -1;
    if (!k->foreign || connection_is_numeric(c))
        return 0;
    err_set(err,
            "connection file %s: \"ip\" is \"%.64s\": of another user's kernel, only an address "
            "in numbers is used",
            c->file, c->ip);
    connection_release(c);
    return -1;
}

/* Connects, sends what is asked at once, and runs the loop until it is answered. */
static void run(struct asked_kernel *q, const struct running_kernel *k, const char *type,
                const char *content, uint64_t limit_ns)
{
    struct connection connection;
    struct err *err = &q->err;

    if (read_file(&connection, k, err) < 0)
        return;
    if ((q->loop = loop_create(&clock_system, err)) &&
        (q->limit = loop_timer(q->loop, limit_ns, 0, late, q, err)) &&
        (q->client = client_create(q->loop, &connection, type ? 1u << CLIENT_CONTROL : CLIENT_ALL,
                                   false, message, q, err)) &&
        (!type || client_send(q->client, CLIENT_CONTROL, type, slice_text(content), err) == 0))
        (void)!loop_run(q->loop, err);
    client_destroy(q->client);
    if (q->loop)
        loop_destroy(q->loop);
    connection_release(&connection);
}

json_t *kernel_question(const struct running_kernel *k, const char *type, const char *content,
                        const char *reply, uint64_t limit_ns, struct err *err)
{
    struct asked_kernel q = { .reply = reply };

    run(&q, k, type, content, limit_ns);
    if (!q.content)
        (void)err_set(err, "kernel %ld: %s", (long)k->pid, q.err.text);
    return q.content;
}

int kernel_show(const struct running_kernel *k, const char *line, uint64_t silence_ns,
                struct err *err)
{
    struct asked_kernel q = { .line = line, .reply = "", .silence_ns = silence_ns };
    int rc;

    if (!(q.printer = printer_create())) {
        (void)err_set(err, "out of memory");
        return 1;
    }
    run(&q, k, NULL, NULL, WELCOME_NS);
    printer_finish(q.printer);
    printer_flush(q.printer);
    rc = q.replied && !q.failed && printer_failed(q.printer, err) == 0 ? 0 : 1;
    if (!q.replied && q.err.text[0])
        (void)err_set(err, "kernel %ld: %s", (long)k->pid, q.err.text);
    printer_destroy(q.printer);
    return rc;
}
