#include "kernel/agents/orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The parent and the process group of a pid; -1 when it is gone. */
static int family(long pid, long *parent, long *pgid)
{
    char path[64], text[512], *end;
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!(f = fopen(path, "re")))
        return -1;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    /* The name stands in parentheses and may hold anything: what counts comes after the last one. */
    if (!(end = strrchr(text, ')')))
        return -1;
    return sscanf(end + 1, " %*c %ld %ld", parent, pgid) == 2 ? 0 : -1;
}

int orphans_kill(long spare)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int killed = 0;

    while (proc && (entry = readdir(proc))) {
        const long pid = isdigit((unsigned char)entry->d_name[0]) ? strtol(entry->d_name, NULL, 10) : 0;
        long parent, pgid;

        if (pid <= 0 || pid == spare || family(pid, &parent, &pgid) < 0 || parent != getpid())
            continue;
        if (pgid > 1 && pgid != getpgrp() && pgid != spare)
            kill((pid_t)-pgid, SIGKILL);
        kill((pid_t)pid, SIGKILL);
        killed++;
    }
    if (proc)
        closedir(proc);
    return killed;
}
