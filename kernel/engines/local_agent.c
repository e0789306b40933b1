/* SPDX-License-Identifier: BSD-3-Clause */
/* local_agent.c - starts this machine's agent and notices its end (declared in private.h). */
#include "kernel/engines/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/descriptor.h"
#include "base/process.h"
#include "base/runtime.h"

int local_agent_start(struct local_agent *l, struct err *err)
{
    char *launcher = runtime_find("cellspan-launch-local", err);
    char *agent = launcher ? runtime_find("cellspan-agent", err) : NULL;
    const char *argv[] = { launcher, "--",    agent,      "--connect", l->endpoint,
                           "--node", l->node, "--python", l->python,   NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    int ends[2] = { -1, -1 };
    /* nobody reads what it writes */
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    spec.argv = argv;
    spec.out = null;
    spec.die_with_parent = false; /* it must clean up after the kernel is gone */
    spec.session = true;
    if (agent && descriptor_pair(ends) < 0)
        (void)err_set(err, "can't start %s: socketpair: %s", launcher, strerror(errno));
    spec.in = ends[0];
    l->pid = ends[0] >= 0 ? process_start(&spec, err) : -1;
    l->in = ends[1];
    fd_close(&ends[0]);
    fd_close(&null);
    if (l->pid > 0)
        log_info("child", "this machine's agent is started by process %ld", (long)l->pid);
    free(launcher);
    free(agent);
    if (l->pid > 0)
        return 0;
    fd_close(&l->in);
    l->pid = 0;
    return -1;
}

void local_agent_ended(struct local_agent *l, int status, char *why, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(why, size, "the agent was killed by signal %d", WTERMSIG(status));
    else
        snprintf(why, size, "the agent ended with exit status %d", WEXITSTATUS(status));
    l->pid = 0;
    fd_close(&l->in);
}

void local_agent_kill(struct local_agent *l)
{
    if (l->pid <= 0)
        return;
    kill(-l->pid, SIGKILL);
    kill(l->pid, SIGKILL);
    process_reap(l->pid);
    l->pid = 0;
}
