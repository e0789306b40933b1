/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/presence.h"

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
#include "base/mux/forward.h"
#include "base/path.h"
#include "base/process.h"
#include "base/runtime.h"

#define POLL_MS   500 /* between two checks whether the agent is there */
#define BOOT_SIZE 64u
#define WHY_SIZE  2048u

static void say(const char *word, const char *more)
{
    printf(AGENT_LINE_PRESENCE "%s%s\n", word, more);
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

/* Why the agent in this folder wants a relay. "": it wants none. */
static void read_wanted(const char *folder, char why[static WHY_SIZE])
{
    struct err err = { "" };
    char *const path = runtime_path(folder, RELAY_WANTED_FILE, &err);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd >= 0 ? read(fd, why, WHY_SIZE - 1) : 0;

    why[n > 0 ? n : 0] = '\0';
    why[strcspn(why, "\n")] = '\0';
    fd_close(&fd);
    free(path);
}

/* Says whether it does, first and when that has changed. */
static void say_wanted(const char *folder, bool first, char said[static WHY_SIZE])
{
    char why[WHY_SIZE];

    read_wanted(folder, why);
    if (!first && strcmp(why, said) == 0)
        return;
    memcpy(said, why, WHY_SIZE);
    if (!why[0]) {
        say(AGENT_LINE_UNWANTED, "");
        return;
    }
    printf(AGENT_LINE_PRESENCE AGENT_LINE_WANTED "%s\t%s\n", folder, why);
    fflush(stdout);
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

int presence_run(const char *folder, struct err *err)
{
    const pid_t pid = maker(folder);
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    bool there = false, end = false;
    char wanted[WHY_SIZE];

    if (!pid)
        return err_set(err, "--presence %.400s: an agent's folder is wanted", folder);
    say_boot();
    for (;;) {
        const enum runtime_dir_state state = runtime_dir_state(folder);

        if (state == RUNTIME_DIR_FREE) {
            say(AGENT_LINE_GONE, "");
            return 0;
        }
        if (state == RUNTIME_DIR_HELD) {
            if (!there)
                say(AGENT_LINE_THERE, "");
            say_wanted(folder, !there, wanted);
            there = true;
        }
        if (poll(&in, 1, POLL_MS) > 0 && read_stdin(&end)) {
            /* its number may have become another process's */
            if (end && runtime_dir_state(folder) != RUNTIME_DIR_FREE)
                (void)kill(pid, SIGHUP);
            return 0;
        }
    }
}
