/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_client.c - see probe_client.h. Answers come in the order of the questions. So a question
 * whose time is over stays in the queue, until its answer comes. */
#include "worker/agent/gpu/probe_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/unix_socket.h"

#define PROGRAM     "cellspan-gpus"
#define WAITING_MAX 64u
#define ANSWER_MAX  (4u << 20) /* bytes */
#define READ_SIZE   16384
/* a question with at least this limit may wait behind one that is late; others fail at once */
#define LONG_LIMIT_NS (10 * NS_PER_S)

struct probe_question {
    struct probe_question *next;
    struct probe_client *client;
    probe_client_f f; /* NULL: nobody waits (any more) */
    void *arg;
    struct watch *timer;
    bool late;
};

struct probe_client {
    struct loop *loop;
    int fd; /* -1: the process does not run */
    struct watch *watch;
    struct buf in;
    struct probe_question *first, **end;
    unsigned waiting;
    bool closed; /* no more questions */
};

struct probe_client *probe_client_create(struct loop *loop, struct err *err)
{
    struct probe_client *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->loop = loop;
    c->fd = -1;
    c->end = &c->first;
    return c;
}

static void question_destroy(struct probe_question *q)
{
    watch_stop(q->timer);
    free(q);
}

static struct probe_question *pop(struct probe_client *c)
{
    struct probe_question *q = c->first;

    if (!q)
        return NULL;
    c->first = q->next;
    if (!c->first)
        c->end = &c->first;
    c->waiting--;
    return q;
}

static void hang_up(struct probe_client *c)
{
    watch_clear(&c->watch);
    fd_close(&c->fd); /* the process ends with its socket */
    buf_release(&c->in);
}

static void finish_question(struct probe_question *q, const json_t *said, const char *why)
{
    const char *error = json_string_value(json_object_get(said, "error"));

    if (q->f)
        q->f(q->arg, error ? NULL : said, error ? error : why);
    question_destroy(q);
}

/* Fails all open questions. Their callbacks may ask new ones, of a new process. */
static void fail_all(struct probe_client *c, const char *why)
{
    struct probe_question *q, *list = c->first;

    hang_up(c);
    c->first = NULL;
    c->end = &c->first;
    c->waiting = 0;
    while ((q = list)) {
        list = q->next;
        finish_question(q, NULL, why);
    }
}

void probe_client_destroy(struct probe_client *c)
{
    if (!c)
        return;
    c->closed = true;
    fail_all(c, "the agent ends");
    free(c);
}

static void take_line(struct probe_client *c, struct slice line)
{
    struct probe_question *q = pop(c);
    json_error_t why;
    json_t *said;

    if (!q)
        return;
    if (!(said = json_loadb(line.p, line.n, 0, &why)))
        log_error("gpu", "an answer that is no JSON: %s", why.text);
    finish_question(q, said, said ? "" : "the answer about the GPUs could not be read");
    json_decref(said);
}

static void readable(void *arg, int fd, unsigned events)
{
    struct probe_client *c = arg;
    char bytes[READ_SIZE];
    const ssize_t n = read(fd, bytes, sizeof bytes);
    struct slice line;

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || c->in.n > ANSWER_MAX || buf_add(&c->in, bytes, (size_t)n) < 0) {
        fail_all(c, "the process that asks the GPU driver has ended (see CELLSPAN_LOG)");
        return;
    }
    while (buf_line(&c->in, &line)) {
        take_line(c, line);
        buf_drop(&c->in, line.n + 1);
    }
}

static int start(struct probe_client *c, struct err *err)
{
    struct process_spec spec = PROCESS_SPEC_INIT;
    char *path = runtime_find(PROGRAM, err);
    const char *const argv[] = { path, "--serve", NULL };
    int pair[2] = { -1, -1 };
    pid_t pid = -1;

    if (!path)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || fd_cloexec(pair[0]) < 0 ||
        fd_cloexec(pair[1]) < 0 || fd_nonblock(pair[0], true) < 0) {
        (void)err_set(err, "socketpair: %s", strerror(errno));
    } else {
        spec.argv = argv;
        spec.in = pair[1];
        spec.session = true;
        spec.die_with_parent = true;
        spec.holds_notices = true;
        pid = process_start(&spec, err);
    }
    free(path);
    fd_close(&pair[1]);
    c->fd = pair[0];
    if (pid > 0 && (c->watch = loop_fd(c->loop, c->fd, LOOP_READ, readable, c, err)))
        return 0;
    hang_up(c);
    return -1;
}

static void too_late(void *arg)
{
    struct probe_question *q = arg;
    const probe_client_f f = q->f;

    q->f = NULL;
    q->late = true;
    if (f)
        f(q->arg, NULL, "the GPU driver does not answer");
}

static int send_line(struct probe_client *c, const json_t *question, struct err *err)
{
    char *text = json_dumps(question, JSON_COMPACT);
    struct buf line = BUF_INIT;
    int rc = -1;

    if (!text || buf_addf(&line, "%s\n", text) < 0) {
        (void)err_set(err, "out of memory");
    } else if (send(c->fd, line.p, line.n, MSG_NOSIGNAL) != (ssize_t)line.n) {
        (void)err_set(err, "the process that asks the GPU driver takes no questions: %s",
                      strerror(errno));
        /* part of a question may have been sent: end this process, so that another is started */
        (void)shutdown(c->fd, SHUT_RDWR);
    } else {
        rc = 0;
    }
    free(text);
    buf_release(&line);
    return rc;
}

static int send_question(struct probe_client *c, const json_t *question, uint64_t limit_ns,
                         struct err *err)
{
    if (c->closed)
        return err_set(err, "the agent ends");
    if (c->waiting >= WAITING_MAX || (c->first && c->first->late && limit_ns < LONG_LIMIT_NS))
        return err_set(err, "the GPU driver does not answer");
    if (c->fd < 0 && start(c, err) < 0)
        return -1;
    return send_line(c, question, err);
}

int probe_client_ask(struct probe_client *c, json_t *question, uint64_t limit_ns, probe_client_f f,
                     void *arg, struct err *err)
{
    struct probe_question *q = question ? calloc(1, sizeof *q) : NULL;
    int rc = -1;

    if (!q)
        (void)err_set(err, "out of memory");
    else if ((q->timer = loop_timer(c->loop, limit_ns, 0, too_late, q, err)))
        rc = send_question(c, question, limit_ns, err);
    json_decref(question);
    if (rc < 0) {
        if (q)
            question_destroy(q);
        return -1;
    }
    *q = (struct probe_question){ .client = c, .f = f, .arg = arg, .timer = q->timer };
    *c->end = q;
    c->end = &q->next;
    c->waiting++;
    return 0;
}
