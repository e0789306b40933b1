/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - see driver.h. The kernel finds this program in a folder of links, under the names of
 * the agent and of the engine. */
#include "tests/sim/driver.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "base/random.h"
#include "base/runtime.h"
#include "cli/client.h"
#include "tests/sim/cut.h"
#include "tests/sim/usage.h"

#define KEY_BYTES 32u
#define START_S   120u
#define STOP_S    60u
/* an interrupt that came before the cell, on a busy machine, has ended nothing */
#define AGAIN_S 20u
#define PYTHON  "/bin/sh" /* nobody executes it: home and ranks are simulated */

struct driver {
    struct loop *loop;
    struct connection connection;
    char *dir, *file, *libexec; /* owned */
    int lock;                   /* of dir */
    struct client *client;
    struct watch *child, *limit, *interrupt, *cut;
    unsigned cut_ms, cuts; /* in the next cell */
    pid_t kernel;          /* 0: it has ended */
    bool welcome, replied, idle;
    struct outcome *outcome; /* of the cell that runs, borrowed */
};

/* ---- what the kernel says ---- */

static void text_into(char *out, size_t size, const json_t *content, const char *name)
{
    const char *text = json_string_value(json_object_get(content, name));

    snprintf(out, size, "%s", text ? text : "");
}

static void take_reply(struct driver *d, const json_t *content)
{
    const char *status = json_string_value(json_object_get(content, "status"));

    d->replied = true;
    d->outcome->ok = status && strcmp(status, "ok") == 0;
    text_into(d->outcome->ename, sizeof d->outcome->ename, content, "ename");
    text_into(d->outcome->evalue, sizeof d->outcome->evalue, content, "evalue");
}

static void take_stream(struct outcome *o, const json_t *content)
{
    const char *name = json_string_value(json_object_get(content, "name"));
    const json_t *text = json_object_get(content, "text");

    o->streams++;
    if (buf_add(name && strcmp(name, "stderr") == 0 ? &o->errs : &o->out, json_string_value(text),
                json_string_length(text)) < 0)
        abort(); /* what is lost here would be taken for the kernel's fault */
}

static void message(void *arg, enum client_channel channel, struct request *m, bool ours)
{
    struct driver *d = arg;
    const char *type = request_type(m);
    const json_t *content = request_content(m);
    const char *state = json_string_value(json_object_get(content, "execution_state"));

    if (channel == CLIENT_IOPUB && !d->welcome && strcmp(type, "iopub_welcome") == 0) {
        d->welcome = true;
        loop_stop(d->loop);
    }
    if (!ours || !d->outcome)
        return;
    if (channel == CLIENT_SHELL && strcmp(type, "execute_reply") == 0)
        take_reply(d, content);
    else if (channel == CLIENT_IOPUB && strcmp(type, "stream") == 0)
        take_stream(d->outcome, content);
    else if (channel == CLIENT_IOPUB && strcmp(type, "status") == 0 && state &&
             strcmp(state, "idle") == 0)
        d->idle = true;
    if (d->replied && d->idle)
        loop_stop(d->loop);
}

static void limit_over(void *arg)
{
    loop_stop(((struct driver *)arg)->loop);
}

/* The kernel's end, and those of its orphans, which become our children. */
static void child_ended(void *arg)
{
    struct driver *d = arg;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        if (pid == d->kernel) {
            d->kernel = 0;
            loop_stop(d->loop);
        }
}

/* ---- start ---- */

static int links_make(struct driver *d, const char *self, struct err *err)
{
    static const char *const names[] = { "cellspan-agent", "cellspan-launch-sim" };
    char path[512];

    if (!(d->libexec = runtime_path(d->dir, "libexec", err)))
        return -1;
    if (mkdir(d->libexec, 0700) < 0)
        return err_set(err, "%s: %s", d->libexec, strerror(errno));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        snprintf(path, sizeof path, "%s/%s", d->libexec, names[k]);
        if (symlink(self, path) < 0)
            return err_set(err, "%s: %s", path, strerror(errno));
    }
    return 0;
}

static int connection_make(struct driver *d, struct err *err)
{
    unsigned char key[KEY_BYTES];
    struct connection *c = &d->connection;

    c->ipc = true;
    c->key_size = 2 * KEY_BYTES;
    for (unsigned port = 0; port < PORTS; port++)
        c->port[port] = port + 1;
    if (!(c->ip = runtime_path(d->dir, "jupyter", err)) ||
        !(d->file = runtime_path(d->dir, "connection.json", err)))
        return -1;
    if (!(c->key = malloc(2 * KEY_BYTES + 1)) || !(c->file = strdup(d->file)))
        return err_set(err, "out of memory");
    random_bytes(key, sizeof key);
    for (unsigned i = 0; i < KEY_BYTES; i++)
        snprintf(c->key + 2 * i, 3, "%02x", key[i]);
    return connection_write(c, d->file, err);
}

static int kernel_start(struct driver *d, const struct driver_to *to, struct err *err)
{
    char *found = to->kernel ? NULL : runtime_find("cellspan-kernel", err);
    const char *argv[] = { to->kernel ? to->kernel : found,
                           "--python",
                           PYTHON,
                           "--python-version",
                           "3.11.0",
                           "-f",
                           d->file,
                           NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    char pid[32];

    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    if (!argv[0] || setenv("JPY_PARENT_PID", pid, 1) < 0 ||
        setenv("CELLSPAN_LIBEXECDIR", d->libexec, 1) < 0 ||
        setenv("CELLSPAN_INTERFACE", "127.0.0.1", 1) < 0)
        return -1;
    if (to->heartbeat)
        (void)setenv("CELLSPAN_HEARTBEAT_TIMEOUT", to->heartbeat, 1);
    else
        (void)unsetenv("CELLSPAN_HEARTBEAT_TIMEOUT");
    spec.argv = argv;
    spec.session = true;
    d->kernel = process_start(&spec, err);
    free(found);
    if (d->kernel > 0)
        return 0;
    d->kernel = 0;
    return -1;
}

static int open_all(struct driver *d, const struct driver_to *to, struct err *err)
{
    if (process_adopt_orphans() < 0)
        return err_set(err, "this system can't tell who is left of a kernel: %s", strerror(errno));
    if (!(d->loop = loop_create(&clock_system, err)) ||
        !(d->dir = runtime_dir_create(&d->lock, err)) || links_make(d, to->self, err) < 0 ||
        connection_make(d, err) < 0 ||
        !(d->child = loop_signal(d->loop, SIGCHLD, child_ended, d, err)) ||
        !(d->limit = loop_timer(d->loop, START_S * NS_PER_S, 0, limit_over, d, err)) ||
        kernel_start(d, to, err) < 0 ||
        !(d->client = client_create(d->loop, &d->connection, CLIENT_ALL, false, message, d, err)) ||
        loop_run(d->loop, err) < 0)
        return -1;
    return d->welcome ? 0
                      : err_set(err, d->kernel ? "the kernel does not answer"
                                               : "the kernel ended by itself");
}

struct driver *driver_start(const struct driver_to *to, struct err *err)
{
    struct driver *d = calloc(1, sizeof *d);

    if (!d)
        return err_null(err, "out of memory");
    d->lock = -1;
    if (open_all(d, to, err) == 0)
        return d;
    (void)driver_stop(d);
    return NULL;
}

pid_t driver_kernel(const struct driver *d)
{
    return d->kernel;
}

/* ---- end ---- */

static void shut_down(struct driver *d)
{
    struct err err = { "" };

    if (d->client && client_send(d->client, CLIENT_CONTROL, "shutdown_request",
                                 slice_text("{\"restart\":false}"), &err) == 0) {
        loop_timer_again(d->limit, STOP_S * NS_PER_S);
        (void)!loop_run(d->loop, &err);
    }
    if (d->kernel > 0) {
        (void)process_kill_group(d->kernel, SIGKILL);
        (void)waitpid(d->kernel, NULL, 0);
        d->kernel = 0;
    }
}

/* Those that have ended meanwhile are taken away. */
static unsigned left(void)
{
    for (unsigned k = 0; k < STOP_S * 100; k++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (usage_children(getpid()) == 0)
            return 0;
        (void)usleep(10000);
    }
    return usage_children(getpid());
}

unsigned driver_stop(struct driver *d)
{
    struct err err = { "" };
    unsigned n;

    if (!d)
        return 0;
    shut_down(d);
    n = left();
    client_destroy(d->client);
    loop_destroy(d->loop);
    if (d->dir && runtime_dir_remove(d->dir, &err) < 0)
        fprintf(stderr, "cellspan-sim: %s\n", err.text);
    connection_release(&d->connection);
    fd_close(&d->lock);
    free(d->dir);
    free(d->file);
    free(d->libexec);
    free(d);
    return n;
}

/* ---- a cell ---- */

static void interrupt(void *arg)
{
    struct driver *d = arg;
    struct err err = { "" };

    if (client_send(d->client, CLIENT_CONTROL, "interrupt_request", slice_text("{}"), &err) < 0)
        fprintf(stderr, "cellspan-sim: %s\n", err.text);
}

void driver_cut(struct driver *d)
{
    const unsigned n = cut_connections(d->kernel);

    if (n == 0)
        fprintf(stderr, "cellspan-sim: no connection could be cut\n");
}

void driver_cut_during(struct driver *d, unsigned cut_ms, unsigned times)
{
    d->cut_ms = cut_ms;
    d->cuts = times;
}

static void cut(void *arg)
{
    struct driver *d = arg;

    driver_cut(d);
    if (--d->cuts == 0)
        loop_timer_again(d->cut, LOOP_OFF);
}

static int ask(struct driver *d, const char *code, struct err *err)
{
    struct buf content = BUF_INIT;
    int rc = err_set(err, "out of memory");

    if (buf_add_text(&content, "{\"code\":") == 0 &&
        jupyter_quote(&content, slice_text(code)) == 0 &&
        buf_add_text(
            &content,
            ",\"silent\":false,\"store_history\":true,\"user_expressions\":{},\"allow_stdin\":false,"
            "\"stop_on_error\":true}") == 0)
        rc = client_send(d->client, CLIENT_SHELL, "execute_request", buf_slice(&content), err);
    buf_release(&content);
    return rc;
}

static int run_cell(struct driver *d, const char *code, unsigned interrupt_ms, unsigned limit_s,
                    struct err *err)
{
    loop_timer_again(d->limit, limit_s * NS_PER_S);
    if (interrupt_ms && !(d->interrupt = loop_timer(d->loop, interrupt_ms * NS_PER_MS,
                                                    AGAIN_S * NS_PER_S, interrupt, d, err)))
        return -1;
    if (d->cuts &&
        !(d->cut = loop_timer(d->loop, d->cut_ms * NS_PER_MS, d->cut_ms * NS_PER_MS, cut, d, err)))
        return -1;
    return ask(d, code, err) < 0 ? -1 : loop_run(d->loop, err);
}

void driver_cell(struct driver *d, const char *code, unsigned interrupt_ms, unsigned limit_s,
                 struct outcome *o)
{
    const uint64_t began = clock_now(&clock_system), cpu = usage_cpu_ns(d->kernel);
    struct err err = { "" };

    *o = (struct outcome){ .answered = false };
    d->outcome = o;
    d->replied = d->idle = false;
    if (run_cell(d, code, interrupt_ms, limit_s, &err) < 0)
        fprintf(stderr, "cellspan-sim: %s\n", err.text);
    watch_clear(&d->interrupt);
    watch_clear(&d->cut);
    d->outcome = NULL;
    o->answered = d->replied && d->idle;
    o->seconds = (double)(clock_now(&clock_system) - began) / (double)NS_PER_S;
    o->cpu = (double)(usage_cpu_ns(d->kernel) - cpu) / (double)NS_PER_S;
}

void outcome_release(struct outcome *o)
{
    buf_release(&o->out);
    buf_release(&o->errs);
}
