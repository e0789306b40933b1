/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of launchers/ssh/relogin_child.h, with shells of this machine in place of ssh. */
#include "launchers/ssh/relogin_child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/launchers/turns.h"
#include "tests/unit/tap.h"

#define TRIES   4u /* logins that are waited for where nothing else should come of them */
#define NOWHERE "/nowhere, it's there/cellspan-agent"

struct bench {
    struct turns turns;
    struct relogin_child *relogin;
    unsigned ended; /* logins */
    bool gone, restarted, over;
};

static void child_ended(void *arg)
{
    struct bench *b = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        b->ended += relogin_child_ended(b->relogin, pid, status);
}

static void gone(void *arg, bool restarted)
{
    struct bench *b = arg;

    b->gone = true;
    b->restarted = restarted;
}

static void over(void *arg)
{
    ((struct bench *)arg)->over = true;
}

/* What the shell of a host does with that command. boot: its boot id before; NULL: not known. */
static bool begin(struct bench *b, const char *command, const char *boot)
{
    struct words argv = WORDS_INIT;
    struct err err = { "" };

    *b = (struct bench){ 0 };
    if (words_add(&argv, "sh") < 0 || words_add(&argv, "-c") < 0 || words_add(&argv, command) < 0 ||
        !turns_begin(&b->turns, child_ended, b))
        return false;
    {
        const struct relogin_child_spec spec = { .loop = b->turns.loop,
                                                 .host = "h1",
                                                 .boot = boot,
                                                 .limit_ns = TURNS_LIMIT_NS,
                                                 .argv = &argv,
                                                 .gone = gone,
                                                 .over = over,
                                                 .arg = b };

        b->relogin = relogin_child_start(&spec, &err);
    }
    return ok(b->relogin && !argv.n, "it logs in: %.60s %s", command, err.text);
}

static void finish(struct bench *b)
{
    ok(!b->turns.late, "all of it in time");
    relogin_child_stop(b->relogin);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    loop_destroy(b->turns.loop);
}

struct answer {
    const char *command;
    bool gone, restarted;
};

static const struct answer answers[] = {
    { "exit 127", false, false },
    { "exit 126", false, false },
    { "exit 255", false, false },
    { "echo 'cellspan-presence: boot one'; exit 127", false, false },
    { "echo 'cellspan-presence: boot two'; exit 255", false, false },
    { "echo 'cellspan-presence: boot two'; exit 127", true, true },
    { "echo 'cellspan-presence: boot two'; exit 126", true, true },
    { "echo 'cellspan-presence: boot one'; echo 'cellspan-presence: gone'", true, false },
    { "echo 'cellspan-presence: boot two'; echo 'cellspan-presence: gone'", true, true },
    { "echo 'cellspan-presence: gone'; exit 127", true, false },
};

/* A shell that can't run the program tells nothing of the agent: its folder may be on a file system
 * that is away at the moment. */
static void a_program_that_is_missing_is_no_agent_that_is_gone(void)
{
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const struct answer *a = &answers[i];
        struct bench b;

        if (!begin(&b, a->command, "one"))
            return;
        while (!b.gone && (a->gone || b.ended < TRIES) && turns_take(&b.turns))
            ;
        ok(b.gone == a->gone && b.restarted == a->restarted, "the agent is %s",
           a->restarted ? "gone with its machine"
           : a->gone    ? "gone"
                        : "asked for again");
        finish(&b);
    }
}

/* The command where the agent's program is missing, and process `pid` has made the folder. */
static bool begin_without_program(struct bench *b, pid_t pid)
{
    struct buf line = BUF_INIT;
    char folder[64];
    bool good;

    snprintf(folder, sizeof folder, "/tmp/it's/cellspan-%ld-0123abcd", (long)pid);
    good = relogin_child_command(&line, NOWHERE, folder) == 0 && begin(b, line.p, NULL);
    buf_release(&line);
    return good;
}

static void where_it_is_missing_the_shell_looks_for_the_process(void)
{
    struct bench b;
    pid_t agent;

    if (!begin_without_program(&b, agent = getpid()))
        return;
    while (b.ended < TRIES && turns_take(&b.turns))
        ;
    ok(!b.gone, "an agent that runs is there");
    finish(&b);
    if ((agent = fork()) == 0)
        _exit(0);
    ok(agent > 0 && waitpid(agent, NULL, 0) == agent, "a process has ended");
    if (!begin_without_program(&b, agent))
        return;
    while (!b.gone && turns_take(&b.turns))
        ;
    ok(b.gone, "and so its folder has no agent");
    finish(&b);
}

/* A way through slow jump hosts takes seconds. */
static void a_login_that_goes_on_still_tells_the_agent_to_end(void)
{
    char path[] = "/tmp/cellspan-presence-XXXXXX", command[128], got[16] = "";
    const int fd = mkstemp(path);
    struct bench b;

    snprintf(command, sizeof command, "sleep 2; read -r line; echo \"$line\" >%s", path);
    if (!ok(fd >= 0, "a file") || !begin(&b, command, NULL))
        return;
    ok(relogin_child_end(b.relogin), "it is to end");
    while (!b.over && turns_take(&b.turns))
        ;
    ok(b.over && read(fd, got, sizeof got - 1) == 4, "it has logged in");
    is_text(got, "end\n", "and the agent was told");
    finish(&b);
    close(fd);
    (void)unlink(path);
}

int main(void)
{
    const unsigned before = open_descriptors();

    (void)signal(SIGPIPE, SIG_IGN);
    a_program_that_is_missing_is_no_agent_that_is_gone();
    where_it_is_missing_the_shell_looks_for_the_process();
    a_login_that_goes_on_still_tells_the_agent_to_end();
    is_int(open_descriptors(), before, "no descriptor is left");
    return plan_done();
}
