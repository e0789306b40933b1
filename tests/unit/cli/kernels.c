/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.c - a kernel that has ended is not taken for another process that has got its pid. A list
 * of kernels is whole, or there is none. */
#include "cli/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

/* The start of this process, as /proc has it. */
static uint64_t own_start(void)
{
    char text[1024] = "", *at;
    FILE *file = fopen("/proc/self/stat", "r");
    unsigned long long start = 0;

    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    at = strrchr(text, ')');
    for (unsigned field = 0; field < 20 && at; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoull(at, NULL, 10);
    return start;
}

/* A process that looks like a kernel, and ends with the pipe. */
static pid_t start_kernel(const int *ends)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    dup2(ends[0], 0);
    close(ends[1]);
    execl("/bin/sh", "cellspan-kernel", "-f", "-", (char *)NULL);
    _exit(1);
}

static bool is_listed(const struct kernels *k, pid_t pid)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->of[i].pid == pid && strstr(k->of[i].file, "/-"))
            return true;
    return false;
}

static void without_memory(void)
{
    struct kernels k = KERNELS_INIT;
    struct err err = { "" };
    unsigned silent = 0;
    bool failed = true, there = false;
    int ends[2];
    pid_t pid;

    if (pipe(ends) < 0 || (pid = start_kernel(ends)) < 0)
        abort();
    /* until it has become that program */
    while (!there && waitpid(pid, NULL, WNOHANG) == 0 && kernels_find(&k, false, &err) == 0) {
        there = is_listed(&k, pid);
        kernels_release(&k);
    }
    ok(there, "a kernel is found by its program%s", err.text);
    for (long nth = 0; failed; nth++) {
        alloc_fail_at(nth);
        there = kernels_find(&k, false, &err) < 0 || is_listed(&k, pid);
        failed = alloc_failed();
        alloc_fail_at(-1);
        silent += !there;
        kernels_release(&k);
    }
    ok(silent == 0, "where memory is out, the list fails: no kernel is left out silently");
    close(ends[0]);
    close(ends[1]);
    (void)waitpid(pid, NULL, 0);
}

/* Only root can see others' and make them. */
static void of_others(void)
{
    char *file = malloc(60001);
    struct kernels k = KERNELS_INIT;
    struct err err = { "" };
    size_t longest = 0, theirs = 0;
    bool all_there = false;
    int ends[2];
    char *script[] = {
        (char *)"cellspan-kernel", (char *)"-c", (char *)"read word", (char *)"-f", file, NULL
    };

    if (!file || pipe(ends) < 0)
        abort();
    memset(file, 'f', 60000);
    file[0] = '/';
    file[60000] = '\0';
    for (unsigned i = 0; i < KERNELS_OWNER_MAX + 6; i++)
        if (fork() == 0) {
            dup2(ends[0], 0);
            close(ends[1]);
            if (setgid(64001) == 0 && setuid(64001) == 0)
                execv("/bin/sh", script);
            _exit(1);
        }
    while (!all_there && kernels_find(&k, true, &err) == 0) { /* until all are that program */
        all_there = k.n_more == 1 && k.more[0].n == 6;
        if (!all_there)
            kernels_release(&k);
    }
    for (size_t i = 0; i < k.n; i++)
        if (k.of[i].uid == 64001) {
            theirs++;
            longest = strlen(k.of[i].file) > longest ? strlen(k.of[i].file) : longest;
            longest = strlen(k.of[i].notebook) > longest ? strlen(k.of[i].notebook) : longest;
        }
    ok(all_there && k.more[0].owner == 64001 && theirs == KERNELS_OWNER_MAX,
       "of another user's many kernels only some are listed, and the others counted");
    ok(longest == 4096, "names are not kept in any length: %zu", longest);
    kernels_release(&k);
    close(ends[0]);
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    free(file);
}

int main(void)
{
    struct running_kernel k = { .pid = getpid(), .start = own_start() };
    siginfo_t ended;

    ok(kernel_runs(&k), "a process that runs");
    k.start--;
    ok(!kernel_runs(&k), "one with the same pid that was started at another time");
    if ((k.pid = fork()) == 0)
        _exit(0);
    k.start = own_start();
    (void)waitid(P_PID, (id_t)k.pid, &ended, WEXITED | WNOWAIT);
    ok(!kernel_runs(&k), "one that has ended and waits for its parent");
    (void)waitpid(k.pid, NULL, 0);
    ok(!kernel_runs(&k), "one that is gone");
    without_memory();
    if (geteuid() == 0)
        of_others();
    return plan_done();
}
