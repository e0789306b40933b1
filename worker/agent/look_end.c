/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/look_end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/agent_lines.h"
#include "base/path.h"
#include "base/process.h"
#include "base/runtime.h"

#define LOOK_MS   500 /* between two looks whether the agent is there */
#define BOOT_SIZE 64u

static void say(const char *word, const char *more)
{
    printf(AGENT_LINE_LOOK "%s%s\n", word, more);
    fflush(stdout);
}

/* The machine was started again if this is another one. "": not known. */
static void say_boot(void)
{
    char boot[BOOT_SIZE] = "";
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, boot, sizeof boot - 1) : -1;

    if (fd >= 0)
        (void)close(fd);
    if (n > 0) {
        boot[strcspn(boot, "\n")] = '\0';
        say(AGENT_LINE_BOOT, boot);
    }
}

/* The process that has made the folder, which holds its lock: cellspan-PID-RANDOM. 0: none. */
static pid_t maker(const char *folder)
{
    const char *name = path_name(folder);
    long pid;

    return sscanf(name, "cellspan-%ld-", &pid) == 1 && pid > 1 ? (pid_t)pid : 0;
}

/* Reads once. true: nothing more will come, or *end: that line has come. */
static bool read_stdin(bool *end)
{
    char bytes[256];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

    *end = n > 0 && agent_line_is_end(slice_of(bytes, (size_t)n));
    return *end || n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

int look_end_run(const char *folder, struct err *err)
{
    const pid_t pid = maker(folder);
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    bool there = false, end = false;

    if (!pid)
        return err_set(err, "--look %.400s: an agent's folder is wanted", folder);
    say_boot();
    for (;;) {
        if (!runtime_dir_is_held(folder)) {
            say(AGENT_LINE_GONE, "");
            return 0;
        }
        if (!there)
            say(AGENT_LINE_THERE, "");
        there = true;
        if (poll(&in, 1, LOOK_MS) > 0 && read_stdin(&end)) {
            if (end)
                (void)kill(pid, SIGHUP);
            return 0;
        }
    }
}
