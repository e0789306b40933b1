/* SPDX-License-Identifier: BSD-3-Clause */
/* show.c - a magic in a kernel that answers, and in one that takes it and then says nothing more.
 * The kernel is a child process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "cli/kernels.h"
#include "kernel/jupyter/channels.h"
#include "tests/unit/jupyter/client.h"
#include "tests/unit/tap.h"

struct toy {
    struct channels *channels;
    bool answers;
};

bool kernel_is_elsewhere(const struct running_kernel *k)
{
    (void)k;
    return false;
}

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "# child: %s\n", err->text);
    _exit(3);
}

static void asked(void *arg, struct request *r)
{
    const struct content fine = { .content = slice_text("{\"status\":\"ok\"}") };
    struct toy *t = arg;
    struct err err = { "" };

    must(channels_status(t->channels, r, "busy", &err), &err);
    if (!t->answers)
        return;
    must(channels_reply(t->channels, r, "execute_reply", &fine, &err), &err);
    must(channels_status(t->channels, r, "idle", &err), &err);
}

static void toy_main(const char *file, bool answers, int ready)
{
    struct toy t = { .answers = answers };
    struct err err = { "" };
    struct loop *loop = loop_create(&clock_system, &err);

    if (!loop || !(t.channels = channels_create(loop, file, asked, &t, &err)) ||
        write(ready, "", 1) != 1)
        must(-1, &err);
    must(loop_run(loop, &err), &err);
    _exit(0);
}

/* Returns when its sockets are there. */
static pid_t toy_start(const char *file, bool answers)
{
    int ends[2];
    char byte;
    pid_t pid;

    fflush(stdout);
    if (pipe(ends) < 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0)
        toy_main(file, answers, ends[1]);
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 1)
        abort();
    close(ends[0]);
    return pid;
}

static void show(const char *dir, bool answers)
{
    struct connection to;
    struct running_kernel k = { 0 };
    struct err err = { "" };
    char file[128];
    int status, rc;

    connection_over_ipc(&to, dir, "ipc");
    snprintf(file, sizeof file, "%s/connection.json", dir);
    if (connection_write(&to, file, &err) < 0)
        abort();
    k.pid = toy_start(file, answers);
    k.file = file;
    rc = kernel_show(&k, "%ranks logs", answers ? 60 * NS_PER_S : NS_PER_S, &err);
    if (answers)
        ok(rc == 0 && !err.text[0], "a kernel that answers: %s", err.text);
    else
        ok(rc == 1 && strstr(err.text, "it stopped answering: it has said nothing for 1 s"),
           "one that falls silent: %s", err.text);
    kill(k.pid, SIGKILL);
    (void)waitpid(k.pid, &status, 0);
    connection_release(&to);
    unlink(file);
}

int main(void)
{
    char dir[] = "/tmp/cellspan-show-XXXXXX";
    struct err err = { "" };

    if (!mkdtemp(dir) || random_open(&err) < 0)
        abort();
    show(dir, true);
    show(dir, false);
    for (unsigned port = 1; port <= PORTS; port++) {
        char path[160];

        snprintf(path, sizeof path, "%s/ipc-%u", dir, port);
        unlink(path);
    }
    rmdir(dir);
    return plan_done();
}
