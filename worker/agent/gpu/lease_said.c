/* SPDX-License-Identifier: BSD-3-Clause */
/* lease_said.c - what users read about who holds a lease (declared in lease.h). The file of the
 * lease names a process, and any user may have written that. Whose process it is, since when, and
 * which notebook, the system says. It gives the environment of a process, which has the notebook's
 * name, to its own user and to root only. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/process.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/lease_holders.h"

#define ENVIRONMENT_MAX (256u << 10) /* bytes of a process's environment that are read */

void lease_time(time_t since, char out[static LEASE_TIME])
{
    const time_t now = time(NULL);
    struct tm then, today;

    if (since > now)
        since = now;
    snprintf(out, LEASE_TIME, "?");
    if (localtime_r(&since, &then) && localtime_r(&now, &today))
        (void)strftime(out, LEASE_TIME,
                       then.tm_year == today.tm_year && then.tm_yday == today.tm_yday
                           ? "%H:%M"
                           : "%Y-%m-%d %H:%M",
                       &then);
}

/* ---- the notebook ---- */

static void take_name(const char *path, char out[static LEASE_NOTEBOOK])
{
    snprintf(out, LEASE_NOTEBOOK, "%s", path_name(path));
    for (char *c = out; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

bool lease_notebook(long pid, char out[static LEASE_NOTEBOOK])
{
    static const char name[] = "JPY_SESSION_NAME=";
    const char *own = getenv("JPY_SESSION_NAME");
    char path[64], *text = NULL;
    struct slice all;

    out[0] = '\0';
    if (pid == (long)getpid()) {
        take_name(own ? own : "", out);
    } else if ((text = malloc(ENVIRONMENT_MAX + 1))) {
        snprintf(path, sizeof path, "/proc/%ld/environ", pid);
        all = file_start(path, text, ENVIRONMENT_MAX);
        text[all.n] = '\0';
        for (const char *at = text; at < text + all.n && !out[0]; at += strlen(at) + 1)
            if (strncmp(at, name, sizeof name - 1) == 0)
                take_name(at + sizeof name - 1, out);
    }
    free(text);
    return out[0] != '\0';
}

/* ---- the holder ---- */

/* The number of "alice (pid 4711, since 14:03)"; 0: there is none. */
static long pid_in(const char *said)
{
    const char *at = strstr(said, "(pid ");

    return at ? strtol(at + strlen("(pid "), NULL, 10) : 0;
}

/* Since when the process can have had the lease that was written then: not from before its own
 * start, whatever the file's time is. */
static time_t since(long pid, time_t written)
{
    const time_t now = time(NULL);
    uint64_t age_ns;
    time_t started;

    if (!process_age(pid, &age_ns))
        return written;
    started = now - (time_t)(age_ns / NS_PER_S);
    return written < started ? started : written;
}

/* A process of ours, or any process for root, can be seen to hold it or not. The text may be that
 * of a process that had the lease before, or of one with its number. */
static bool can_be_seen(uid_t uid)
{
    return geteuid() == 0 || uid == getuid();
}

bool lease_holder(int folder, const char *uuid, bool share, char out[static LEASE_HOLDER])
{
    char user[LEASE_USER], notebook[LEASE_NOTEBOOK] = "", when[LEASE_TIME], number[32] = "";
    struct lease_state state;
    long pid;
    uid_t uid;

    out[0] = '\0';
    if (!lease_look(folder, uuid, share, &state))
        return false;
    pid = pid_in(state.said);
    if (pid <= 0 || !process_uid(pid, &uid)) { /* it may be in another container */
        memcpy(out, state.said, LEASE_HOLDER);
        return true;
    }
    if (can_be_seen(uid) && !lease_holders_has(pid, uuid, &state)) {
        snprintf(out, LEASE_HOLDER, "somebody");
        return true;
    }
    if (!lease_user(uid, user)) {
        snprintf(user, sizeof user, "%.*s", (int)strcspn(state.said, ",("), state.said);
        for (size_t n = strlen(user); n && user[n - 1] == ' '; n--)
            user[n - 1] = '\0';
        snprintf(number, sizeof number, "uid %lu, ", (unsigned long)uid);
    }
    lease_time(since(pid, state.written), when);
    (void)lease_notebook(pid, notebook);
    snprintf(out, LEASE_HOLDER, "%s%s%s (%spid %ld, since %s)", user, notebook[0] ? ", " : "",
             notebook, number, pid, when);
    return true;
}
