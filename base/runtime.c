/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "base/process.h"
#include "base/random.h"
#include "base/settings.h"

#define SOCKET_PATH_MAX 103u /* sun_path holds 108 bytes on Linux, 104 on macOS; one is the NUL */
#define SOCKET_NAME_MAX 24u  /* bytes reserved for file names in the folder */
#define DEPTH_MAX       64u
#define PLACES          3u

#ifndef CELLSPAN_PYTHONDIR
#define CELLSPAN_PYTHONDIR ""
#endif

/* ---- the directory ---- */

#define LOCK  "lock"
#define TRIES 8

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* flags: O_CREAT | O_EXCL to make it. */
static int open_lock(int dir, int flags)
{
    return dir < 0 ? -1 : openat(dir, LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

/* Creates and locks the lock file. false: another process has swept the folder before that. */
static bool lock_new(const char *dir, int *lock)
{
    int fd = open_dir(AT_FDCWD, dir);
    struct stat st;

    *lock = open_lock(fd, O_CREAT | O_EXCL);
    fd_close(&fd);
    if (*lock >= 0 && flock(*lock, LOCK_SH | LOCK_NB) == 0 && fstat(*lock, &st) == 0 &&
        st.st_nlink > 0) /* else it was swept between open and flock */
        return true;
    fd_close(lock);
    return false;
}

/* 1: made; 0: not here, try the next place; -1: memory is out. */
static int create_under(const char *base, char **dir, int *lock)
{
    struct buf path = BUF_INIT;

    *dir = NULL;
    if (!base || base[0] != '/')
        return 0;
    for (int k = 0; k < TRIES; k++) {
        buf_clear(&path);
        if (buf_addf(&path, "%s/cellspan-%ld-%08" PRIx32, base, (long)getpid(),
                     (uint32_t)random_u64()) < 0) {
            buf_release(&path);
            return -1;
        }
        if (path.n + 1 + SOCKET_NAME_MAX > SOCKET_PATH_MAX || mkdir(path.p, 0700) < 0)
            break;
        if (lock_new(path.p, lock)) {
            *dir = buf_take(&path);
            return *dir ? 1 : -1;
        }
        (void)rmdir(path.p);
    }
    buf_release(&path);
    return 0;
}

static void places(const char *place[static PLACES])
{
    place[0] = getenv("XDG_RUNTIME_DIR");
    place[1] = getenv("TMPDIR");
    place[2] = "/tmp";
}

char *runtime_dir_create(int *lock, struct err *err)
{
    const char *place[PLACES];
    char *dir;

    *lock = -1;
    places(place);
    for (unsigned i = 0; i < PLACES; i++) {
        const int rc = create_under(place[i], &dir, lock);

        if (rc < 0)
            return err_null(err, "out of memory");
        if (rc > 0)
            return dir;
    }
    return err_null(
        err,
        "can't make a runtime directory under $XDG_RUNTIME_DIR, $TMPDIR or /tmp: %s; set TMPDIR to "
        "a directory with a short path that you may write to",
        strerror(errno));
}

int runtime_dir_hold(const char *dir)
{
    int fd = open_dir(AT_FDCWD, dir), lock = open_lock(fd, 0);

    fd_close(&fd);
    if (lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0)
        fd_close(&lock);
    return lock;
}

/* Why it could not be opened: there is none, or something else has its name. */
static enum runtime_dir_state state_unopened(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP ? RUNTIME_DIR_FREE
                                                                 : RUNTIME_DIR_UNKNOWN;
}

/* In /tmp others may make a folder of the same name when ours is gone. */
static enum runtime_dir_state state_of(int dir)
{
    enum runtime_dir_state state = RUNTIME_DIR_FREE;
    struct stat st;
    int lock;

    if (fstat(dir, &st) < 0)
        return RUNTIME_DIR_UNKNOWN;
    if (st.st_uid != geteuid())
        return RUNTIME_DIR_FREE;
    if ((lock = open_lock(dir, 0)) < 0)
        return state_unopened(errno);
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        state = errno == EWOULDBLOCK ? RUNTIME_DIR_HELD : RUNTIME_DIR_UNKNOWN;
    fd_close(&lock);
    return state;
}

enum runtime_dir_state runtime_dir_state(const char *dir)
{
    int fd = open_dir(AT_FDCWD, dir);
    const enum runtime_dir_state state = fd < 0 ? state_unopened(errno) : state_of(fd);

    fd_close(&fd);
    return state;
}

static int remove_entries(int dir, unsigned depth);

/* Removes `name` in the directory `at`, whatever it is. */
static int remove_entry(int at, const char *name, unsigned depth)
{
    int dir;
    int rc;

    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    if ((dir = open_dir(at, name)) < 0)
        return -1;
    rc = remove_entries(dir, depth + 1);
    return unlinkat(at, name, AT_REMOVEDIR) < 0 ? -1 : rc;
}

/* Closes `dir`. Continues after a failure, so that as little as possible is left. */
static int remove_entries(int dir, unsigned depth)
{
    const struct dirent *entry;
    DIR *d;
    int rc = 0;

    if (depth > DEPTH_MAX || !(d = fdopendir(dir))) {
        (void)close(dir);
        return -1;
    }
    while ((entry = readdir(d)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            remove_entry(dirfd(d), entry->d_name, depth) < 0)
            rc = -1;
    (void)closedir(d);
    return rc;
}

int runtime_dir_remove(const char *dir, struct err *err)
{
    int fd;

    if (!dir)
        return 0;
    if ((fd = open_dir(AT_FDCWD, dir)) < 0)
        return errno == ENOENT ? 0 : err_set(err, "can't remove %s: %s", dir, strerror(errno));
    (void)remove_entries(fd, 0);
    if (rmdir(dir) < 0 && errno != ENOENT)
        return err_set(err, "can't remove %s: %s", dir, strerror(errno));
    return 0;
}

/* ---- sweeping ---- */

/* Is it cellspan-PID-RANDOM? We must not remove anything else there. */
static bool is_runtime_dir(const char *name)
{
    static const char start[] = "cellspan-";
    const char *at = name + sizeof start - 1;
    size_t n;

    if (strncmp(name, start, sizeof start - 1) != 0 || !(n = strspn(at, "0123456789")) ||
        at[n] != '-')
        return false;
    return strspn(at + n + 1, "0123456789abcdef") == 8 && at[n + 9] == '\0';
}

static bool is_mine(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

/* A folder without a lock is empty or just being made. If it is being made, either our rmdir fails
 * or its maker tries another name. */
static void sweep(int place, const char *name)
{
    int fd = open_dir(place, name), lock = -1;

    if (fd < 0)
        return;
    if (is_mine(fd)) {
        lock = open_lock(fd, 0);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
            (void)remove_entries(fd, 0);
            fd = -1;
        }
        if (fd < 0 || (lock < 0 && errno == ENOENT))
            (void)unlinkat(place, name, AT_REMOVEDIR);
    }
    fd_close(&lock);
    fd_close(&fd);
}

static void sweep_place(const char *path)
{
    DIR *d = path && path[0] == '/' ? opendir(path) : NULL;
    const struct dirent *entry;

    while (d && (entry = readdir(d)))
        if (is_runtime_dir(entry->d_name))
            sweep(dirfd(d), entry->d_name);
    if (d)
        (void)closedir(d);
}

static void each_in(const char *path, void (*f)(void *arg, const char *dir), void *arg)
{
    DIR *d = path && path[0] == '/' ? opendir(path) : NULL;
    const struct dirent *entry;
    char dir[SOCKET_PATH_MAX + 1];

    while (d && (entry = readdir(d))) {
        int fd = is_runtime_dir(entry->d_name) ? open_dir(dirfd(d), entry->d_name) : -1;
        const int n = snprintf(dir, sizeof dir, "%s/%s", path, entry->d_name);

        if (fd >= 0 && is_mine(fd) && n > 0 && (size_t)n < sizeof dir)
            f(arg, dir);
        fd_close(&fd);
    }
    if (d)
        (void)closedir(d);
}

void runtime_each(void (*f)(void *arg, const char *dir), void *arg)
{
    const char *place[PLACES + 1];
    char usual[40];

    places(place);
    snprintf(usual, sizeof usual, "/run/user/%lu", (unsigned long)geteuid());
    place[PLACES] = usual;
    for (unsigned i = 0; i <= PLACES; i++) {
        bool again = false;

        for (unsigned k = 0; k < i; k++)
            again = again || (place[i] && place[k] && strcmp(place[i], place[k]) == 0);
        if (!again)
            each_in(place[i], f, arg);
    }
}

void runtime_sweep(void)
{
    const char *place[PLACES];

    places(place);
    for (unsigned i = 0; i < PLACES; i++)
        sweep_place(place[i]);
}

char *runtime_path(const char *dir, const char *name, struct err *err)
{
    struct buf path = BUF_INIT;

    if (strlen(dir) + 1 + strlen(name) > SOCKET_PATH_MAX)
        return err_null(
            err,
            "%s/%s is longer than the %u bytes that a socket's path may have; set TMPDIR to a "
            "directory with a shorter path",
            dir, name, SOCKET_PATH_MAX);
    if (buf_addf(&path, "%s/%s", dir, name) < 0)
        return err_null(err, "out of memory");
    return buf_take(&path);
}

/* ---- our programs ---- */

/* Appends the path of the running executable; nothing if it can't be found out. */
static int add_self(struct buf *out)
{
    char path[4096];
#ifdef __APPLE__
    uint32_t size = sizeof path;

    return _NSGetExecutablePath(path, &size) == 0 ? buf_add_text(out, path) : 0;
#else
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);

    return n > 0 && (size_t)n < sizeof path ? buf_add(out, path, (size_t)n) : 0;
#endif
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* 1: *found is the path, owned by the caller; 0: not there; -1: memory is out. Appends the folder
 * to `tried` if it is not there. */
static int search_folder(struct slice dir, const char *program, char **found, struct buf *tried)
{
    struct buf path = BUF_INIT;

    if (dir.n == 0)
        return 0;
    if (buf_addf(&path, "%.*s/%s", SLICE_ARG(dir), program) < 0)
        return -1;
    if (is_program(path.p)) {
        *found = buf_take(&path);
        return 1;
    }
    buf_release(&path);
    return buf_addf(tried, "%s%.*s", tried->n ? ", " : "", SLICE_ARG(dir)) < 0 ? -1 : 0;
}

/* Sets *out to the folder of the running executable; empty if it can't be found out. */
static int add_own_folder(struct buf *out)
{
    const char *slash;

    if (add_self(out) < 0)
        return -1;
    slash = out->p ? strrchr(out->p, '/') : NULL;
    out->n = slash ? (size_t)(slash - out->p) : 0;
    return 0;
}

static int search_beside_self(const char *program, char **found, struct buf *tried)
{
    struct buf self = BUF_INIT;
    int rc = add_own_folder(&self);

    if (rc == 0 && self.n)
        rc = search_folder(buf_slice(&self), program, found, tried);
    if (rc == 0 && self.n)
        rc = buf_add_text(&self, "/../libexec/cellspan") < 0
                 ? -1
                 : search_folder(buf_slice(&self), program, found, tried);
    buf_release(&self);
    return rc;
}

static int search_path(const char *program, char **found, struct buf *tried)
{
    struct slice path = slice_text(getenv("PATH"));
    struct buf unused = BUF_INIT;
    int rc = 0;

    while (path.n && rc == 0)
        rc = search_folder(slice_cut(&path, ':'), program, found, &unused);
    buf_release(&unused);
    return rc == 0 && buf_addf(tried, "%sPATH", tried->n ? ", " : "") < 0 ? -1 : rc;
}

char *runtime_on_path(const char *program)
{
    struct buf unused = BUF_INIT;
    char *found = NULL;

    (void)search_path(program, &found, &unused);
    buf_release(&unused);
    return found;
}

char *runtime_python(void)
{
    struct buf unused = BUF_INIT;
    char *found = NULL;

    if (search_beside_self("cellspan-python", &found, &unused) == 0)
        (void)search_beside_self("python3", &found, &unused);
    buf_release(&unused);
    return found;
}

static int search_everywhere(const char *program, char **found, struct buf *tried)
{
    int rc = search_folder(slice_text(setting_text(SETTING_LIBEXECDIR)), program, found, tried);

    if (rc == 0)
        rc = search_beside_self(program, found, tried);
#ifdef CELLSPAN_LIBEXECDIR
    if (rc == 0)
        rc = search_folder(slice_text(CELLSPAN_LIBEXECDIR), program, found, tried);
#endif
    return rc == 0 ? search_path(program, found, tried) : rc;
}

char *runtime_find(const char *program, struct err *err)
{
    struct buf tried = BUF_INIT;
    char *found = NULL;
    int rc;

    if (strchr(program, '/'))
        return err_null(err, "'%s' is not a program's name", program);
    rc = search_everywhere(program, &found, &tried);
    if (rc == 0)
        (void)err_set(
            err,
            "there is no %s (looked in %s); is cellspan installed whole? CELLSPAN_LIBEXECDIR names its "
            "directory",
            program, tried.p ? tried.p : "");
    else if (rc < 0 || !found)
        (void)err_set(err, "out of memory");
    buf_release(&tried);
    return found;
}

char *runtime_near(const char *path)
{
    struct buf near = BUF_INIT;
    char *found = NULL;

    if (add_own_folder(&near) == 0 && near.n && buf_addf(&near, "/%s", path) == 0)
        found = realpath(near.p, NULL);
    buf_release(&near);
    return found;
}

/* The package of an agent's own installation; NULL: there is none, or this is another program. */
static char *package_of_libexec(void)
{
    char *own = runtime_near("../../libexec/cellspan"), *here = own ? runtime_near(".") : NULL;
    char *package = here && strcmp(own, here) == 0
                        ? runtime_near("../../lib/cellspan/python/cellspan/..")
                        : NULL;

    free(own);
    free(here);
    return package;
}

char *runtime_package(void)
{
    const char *set = setting_text(SETTING_PYTHONPATH);
    char *own;

    if (set)
        return strdup(set);
    /* another version may be where this one was made for, if it was sent to this machine */
    if ((own = package_of_libexec()))
        return own;
    if (access(CELLSPAN_PYTHONDIR "/cellspan", X_OK) == 0)
        return strdup(CELLSPAN_PYTHONDIR);
    /* the installation may have been copied or moved */
    return runtime_near("../../lib/cellspan/python");
}
