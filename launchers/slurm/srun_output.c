/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/srun_output.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SRUN "srun: "

const char *srun_output_unlabel(const char *line, unsigned *task)
{
    const char *digits = line + strspn(line, " ");
    const size_t n = strspn(digits, "0123456789");

    *task = SRUN_NOBODY;
    if (n == 0 || n > 9 || strncmp(digits + n, ": ", 2) != 0)
        return line;
    *task = (unsigned)strtoul(digits, NULL, 10);
    return digits + n + 2;
}

void srun_output_release(struct srun_output *s)
{
    ranks_release(&s->tasks);
}

/* The number of our own job, by which we may cancel it. So it trusts only srun's exact words:
 * agents, plugins of the cluster and start files may mention any other job. */
static unsigned long find_job(const char *line)
{
    static const char *const before[] = { "job ",
                                          "Force Terminated JobId=", "Force Terminated job ",
                                          "Job allocation " };

    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const size_t n = strlen(before[i]);

        if (strncmp(line, before[i], n) == 0 && isdigit((unsigned char)line[n]))
            return strtoul(line + n, NULL, 10);
    }
    return 0;
}

/* Reads task numbers "0,2-3" up to the colon, *end. No tasks if it is not such a list. */
static int read_tasks(struct ranks *tasks, const char *list, const char **end)
{
    char *spec = strndup(list, strcspn(list, ":"));
    struct err err = { "" };
    int rc;

    if (!spec)
        return -1;
    *end = list + strlen(spec);
    rc = ranks_parse(tasks, spec, RANKS_MAX, &err);
    free(spec);
    if (rc < 0)
        ranks_clear(tasks);
    return 0;
}

/* "srun: error: n2: task 1: Exited with exit code 3", "srun: error: n[1-2]: tasks 0-1: Killed" */
static int read_ended(struct srun_output *s, const char *line)
{
    const char *at = strstr(line, ": task"), *end;

    if (!at)
        return 0;
    at += strlen(": task");
    at += *at == 's';
    if (*at++ != ' ' || !isdigit((unsigned char)*at))
        return 0;
    if (read_tasks(&s->tasks, at, &end) < 0)
        return -1;
    if (strncmp(end, ": ", 2) != 0) {
        ranks_clear(&s->tasks);
        return 0;
    }
    s->kind = SRUN_TASKS;
    s->text = end + 2;
    return 0;
}

int srun_output_read(struct srun_output *s, const char *line)
{
    static const char node[] = "Node failure on ", launch[] = "Task launch for ",
                      failed[] = " failed on node ";
    const char *at;

    *s = (struct srun_output){ .kind = SRUN_TEXT, .tasks = RANKS_INIT };
    if (!text_begins(line, SRUN))
        return 0;
    s->job = find_job(line + strlen(SRUN));
    if (strstr(line, "queued and waiting for resources"))
        s->kind = SRUN_QUEUED;
    else if (strstr(line, "has been allocated resources"))
        s->kind = SRUN_ALLOCATED;
    else if (strstr(line, "lacks support for cpu binding"))
        s->kind = SRUN_NOISE;
    else if ((at = strstr(line, node))) {
        s->kind = SRUN_NODE;
        s->text = at + strlen(node);
    } else if (strstr(line, launch) && (at = strstr(line, failed)) && strstr(at, ": ")) {
        s->kind = SRUN_UNSTARTED;
        s->text = at + strlen(failed);
    } else
        return read_ended(s, line);
    return 0;
}

bool srun_output_words(const char *line, const char *program, char *text, size_t size)
{
    const size_t name = strlen(program);
    const char *host;
    size_t n;

    if (strncmp(line, program, name) != 0 || !text_begins(line + name, " on "))
        return false;
    host = line + name + strlen(" on ");
    n = strcspn(host, " ");
    if (n == 0 || !host[n])
        return false;
    snprintf(text, size, "%s%s%s", program, host[n - 1] == ':' ? ":" : "", host + n);
    return true;
}

bool slurm_reason_hopeless(const char *reason)
{
    static const char *const hopeless[] = {
        "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "AccountNotAllowed",
        "QOSNotAllowed",      "InvalidAccount",     "InvalidQOS",
    };

    for (size_t i = 0; i < sizeof hopeless / sizeof *hopeless; i++)
        if (strcmp(reason, hopeless[i]) == 0)
            return true;
    return false;
}

/* Slurm keeps jobs with these reasons, since a partition may change: so they may still start. */
const char *slurm_reason_meaning(const char *reason)
{
    static const struct {
        const char *reason, *words; /* how the reason begins */
    } known[] = {
        { "ReqNodeNotAvail", "nodes that it needs are down or drained: `sinfo -R` says why" },
        { "Nodes required for job are DOWN", "`sinfo -R` says why, or ask for others" },
        { "PartitionConfig",
          "no nodes of the partition can run this as they are now: ask for fewer ranks, or for more nodes" },
        { "PartitionDown", "the partition is closed" },
        { "PartitionInactive", "the partition is closed" },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_begins(reason, known[i].reason))
            return known[i].words;
    return NULL;
}

#define LEFT_MAX 30000000L /* seconds; a year is as good as no limit */

long srun_output_time(const char *text)
{
    static const long units[] = { 1, 60, 3600 };
    long part[3], sum = 0, days = 0;
    unsigned n = 0;
    char *end;

    for (;;) {
        if (!isdigit((unsigned char)*text))
            return -1;
        part[n++] = strtol(text, &end, 10);
        if (*end == '-' && n == 1 && !days) {
            days = part[--n];
        } else if (*end != ':' || n == 3) {
            break;
        }
        text = end + 1;
    }
    if (*end || days > LEFT_MAX / 86400)
        return -1;
    for (unsigned k = 0; k < n; k++) {
        if (part[k] > LEFT_MAX / 3600)
            return -1;
        sum += part[k] * units[n - 1 - k];
    }
    sum += days * 86400;
    return sum <= LEFT_MAX ? sum : -1;
}

#define KILL_WAIT_MAX 86400u /* seconds */

unsigned slurm_kill_wait(const char *text)
{
    static const char name[] = "KillWait";
    unsigned long seconds;
    char *end;

    while ((text = strstr(text, name))) {
        text += strlen(name);
        text += strspn(text, " =");
        seconds = strtoul(text, &end, 10);
        if (end > text && strncmp(end, " sec", 4) == 0)
            return seconds <= KILL_WAIT_MAX ? (unsigned)seconds : KILL_WAIT_MAX;
    }
    return 0;
}
