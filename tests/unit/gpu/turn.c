/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits for GPUs, and whose turn it is: without a process that leads, and between users who do
 * not trust each other. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/process.h"
#include "tests/unit/chaos.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/turn.h"

#define A "GPU-a0011234-0000-4000-8000-0123456789ab"
#define B "GPU-a0021234-0000-4000-8000-0123456789ab"

static struct gpus both, only_a, only_b;

static int add(struct gpus *g, const char *uuid)
{
    struct gpu one = { .instance = -1 };
    struct err err = { "" };

    snprintf(one.uuid, sizeof one.uuid, "%s", uuid);
    return gpus_add(g, &one, &err);
}

/* Another notebook's agent waits for so many of both. */
static _Noreturn void wait_for(const char *wants)
{
    struct err err = { "" };

    stage_is_up(add(&both, A) == 0 && add(&both, B) == 0 &&
                turn_open(lease_folder(&err), (struct turn_needs){ (unsigned)atoi(wants), 0 },
                          &both, &err));
}

static struct gpu_turn *enter(int folder, unsigned wants, const struct gpus *gpus)
{
    struct err err = { "" };
    struct gpu_turn *t = turn_open(folder, (struct turn_needs){ wants, 0 }, gpus, &err);

    ok(t != NULL, "it waits for %u: %s", wants, err.text);
    return t;
}

static void is_ahead(struct gpu_turn *t, int folder, const struct gpus *gpus, unsigned places,
                     unsigned wanted, const char *what)
{
    struct turn_ahead ahead;

    turn_look(t, folder, gpus, &ahead);
    ok(ahead.places == places && ahead.gpus == wanted, "%s: %u places, %u GPUs (%s)", what,
       ahead.places, ahead.gpus, ahead.who);
}

/* The first file of the folder that is a place. */
static void first_place(const struct stage *s, char out[static 512])
{
    char command[256];
    FILE *f;

    snprintf(command, sizeof command, "ls %s/wait.*", s->leases);
    f = popen(command, "r");
    out[0] = '\0';
    if (!f || !fgets(out, 512, f) || pclose(f) != 0)
        diag("no place");
    out[strcspn(out, "\n")] = '\0';
}

static void who_comes_first_is_served_first(int folder)
{
    struct gpu_turn *one = enter(folder, 65535, &both), *two = enter(folder, 1, &both), *three;
    struct err err = { "" };

    is_ahead(one, folder, &both, 0, 0, "the first one");
    is_ahead(two, folder, &both, 1, 2, "the second one: nobody wants more than there are");
    is_ahead(NULL, folder, &both, 2, 3, "who does not wait comes behind all");
    three = enter(folder, 2, &only_b);
    is_ahead(three, folder, &only_b, 2, 2, "the third one, who shares one GPU with them");
    is_ahead(one, folder, &both, 0, 0, "nobody who came later is before the first one");
    ok(turn_keep(one, folder, (struct turn_needs){ 0, 0 }, &err) == 0, "whom his quota keeps off");
    is_ahead(two, folder, &both, 0, 0, "is in nobody's way");
    ok(turn_keep(one, folder, (struct turn_needs){ 2, 0 }, &err) == 0,
       "and when it no longer does");
    is_ahead(two, folder, &both, 1, 2, "he has his place again");
    turn_close(one);
    is_ahead(two, folder, &both, 0, 0, "who leaves lets the next one be first");
    is_ahead(three, folder, &only_b, 1, 1, "and so on");
    turn_close(two);
    is_ahead(three, folder, &only_b, 0, 0, "until the last one");
    is_ahead(NULL, folder, &only_a, 0, 0, "who wants other GPUs waits for none of them");
    turn_close(three);
    is_ahead(NULL, folder, &both, 0, 0, "nobody waits");
    turn_close(NULL);
}

/* What is free is kept for who can use it. */
static void each_gets_what_will_do(int folder)
{
    struct gpu_turn *one = enter(folder, 1, &only_a), *two = enter(folder, 1, &both);
    const bool a_is_free[] = { true, false }, b_is_free[] = { false, true },
               all_are[] = { true, true };
    struct turn_ahead ahead;
    bool kept[2];

    turn_keep_for(two, folder, &both, b_is_free, kept, &ahead);
    ok(!kept[0] && !kept[1] && ahead.places == 1, "who waits for A by name keeps nobody off B");
    turn_keep_for(two, folder, &both, all_are, kept, &ahead);
    ok(kept[0] && !kept[1], "A is his");
    turn_keep_for(NULL, folder, &both, a_is_free, kept, &ahead);
    ok(kept[0] && !kept[1], "whoever asks");
    turn_keep_for(NULL, folder, &both, all_are, kept, &ahead);
    ok(kept[0] && kept[1], "and B is for the other one");
    turn_close(one);
    turn_keep_for(NULL, folder, &both, all_are, kept, &ahead);
    ok(!kept[0] && kept[1], "to whom either would do");
    turn_close(two);
}

/* One waits for what the other keeps. */
static void nobody_waits_for_who_waits_for_him(int folder)
{
    struct gpu_turn *one = enter(folder, 1, &both), *two = enter(folder, 1, &both);
    struct turn_ahead ahead;
    struct err err = { "" };

    ok(turn_keep(two, folder, (struct turn_needs){ 1, 1 }, &err) == 0, "who keeps one");
    turn_look(two, folder, &both, &ahead);
    ok(!ahead.stuck, "gets the other when the first is done with it");
    ok(turn_keep(one, folder, (struct turn_needs){ 1, 1 }, &err) == 0, "unless he keeps it, too");
    turn_look(two, folder, &both, &ahead);
    ok(ahead.stuck && strstr(ahead.who, "(pid "), "then he is named: %s", ahead.who);
    turn_look(one, folder, &both, &ahead);
    ok(!ahead.stuck, "who came first stays");
    ok(turn_keep(one, folder, (struct turn_needs){ 2, 0 }, &err) == 0, "or wants both");
    turn_look(two, folder, &both, &ahead);
    ok(ahead.stuck, "then, too");
    ok(turn_keep(two, folder, (struct turn_needs){ 1, 0 }, &err) == 0, "who keeps none");
    turn_look(two, folder, &both, &ahead);
    ok(!ahead.stuck, "is in nobody's way");
    turn_close(one);
    turn_close(two);
}

static void a_dead_one_is_in_nobodys_way(int folder, const struct stage *s)
{
    const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    const pid_t pid = stage_start("books/late.ipynb", 0, "2", NULL);
    struct gpu_turn *t = enter(folder, 1, &both);
    struct turn_ahead ahead;
    char place[512], want[128];

    turn_look(t, folder, &both, &ahead);
    snprintf(want, sizeof want, "late.ipynb (pid %ld, since ", (long)pid);
    ok(ahead.places == 1 && strstr(ahead.who, want), "who waits is told: %s", ahead.who);
    turn_close(t);
    t = enter(folder, 1, &both);
    stage_end(pid);
    is_ahead(t, folder, &both, 0, 0, "its place ends with it");
    turn_close(t);
    first_place(s, place);
    ok(utimensat(AT_FDCWD, place, old, 0) == 0, "its file is left: %s", place);
    is_ahead(NULL, folder, &both, 0, 0, "and counts for nothing");
    ok(access(place, F_OK) < 0, "it is removed later");
}

/* The folder's owner can do that. */
static void a_removed_place_is_made_again(int folder, const struct stage *s)
{
    struct gpu_turn *one = enter(folder, 2, &both), *two = enter(folder, 1, &both);
    struct err err = { "" };
    char place[512], command[600];

    first_place(s, place);
    ok(unlink(place) == 0 && turn_keep(one, folder, (struct turn_needs){ 2, 0 }, &err) == 0 &&
           access(place, F_OK) == 0,
       "it is there again: %s", err.text);
    is_ahead(one, folder, &both, 0, 0, "who was first stays so in his own eyes");
    ok(unlink(place) == 0, "it is removed");
    snprintf(command, sizeof command, "echo 'wants 4' >%s", place);
    ok(system(command) == 0 && turn_keep(one, folder, (struct turn_needs){ 2, 0 }, &err) == 0,
       "and somebody has put another one there: %s", err.text);
    is_ahead(one, folder, &both, 0, 0, "then, too");
    is_ahead(NULL, folder, &both, 2, 3, "what nobody has locked does not count");
    turn_close(one);
    turn_close(two);
    (void)unlink(place);
}

/* Its agent is stopped; or a program holds the file and does not care. */
static void a_silent_one_is_in_nobodys_way(int folder, const struct stage *s)
{
    struct gpu_turn *t = enter(folder, 2, &both), *next = enter(folder, 1, &both);
    char place[512];
    FILE *f;

    first_place(s, place);
    for (const char **at = (const char *[]){ "1", "999999999999", "x", NULL }; *at; at++) {
        f = fopen(place, "r+e");
        ok(f && fprintf(f, "wants 65535 holds 0     at %-12s", *at) > 0 && fclose(f) == 0,
           "it says %s", *at);
        is_ahead(next, folder, &both, 0, 0, "which is not now");
    }
    is_ahead(NULL, folder, &both, 1, 1, "nor does it count for who does not wait");
    ok(turn_renew(t) == 0, "it speaks again");
    is_ahead(next, folder, &both, 1, 2, "and has its place again");
    turn_close(t);
    turn_close(next);
}

/* The system may let others give a file a second name. */
static void a_second_name_counts_for_nothing(int folder, const struct stage *s)
{
    struct gpu_turn *t = enter(folder, 2, &both);
    char place[512], again[256];

    first_place(s, place);
    snprintf(again, sizeof again, "%s/wait.00000000000000000001.1", s->leases);
    ok(link(place, again) == 0, "the file has a second name");
    is_ahead(NULL, folder, &both, 1, 2, "which makes nobody wait longer");
    turn_close(t);
    (void)unlink(again);
}

static void a_process_of_another_user_is_not_blamed(int folder, const struct stage *s)
{
    struct gpu_turn *t = enter(folder, 2, &both);
    char place[512], first[256], text[256], want[96];
    struct turn_ahead ahead;
    FILE *f;
    int fd = -1;

    if (geteuid() != 0) {
        turn_close(t);
        skip("process 1 is ours");
        return;
    }
    first_place(s, place);
    snprintf(first, sizeof first, "%s/wait.00000000000000000001.999999999", s->leases);
    f = fopen(place, "re");
    ok(f && fgets(text, sizeof text, f) && strstr(text, " as wait."), "it says its name: %s", text);
    if (f)
        fclose(f);
    ok(rename(place, first) == 0 && (fd = open(first, O_WRONLY | O_CLOEXEC)) >= 0, "another one");
    snprintf(strstr(text, " as "), 60, " as %s\n" A "\n", strrchr(first, '/') + 1);
    ok(pwrite(fd, text, strlen(text), 0) > 0 && close(fd) == 0, "with the number of no process");
    turn_look(NULL, folder, &both, &ahead);
    snprintf(want, sizeof want, " (uid 0, file %s)", strrchr(first, '/') + 1);
    ok(ahead.places == 1 && strstr(ahead.who, want), "the file is named: %s", ahead.who);
    turn_close(t);
    (void)unlink(first);
}

static void plant(const char *dir, unsigned from, unsigned to, uid_t uid)
{
    char path[256];
    bool fine = true;

    for (unsigned k = from; k < to; k++) {
        snprintf(path, sizeof path, "%s/wait.%020u.7", dir, k);
        const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

        fine = fine && fd >= 0 && (geteuid() != 0 || fchown(fd, uid, uid) == 0);
        if (fd >= 0)
            close(fd);
    }
    ok(fine, "files of another user: %u", to - from);
}

/* /dev/shm lists the newest files first. */
static void many_files_hide_nobody(void)
{
    char dir[] = "/dev/shm/cellspan-turn-XXXXXX", command[64];
    const int folder = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct gpu_turn *t, *none;
    struct turn_ahead ahead;
    struct err err = { "" };

    if (folder < 0) {
        skip("no /dev/shm");
        return;
    }
    t = enter(folder, 2, &both);
    plant(dir, 0, 9000, 54321);
    is_ahead(NULL, folder, &both, 1, 2, "who waits is found among them");
    plant(dir, 9000, TURN_SEEN_MAX + 1, 54321);
    turn_look(NULL, folder, &both, &ahead);
    ok(ahead.cut && ahead.gpus >= both.n, "who may be hidden gets what he may want");
    none = turn_open(folder, (struct turn_needs){ 1, 0 }, &both, &err);
    ok(!none && strstr(err.text, TURN_CUT), "and nobody gets before him: %s", err.text);
    is_ahead(t, folder, &both, 0, 0, "who was there before goes on");
    turn_close(t);
    close(folder);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ok(system(command) == 0, "they are removed");
}

static void what_can_not_be_written_is_written_later(int folder)
{
    struct gpu_turn *t = enter(folder, 1, &both);
    struct rlimit before, none;
    struct err err = { "" };

    signal(SIGXFSZ, SIG_IGN);
    ok(getrlimit(RLIMIT_FSIZE, &before) == 0, "files have a limit");
    none = before;
    none.rlim_cur = 0;
    ok(setrlimit(RLIMIT_FSIZE, &none) == 0 &&
           turn_keep(t, folder, (struct turn_needs){ 2, 0 }, &err) < 0 &&
           setrlimit(RLIMIT_FSIZE, &before) == 0,
       "the file system is full: %s", err.text);
    ok(turn_keep(t, folder, (struct turn_needs){ 2, 0 }, &err) == 0, "it is no more");
    is_ahead(NULL, folder, &both, 1, 2, "then the others know");
    turn_close(t);
}

static void nothing_can_be_planted(int folder, const struct stage *s)
{
    char path[256], command[700];
    struct gpu_turn *t = enter(folder, 1, &both), *more[TURN_OF_USER];
    struct err err = { "" };

    snprintf(path, sizeof path, "%s/wait.0000000000000000000", s->leases);
    snprintf(command, sizeof command,
             "cd %s && mkfifo wait.00000000000000000001.1 && mkdir wait.00000000000000000002.1 && "
             "ln -s /etc/passwd wait.00000000000000000003.1 && echo wants 9 >wait.x && "
             "echo 'wants 9' >wait.00000000000000000004.1 && "
             "touch wait.99999999999999999999.1 wait.00000000000000000005.1.1 wait..1",
             s->leases);
    ok(system(command) == 0, "traps are set");
    is_ahead(NULL, folder, &both, 1, 1, "and not stepped into");
    turn_close(t);
    t = enter(folder, 1, &both);
    is_ahead(t, folder, &both, 0, 0, "nor by who waits");
    for (unsigned i = 0; i < TURN_OF_USER - 1; i++)
        more[i] = turn_open(folder, (struct turn_needs){ 1, 0 }, &both, &err);
    ok(more[TURN_OF_USER - 2] != NULL, "one user has so many places: %s", err.text);
    ok(!turn_open(folder, (struct turn_needs){ 1, 0 }, &both, &err) &&
           strstr(err.text, "no more can"),
       "and no more: %s", err.text);
    is_ahead(NULL, folder, &both, TURN_OF_USER, TURN_OF_USER, "they all count");
    for (unsigned i = 0; i < TURN_OF_USER - 1; i++)
        turn_close(more[i]);
    turn_close(t);
    snprintf(command, sizeof command, "rm -rf %s/wait.*", s->leases);
    ok(system(command) == 0, "the traps are gone");
}

static void another_user_can_do_nothing(int folder, const struct stage *s)
{
    struct gpu_turn *t;
    pid_t pid;
    char place[512], command[6000];

    if (geteuid() != 0) {
        skip("only root starts processes of other users");
        return;
    }
    ok(chmod(s->dir, 0755) == 0, "others may use the folder");
    t = enter(folder, 2, &both);
    first_place(s, place);
    snprintf(command, sizeof command,
             "setpriv --reuid 54321 --regid 54321 --clear-groups sh -c '"
             "rm -f %s; mv %s %s.x; echo wants 0 >%s; chmod 666 %s; flock -n %s true' 2>/dev/null",
             place, place, place, place, place, place);
    (void)!system(command);
    is_ahead(NULL, folder, &both, 1, 2, "nobody else removes or changes a place");
    turn_close(t);
    pid = stage_start("theirs.ipynb", 54321, "3", NULL);
    t = enter(folder, 2, &both);
    is_ahead(t, folder, &both, 1, 2, "and everybody has his own");
    stage_end(pid);
    is_ahead(t, folder, &both, 0, 0, "while it lives");
    turn_close(t);
}

static void any_allocation_may_fail(int folder)
{
    bool fine = true;
    long nth = 0;

    for (bool again = true; again && fine; nth++) {
        struct err err = { "" };
        struct turn_ahead ahead;
        struct gpu_turn *t;

        alloc_fail_at(nth);
        t = turn_open(folder, (struct turn_needs){ 1, 0 }, &both, &err);
        turn_look(t, folder, &both, &ahead);
        again = alloc_failed();
        alloc_fail_at(-1);
        fine = t || err.text[0];
        turn_close(t);
    }
    ok(fine && nth > 3, "each of %ld allocations may fail", nth);
}

int main(int argc, char **argv)
{
    struct stage s;
    struct err err = { "" };
    int folder;

    if (argc > 1)
        wait_for(argv[1]);
    stage_open(&s);
    ok(add(&both, A) == 0 && add(&both, B) == 0 && add(&only_a, A) == 0 && add(&only_b, B) == 0,
       "there are two GPUs");
    folder = lease_folder(&err);
    ok(folder >= 0, "the folder is made: %s", err.text);
    who_comes_first_is_served_first(folder);
    each_gets_what_will_do(folder);
    nobody_waits_for_who_waits_for_him(folder);
    a_dead_one_is_in_nobodys_way(folder, &s);
    a_removed_place_is_made_again(folder, &s);
    a_silent_one_is_in_nobodys_way(folder, &s);
    a_second_name_counts_for_nothing(folder, &s);
    a_process_of_another_user_is_not_blamed(folder, &s);
    what_can_not_be_written_is_written_later(folder);
    many_files_hide_nobody();
    nothing_can_be_planted(folder, &s);
    another_user_can_do_nothing(folder, &s);
    any_allocation_may_fail(folder);
    close(folder);
    gpus_release(&both);
    gpus_release(&only_a);
    gpus_release(&only_b);
    stage_close(&s);
    return plan_done();
}
