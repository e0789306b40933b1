/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of Slurm whose srun is gone is cancelled, and where it can't be, somebody is told. */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/tap.h"
#include "worker/agent/slurm_job.h"

static char port[16];

/* A port at which nobody listens: it is ours, but not open. */
static int closed_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t n = sizeof at;

    if (bind(fd, (struct sockaddr *)&at, n) < 0 || getsockname(fd, (struct sockaddr *)&at, &n) < 0)
        abort();
    snprintf(port, sizeof port, "%u", ntohs(at.sin_port));
    return fd;
}

/* What an agent that ends writes. */
static void ends(const char *path, char out[static 1024])
{
    int way[2], status;
    size_t n = 0;
    ssize_t got;

    if (pipe(way) < 0)
        abort();
    if (fork() == 0) {
        (void)dup2(way[1], STDOUT_FILENO);
        (void)dup2(way[1], STDERR_FILENO);
        (void)setenv("SLURM_JOB_ID", "4711", 1);
        (void)setenv("SLURM_SRUN_COMM_HOST", "127.0.0.1", 1);
        (void)setenv("SLURM_SRUN_COMM_PORT", port, 1);
        (void)setenv("PATH", path, 1);
        slurm_job_cancel();
        _exit(0);
    }
    close(way[1]);
    while ((got = read(way[0], out + n, 1023 - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(way[0]);
    (void)wait(&status);
}

int main(void)
{
    char folder[] = "/tmp/slurm-job-XXXXXX", path[64], said[1024];
    const int fd = closed_port();
    FILE *f;

    ok(mkdtemp(folder) != NULL, "a folder for scancel");
    snprintf(path, sizeof path, "%s/scancel", folder);
    ends(folder, said);
    ok(strstr(said, "Slurm's job 4711 has lost its srun") && strstr(said, "scancel") &&
           strstr(said, "No such file"),
       "where there is no scancel, an error says so: %s", said);
    f = fopen(path, "we");
    ok(f && fputs("#!/bin/sh\necho cancels \"$@\"\n", f) > 0 && fchmod(fileno(f), 0755) == 0 &&
           fclose(f) == 0,
       "a stand-in for it");
    ends(folder, said);
    is_text(said, "cancels 4711\n", "else it is asked");
    (void)unlink(path);
    (void)rmdir(folder);
    close(fd);
    return plan_done();
}
