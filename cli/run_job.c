/* SPDX-License-Identifier: BSD-3-Clause */
/* run_job.c - a cell on a kernel of its own, as `cellspan run` and `cellspan doctor` run it:
 *
 *   start the kernel, wait for iopub's welcome -> execute_request -> output … reply and idle ->
 *   shutdown_request -> it ends
 *
 * The kernel gets our pid and ends when we end. It runs in its own session, so Ctrl-C reaches
 * only us. The first Ctrl-C sends an interrupt_request, the second one makes the kernel kill
 * ranks that hang, the third one ends everything.
 *
 * While the reader of our output takes nothing, no iopub message is passed on, and the kernel is
 * told of none: it sends a few MiB, which wait in this process, and then holds back the ranks.
 * Nothing blocks in a write, so signals are served. After a signal, a reader that takes nothing for
 * a while is given up: what it has not read is lost. */
#include "cli/private.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/random.h"
#include "base/runtime.h"
#include "base/utf8.h"
#include "cli/client.h"

#define START_NS    (30 * NS_PER_S)  /* until the kernel welcomes us */
#define SHUTDOWN_NS (15 * NS_PER_S)  /* until it has ended by itself; then it is killed */
#define STUCK_NS    (2 * NS_PER_S)   /* after a signal, until a reader is given up */
#define DRAIN_NS    (10 * NS_PER_MS) /* between two looks whether all of a dead kernel's was read */
#define DRAIN_MOST  500u             /* looks in a row that found nothing more */
#define KEY_BYTES   32u
#define INTERRUPTED 130

struct run_job {
    struct loop *loop;
    struct slice code;
    struct connection connection;
    char *dir, *file; /* owned */
    int lock;         /* of dir */
    struct client *client;
    struct printer *printer;
    struct input *input;
    struct watch *signals[4]; /* SIGCHLD, SIGINT, SIGTERM, SIGHUP; NULL: it is ignored */
    struct watch *limit;
    struct watch *room;  /* NULL: our output does not wait for its reader */
    struct watch *stuck; /* runs since the first signal */
    struct watch *drain; /* the kernel has ended by itself */
    int room_fd;
    uint64_t printed;        /* bytes, when stuck was set */
    uint64_t came, had_come; /* messages: of the cell, and before stuck was set */
    unsigned looks;          /* since a message came */
    pid_t kernel;            /* 0: none */
    bool over;               /* the loop stops when all is printed */
    bool asked, replied, idle, leaving;
    bool given_up;  /* somebody read nothing of our output after a signal */
    bool passed_on; /* a signal was, to the script */
    bool repaired;  /* input that is not UTF-8 was, and this was told */
    unsigned interrupts;
    int status; /* what we exit with; -1: not known yet */
    struct err err;
};

static void kernel_kill(struct run_job *j)
{
    if (j->kernel > 0)
        process_kill_group(j->kernel, SIGKILL);
}

/* It was told to end, so its end is no error. */
static void kill_at_once(struct run_job *j)
{
    j->leaving = true;
    kernel_kill(j);
}

/* Ends when all is printed: what the kernel has sent, too, if it has ended by itself. */
static void over(struct run_job *j)
{
    j->over = true;
    if (printer_waits(j->printer) >= 0)
        return;
    if (j->asked && !j->leaving && j->looks < DRAIN_MOST && !client_is_drained(j->client))
        loop_timer_again(j->drain, DRAIN_NS);
    else
        loop_stop(j->loop);
}

static void look(void *arg)
{
    struct run_job *j = arg;

    j->looks++;
    over(j);
}

static void fail(struct run_job *j, const struct err *why)
{
    err_set(&j->err, "%s", why->text);
    kill_at_once(j);
    over(j);
}

static void printed(struct run_job *j);

/* Everything was said: the kernel may go. */
static void leave(struct run_job *j)
{
    struct err err = { "" };

    if (j->leaving)
        return;
    j->leaving = true;
    printer_finish(j->printer);
    printed(j);
    loop_timer_again(j->limit, SHUTDOWN_NS);
    if (client_send(j->client, CLIENT_CONTROL, "shutdown_request",
                    slice_text("{\"restart\":false}"), &err) < 0)
        kernel_kill(j);
}

static void ask(struct run_job *j)
{
    struct buf content = BUF_INIT;
    struct err err = { "" };

    j->asked = true;
    loop_timer_off(j->limit);
    if (buf_add_text(&content, "{\"code\":") < 0 || jupyter_quote(&content, j->code) < 0 ||
        buf_add_text(&content,
                     ",\"silent\":false,\"store_history\":false,\"user_expressions\":{},"
                     "\"allow_stdin\":true,\"cellspan_stdin\":true,\"stop_on_error\":true}") < 0)
        err_set(&err, "out of memory");
    else
        (void)!client_send(j->client, CLIENT_SHELL, "execute_request", buf_slice(&content), &err);
    buf_release(&content);
    if (err.text[0])
        fail(j, &err);
}

/* A rank's own exit status: as the reply says it, or that of sys.exit(n). 1: there is none. */
static int own_status(const json_t *content, const char *ename)
{
    const json_t *own = json_object_get(content, "exit_status");
    const char *evalue = json_string_value(json_object_get(content, "evalue"));
    json_int_t n = json_integer_value(own);

    if (!own && ename && evalue && strcmp(ename, "SystemExit") == 0)
        n = strtol(evalue, NULL, 10);
    return n > 0 && n < 256 ? (int)n : 1;
}

static void reply_take(struct run_job *j, const json_t *content)
{
    const char *status = json_string_value(json_object_get(content, "status"));
    const char *ename = json_string_value(json_object_get(content, "ename"));

    j->replied = true;
    if (j->status >= 0)
        return;
    if (status && strcmp(status, "ok") == 0)
        j->status = 0;
    else if (j->interrupts || (ename && strcmp(ename, "KeyboardInterrupt") == 0))
        j->status = INTERRUPTED;
    else
        j->status = own_status(content, ename);
}

static void ended_by(struct run_job *j, int signo)
{
    j->status = 128 + signo;
    if (j->over)
        loop_stop(j->loop);
    else if (j->asked)
        leave(j);
    else
        kill_at_once(j);
}

static void has_room(void *arg, int fd, unsigned events)
{
    struct run_job *j = arg;

    (void)fd;
    (void)events;
    printer_go_on(j->printer);
    printed(j);
}

/* Something was printed: does some of it wait for the reader? */
static void printed(struct run_job *j)
{
    const int fd = printer_waits(j->printer);
    struct err err = { "" };

    if (fd < 0 || fd != j->room_fd)
        watch_clear(&j->room);
    j->room_fd = fd;
    if (fd >= 0 && !j->room && !(j->room = loop_fd(j->loop, fd, LOOP_WRITE, has_room, j, &err)))
        while (printer_waits(j->printer) >= 0) /* nothing would say that there is room */
            printer_give_up(j->printer);
    if (client_hold(j->client, CLIENT_IOPUB, j->room != NULL, &err) < 0 || err.text[0])
        fail(j, &err);
    if (j->over)
        over(j);
    /* as a program that SIGPIPE ends; but the kernel is still to be ended in order */
    if (printer_broken(j->printer) && !j->leaving)
        ended_by(j, SIGPIPE);
}

/* What is still to be shown comes before idle. */
static void leave_if_done(struct run_job *j)
{
    if (j->replied && j->idle)
        leave(j);
}

/* A signal has come some time ago. What is for the other descriptor is still printed. */
static void stuck(void *arg)
{
    struct run_job *j = arg;

    if (printer_waits(j->printer) >= 0 && printer_written(j->printer) == j->printed) {
        j->given_up = true;
        printer_give_up(j->printer);
        printed(j);
    } else if (j->given_up && j->replied && j->came == j->had_come) {
        leave(j);
    }
    j->printed = printer_written(j->printer);
    j->had_come = j->came;
    loop_timer_again(j->stuck, STUCK_NS);
}

/* A line for who asked, or the end of our input, as a client's Ctrl-D is. */
static void line_read(void *arg, struct slice line, bool over)
{
    struct run_job *j = arg;
    struct buf content = BUF_INIT;
    struct err err = { "" };
    int rc = -1;

    if (!over && !j->repaired && !utf8_is_valid(line)) {
        j->repaired = true;
        printer_note(j->printer, "cellspan run: standard input is not UTF-8: bytes that can't be "
                                 "read as it become U+FFFD");
        printed(j);
    }
    if (buf_add_text(&content, "{\"value\":") < 0 ||
        jupyter_quote(&content, over ? slice_text("\004") : line) < 0 ||
        buf_add_text(&content, "}") < 0)
        err_set(&err, "out of memory");
    else
        rc = client_send(j->client, CLIENT_STDIN, "input_reply", buf_slice(&content), &err);
    buf_release(&content);
    if (rc < 0)
        fail(j, &err);
}

static void asked_for(struct run_job *j, const json_t *content)
{
    printer_prompt(j->printer, content);
    printed(j);
    input_ask(j->input);
}

static void message(void *arg, enum client_channel channel, struct request *m, bool ours)
{
    struct run_job *j = arg;
    const char *type = request_type(m);
    const json_t *content = request_content(m);
    const char *state = json_string_value(json_object_get(content, "execution_state"));

    if (channel == CLIENT_IOPUB && !j->asked && strcmp(type, "iopub_welcome") == 0)
        ask(j);
    if (!ours || j->leaving)
        return;
    j->came++;
    j->looks = 0;
    if (channel == CLIENT_SHELL && strcmp(type, "execute_reply") == 0)
        reply_take(j, content);
    else if (channel == CLIENT_STDIN && strcmp(type, "input_request") == 0)
        asked_for(j, content);
    else if (channel == CLIENT_IOPUB && strcmp(type, "status") == 0)
        j->idle = j->idle || (state && strcmp(state, "idle") == 0);
    else if (channel == CLIENT_IOPUB)
        printer_message(j->printer, type, content);
    printed(j);
    leave_if_done(j);
}

static void late(void *arg)
{
    struct run_job *j = arg;
    struct err err = { "" };

    if (j->leaving) {
        kernel_kill(j); /* SIGCHLD ends the loop */
        return;
    }
    err_set(&err, "the kernel was started, but does not answer: run `cellspan doctor`");
    fail(j, &err);
}

static void child_ended(void *arg)
{
    struct run_job *j = arg;
    int status;

    if (j->kernel <= 0 || waitpid(j->kernel, &status, WNOHANG) != j->kernel)
        return;
    j->kernel = 0;
    if (!j->leaving && WIFSIGNALED(status))
        err_set(&j->err, "the kernel was ended by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else if (!j->leaving)
        err_set(&j->err, "the kernel ended by itself (exit status %d)", WEXITSTATUS(status));
    over(j);
}

static int send_interrupt(struct run_job *j, const char *content, struct err *err)
{
    return client_send(j->client, CLIENT_CONTROL, "interrupt_request", slice_text(content), err);
}

/* From now on its reader may be given up. */
static void signal_came(struct run_job *j)
{
    if (j->interrupts || j->passed_on)
        return;
    j->printed = printer_written(j->printer);
    loop_timer_again(j->stuck, STUCK_NS);
}

static void interrupted(void *arg)
{
    struct run_job *j = arg;
    struct err err = { "" };

    signal_came(j);
    j->interrupts++;
    if (j->over) {
        j->status = INTERRUPTED;
        loop_stop(j->loop);
    } else if (j->interrupts > 2 || !j->asked || j->leaving) {
        j->status = INTERRUPTED;
        kill_at_once(j);
    } else if (send_interrupt(j, "{}", &err) < 0) {
        fail(j, &err);
    }
}

/* The script may end by it as it likes; a second one ends it. */
static void pass_on(struct run_job *j, int signo)
{
    struct err err = { "" };
    char content[48];

    signal_came(j);
    snprintf(content, sizeof content, "{\"cellspan_signal\":%d}", signo);
    if (!j->asked || j->leaving || j->passed_on || send_interrupt(j, content, &err) < 0) {
        ended_by(j, signo);
        return;
    }
    j->passed_on = true;
    j->status = 128 + signo;
}

static void terminated(void *arg)
{
    pass_on(arg, SIGTERM);
}

static void hung_up(void *arg)
{
    pass_on(arg, SIGHUP);
}

/* ---- starting ---- */

static int connection_make(struct run_job *j, struct err *err)
{
    unsigned char key[KEY_BYTES];
    struct connection *c = &j->connection;

    c->ipc = true;
    c->key_size = 2 * KEY_BYTES;
    for (unsigned port = 0; port < PORTS; port++)
        c->port[port] = port + 1;
    if (!(j->dir = runtime_dir_create(&j->lock, err)) ||
        !(c->ip = runtime_path(j->dir, "jupyter", err)) ||
        !(j->file = runtime_path(j->dir, "connection.json", err)))
        return -1;
    if (!(c->key = malloc(2 * KEY_BYTES + 1)) || !(c->file = strdup(j->file)))
        return err_set(err, "out of memory");
    random_bytes(key, sizeof key);
    for (unsigned i = 0; i < KEY_BYTES; i++)
        snprintf(c->key + 2 * i, 3, "%02x", key[i]);
    return connection_write(c, j->file, err);
}

static int kernel_start(struct run_job *j, const struct python_interpreter *python, struct err *err)
{
    char *kernel = runtime_find("cellspan-kernel", err);
    char pid[32];
    const char *argv[] = { kernel,          "--python", python->path, "--python-version",
                           python->version, "-f",       j->file,      NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;

    if (!kernel)
        return -1;
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("JPY_PARENT_PID", pid, 1);
    spec.argv = argv;
    spec.session = true;
    j->kernel = process_start(&spec, err);
    free(kernel);
    if (j->kernel > 0)
        return 0;
    j->kernel = 0;
    return -1;
}

static int job_start(struct run_job *j, const struct python_interpreter *python, struct err *err)
{
    static const struct {
        int signo;
        loop_f f;
    } on[] = { { SIGCHLD, child_ended },
               { SIGINT, interrupted },
               { SIGTERM, terminated },
               { SIGHUP, hung_up } };

    if (!(j->printer = printer_create()))
        return err_set(err, "out of memory");
    if (!(j->loop = loop_create(&clock_system, err)) || connection_make(j, err) < 0)
        return -1;
    if (!(j->input = input_create(j->loop, line_read, j)))
        return err_set(err, "out of memory");
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        if (!process_ignores(on[i].signo) &&
            !(j->signals[i] = loop_signal(j->loop, on[i].signo, on[i].f, j, err)))
            return -1;
    if (!(j->limit = loop_timer(j->loop, START_NS, 0, late, j, err)) ||
        !(j->stuck = loop_timer(j->loop, LOOP_OFF, 0, stuck, j, err)) ||
        !(j->drain = loop_timer(j->loop, LOOP_OFF, 0, look, j, err)) ||
        kernel_start(j, python, err) < 0)
        return -1;
    j->client = client_create(j->loop, &j->connection, CLIENT_ALL, true, message, j, err);
    return j->client ? 0 : -1;
}

static void job_end(struct run_job *j)
{
    struct err err = { "" };

    client_destroy(j->client);
    input_destroy(j->input);
    if (j->kernel > 0) {
        kernel_kill(j);
        process_reap(j->kernel);
    }
    loop_destroy(j->loop); /* its watches too */
    printer_destroy(j->printer);
    if (runtime_dir_remove(j->dir, &err) < 0)
        fprintf(stderr, "cellspan run: %s\n", err.text);
    connection_release(&j->connection);
    fd_close(&j->lock);
    free(j->dir);
    free(j->file);
}

int run_job(const struct python_interpreter *python, struct slice code, struct err *err)
{
    struct run_job j = { .code = code, .status = -1, .lock = -1, .room_fd = -1 };
    int status = -1;

    if (job_start(&j, python, err) == 0 && loop_run(j.loop, err) == 0) {
        status = j.status;
        if (j.err.text[0])
            err_set(err, "%s", j.err.text);
        else if (status < 0)
            err_set(err, "the kernel ended before the cell did: see what it wrote");
    }
    if (!j.err.text[0] && status >= 0 && printer_failed(j.printer, err) < 0 && status == 0)
        status = -1;
    if (j.err.text[0] && status <= 0)
        status = -1;
    job_end(&j);
    return status;
}
