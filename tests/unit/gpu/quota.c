/* SPDX-License-Identifier: BSD-3-Clause */
/* How many GPUs all notebooks of a user may hold together: what counts, and what does not. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/process.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/gpu/lease.h"

#define UUID(n)  "GPU-a00" #n "1234-0000-4000-8000-0123456789ab"
#define LIMIT_NS (60 * NS_PER_S)

/* Another notebook's agent. */
static _Noreturn void hold(char **uuid)
{
    struct err err = { "" };
    int fd, folder = lease_folder(&err);
    bool well = true;

    for (; *uuid; uuid++)
        well = lease_take(folder, *uuid, false, &fd, &err) == LEASE_TAKEN && well;
    stage_is_up(well);
}

struct asked {
    struct loop *loop;
    bool done;
    char text[65536];
};

static void json(void *arg, struct slice text)
{
    struct asked *q = arg;

    snprintf(q->text, sizeof q->text, "%.*s", SLICE_ARG(text));
    q->done = true;
    loop_stop(q->loop);
}

static void too_long(void *loop)
{
    ok(false, "an answer comes in time");
    loop_stop(loop);
}

/* How many GPUs this notebook may hold; -1: there is no quota. */
static long may(struct gpu_allocations *d, struct loop *loop, const char *says)
{
    static struct asked q;
    struct err err = { "" };
    struct watch *limit = loop_timer(loop, LIMIT_NS, 0, too_long, loop, &err);
    const char *at;

    q = (struct asked){ .loop = loop };
    gpu_list(d, json, &q);
    if (!q.done)
        ok(limit && loop_run(loop, &err) == 0, "the loop runs: %s", err.text);
    watch_stop(limit);
    at = strstr(q.text, "\"may\":");
    if (says && !ok(strstr(q.text, says) != NULL, "it says: %s", says))
        diag("  %s", strstr(q.text, "\"quota\":"));
    return at ? strtol(at + strlen("\"may\":"), NULL, 10) : -1;
}

static int take(struct gpu_allocations *d, uint32_t first, size_t n, bool share, const char *why)
{
    uint32_t worker[8];
    struct err err = { "" };
    int rc;

    for (size_t i = 0; i < n; i++)
        worker[i] = first + (uint32_t)i;
    rc = gpu_take(d, worker, n, 1, share, &err);
    if (!ok(why ? rc < 0 && strstr(err.text, why) : rc == 0, "%zu GPUs: %s", n,
            why ? why : "they are given"))
        diag("  %s", err.text);
    for (size_t i = 0; why && i < n; i++)
        ok(!gpu_has(d, worker[i]), "who gets none has none");
    return rc;
}

static void give_back(struct gpu_allocations *d, uint32_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gpu_release(d, first + (uint32_t)i);
}

static void own_notebooks_count_together(struct gpu_allocations *d, struct loop *loop)
{
    char says[256];
    pid_t pid;

    is_int(may(d, loop, "\"quota\":null"), -1, "without a quota there is none");
    gpu_quota(d, 3, slice_text("/etc/cellspan.toml:7"));
    is_int(may(d, loop,
               "gpu_quota is 3 (/etc/cellspan.toml:7), for all notebooks of a user together\""),
           3, "nobody holds any");
    take(d, 2, 4, false,
         "4 GPUs more would be too many for one user: gpu_quota is 3 (/etc/cellspan.toml:7)");
    take(d, 2, 1, false, NULL);
    is_int(may(d, loop, "together: this notebook holds 1\""), 3, "its own are among them");
    pid = stage_start("books/train.ipynb", 0, UUID(4), UUID(5));
    snprintf(says, sizeof says, "this notebook holds 1, train.ipynb (pid %ld) holds 2 since ",
             (long)pid);
    is_int(may(d, loop, says), 1, "those of another notebook count");
    take(d, 3, 1, false, "`cellspan stop` with its pid, frees what it holds");
    take(d, 3, 1, true, "too many for one user");
    stage_end(pid);
    is_int(may(d, loop, NULL), 3, "until it is gone");
    take(d, 3, 2, false, NULL);
    take(d, 8, 1, false, "this notebook holds 3");
    gpu_quota(d, 2, slice_text(""));
    is_int(may(d, loop, "gpu_quota is 2 (CELLSPAN_GPU_QUOTA in the environment)"), 3,
           "a quota that gets smaller takes nothing away");
    gpu_quota(d, 0, slice_text(""));
    take(d, 8, 2, false, NULL);
    give_back(d, 2, 8);
}

/* Every user may write and lock files there. */
static void nothing_that_others_do_counts(struct gpu_allocations *d, struct loop *loop,
                                          const struct stage *s)
{
    char path[256];
    FILE *f;
    pid_t pid;
    int fd;

    gpu_quota(d, 1, slice_text(""));
    snprintf(path, sizeof path, "%s/%s", s->leases, UUID(0));
    f = fopen(path, "we");
    fprintf(f, "root (pid %ld, since 00:00)", (long)getpid());
    ok(fclose(f) == 0 && may(d, loop, NULL) == 1, "what is written there without a lock");
    if (geteuid() == 0) {
        ok(chmod(s->dir, 0755) == 0 && chmod(path, 0666) == 0, "others may use the folder");
        pid = stage_start("theirs.ipynb", 54321, UUID(0), UUID(1));
        is_int(may(d, loop, "a user together\""), 1, "the leases of another user");
        take(d, 2, 1, false, NULL);
        give_back(d, 2, 1);
        stage_end(pid);
    } else {
        skip("only root starts processes of other users");
    }
    snprintf(path, sizeof path, "%s/elsewhere", s->dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    {
        struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

        ok(fd >= 0 && fcntl(fd, F_OFD_SETLK, &l) == 0 && may(d, loop, NULL) == 1,
           "a lock of ours on another file");
    }
    close(fd);
    gpu_quota(d, 0, slice_text(""));
}

/* Of a GPU that this notebook may not use, /dev/shm lists the lease behind all newer files. */
static void many_files_hide_no_lease(struct gpu_allocations *d, struct loop *loop)
{
    char dir[] = "/dev/shm/cellspan-quota-XXXXXX", path[64],
         *before = getenv("CELLSPAN_GPU_LEASES");
    bool fine = true;
    pid_t pid;

    if (!mkdtemp(dir)) {
        skip("no /dev/shm");
        return;
    }
    before = strdup(before ? before : "");
    ok(before && setenv("CELLSPAN_GPU_LEASES", dir, 1) == 0, "another folder of leases");
    pid = stage_start("elsewhere.ipynb", 0, "GPU-elsewhere", NULL);
    for (unsigned k = 0; k < 9000; k++) {
        snprintf(path, sizeof path, "%s/x%u", dir, k);
        const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

        fine = fine && fd >= 0 && close(fd) == 0;
    }
    ok(fine, "many files");
    gpu_quota(d, 1, slice_text(""));
    is_int(may(d, loop, "elsewhere.ipynb"), 0, "what this user holds counts all the same");
    gpu_quota(d, 0, slice_text(""));
    stage_end(pid);
    (void)setenv("CELLSPAN_GPU_LEASES", before, 1);
    free(before);
    snprintf(path, sizeof path, "rm -rf %s", dir);
    ok(system(path) == 0, "they are removed");
}

int main(int argc, char **argv)
{
    struct stage s;
    struct err err = { "" };
    struct loop *loop;
    struct gpu_allocations *d;

    if (argc > 1)
        hold(argv + 1);
    (void)signal(SIGPIPE, SIG_IGN);
    stage_open(&s);
    loop = loop_create(&clock_system, &err);
    d = loop ? gpu_open(loop, &err) : NULL;
    ok(d != NULL, "the list is made: %s", err.text);
    own_notebooks_count_together(d, loop);
    nothing_that_others_do_counts(d, loop, &s);
    many_files_hide_no_lease(d, loop);
    gpu_close(d);
    loop_destroy(loop);
    stage_close(&s);
    return plan_done();
}
