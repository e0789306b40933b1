/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/slurm_job.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "base/process.h"

#define LIMIT_MS 20000
#define AGAIN_S  5u /* between two looks: a firewall may be loaded anew */

/* 0: somebody listens there; else the errno. */
static int try_connect(const struct addrinfo *to)
{
    const int fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    int why = 0;
    socklen_t size = sizeof why;

    if (fd < 0)
        return errno;
    if (fd_nonblock(fd, true) < 0 ||
        (connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS))
        why = errno;
    else if (poll(&ready, 1, LIMIT_MS) <= 0)
        why = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) < 0)
        why = errno;
    close(fd);
    return why;
}

/* Slurm gives each task the address at which srun takes its tasks' ends. If its machine can't be
 * reached, agents on other nodes may still have their kernel: then only one that is alone knows
 * that nobody is left. */
static bool is_srun_gone(void)
{
    const char *host = getenv("SLURM_SRUN_COMM_HOST"), *port = getenv("SLURM_SRUN_COMM_PORT"),
               *tasks = getenv("SLURM_NTASKS");
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                    .ai_socktype = SOCK_STREAM };
    struct addrinfo *to;
    int why;

    if (!host || !port || getaddrinfo(host, port, &hints, &to) != 0)
        return false;
    why = try_connect(to);
    freeaddrinfo(to);
    return why == ECONNREFUSED ||
           ((why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH) && tasks &&
            strcmp(tasks, "1") == 0);
}

/* Whoever read our errors is gone, but those of the machine are kept. */
static void say_why(const char *job, int why)
{
    openlog("cellspan-agent", LOG_PID | LOG_PERROR, LOG_USER);
    syslog(LOG_ERR,
           "Slurm's job %s has lost its srun and runs on, for scancel can't be started (%s): end "
           "it, and put scancel into the PATH of jobs",
           job, strerror(why));
    closelog();
}

void slurm_job_cancel(void)
{
    /* with these the user's own scancel asks, or ends some jobs only, or looks in other clusters */
    static const char *const others[] = {
        "SCANCEL_ACCOUNT", "SCANCEL_BATCH",     "SCANCEL_INTERACTIVE", "SCANCEL_NAME",
        "SCANCEL_QOS",     "SCANCEL_PARTITION", "SCANCEL_STATE",       "SCANCEL_USER",
        "SCANCEL_WCKEY",   "SLURM_CLUSTERS",
    };
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2 };
    const char *job = getenv("SLURM_JOB_ID");
    sigset_t none;

    if (!job || !is_srun_gone())
        return;
    (void)sleep(AGAIN_S);
    if (!is_srun_gone())
        return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        (void)unsetenv(others[i]);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)signal(signals[i], SIG_IGN); /* one that waits would end us */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execlp("scancel", "scancel", job, (char *)NULL);
    say_why(job, errno);
}
