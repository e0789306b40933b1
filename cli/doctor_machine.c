/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_machine.c - checks of memory, disk, limits, ports and programs (declared in doctor.h). */
#include "cli/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/ports.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"

#define MIB           (UINT64_C(1) << 20)
#define SHM_LEAST     (UINT64_C(1) << 30) /* NCCL and DataLoader workers take some 100 MiB each */
#define DISK_LEAST    (256 * MIB)
#define FILES_LEAST   4096u
#define PROCESS_LEAST 1024u

/* false: the folder can't be looked at. */
static bool space_of(const char *dir, uint64_t *free_bytes, uint64_t *all)
{
    struct statvfs st;

    if (statvfs(dir, &st) < 0)
        return false;
    *free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    *all = (uint64_t)st.f_blocks * st.f_frsize;
    return true;
}

static void check_shm(struct doctor *d)
{
    static const char fix[] =
        "Docker: --shm-size=8g; Kubernetes: an emptyDir with medium: Memory at /dev/shm";
    uint64_t free_bytes, all;

    if (!space_of("/dev/shm", &free_bytes, &all))
        finding_say(d, BAD, "/dev/shm", fix, "%s: NCCL and DataLoader workers need it",
                    strerror(errno));
    else if (all < SHM_LEAST)
        finding_say(d, BAD, "/dev/shm", fix, "%llu MiB in all, too few for NCCL and DataLoader",
                    (unsigned long long)(all / MIB));
    else if (free_bytes < DISK_LEAST)
        finding_say(d, BAD, "/dev/shm",
                    "remove what ended programs have left there (ls -l /dev/shm)",
                    "%llu MiB of %llu MiB are free", (unsigned long long)(free_bytes / MIB),
                    (unsigned long long)(all / MIB));
    else
        finding_say(d, FINE, "/dev/shm", NULL, "%llu MiB of %llu MiB are free",
                    (unsigned long long)(free_bytes / MIB), (unsigned long long)(all / MIB));
}

/* Writes a few bytes there. 0, or the errno with which it failed. */
static int try_folder(const char *dir)
{
    char path[512];
    int fd, failed = 0;

    snprintf(path, sizeof path, "%.480s/cellspan-doctor-XXXXXX", dir);
    if ((fd = mkstemp(path)) < 0)
        return errno;
    errno = ENOSPC;
    if (write(fd, "cellspan", 8) != 8)
        failed = errno;
    (void)unlink(path);
    close(fd);
    return failed;
}

/* A folder that cellspan or Jupyter must write to, and how many bytes at least. other: what to do
 * if it is not to be mended. */
static void check_folder(struct doctor *d, const char *what, const char *dir, uint64_t least,
                         const char *other)
{
    const int failed = try_folder(dir);
    uint64_t free_bytes, all;
    char fix[160];

    snprintf(fix, sizeof fix, "%s, or %s",
             failed == ENOENT                                 ? "make that folder"
             : failed && failed != ENOSPC && failed != EDQUOT ? "allow yourself to write there"
                                                              : "make room there",
             other);
    if (failed)
        finding_say(d, BAD, what, fix, "%s can't be written: %s", dir, strerror(failed));
    else if (space_of(dir, &free_bytes, &all) && free_bytes < least)
        finding_say(d, BAD, what, fix, "%s has %llu MiB left", dir,
                    (unsigned long long)(free_bytes / MIB));
    else
        finding_say(d, FINE, what, NULL, "%s can be written", dir);
}

/* Where these variables say that files go. A folder that is not there is made, or passed over. */
static void check_named_folders(struct doctor *d)
{
    static const char *const names[] = { "XDG_RUNTIME_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR" };
    char other[64];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir = getenv(names[i]);

        snprintf(other, sizeof other, "name another folder in %s", names[i]);
        if (dir && *dir && access(dir, F_OK) == 0)
            check_folder(d, names[i], dir, MIB, other);
    }
}

static void check_limit(struct doctor *d, int which, const char *what, rlim_t least,
                        const char *fix)
{
    struct rlimit limit;

    if (getrlimit(which, &limit) < 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        finding_say(d, FINE, what, NULL, "unlimited");
    else
        finding_say(d, limit.rlim_cur < least ? NOTE : FINE, what,
                    limit.rlim_cur < least ? fix : NULL, "%llu",
                    (unsigned long long)limit.rlim_cur);
}

/* Limits of the container, where there is one. */
static void check_container(struct doctor *d)
{
    char text[64];
    const uint64_t pids = file_number(file_start("/sys/fs/cgroup/pids.max", text, sizeof text),
                                      UINT64_MAX);
    const uint64_t memory = file_number(file_start("/sys/fs/cgroup/memory.max", text, sizeof text),
                                        UINT64_MAX);

    if (pids < PROCESS_LEAST)
        finding_say(d, NOTE, "pids.max", "raise the container's limit of processes and threads",
                    "%llu processes and threads: torch starts one for each core in each rank",
                    (unsigned long long)pids);
    if (memory != UINT64_MAX)
        finding_say(d, FINE, "memory.max", NULL, "%llu MiB for all processes of this container",
                    (unsigned long long)(memory / MIB));
}

/* 0, or the errno with which it failed. */
static int try_port(void *arg, unsigned port)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), why = 0;

    (void)arg;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) < 0 ||
        bind(fd, (struct sockaddr *)&any, sizeof any) < 0 || listen(fd, 1) < 0)
        why = errno;
    if (fd >= 0)
        fd_close(&fd);
    return why;
}

static void check_network(struct doctor *d)
{
    struct addrinfo *found = NULL;
    char name[256] = "";
    struct err err = { "" };
    int rc;

    if (ports_listen(try_port, NULL, &err) < 0)
        finding_say(d, BAD, "ports", "allow programs to listen on tcp ports, or set CELLSPAN_PORT",
                    "%s", err.text);
    else
        finding_say(d, FINE, "ports", NULL, "tcp ports can be opened");
    (void)gethostname(name, sizeof name - 1);
    if ((rc = getaddrinfo(name, NULL, NULL, &found)) != 0)
        finding_say(d, NOTE, "host name",
                    "add it to /etc/hosts, or set CELLSPAN_INTERFACE to an address",
                    "%s has no address: %s", name, gai_strerror(rc));
    else
        finding_say(d, FINE, "host name", NULL, "%s", name);
    if (found)
        freeaddrinfo(found);
}

static void check_program(struct doctor *d, const char *name, const char *used_for)
{
    char *path = runtime_on_path(name);

    if (path)
        finding_say(d, FINE, name, NULL, "%s", path);
    else
        finding_say(d, NOTE, name, NULL, "not on PATH; only %s needs it", used_for);
    free(path);
}

static void check_own(struct doctor *d)
{
    static const char *const programs[] = { "cellspan-kernel",     "cellspan-agent",
                                            "cellspan-gpus",       "cellspan-launch-local",
                                            "cellspan-launch-ssh", "cellspan-launch-slurm",
                                            "cellspan-launch-mpi" };
    struct err why = { "" };

    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *path = runtime_find(programs[i], &why);

        if (!path) {
            finding_say(d, BAD, "programs", "install cellspan again", "%s", why.text);
            return;
        }
        free(path);
    }
    finding_say(d, FINE, "programs", NULL, "cellspan " CELLSPAN_VERSION ", all are there");
}

void doctor_machine(struct doctor *d)
{
    const char *tmp = getenv("TMPDIR"), *home = getenv("HOME");

    check_own(d);
    check_shm(d);
    check_folder(d, "temporary", tmp && *tmp ? tmp : "/tmp", DISK_LEAST,
                 "name another folder in TMPDIR");
    if (home && *home)
        check_folder(d, "home folder", home, DISK_LEAST,
                     "name other folders in IPYTHONDIR and JUPYTER_DATA_DIR");
    check_named_folders(d);
    check_limit(d, RLIMIT_NOFILE, "open files", FILES_LEAST,
                "ulimit -n 65536, before Jupyter is started");
    check_limit(d, RLIMIT_NPROC, "processes", PROCESS_LEAST,
                "ulimit -u 65536, before Jupyter is started");
    check_limit(d, RLIMIT_AS, "address space", RLIM_INFINITY,
                "ulimit -v unlimited: GPU drivers reserve much more than they use");
    check_container(d);
    check_network(d);
    check_program(d, setting_text(SETTING_SSH) ? setting_text(SETTING_SSH) : "ssh", "--on ssh:");
    check_program(d, "srun", "--on slurm");
}
