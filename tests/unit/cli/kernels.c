/* kernels.c - a kernel that has ended is not taken for another process that has got its pid. */
#include "cli/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    return plan_done();
}
