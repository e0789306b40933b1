/* SPDX-License-Identifier: BSD-3-Clause */
/* Two notebooks never share a GPU unless they ask to; the GPUs of a dead notebook are free. */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/process.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/lease_holders.h"

#define UUID "GPU-a0011234-0000-4000-8000-0123456789ab"

/* A directory whose server does not answer: whoever asks it waits for ever. */
static unsigned asked;

struct passwd *getpwuid(uid_t uid)
{
    (void)uid;
    asked++;
    return NULL;
}

/* Another notebook's agent: takes the GPU, and holds it until it is killed. */
static _Noreturn void hold(bool share)
{
    struct err err = { "" };
    int lease, folder = lease_folder(&err);

    stage_is_up(lease_take(folder, UUID, share, &lease, &err) == LEASE_TAKEN);
}

static pid_t other(bool share, const char *notebook)
{
    return stage_start(notebook, 0, share ? "share" : "alone", NULL);
}

static bool is_listed(const json_t *told, pid_t pid)
{
    const json_t *lease = json_object_get(json_object_get(told, "leases"), UUID), *one;
    size_t i;

    json_array_foreach (json_object_get(lease, "holders"), i, one)
        if (json_integer_value(json_object_get(one, "pid")) == pid &&
            json_integer_value(json_object_get(one, "uid")) == getuid())
            return true;
    return false;
}

static void holders_are_listed(void)
{
    const pid_t pid = other(true, "one.ipynb"), second = other(true, "two.ipynb");
    json_t *told = lease_holders_list(NULL);

    ok(is_listed(told, pid) && is_listed(told, second), "who holds it is listed, by the system");
    json_decref(told);
    stage_end(pid);
    told = lease_holders_list(NULL);
    ok(!is_listed(told, pid) && is_listed(told, second), "until it ends");
    json_decref(told);
    stage_end(second);
    told = lease_holders_list(NULL);
    ok(told && json_object_size(json_object_get(told, "leases")) == 0,
       "what nobody holds is no lease");
    json_decref(told);
}

/* As many as are listed at all, and two more. Leases are found by their GPUs' names all the same.
 */
static void plants_hide_nobody(int folder)
{
    const pid_t pid = other(false, "one.ipynb");
    json_t *gpus = json_pack("[{s:s}, {s:s}]", "uuid", "GPU-none", "uuid", UUID), *told;
    struct rlimit files = { 0 };
    struct err err = { "" };
    int fd[GPUS_MAX + 2];
    char name[64];
    bool planted = getrlimit(RLIMIT_NOFILE, &files) == 0;

    files.rlim_cur = files.rlim_max;
    planted = planted && setrlimit(RLIMIT_NOFILE, &files) == 0;
    for (unsigned i = 0; i < GPUS_MAX + 2; i++) {
        snprintf(name, sizeof name, "GPU-planted-%u", i);
        planted = lease_take(folder, name, false, &fd[i], &err) == LEASE_TAKEN && planted;
    }
    told = lease_holders_list(NULL);
    ok(planted && json_is_true(json_object_get(told, "cut")) &&
           json_object_size(json_object_get(told, "leases")) == GPUS_MAX,
       "too many leases are cut, and that is told %s", err.text);
    json_decref(told);
    told = lease_holders_list(gpus);
    ok(is_listed(told, pid) && json_object_size(json_object_get(told, "leases")) == 1 &&
           json_is_false(json_object_get(told, "cut")),
       "but those of the machine's GPUs are found");
    json_decref(told);
    json_decref(gpus);
    for (unsigned i = 0; i < GPUS_MAX + 2; i++) {
        lease_release(&fd[i]);
        snprintf(name, sizeof name, "GPU-planted-%u", i);
        (void)unlinkat(folder, name, 0);
    }
    stage_end(pid);
}

/* Another user's process, which root may look at. */
static void descriptors_hide_nobody(int folder)
{
    const pid_t pid = other(false, "one.ipynb");
    struct err err = { "" };
    int ends[2], fd = -1;
    json_t *told;
    pid_t many;
    char one;

    if (pipe(ends) < 0 || (many = fork()) < 0)
        abort();
    if (many == 0) {
        for (unsigned i = 0; i < 1100; i++)
            (void)!dup(ends[0]);
        if (setgid(64001) == 0 && setuid(64001) == 0 &&
            lease_take(folder, "GPU-many", false, &fd, &err) == LEASE_TAKEN && fd > 1024)
            (void)!write(ends[1], "k", 1);
        pause();
        _exit(0);
    }
    close(ends[1]);
    ok(read(ends[0], &one, 1) == 1, "another user has many descriptors");
    close(ends[0]);
    told = lease_holders_list(NULL);
    ok(is_listed(told, pid), "who holds another lease is listed");
    ok(json_is_true(
           json_object_get(json_object_get(json_object_get(told, "leases"), "GPU-many"), "cut")),
       "of a process, only some descriptors are looked at, and that is told");
    json_decref(told);
    stage_end(many);
    told = lease_holders_list(NULL);
    ok(json_is_false(
           json_object_get(json_object_get(json_object_get(told, "leases"), UUID), "cut")),
       "else it is told that all were looked at");
    json_decref(told);
    (void)unlinkat(folder, "GPU-many", 0);
    stage_end(pid);
}

static enum lease_result take(int folder, bool share, int *fd)
{
    struct err err = { "" };

    return lease_take(folder, UUID, share, fd, &err);
}

static void death_gives_back(int folder)
{
    const pid_t pid = other(false, "digits.ipynb");
    char holder[LEASE_HOLDER], want[64];
    int fd;

    snprintf(want, sizeof want, "digits.ipynb (pid %ld, since ", (long)pid);
    ok(take(folder, false, &fd) == LEASE_HELD && fd < 0, "what another one holds is not given");
    ok(lease_holder(folder, UUID, false, holder) && strstr(holder, want),
       "who holds it is told: %s", holder);
    ok(lease_holder(folder, UUID, false, holder), "looking takes nothing away");
    stage_end(pid);
    ok(!lease_holder(folder, UUID, false, holder) && !holder[0],
       "nobody holds it when the owner was killed");
    ok(take(folder, false, &fd) == LEASE_TAKEN, "and it is given");
    ok(lease_holder(folder, UUID, false, holder) && strstr(holder, "mine.ipynb"),
       "with a new name on it: %s", holder);
    ok(asked == 0 && strncmp(holder, "somebody", 8) != 0,
       "whose it is is told without asking a directory of users");
    lease_release(&fd);
    ok(!lease_holder(folder, UUID, false, holder), "and back");
    lease_release(&fd);
}

static void plant(const struct stage *s, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", s->leases, UUID);
    f = fopen(path, "re+");
    ok(f && ftruncate(fileno(f), 0) == 0 && fputs(text, f) >= 0 && fclose(f) == 0, "planted: %s",
       text);
}

/* Every user may write to the file, and its text may be old. */
static void what_is_written_is_not_believed(const struct stage *s, int folder)
{
    const pid_t pid = other(false, "work/digits.ipynb"), gone = fork();
    const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    char holder[LEASE_HOLDER], text[128], want[128], path[256], user[LEASE_USER], now[LEASE_TIME];
    const time_t before = time(NULL);

    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    snprintf(path, sizeof path, "%s/%s", s->leases, UUID);
    snprintf(text, sizeof text, "root, secret.ipynb (pid %ld, since 00:00)", (long)pid);
    plant(s, text);
    utimensat(AT_FDCWD, path, old, 0);
    (void)lease_user(getuid(), user);
    lease_time(before - 1, now);
    (void)lease_holder(folder, UUID, false, holder);
    snprintf(want, sizeof want, "%s, digits.ipynb (pid %ld, since ", user, (long)pid);
    ok(strncmp(holder, want, strlen(want)) == 0 &&
           strlen(holder) == strlen(want) + strlen("00:00)"),
       "the system says who it is, and that it has not run for years: %s (%s)", holder, now);
    snprintf(text, sizeof text, "ann (pid %ld, since 00:00)", (long)getpid());
    plant(s, text);
    (void)lease_holder(folder, UUID, false, holder);
    is_text(holder, "somebody", "a process of ours that has not got it is not named");
    snprintf(text, sizeof text, "ann (pid %ld, since 00:00)", (long)gone);
    plant(s, text);
    (void)lease_holder(folder, UUID, false, holder);
    is_text(holder, text, "of one that cannot be seen there is only the text");
    stage_end(pid);
}

static void sharing_must_be_asked_for(int folder)
{
    const pid_t pid = other(true, "");
    char holder[LEASE_HOLDER];
    int fd, second;

    ok(take(folder, false, &fd) == LEASE_HELD, "what is shared can't be had alone");
    ok(take(folder, true, &fd) == LEASE_TAKEN && take(folder, true, &second) == LEASE_TAKEN,
       "who shares as well gets it, twice");
    ok(!lease_holder(folder, UUID, true, holder) && lease_holder(folder, UUID, false, holder),
       "both can be seen");
    lease_release(&fd);
    lease_release(&second);
    stage_end(pid);
    ok(take(folder, false, &fd) == LEASE_TAKEN && take(folder, false, &second) == LEASE_HELD,
       "not even to ourselves twice");
    ok(take(folder, true, &second) == LEASE_TAKEN,
       "who asks for it shares what another one holds alone");
    lease_release(&fd);
    lease_release(&second);
}

static void refuses(int folder, const char *name, const char *says)
{
    struct err err = { "" };
    int fd;

    ok(lease_take(folder, name, false, &fd, &err) == LEASE_FAILED && fd < 0 &&
           strstr(err.text, says),
       "%s: %s", name, err.text);
}

/* What a user of the same machine may have prepared. */
static void traps_are_avoided(const struct stage *s, int folder)
{
    char victim[128], holder[LEASE_HOLDER], at[192];
    struct stat st;
    FILE *f;

    snprintf(victim, sizeof victim, "%s/victim", s->dir);
    f = fopen(victim, "we");
    fputs("precious", f);
    fclose(f);
    ok(symlinkat(victim, folder, "GPU-link") == 0 &&
           linkat(AT_FDCWD, victim, folder, "GPU-hard", 0) == 0 &&
           mkfifoat(folder, "GPU-fifo", 0666) == 0 && mkdirat(folder, "GPU-dir", 0777) == 0,
       "traps are set");
    refuses(folder, "GPU-link", "GPU-link");
    refuses(folder, "GPU-hard", "not a plain file");
    refuses(folder, "GPU-fifo", "not a plain file");
    refuses(folder, "GPU-dir", "GPU-dir");
    refuses(folder, "../victim", "not the UUID");
    refuses(folder, "", "not the UUID");
    ok(!lease_holder(folder, "GPU-link", false, holder) &&
           !lease_holder(folder, "../victim", false, holder),
       "nor are they looked at");
    ok(stat(victim, &st) == 0 && st.st_size == 8, "the victim is as it was");
    snprintf(at, sizeof at, "%s/%s", s->leases, UUID);
    f = fopen(at, "we");
    fputs("\033[31mevil\n", f);
    fclose(f);
    {
        const pid_t pid = other(false, "\a\n");

        ok(lease_holder(folder, UUID, false, holder) && !strpbrk(holder, "\a\n\033"),
           "what others write is shown cleaned: %s", holder);
        stage_end(pid);
    }
}

/* Linux lets any user do that to a file that he may write to. */
static void a_second_name_changes_nothing(int folder)
{
    char holder[LEASE_HOLDER];
    struct lease_state state;
    int fd, second;

    ok(take(folder, false, &fd) == LEASE_TAKEN && linkat(folder, UUID, folder, "second", 0) == 0,
       "the file of a lease has a second name");
    ok(lease_look(folder, UUID, false, &state) && lease_holder(folder, UUID, false, holder) &&
           take(folder, false, &second) == LEASE_HELD,
       "the lease is seen, and keeps others away: %s", holder);
    lease_release(&fd);
    ok(take(folder, false, &fd) == LEASE_TAKEN, "afterwards somebody else can have it");
    lease_release(&fd);
    (void)unlinkat(folder, "second", 0);
}

static enum lease_result keep(int folder, bool share, int *fd, struct err *err)
{
    err->text[0] = '\0';
    return lease_keep(folder, UUID, share, fd, err);
}

/* As systemd-logind does with what a user has in /dev/shm when he logs out. */
static void removed_files_are_replaced(int folder)
{
    char holder[LEASE_HOLDER], want[64];
    struct err err;
    struct stat st;
    pid_t pid;
    int fd, second;

    ok(take(folder, false, &fd) == LEASE_TAKEN && keep(folder, false, &fd, &err) == LEASE_TAKEN,
       "a lease is looked after");
    ok(unlinkat(folder, UUID, 0) == 0 && keep(folder, false, &fd, &err) == LEASE_TAKEN &&
           take(folder, false, &second) == LEASE_HELD && lease_holder(folder, UUID, false, holder),
       "its file was removed: it is there again, and keeps others away: %s", err.text);
    ok(unlinkat(folder, UUID, 0) == 0, "once more");
    pid = other(false, "digits.ipynb");
    snprintf(want, sizeof want, "digits.ipynb (pid %ld, since ", (long)pid);
    ok(keep(folder, false, &fd, &err) == LEASE_HELD && fd >= 0 &&
           lease_holder(folder, UUID, false, holder) && strstr(holder, want),
       "who was faster is known: %s", holder);
    stage_end(pid);
    ok(keep(folder, false, &fd, &err) == LEASE_TAKEN && take(folder, false, &second) == LEASE_HELD,
       "and followed");
    lease_release(&fd);

    ok(fstatat(folder, UUID, &st, 0) == 0 && (st.st_mode & 07777) == 0666, "files are for all");
    ok(lease_folder_is_there(folder), "the folder is there");
}

static void who_shares_gets_a_lock_later(int folder)
{
    const pid_t pid = other(false, "");
    char holder[LEASE_HOLDER];
    struct err err;
    int fd, second;

    ok(take(folder, true, &fd) == LEASE_TAKEN && keep(folder, true, &fd, &err) == LEASE_TAKEN,
       "what another one holds is shared");
    stage_end(pid);
    ok(!lease_holder(folder, UUID, false, holder) && keep(folder, true, &fd, &err) == LEASE_TAKEN &&
           lease_holder(folder, UUID, false, holder) && take(folder, false, &second) == LEASE_HELD,
       "once that one is gone, nobody else can have it alone");
    lease_release(&fd);
}

#ifdef F_SETLEASE
/* The owner of a file can keep others from opening it. */
static void who_keeps_the_file_holds_it(int folder)
{
    char holder[LEASE_HOLDER];
    struct err err;
    json_t *told;
    int ends[2], fd, second;
    char one;
    pid_t pid;

    if (pipe(ends) < 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        (void)signal(SIGIO, SIG_IGN);
        if (take(folder, false, &fd) == LEASE_TAKEN && fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
            (void)!write(ends[1], "k", 1);
        pause();
        _exit(0);
    }
    close(ends[1]);
    ok(read(ends[0], &one, 1) == 1, "another one keeps it");
    close(ends[0]);
    ok(take(folder, false, &fd) == LEASE_HELD && fd < 0, "then it is held");
    ok(lease_holder(folder, UUID, false, holder), "and that is told: %s", holder);
    told = lease_holders_list(NULL);
    ok(is_listed(told, pid), "with who it is");
    json_decref(told);
    ok(take(folder, true, &fd) == LEASE_TAKEN && keep(folder, true, &fd, &err) == LEASE_TAKEN,
       "who asks for it shares it %s", err.text);
    stage_end(pid);
    ok(keep(folder, true, &fd, &err) == LEASE_TAKEN && take(folder, false, &second) == LEASE_HELD,
       "and has a lock once that one is gone %s", err.text);
    lease_release(&fd);
}
#else
static void who_keeps_the_file_holds_it(int folder)
{
    (void)folder;
}
#endif

static void folder_is_checked(const struct stage *s)
{
    const mode_t mask = umask(077);
    struct err err = { "" };
    char path[128];
    struct stat st;
    int fd = -1;

    ok(stat(s->leases, &st) == 0 && (st.st_mode & 07777) == 01777, "the folder is for all");
    snprintf(path, sizeof path, "%s/mine", s->dir);
    ok(mkdir(path, 0700) == 0 && setenv("CELLSPAN_GPU_LEASES", path, 1) == 0 &&
           (fd = lease_folder(&err)) >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0700,
       "one that was there before stays as private as it was: %o", (unsigned)st.st_mode);
    ok(rmdir(path) == 0 && !lease_folder_is_there(fd) && close(fd) == 0 &&
           (fd = lease_folder(&err)) >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 01777,
       "and one that is made is for all, whatever the umask: %o", (unsigned)st.st_mode);
    close(fd);
    (void)umask(mask);
    snprintf(path, sizeof path, "%s/link", s->dir);
    ok(symlink(s->leases, path) == 0 && setenv("CELLSPAN_GPU_LEASES", path, 1) == 0 &&
           lease_folder(&err) < 0,
       "a link is none: %s", err.text);
    err.text[0] = '\0';
    snprintf(path, sizeof path, "%s/no/where", s->dir);
    ok(setenv("CELLSPAN_GPU_LEASES", path, 1) == 0 && lease_folder(&err) < 0 &&
           strstr(err.text, path),
       "nor one that can't be made: %s", err.text);
    setenv("CELLSPAN_GPU_LEASES", s->leases, 1);
}

int main(int argc, char **argv)
{
    struct stage s;
    struct err err = { "" };
    int folder;

    if (argc > 1)
        hold(strcmp(argv[1], "share") == 0);
    setenv("JPY_SESSION_NAME", "work/mine.ipynb", 1);
    stage_open(&s);
    folder = lease_folder(&err);
    ok(folder >= 0, "the folder is made: %s", err.text);
    death_gives_back(folder);
    what_is_written_is_not_believed(&s, folder);
    holders_are_listed();
    if (geteuid() == 0)
        descriptors_hide_nobody(folder);
    plants_hide_nobody(folder);
    sharing_must_be_asked_for(folder);
    traps_are_avoided(&s, folder);
    a_second_name_changes_nothing(folder);
    removed_files_are_replaced(folder);
    who_shares_gets_a_lock_later(folder);
    who_keeps_the_file_holds_it(folder);
    folder_is_checked(&s);
    close(folder);
    stage_close(&s);
    return plan_done();
}
