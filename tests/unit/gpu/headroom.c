/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's memory for processes that leave their GPUs at once, of users who do not trust each
 * other. */
#include <inttypes.h>

#include "base/process.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/headroom.h"

#define GIB UINT64_C(1073741824)
#define ALL (10 * GIB)

static struct headroom_others others;

static uint64_t all(void *arg)
{
    return *(const uint64_t *)arg;
}

/* Another notebook's cellspan-gpus has so many GiB. */
static _Noreturn void keep(const char *gib)
{
    uint64_t much = 100 * ALL;
    struct headroom r;

    stage_is_up(headroom_take(&r, (uint64_t)atoi(gib) * GIB, all, &much, UINT64_MAX, &others) &&
                r.fd >= 0);
}

/* Takes so many GiB, and gives them back. */
static bool fits(uint64_t gib, uint64_t most)
{
    uint64_t ten = ALL;
    struct headroom r;
    const bool got = headroom_take(&r, gib * GIB, all, &ten, most, &others);

    headroom_give_back(&r);
    return got;
}

static void what_others_have_is_not_free(void)
{
    const pid_t one = stage_start("a.ipynb", 0, "6", NULL);
    pid_t two;
    char want[64];

    ok(fits(4, ALL) && others.bytes == 6 * GIB, "what is left can be had");
    ok(!fits(5, ALL), "and no more");
    snprintf(want, sizeof want, "(uid %u, pid %ld)", (unsigned)geteuid(), (long)one);
    ok(strstr(others.who, want), "who has it is named: %s", others.who);
    two = stage_start("b.ipynb", 0, "1", NULL);
    ok(!fits(4, ALL) && fits(3, ALL), "all of them count");
    stage_end(one);
    ok(fits(9, ALL) && !fits(10, ALL), "one that is gone does not");
    ok(fits(9, GIB / 2), "nobody has more than all GPUs of the machine");
    stage_end(two);
    ok(fits(10, ALL), "nobody is left");
}

/* As by another user, who may write what he likes. */
static void forged_ones_count_for_nothing(const struct stage *s)
{
    static const char *const texts[] = { "",
                                         "x",
                                         "99999999999999999999999 at 1 as",
                                         "10737418240 at 999999999999 as",
                                         "10737418240 at 1 as",
                                         "10737418240 at 1 as park.00000000000000000001.1" };
    char name[CLAIM_NAME], text[256];
    int folder = open(s->leases, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

    claim_name("park", name);
    fd = claim_make(folder, name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(text, sizeof text, "%s %s", texts[i], name);
        ok(fd >= 0 && ftruncate(fd, 0) == 0 &&
               pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text) && fits(10, ALL),
           "\"%s\"", text);
    }
    snprintf(text, sizeof text, "10737418240 at %lld as %s", (long long)claim_clock().tv_sec, name);
    ok(ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) > 0 && !fits(1, ALL),
       "as it should be, it counts");
    ok(linkat(folder, name, folder, "park.00000000000000000001.1", 0) == 0 && others.bytes == ALL &&
           !fits(1, ALL) && others.bytes == ALL,
       "and not twice, under a second name");
    (void)unlinkat(folder, "park.00000000000000000001.1", 0);
    (void)unlinkat(folder, name, 0);
    fd_close(&fd);
    fd_close(&folder);
}

/* Somebody has put something else there. */
static void no_folder_keeps_nobody_from_parking(void)
{
    setenv("CELLSPAN_GPU_LEASES", "/proc/nowhere", 1);
    ok(fits(10, ALL), "without the folder nothing is reserved");
}

int main(int argc, char **argv)
{
    struct stage s;

    if (argc > 1)
        keep(argv[1]);
    stage_open(&s);
    what_others_have_is_not_free();
    forged_ones_count_for_nothing(&s);
    no_folder_keeps_nobody_from_parking();
    setenv("CELLSPAN_GPU_LEASES", s.leases, 1);
    stage_close(&s);
    return plan_done();
}
