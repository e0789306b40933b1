/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/runtime.h, base/random.h, base/clock.h and base/log.h. */
#include "base/runtime.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/settings.h"
#include "tests/unit/tap.h"

static int touch(const char *dir, const char *name, mode_t mode)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0)
        return -1;
    (void)fchmod(fd, mode);
    return close(fd);
}

static int held[16];
static unsigned n_held;

/* A folder, held until the program ends. */
static char *make(struct err *err)
{
    return runtime_dir_create(&held[n_held++ % 16], err);
}

static void what_nobody_holds_is_swept(void)
{
    char base[] = "/tmp/cellspan-sweep-XXXXXX", other[200], path[300];
    struct err err = { "" };
    struct stat st;
    char *left, *living, *shared;
    int lock[3], second;

    if (!mkdtemp(base))
        return;
    setenv("XDG_RUNTIME_DIR", base, 1);
    left = runtime_dir_create(&lock[0], &err);
    living = runtime_dir_create(&lock[1], &err);
    shared = runtime_dir_create(&lock[2], &err);
    snprintf(other, sizeof other, "%s/cellspan-12-notes", base);
    if (!left || !living || !shared || mkdir(other, 0700) < 0 || touch(left, "socket", 0600) < 0)
        return;
    second = runtime_dir_hold(shared);
    ok(lock[0] >= 0 && second >= 0, "a folder can be held by two");
    close(lock[0]);
    close(lock[2]);
    runtime_sweep();
    ok(stat(left, &st) < 0, "what nobody holds any more is removed");
    ok(stat(living, &st) == 0 && stat(shared, &st) == 0 && stat(other, &st) == 0,
       "what somebody holds is not, nor what is no such folder");
    close(second);
    close(lock[1]);
    snprintf(path, sizeof path, "%s/lock", living);
    ok(unlink(path) == 0 && touch(living, "file", 0600) == 0 && runtime_dir_hold(living) < 0,
       "one that has lost its lock");
    runtime_sweep();
    ok(stat(shared, &st) < 0 && stat(living, &st) == 0, "is left alone, unless it is empty");
    ok(runtime_dir_remove(base, &err) == 0, "all is cleaned up");
    unsetenv("XDG_RUNTIME_DIR");
    free(left);
    free(living);
    free(shared);
}

static enum runtime_dir_state state_without_descriptors(const char *dir)
{
    enum runtime_dir_state state;
    struct rlimit was, none;

    if (getrlimit(RLIMIT_NOFILE, &was) < 0)
        return RUNTIME_DIR_FREE;
    none = was;
    none.rlim_cur = 0;
    if (setrlimit(RLIMIT_NOFILE, &none) < 0)
        return RUNTIME_DIR_FREE;
    state = runtime_dir_state(dir);
    return setrlimit(RLIMIT_NOFILE, &was) == 0 ? state : RUNTIME_DIR_FREE;
}

static void it_is_known_who_holds_a_folder(void)
{
    char base[] = "/tmp/cellspan-held-XXXXXX", path[300];
    struct err err = { "" };
    char *dir;
    int lock;

    if (!mkdtemp(base))
        return;
    setenv("XDG_RUNTIME_DIR", base, 1);
    if (!ok((dir = runtime_dir_create(&lock, &err)), "a folder %s", err.text))
        return;
    is_int(runtime_dir_state(dir), RUNTIME_DIR_HELD, "its maker holds it");
    is_int(state_without_descriptors(dir), RUNTIME_DIR_UNKNOWN,
           "who can't open it does not know whether");
    if (geteuid() == 0) {
        ok(chown(dir, 1, (gid_t)-1) == 0, "a folder of another user");
        is_int(runtime_dir_state(dir), RUNTIME_DIR_FREE, "is not ours, whoever holds it");
        ok(chown(dir, 0, (gid_t)-1) == 0, "it is ours again");
    }
    close(lock);
    is_int(runtime_dir_state(dir), RUNTIME_DIR_FREE, "its maker has ended");
    snprintf(path, sizeof path, "%s/lock", dir);
    ok(unlink(path) == 0 && runtime_dir_state(dir) == RUNTIME_DIR_FREE, "it has no lock");
    ok(rmdir(dir) == 0 && runtime_dir_state(dir) == RUNTIME_DIR_FREE, "there is none");
    ok(symlink("/tmp", dir) == 0 && runtime_dir_state(dir) == RUNTIME_DIR_FREE,
       "a link has its name");
    ok(runtime_dir_remove(base, &err) == 0, "all is cleaned up");
    unsetenv("XDG_RUNTIME_DIR");
    free(dir);
}

/* Other processes sweep while a folder is made: then it gets another name. */
static void a_new_folder_is_there(void)
{
    char base[] = "/tmp/cellspan-sweep-XXXXXX";
    struct err err = { "" };
    pid_t sweeper[3];
    unsigned made = 0, there = 0;

    if (!mkdtemp(base))
        return;
    setenv("XDG_RUNTIME_DIR", base, 1);
    for (unsigned i = 0; i < 3; i++)
        if ((sweeper[i] = fork()) == 0)
            for (;;)
                runtime_sweep();
    for (; made < 2000; made++) {
        int lock;
        char *dir = runtime_dir_create(&lock, &err);

        there += dir && access(dir, F_OK) == 0;
        (void)!runtime_dir_remove(dir, &err);
        free(dir);
        close(lock);
    }
    for (unsigned i = 0; i < 3; i++)
        if (sweeper[i] > 0 && kill(sweeper[i], SIGKILL) == 0)
            (void)waitpid(sweeper[i], NULL, 0);
    is_int(there, made, "no new folder is swept before it is locked");
    unsetenv("XDG_RUNTIME_DIR");
    rmdir(base);
}

static void a_directory_is_made_for_us_alone(void)
{
    struct err err = { "" };
    struct stat st;
    char *dir = make(&err), *other = make(&err);
    char *path;

    if (!ok(dir && other && strcmp(dir, other) != 0, "each call makes a directory of its own (%s)",
            err.text))
        return;
    ok(stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700,
       "only its owner may enter %s", dir);
    path = runtime_path(dir, "agents", &err);
    ok(path && strlen(path) < 104, "a socket's path fits (%s)", path);
    free(path);
    ok(runtime_dir_remove(other, &err) == 0 && stat(other, &st) < 0, "it can be removed");
    ok(runtime_dir_remove(other, &err) == 0 && runtime_dir_remove(NULL, &err) == 0,
       "removing what is not there is fine");
    ok(runtime_dir_remove(dir, &err) == 0, "the other too");
    free(dir);
    free(other);
}

static void all_within_is_removed_and_nothing_else(void)
{
    struct err err = { "" };
    struct stat st;
    char *dir = make(&err), *outside = make(&err);
    char sub[4096], link[4096 + 16];

    if (!dir || !outside || touch(outside, "precious", 0600) < 0)
        return;
    snprintf(sub, sizeof sub, "%s/a", dir);
    snprintf(link, sizeof link, "%s/a/link", dir);
    ok(mkdir(sub, 0700) == 0 && touch(sub, "file", 0400) == 0 && touch(dir, "file", 0600) == 0 &&
           symlink(outside, link) == 0,
       "there are files, a folder and a link to elsewhere");
    ok(runtime_dir_remove(dir, &err) == 0 && stat(dir, &st) < 0, "all of it is removed (%s)",
       err.text);
    snprintf(sub, sizeof sub, "%s/precious", outside);
    ok(stat(sub, &st) == 0, "what the link pointed to is not");
    ok(runtime_dir_remove(outside, &err) == 0, "that is cleaned up");
    ok(runtime_dir_remove("/proc/self", &err) < 0 && err.text[0],
       "what can't be removed is told: %s", err.text);
    free(dir);
    free(outside);
}

static void a_long_place_is_passed_over(void)
{
    char deep[200];
    struct err err = { "" }, path_err = { "" };
    char *dir, *path;

    snprintf(deep, sizeof deep, "/tmp/cellspan-test-%ld-%0100d", (long)getpid(), 0);
    if (mkdir(deep, 0700) < 0)
        return;
    setenv("XDG_RUNTIME_DIR", deep, 1);
    setenv("TMPDIR", "relative", 1);
    dir = make(&err);
    ok(dir && strncmp(dir, "/tmp/cellspan-", 14) == 0 && strlen(dir) < 60,
       "sockets need a short path: %s", dir);
    ok(runtime_dir_remove(dir, &err) == 0, "which is removed");
    path = runtime_path(deep, "socket", &path_err);
    ok(!path && strstr(path_err.text, "TMPDIR"), "a path that is too long is told: %s",
       path_err.text);
    unsetenv("XDG_RUNTIME_DIR");
    free(dir);
    (void)rmdir(deep);
}

static void programs_are_found(void)
{
    struct err err = { "" }, none = { "" }, slash = { "" };
    char *dir = make(&err), *found;
    char want[4096];

    if (!dir || touch(dir, "cellspan-test-program", 0700) < 0 ||
        touch(dir, "cellspan-no-program", 0600) < 0)
        return;
    snprintf(want, sizeof want, "%s/cellspan-test-program", dir);
    ok(!runtime_find("cellspan-test-program", &none) && strstr(none.text, "CELLSPAN_LIBEXECDIR"),
       "%s", none.text);
    setenv("CELLSPAN_LIBEXECDIR", dir, 1);
    found = runtime_find("cellspan-test-program", &err);
    is_text(found, want, "a program is found where the environment says");
    free(found);
    ok(!runtime_find("cellspan-no-program", NULL), "a file that can't be executed is no program");
    unsetenv("CELLSPAN_LIBEXECDIR");
    found = runtime_find("runtime.t", &err);
    ok(found && access(found, X_OK) == 0, "one beside us is found (%s)", found);
    free(found);
    found = runtime_find("sh", &err);
    ok(found && strstr(found, "/sh"), "one on PATH is found (%s)", found);
    free(found);
    ok(!runtime_find("../sh", &slash), "%s", slash.text);
    found = runtime_near("../base/runtime.t");
    ok(found && found[0] == '/' && access(found, X_OK) == 0 && !strstr(found, ".."),
       "what is near us is found (%s)", found);
    free(found);
    ok(!runtime_near("../no/such/folder"), "and what is not there is not");
    ok(runtime_dir_remove(dir, &err) == 0, "all is cleaned up");
    free(dir);
}

static void random_things_differ(void)
{
    char a[UUID_TEXT_SIZE], b[UUID_TEXT_SIZE];
    unsigned char bytes[32] = { 0 }, zero[32] = { 0 };

    random_uuid(a);
    random_uuid(b);
    ok(strlen(a) == 36 && a[14] == '4' && strcmp(a, b) != 0, "UUIDs are random ones, and differ");
    random_bytes(bytes, sizeof bytes);
    ok(memcmp(bytes, zero, sizeof bytes) != 0 && random_u64() != random_u64(),
       "so do bytes and numbers");
}

static void time_goes_on(void)
{
    const uint64_t before = clock_now(&clock_system);
    char now[32];
    bool good;

    ok(clock_now(&clock_system) >= before && before > 0, "the clock never goes back");
    clock_iso8601(now);
    good = strlen(now) == 27 && now[10] == 'T' && now[19] == '.' && now[26] == 'Z';
    for (unsigned i = 20; good && i < 26; i++)
        good = isdigit((unsigned char)now[i]);
    ok(good, "the time is written as Jupyter does: %s", now);
}

/* What the log wrote to its file, which is removed. */
static void read_log(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
    (void)unlink(path);
}

static void the_log_is_escaped_and_chosen_by_level(void)
{
    struct err err = { "" };
    char *dir = make(&err);
    char path[4096], setting[4096 + 16], text[16384], long_text[6000];

    if (!dir)
        return;
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(setting, sizeof setting, "info:%s", path);
    setenv("CELLSPAN_LOG", setting, 1);
    settings_open_log("test");
    errno = EPERM;
    log_debug("room", "not shown");
    log_info("room", "rank %d said \"%s\"", 3, "a\nb\x1b[31m\xc3\xbc");
    ok(errno == EPERM, "logging leaves errno alone");
    memset(long_text, '\n', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    log_warn("room", "%s", long_text);
    unsetenv("CELLSPAN_LOG");
    settings_open_log("test");
    log_warn("room", "without the setting only errors are shown");
    read_log(path, text, sizeof text);
    ok(strstr(text, "info room: rank 3 said \"a\\nb\\x1b[31m\xc3\xbc\"\n"),
       "a line says level and room, escaped");
    ok(strstr(text, "test[") && !strstr(text, "not shown"),
       "and the process; lower levels are left out");
    ok(strchr(strchr(text, '\n') + 1, '\n') == text + strlen(text) - 1 && strlen(text) < 4300,
       "a long line is cut, and is one");
    ok(runtime_dir_remove(dir, &err) == 0, "all is cleaned up");
    free(dir);
}

int main(void)
{
    struct err err = { "" };

    ok(random_open(&err) == 0, "there are random numbers (%s)", err.text);
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("CELLSPAN_LIBEXECDIR");
    what_nobody_holds_is_swept();
    it_is_known_who_holds_a_folder();
    a_new_folder_is_there();
    a_directory_is_made_for_us_alone();
    all_within_is_removed_and_nothing_else();
    a_long_place_is_passed_over();
    programs_are_found();
    random_things_differ();
    time_goes_on();
    the_log_is_escaped_and_chosen_by_level();
    return plan_done();
}
