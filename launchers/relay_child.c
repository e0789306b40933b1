/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/relay_child.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/child_lines.h"
#include "base/mux/forward.h"
#include "base/process.h"
#include "base/settings.h"

#define AGAIN_NS     (300 * NS_PER_MS) /* doubled with each try */
#define AGAIN_MAX_NS (5 * NS_PER_S)
#define KILL_NS      (3 * NS_PER_S) /* after a SIGTERM */
#define TCP          "tcp://"

struct relay_child {
    struct loop *loop;
    const char *host, *way;
    struct words argv;
    struct sockaddr_storage kernel;
    socklen_t kernel_size;
    struct login login;
    pid_t pid; /* 0: none runs */
    int errs;
    struct child_lines lines;
    struct watch *err_watch, *again, *limit;
    struct forward *forward;
    uint64_t wait_ns;
    char *why;       /* there is a relay; NULL: the user was told */
    struct buf said; /* since it was up; the same words are not said again */
};

/* ---- the kernel's address ---- */

static int find_kernel(struct relay_child *r, struct err *err)
{
    const struct addrinfo want = { .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
    const char *text = getenv("CELLSPAN_KERNEL_ENDPOINT");
    struct addrinfo *found = NULL;
    struct slice host, port;
    char name[64], number[16];

    if (!text || strncmp(text, TCP, strlen(TCP)) != 0 ||
        !slice_host_port(slice_text(text + strlen(TCP)), &host, &port))
        return err_set(err, "CELLSPAN_KERNEL_ENDPOINT is not set, or no tcp endpoint");
    snprintf(name, sizeof name, "%.*s", SLICE_ARG(host));
    snprintf(number, sizeof number, "%.*s", SLICE_ARG(port));
    if (getaddrinfo(name, number, &want, &found) != 0)
        return err_set(err, "CELLSPAN_KERNEL_ENDPOINT=%.200s: no address", text);
    memcpy(&r->kernel, found->ai_addr, found->ai_addrlen);
    r->kernel_size = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

/* ---- its process ---- */

static void say(void *arg, const char *line)
{
    struct relay_child *r = arg;

    if (text_is_new(&r->said, line))
        fprintf(stderr, "%s: relay: %s\n", r->host, line);
}

static void err_ready(void *arg, int fd, unsigned events)
{
    struct relay_child *r = arg;

    (void)events;
    if (!child_lines_read(&r->lines, fd, say, r)) {
        watch_clear(&r->err_watch);
        fd_close(&r->errs);
    }
}

/* A machine may have many addresses: the first two are told. */
static int told(const char *why)
{
    const char *end = why;

    for (unsigned i = 0; i < 2 && end; i++)
        if ((end = strstr(end, "), ")))
            end += strlen("), ");
    return (int)(end ? (size_t)(end - why) - strlen(", ") : strlen(why));
}

static void up(void *arg)
{
    struct relay_child *r = arg;

    login_over(&r->login);
    watch_clear(&r->limit);
    r->wait_ns = AGAIN_NS;
    buf_clear(&r->said); /* what breaks later is news */
    if (r->why) {
        const int n = told(r->why);

        report_say("%s can't connect to this machine: %.*s%s; its connection goes through %s",
                   r->host, n, r->why, r->why[n] ? ", and so on" : "", r->way);
    }
    text_replace(&r->why, NULL);
}

static void start_again(void *arg)
{
    struct relay_child *r = arg;

    watch_clear(&r->again);
    login_ask(&r->login);
}

static void wait_and_start(struct relay_child *r)
{
    struct err err = { "" };

    login_over(&r->login);
    watch_clear(&r->limit);
    if (!r->again &&
        !(r->again = loop_timer(r->loop, login_pause_ns(r->wait_ns), 0, start_again, r, &err)))
        say(r, err.text);
    r->wait_ns = 2 * r->wait_ns < AGAIN_MAX_NS ? 2 * r->wait_ns : AGAIN_MAX_NS;
}

static void kill_it(void *arg)
{
    struct relay_child *r = arg;

    if (r->pid > 0)
        (void)process_kill_group(r->pid, SIGKILL);
}

/* SIGTERM lets it end what it has started. One that is stopped has to go on for that. */
static void stop_process(struct relay_child *r)
{
    forward_stop(r->forward);
    r->forward = NULL;
    if (r->pid <= 0)
        return;
    (void)process_kill_group(r->pid, SIGTERM);
    (void)process_kill_group(r->pid, SIGCONT);
}

/* The same, and another follows when it has ended. */
static void end_process(struct relay_child *r)
{
    struct err err = { "" };

    stop_process(r);
    watch_clear(&r->limit);
    if (r->pid > 0 && !(r->limit = loop_timer(r->loop, KILL_NS, 0, kill_it, r, &err)))
        kill_it(r);
}

static void over(void *arg, const char *why)
{
    struct relay_child *r = arg;

    if (*why)
        say(r, why);
    end_process(r);
}

static void no_answer(void *arg)
{
    over(arg, "it does not come up");
}

static int forward(struct relay_child *r, int in, int out, struct err *err)
{
    const struct forward_spec spec = { .in = out,
                                       .out = in,
                                       .mark = RELAY_READY,
                                       .dial = (const struct sockaddr *)&r->kernel,
                                       .dial_size = r->kernel_size,
                                       .up = up,
                                       .over = over,
                                       .arg = r };

    if (fd_nonblock(in, true) < 0)
        (void)err_set(err, "the pipe to its stdin");
    r->forward = forward_start(r->loop, &spec, err);
    return r->forward && (r->err_watch = loop_fd(r->loop, r->errs, LOOP_READ, err_ready, r, err)) &&
                   (r->limit = loop_timer(r->loop, setting_value(SETTING_SSH_TIMEOUT), 0, no_answer,
                                          r, err))
               ? 0
               : -1;
}

static void start(void *arg)
{
    struct relay_child *r = arg;
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err err = { "" };
    int in = -1, out = -1;

    spec.argv = (const char *const *)r->argv.v;
    spec.session = true;
    spec.die_with_parent = true;
    spec.last_words = SIGTERM;
    if ((r->pid = process_start_streams(&spec, &in, &out, &r->errs, &err)) <= 0) {
        r->pid = 0;
        say(r, err.text);
        wait_and_start(r);
    } else if (forward(r, in, out, &err) < 0) {
        say(r, err.text);
        end_process(r);
    }
}

bool relay_child_ended(struct relay_child *r, pid_t pid)
{
    if (!r || r->pid != pid)
        return false;
    r->pid = 0;
    while (r->errs >= 0 && fd_waiting(r->errs))
        err_ready(r, r->errs, LOOP_READ);
    child_lines_end(&r->lines, say, r);
    watch_clear(&r->err_watch);
    fd_close(&r->errs);
    stop_process(r);
    wait_and_start(r);
    return true;
}

/* ---- begin and end ---- */

static void release(struct relay_child *r)
{
    login_over(&r->login);
    watch_stop(r->err_watch);
    watch_stop(r->again);
    watch_stop(r->limit);
    fd_close(&r->errs);
    child_lines_release(&r->lines);
    words_release(&r->argv);
    free(r->why);
    buf_release(&r->said);
    free(r);
}

struct relay_child *relay_child_start(const struct relay_child_spec *spec, struct err *err)
{
    struct relay_child *r = calloc(1, sizeof *r);

    if (!r) {
        words_release(spec->argv);
        return err_null(err, "out of memory");
    }
    *r = (struct relay_child){ .loop = spec->loop,
                               .host = spec->host,
                               .way = spec->way,
                               .argv = *spec->argv,
                               .errs = -1,
                               .lines = CHILD_LINES_TEXT,
                               .wait_ns = AGAIN_NS };
    *spec->argv = (struct words)WORDS_INIT;
    r->login = (struct login){ .login_limit = spec->login_limit, .start = start, .arg = r };
    text_replace(&r->why, spec->why);
    if (find_kernel(r, err) < 0) {
        release(r);
        return NULL;
    }
    login_ask(&r->login);
    return r;
}

void relay_child_stop(struct relay_child *r)
{
    if (!r)
        return;
    stop_process(r);
    release(r);
}
