/* SPDX-License-Identifier: BSD-3-Clause */
/* lease_holders.c - see lease_holders.h. A lock of an open file description has no process in
 * /proc/locks. But the system lists the locks of each descriptor of a process, with the file that
 * is locked, in /proc/PID/fdinfo. That is read, and no file that a user could have put there. */
#include "worker/agent/gpu/lease_holders.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif

#include "base/clock.h"
#include "base/path.h"
#include "base/process.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/lease.h"

#define INFO_MAX 4096u          /* bytes of a descriptor's information that are read */
#define SEEN_MAX (8 * GPUS_MAX) /* files of the folder that are looked at */
/* Other users can have any number of processes with any number of descriptors. */
#define DESCRIPTORS_MAX 1024u              /* of such a process that are looked at */
#define LIST_NS         (NS_PER_S / 2)     /* until all processes are listed */
#define LOOK_NS         NS_PER_S           /* until all have been looked at */
#define AGENT           "cellspan-agent\n" /* whose descriptors are looked at first */

struct held_lease {
    char uuid[GPU_TEXT];
    struct lease_state state;
    json_t *holders; /* owned */
};

struct all_held {
    struct held_lease *of; /* owned, n of them; room for GPUS_MAX */
    size_t n;
    bool cut;      /* there may be more */
    bool searched; /* all processes were looked at, with all their descriptors */
    int folder;    /* where to look for a lease that a descriptor names; -1: `of` has all */
};

static void release(struct all_held *all)
{
    for (size_t i = 0; i < all->n; i++)
        json_decref(all->of[i].holders);
    free(all->of);
}

static int add_held(struct all_held *all, int folder, const char *uuid)
{
    struct held_lease *one = &all->of[all->n];
    const size_t size = strlen(uuid) + 1;

    if (size > sizeof one->uuid || !lease_look(folder, uuid, false, &one->state))
        return 0;
    memcpy(one->uuid, uuid, size);
    if (!(one->holders = json_array()))
        return -1;
    all->n++;
    return 0;
}

/* Those of the GPUs with these names. */
static int find_named(struct all_held *all, int folder, const json_t *gpus)
{
    const json_t *gpu;
    int rc = 0;
    size_t i;

    json_array_foreach (gpus, i, gpu) {
        const char *uuid = json_string_value(json_object_get(gpu, "uuid"));

        if (rc == 0 && uuid && all->n < GPUS_MAX)
            rc = add_held(all, folder, uuid);
    }
    return rc;
}

/* Whatever is there. Others may have put any number of files: no more are read than a machine has
 * GPUs, and not many more are looked at. */
static int find_any(struct all_held *all, int folder)
{
    const int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    struct dirent *entry;
    size_t seen = 0;
    int rc = dir ? 0 : -1;

    while (rc == 0 && (entry = readdir(dir))) {
        if ((all->cut = all->n == GPUS_MAX || seen++ == SEEN_MAX))
            break;
        rc = add_held(all, folder, entry->d_name);
    }
    if (dir)
        closedir(dir);
    else if (own >= 0)
        close(own);
    return rc;
}

/* Those of our own processes are found by their descriptors, however many files others have put
 * into the folder. */
static int find_held(struct all_held *all, int folder, const json_t *gpus, bool ours)
{
    if (!(all->of = calloc(GPUS_MAX, sizeof *all->of)))
        return -1;
    if (gpus)
        return find_named(all, folder, gpus);
    if (!ours)
        return find_any(all, folder);
    all->folder = folder;
    return 0;
}

static struct held_lease *named(const struct all_held *all, const char *uuid)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->of[i].uuid, uuid) == 0)
            return &all->of[i];
    return NULL;
}

/* The lease that a descriptor with this path may hold. NULL: none. */
static struct held_lease *of_path(struct all_held *all, const char *path, int *rc)
{
    struct held_lease *one = named(all, path_name(path));
    const size_t before = all->n;

    if (one || all->folder < 0 || (all->cut = all->cut || all->n == GPUS_MAX))
        return one;
    *rc = add_held(all, all->folder, path_name(path));
    return all->n > before ? &all->of[before] : NULL;
}

/* Has this descriptor a lock on the file of the lease? The lines of locks are
 * "lock: 1: OFDLCK ADVISORY WRITE -1 00:1b:4711 0 EOF", the device in hexadecimal. */
static bool has_lock(const char *path, const struct lease_state *state)
{
    char text[INFO_MAX + 1], want[64];

    text[file_start(path, text, INFO_MAX).n] = '\0';
    snprintf(want, sizeof want, " %02x:%02x:%llu ", major(state->device), minor(state->device),
             (unsigned long long)state->file);
    for (const char *line = strstr(text, "lock:"); line; line = strstr(line + 1, "lock:")) {
        const char *at = strstr(line, want);

        if (at && at < line + strcspn(line, "\n"))
            return true;
    }
    return false;
}

static int add_holder(struct held_lease *one, long pid)
{
    char path[64], comm[64];
    json_t *last = json_array_get(one->holders, json_array_size(one->holders) - 1);
    uid_t uid;

    if (json_integer_value(json_object_get(last, "pid")) == pid)
        return 0; /* a script's rank has the lock once more */
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    comm[file_start(path, comm, sizeof comm - 1).n] = '\0';
    comm[strcspn(comm, "\n")] = '\0';
    return json_array_append_new(one->holders,
                                 json_pack("{s:I, s:o, s:o*}", "pid", (json_int_t)pid, "uid",
                                           process_uid(pid, &uid) ? json_integer(uid) : json_null(),
                                           "comm", json_string(comm)));
}

/* ---- processes ---- */

static bool is_late(uint64_t until_ns)
{
    return until_ns && clock_now(&clock_system) >= until_ns;
}

/* The descriptors whose file has the name of a lease are looked at closely: no other is touched.
 * until_ns: 0: it has no limit. */
static int look_at(struct all_held *all, long pid, uint64_t until_ns)
{
    char path[64], to[4096];
    struct dirent *entry;
    DIR *dir;
    unsigned seen = 0;
    int rc = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    dir = opendir(path);
    while (dir && rc == 0 && (entry = readdir(dir))) {
        if (until_ns && (seen++ == DESCRIPTORS_MAX || (seen % 64 == 0 && is_late(until_ns)))) {
            all->searched = false;
            break;
        }
        const ssize_t n = readlinkat(dirfd(dir), entry->d_name, to, sizeof to - 1);
        struct held_lease *one;

        to[n > 0 ? n : 0] = '\0';
        if (to[0] != '/' || !(one = of_path(all, to, &rc)))
            continue;
        snprintf(path, sizeof path, "/proc/%ld/fdinfo/%.20s", pid, entry->d_name);
        if (has_lock(path, &one->state))
            rc = add_holder(one, pid);
    }
    if (dir)
        closedir(dir);
    return rc;
}

/* Root looks at those of others, too. */
static bool is_of_another(long pid)
{
    uid_t uid;

    return geteuid() == 0 && (!process_uid(pid, &uid) || uid != getuid());
}

bool lease_holders_has(long pid, const char *uuid, const struct lease_state *state)
{
    struct held_lease one = { .state = *state, .holders = json_array() };
    struct all_held all = { &one, 1, false, true, -1 };
    bool has = false;

    snprintf(one.uuid, sizeof one.uuid, "%s", uuid);
    if (one.holders &&
        look_at(&all, pid, is_of_another(pid) ? clock_now(&clock_system) + LOOK_NS : 0) == 0)
        has = json_array_size(one.holders) > 0;
    json_decref(one.holders);
    return has;
}

struct seen_process {
    long pid;
    uid_t uid;
    bool agent;      /* it has the name of one, which any program can have */
    unsigned before; /* how many of its user's are looked at before */
};

static int by_user(const void *a, const void *b)
{
    const struct seen_process *x = a, *y = b;

    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    if (x->agent != y->agent)
        return x->agent ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int by_turn(const void *a, const void *b)
{
    const struct seen_process *x = a, *y = b;

    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    return by_user(a, b);
}

static bool is_agent(long pid)
{
    char path[64], comm[64];

    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    comm[file_start(path, comm, sizeof comm - 1).n] = '\0';
    return strcmp(comm, AGENT) == 0;
}

/* All processes, for the caller to free. NULL: memory is out. */
static struct seen_process *list_processes(struct all_held *all, bool ours, size_t *n)
{
    const uint64_t until_ns = ours ? 0 : clock_now(&clock_system) + LIST_NS;
    struct seen_process *of = NULL, *more;
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    *n = 0;
    while (dir && (entry = readdir(dir))) {
        const long pid = strtol(entry->d_name, NULL, 10);
        uid_t uid;

        if (pid <= 0 || !process_uid(pid, &uid) || (ours && geteuid() == 0 && uid != getuid()))
            continue;
        if ((*n & (*n - 1)) == 0) {
            if (!(more = realloc(of, (*n ? 2 * *n : 1) * sizeof *of))) {
                free(of);
                of = NULL;
                break;
            }
            of = more;
        }
        of[(*n)++] = (struct seen_process){ .pid = pid, .uid = uid, .agent = is_agent(pid) };
        if ((all->searched = !is_late(until_ns)) == false)
            break;
    }
    if (dir)
        closedir(dir);
    return of;
}

/* The first process of each user is looked at before the second of any. */
static void sort(struct seen_process *of, size_t n)
{
    qsort(of, n, sizeof *of, by_user);
    for (size_t i = 1; i < n; i++)
        of[i].before = of[i].uid == of[i - 1].uid ? of[i - 1].before + 1 : 0;
    qsort(of, n, sizeof *of, by_turn);
}

/* Ours have no limit: a user can only harm himself. */
static int find_holders(struct all_held *all, bool any, bool ours)
{
    struct seen_process *of;
    uint64_t until_ns;
    size_t n;
    int rc = 0;

    if ((!all->n && all->folder < 0) ||
        (any && all->cut)) /* others have planted leases: ask for the GPUs' */
        return 0;
    if (!(of = list_processes(all, ours, &n)))
        return -1;
    sort(of, n);
    until_ns = clock_now(&clock_system) + LOOK_NS;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const bool own = of[i].uid == geteuid();

        if (!ours && is_late(until_ns)) {
            all->searched = false;
            break;
        }
        rc = look_at(all, of[i].pid, ours || (own && geteuid() != 0) ? 0 : until_ns);
    }
    free(of);
    return rc;
}

/* When the file was written, which any user can do, and change; but no holder has had the lease for
 * longer than it has run. */
static time_t since(const struct held_lease *one)
{
    const time_t now = time(NULL);
    time_t first = now;
    json_t *holder;
    uint64_t age_ns;
    size_t i;

    json_array_foreach (one->holders, i, holder) {
        const long pid = (long)json_integer_value(json_object_get(holder, "pid"));

        if (process_age(pid, &age_ns) && now - (time_t)(age_ns / NS_PER_S) < first)
            first = now - (time_t)(age_ns / NS_PER_S);
    }
    if (i && one->state.written < first)
        return first;
    return one->state.written < now ? one->state.written : now;
}

static json_t *to_json(const struct all_held *all)
{
    json_t *list = json_object();
    int rc = list ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < all->n; i++)
        rc = json_object_set_new(list, all->of[i].uuid,
                                 json_pack("{s:s, s:I, s:b, s:O}", "said", all->of[i].state.said,
                                           "since", (json_int_t)since(&all->of[i]), "cut",
                                           !all->searched, "holders", all->of[i].holders));
    if (rc == 0)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *list(const json_t *gpus, bool ours)
{
    struct all_held all = { NULL, 0, false, true, -1 };
    struct err err = { "" };
    const int folder = lease_folder_look(&err);
    json_t *leases = NULL;

    if (folder < 0 ||
        (find_held(&all, folder, gpus, ours) == 0 && find_holders(&all, !gpus, ours) == 0))
        leases = to_json(&all);
    if (folder >= 0)
        close(folder);
    release(&all);
    return leases ? json_pack("{s:o, s:b, s:s?}", "leases", leases, "cut", all.cut, "why",
                              err.text[0] ? err.text : NULL)
                  : NULL;
}

json_t *lease_holders_list(const json_t *gpus)
{
    return list(gpus, false);
}

json_t *lease_holders_ours(const json_t *gpus)
{
    return list(gpus, true);
}
