/* SPDX-License-Identifier: BSD-3-Clause */
/* How long an agent that was sent to a machine counts as used. The clock is the test's. */
#include "worker/agent/sent_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define HOUR_NS (3600 * NS_PER_S)

static char top[] = "/tmp/cellspan-sent-folder-XXXXXX";

static uint64_t now_of(void *arg)
{
    return *(const uint64_t *)arg;
}

static void stop(void *arg)
{
    loop_stop(arg);
}

/* Runs what is due. */
static void turn(struct loop *loop)
{
    struct err err = { "" };
    struct watch *last = loop_timer(loop, 0, 0, stop, loop, &err);

    ok(last && loop_run(loop, &err) == 0, "the loop turns %s", err.text);
    watch_stop(last);
}

/* Was the folder's time set since the last call? */
static bool is_noted(const char *folder)
{
    const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    struct stat found;

    return stat(folder, &found) == 0 && found.st_mtime > 1 &&
           utimensat(AT_FDCWD, folder, old, 0) == 0;
}

/* Makes FOLDER/libexec/cellspan/cellspan-agent below the test's folder, and a link to it. */
static void make(const char *name, char folder[static 256], char link[static 256])
{
    char path[512];

    snprintf(folder, 256, "%s/%s", top, name);
    snprintf(path, sizeof path,
             "mkdir -p %s/libexec/cellspan && touch %s/libexec/cellspan/cellspan-agent", folder,
             folder);
    ok(system(path) == 0, "a folder %s", name);
    snprintf(path, sizeof path, "%s/libexec/cellspan/cellspan-agent", folder);
    snprintf(link, 256, "%s/exe-%s", top, name);
    ok(symlink(path, link) == 0 && is_noted(folder), "which is old");
}

static void its_time_is_set_every_12_hours(void)
{
    uint64_t now = 5 * NS_PER_S;
    const struct clock clock = { .now_ns = now_of, .wall_ns = now_of, .arg = &now };
    struct err err = { "" };
    struct loop *loop = loop_create(&clock, &err);
    char folder[256], link[256];

    make(CELLSPAN_VERSION "-x86_64-0123456789abcdef", folder, link);
    ok(loop && sent_folder_note(loop, link, &err) == 0, "an agent begins %s", err.text);
    turn(loop);
    ok(is_noted(folder), "its folder is used at once");
    for (unsigned k = 0; k < 2; k++) {
        now += 12 * HOUR_NS - NS_PER_S;
        turn(loop);
        ok(!is_noted(folder), "nothing is written for 12 hours");
        now += NS_PER_S;
        turn(loop);
        ok(is_noted(folder), "then the folder is used again");
    }
    loop_destroy(loop);
}

static void other_folders_are_left_alone(void)
{
    uint64_t now = 5 * NS_PER_S;
    const struct clock clock = { .now_ns = now_of, .wall_ns = now_of, .arg = &now };
    struct err err = { "" };
    struct loop *loop = loop_create(&clock, &err);
    char folder[256], link[256];

    make("prefix", folder, link);
    ok(loop && sent_folder_note(loop, link, &err) == 0 &&
           sent_folder_note(loop, "/nowhere/exe", &err) == 0,
       "agents that were installed %s", err.text);
    turn(loop);
    ok(!is_noted(folder), "have no such folder");
    loop_destroy(loop);
}

int main(void)
{
    char command[256];

    ok(mkdtemp(top) != NULL, "a folder");
    its_time_is_set_every_12_hours();
    other_folders_are_left_alone();
    snprintf(command, sizeof command, "rm -rf %s", top);
    ok(system(command) == 0, "all is removed");
    return plan_done();
}
