/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/slurm/delivery.h, by a clock of their own. */
#include "launchers/slurm/delivery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "launchers/agent_script.h"
#include "launchers/launcher.h"
#include "tests/unit/tap.h"

#define TASKS      (SCRIPT_FEW + 1)
#define HASH       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LACKS      SCRIPT_MISSING " x86_64 glibc-2.36"
#define SECONDS(n) ((n) * NS_PER_S)

/* A launcher with many tasks, all of which lack the same, and sbcast has ended. */
struct many {
    struct delivery d;
    struct clock clock;
    uint64_t now;
    struct loop *loop;
    int in[2];       /* srun's stdin */
    struct buf sent; /* what came there */
    unsigned failed; /* tasks */
    unsigned last;   /* of them */
    char text[256];  /* of the last of them */
};

static uint64_t now_of(void *arg)
{
    return *(uint64_t *)arg;
}

static void note_failed(void *arg, unsigned task, const char *text)
{
    struct many *m = arg;

    m->failed++;
    m->last = task;
    snprintf(m->text, sizeof m->text, "%s", text);
}

static void came(void *arg, int fd, unsigned events)
{
    struct many *m = arg;
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    (void)events;
    if (n > 0 && buf_add(&m->sent, bytes, (size_t)n) < 0)
        diag("out of memory");
    loop_stop(m->loop);
}

static void stop_it(void *arg)
{
    loop_stop(arg);
}

/* Lets time pass, and all that follows from it happen. */
static void pass(struct many *m, uint64_t ns)
{
    struct err err = { "" };

    m->now += ns;
    for (unsigned i = 0; i < 8; i++) {
        struct watch *turn = loop_timer(m->loop, 0, 0, stop_it, m->loop, &err);

        if (!turn || loop_run(m->loop, &err) < 0)
            diag("%s", err.text);
        watch_clear(&turn);
    }
}

static bool has_gone(const struct many *m)
{
    return m->sent.n >= 3 && strcmp(m->sent.p + m->sent.n - 3, SCRIPT_GO) == 0;
}

/* n tasks run. */
static void many_start(struct many *m, unsigned n)
{
    static const char answer[] = "can x86_64 " HASH " 2.0\nscript\nprogram";
    struct err err = { "" };
    struct payload_row *row;

    *m = (struct many){ .d = DELIVERY_INIT, .now = SECONDS(5), .sent = BUF_INIT };
    m->clock = (struct clock){ .now_ns = now_of, .wall_ns = now_of, .arg = &m->now };
    m->d.on = true;
    if (!(m->loop = loop_create(&m->clock, &err)) || fd_pipe(m->in) < 0 ||
        !loop_fd(m->loop, m->in[0], LOOP_READ, came, m, &err) ||
        payload_read(&m->d.payload, answer) < 0 ||
        delivery_tasks(&m->d, n, m->loop, m->in[1], note_failed, m) < 0)
        diag("a delivery can't begin: %s", err.text);
    row = &m->d.payload.row[0];
    if (buf_add_text(&row->bytes, "put it\nprogrambytes") < 0)
        diag("out of memory");
    row->files = row->bytes.n - strlen("bytes");
    delivery_step(&m->d, 1, 0);
    for (unsigned i = 0; i < n; i++)
        delivery_up(&m->d, i);
}

/* The first n say that they lack it. */
static void they_lack(struct many *m, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        delivery_line(&m->d, i, LACKS);
}

/* unfit: a task that can't make the folder for sbcast's file; -1: none */
static void many_ask(struct many *m, int unfit)
{
    many_start(m, TASKS);
    if (unfit >= 0)
        delivery_line(&m->d, (unsigned)unfit, SCRIPT_UNFIT);
    they_lack(m, TASKS);
}

static void sbcast_brings(struct many *m)
{
    struct err err = { "" };

    if (loop_run(m->loop, &err) < 0) /* until something has come to srun's stdin */
        diag("%s", err.text);
}

static void many_begin(struct many *m)
{
    many_ask(m, -1);
    sbcast_brings(m);
    ok(m->sent.n && text_begins(m->sent.p, SCRIPT_GET "5 " HASH " 7 x86_64 0 5\nprogram"),
       "all read what sbcast has brought");
    for (unsigned i = 0; i + 1 < TASKS; i++)
        delivery_line(&m->d, i, SCRIPT_HAS);
}

static void many_end(struct many *m)
{
    delivery_release(&m->d);
    loop_destroy(m->loop);
    fd_close(&m->in[0]);
    fd_close(&m->in[1]);
    buf_release(&m->sent);
}

static void one_stuck_node_does_not_keep_back_the_others(void)
{
    struct many m;
    char text[512];

    many_begin(&m);
    pass(&m, SECONDS(15));
    delivery_line(&m.d, 0, SCRIPT_HAS);
    pass(&m, SECONDS(19));
    ok(!has_gone(&m), "for 20 s after an answer, all wait for the others");
    pass(&m, SECONDS(1));
    ok(has_gone(&m) && !m.failed, "then those that have it begin");
    pass(&m, SECONDS(39));
    ok(!m.failed, "the other one may be slow");
    pass(&m, SECONDS(1));
    ok(m.failed == 1 && m.last == TASKS - 1, "and the one that is stuck has failed");
    ok(strstr(m.text, "has not installed cellspan"), "%s", m.text);
    many_end(&m);

    many_begin(&m);
    pass(&m, SECONDS(20));
    delivery_line(&m.d, TASKS - 1, SCRIPT_HAS);
    pass(&m, SECONDS(60));
    ok(has_gone(&m) && !m.failed, "one that was slow begins later");
    many_end(&m);

    many_begin(&m);
    pass(&m, SECONDS(20));
    delivery_line(&m.d, TASKS - 1, LACKS);
    delivery_end(&m.d, TASKS - 1, "Exited with exit code 127", "cellspan-agent", NULL, text,
                 sizeof text);
    ok(has_gone(&m) && strstr(text, "it can't be sent there: sbcast has not brought it"), "%s",
       text);
    many_end(&m);

    many_begin(&m);
    delivery_line(&m.d, TASKS - 1, SCRIPT_HAS);
    pass(&m, 0);
    ok(has_gone(&m), "where none is stuck, nobody waits");
    pass(&m, SECONDS(60));
    ok(!m.failed, "and none has failed");
    many_end(&m);
}

static void what_is_stuck_before_it_answers_has_a_limit(void)
{
    struct many m;
    char text[512];

    many_start(&m, 3);
    delivery_line(&m.d, 0, SCRIPT_HAS);
    pass(&m, SECONDS(10));
    delivery_line(&m.d, 1, LACKS);
    pass(&m, SECONDS(19));
    ok(!has_gone(&m), "for 20 s after an answer, all wait for the first one of each node");
    pass(&m, SECONDS(1));
    ok(has_gone(&m) && !m.failed && text_begins(m.sent.p, "put it"), "then the others begin");
    delivery_line(&m.d, 2, SCRIPT_VERSION "cellspan-agent 0.0.1");
    pass(&m, SECONDS(40));
    ok(m.failed == 1 && m.last == 2 && strstr(m.text, "has not said whether it has cellspan"), "%s",
       m.text);
    delivery_line(&m.d, 2, LACKS);
    delivery_end(&m.d, 2, "Exited with exit code 127", "cellspan-agent", NULL, text, sizeof text);
    ok(strstr(text, "it has cellspan-agent 0.0.1") && strstr(text, "has said too late"), "%s",
       text);
    many_end(&m);

    many_start(&m, 3);
    they_lack(&m, 2);
    pass(&m, SECONDS(20));
    delivery_line(&m.d, 2, SCRIPT_HAS);
    pass(&m, SECONDS(60));
    ok(has_gone(&m) && !m.failed, "one that is slow and lacks nothing begins later");
    many_end(&m);

    many_start(&m, TASKS);
    they_lack(&m, TASKS - 1);
    m.now += SECONDS(20);
    sbcast_brings(&m);
    ok(text_begins(m.sent.p, SCRIPT_GET) && !has_gone(&m),
       "sbcast brings it to the others of many");
    for (unsigned i = 0; i + 1 < TASKS; i++)
        delivery_line(&m.d, i, SCRIPT_HAS);
    pass(&m, 0);
    ok(has_gone(&m) && !m.failed, "which begin when they have it");
    many_end(&m);
}

static void where_nobody_waits_a_slow_node_has_time(void)
{
    struct many m;

    many_start(&m, 1);
    pass(&m, SECONDS(30));
    ok(!has_gone(&m), "a node alone may look for longer than 20 s");
    delivery_line(&m.d, 0, LACKS);
    pass(&m, 0);
    ok(has_gone(&m) && text_begins(m.sent.p, "put it"), "and gets what it lacks");
    pass(&m, SECONDS(60));
    ok(!m.failed, "it has not failed");
    many_end(&m);

    many_start(&m, 3);
    delivery_line(&m.d, 0, SCRIPT_HAS);
    delivery_without(&m.d, 0);
    pass(&m, SECONDS(21));
    pass(&m, SECONDS(21));
    ok(!has_gone(&m), "one that has ended does not wait for the others");
    delivery_line(&m.d, 1, LACKS);
    pass(&m, SECONDS(19));
    ok(!has_gone(&m), "from the first answer on, it is waited for 20 s");
    pass(&m, SECONDS(1));
    ok(has_gone(&m) && text_begins(m.sent.p, "put it") && !m.failed, "then that node begins");
    pass(&m, SECONDS(40));
    ok(m.failed == 1 && m.last == 2, "and the one that is stuck has failed");
    many_end(&m);

    many_ask(&m, -1);
    sbcast_brings(&m);
    for (unsigned i = 0; i < 3; i++)
        pass(&m, SECONDS(20));
    ok(!has_gone(&m) && !m.failed, "all may be slow to install what sbcast has brought");
    delivery_line(&m.d, 0, LACKS);
    pass(&m, SECONDS(20));
    ok(has_gone(&m), "until one waits for the others");
    many_end(&m);
}

static void one_that_got_it_all_the_same_ends_as_others_do(void)
{
    struct many m;
    char text[512];

    many_begin(&m);
    pass(&m, SECONDS(20));
    delivery_line(&m.d, TASKS - 1, LACKS);
    delivery_line(&m.d, TASKS - 1, SCRIPT_FOUND "/x/libexec/cellspan/cellspan-agent");
    delivery_end(&m.d, TASKS - 1, "Killed", "cellspan-agent", NULL, text, sizeof text);
    ok(strcmp(text, "cellspan-agent ended: Killed") == 0, "%s", text);
    many_end(&m);
}

static void without_a_folder_it_comes_by_stdin(void)
{
    struct many m;

    many_ask(&m, 7);
    pass(&m, 0);
    ok(!m.d.cast && m.sent.n && strcmp(m.sent.p, "put it\nprogrambytes" SCRIPT_GO) == 0,
       "no file is put where another user may have made the folder");
    many_end(&m);
}

static void sbcast_ends_with_the_tasks(void)
{
    struct many m;
    pid_t pid;

    many_ask(&m, -1);
    pid = m.d.sbcast.command.pid;
    ok(pid > 0, "sbcast runs");
    delivery_stop(&m.d);
    ok(waitpid(pid, NULL, WNOHANG) < 0 && kill(pid, 0) < 0,
       "and is killed, and waited for, when the user interrupts");
    many_end(&m);
}

static void write_program(const char *path, const char *text)
{
    FILE *program = fopen(path, "w");

    if (!program || fputs(text, program) < 0 || fclose(program) != 0 || chmod(path, 0700) < 0)
        diag("%s can't be made", path);
}

int main(void)
{
    char folder[] = "/tmp/cellspan-slurm-XXXXXX", path[64], paths[4096];
    const char *before = getenv("PATH");

    if (!mkdtemp(folder)) {
        skip("no folder can be made in /tmp");
        return plan_done();
    }
    snprintf(path, sizeof path, "%s/sbcast", folder);
    snprintf(paths, sizeof paths, "%s:%s", folder, before ? before : "/usr/bin:/bin");
    (void)setenv("PATH", paths, 1);
    write_program(path, "#!/bin/sh\n");
    one_stuck_node_does_not_keep_back_the_others();
    what_is_stuck_before_it_answers_has_a_limit();
    where_nobody_waits_a_slow_node_has_time();
    one_that_got_it_all_the_same_ends_as_others_do();
    without_a_folder_it_comes_by_stdin();
    write_program(path, "#!/bin/sh\nexec sleep 600\n");
    sbcast_ends_with_the_tasks();
    ok(unlink(path) == 0 && rmdir(folder) == 0, "all is removed");
    return plan_done();
}
