/* SPDX-License-Identifier: BSD-3-Clause */
/* lease.c - see lease.h. Uses Linux's open file description locks. Unlike with flock(), one can
 * test them without taking them, so that a test never makes another's attempt fail. Other systems
 * use flock().
 *
 * Files are never removed: if one were unlinked while somebody waits for it, two could lock it. Any
 * user may write to a file, so its text is cleaned before it is shown, and only the lock counts.
 * Links, and files with a second name, are not used. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/agent/gpu/lease.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "base/settings.h"

#define NAME        "cellspan-gpu"
#define FILE_MODE   0666
#define FOLDER_MODE 01777
#define TRIES       3 /* in case a file is made or removed at the same moment */

/* ---- the folder ---- */

/* Another user may have made the folder. It must be sticky if all may write to it, so that nobody
 * can remove others' files. */
static int check_folder(int fd, const char *path, struct err *err)
{
    struct stat s;

    if (fstat(fd, &s) < 0)
        return err_set(err, "%s: %s", path, strerror(errno));
    if ((s.st_mode & S_IWOTH) && !(s.st_mode & S_ISVTX))
        return err_set(
            err,
            "%s, where GPUs are leased, is open to all but not sticky: run chmod 1777 %s, or use --share",
            path, path);
    return 0;
}

/* Does not change the mode of an existing folder: the user may have named it by mistake. */
static int make_folder(const char *path)
{
    /* the folder must be open to other users from its first moment on */
    const mode_t mask = umask(0);
    const int rc = mkdir(path, FOLDER_MODE);

    (void)umask(mask);
    return rc < 0 && errno != EEXIST ? -1 : 0;
}

static int open_folder(const char *path, bool make, struct err *err)
{
    int fd;

    if (make && make_folder(path) < 0)
        return err_set(err, "%s, where GPUs are leased, can't be made: %s", path, strerror(errno));
    if ((fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return err_set(
            err,
            "%s, where GPUs are leased, can't be opened: %s; remove it, or set CELLSPAN_GPU_LEASES to another "
            "folder for all users",
            path, strerror(errno));
    if (check_folder(fd, path, err) == 0)
        return fd;
    close(fd);
    return -1;
}

static const char *folder_path(void)
{
    const char *set = setting_text(SETTING_GPU_LEASES);
    struct stat s;

    if (set)
        return set;
    /* All users must choose the same folder, so the choice must not depend on their rights. */
    if (stat("/dev/shm", &s) == 0 && S_ISDIR(s.st_mode) && (s.st_mode & S_IWOTH))
        return "/dev/shm/" NAME;
    return "/tmp/" NAME;
}

int lease_folder(struct err *err)
{
    return open_folder(folder_path(), true, err);
}

int lease_folder_look(struct err *err)
{
    const char *path = folder_path();

    if (access(path, F_OK) < 0 && errno == ENOENT)
        return LEASE_NO_FOLDER;
    return open_folder(path, false, err);
}

bool lease_folder_is_there(int folder)
{
    struct stat s;

    return fstat(folder, &s) == 0 && s.st_nlink > 0;
}

/* ---- locks ---- */

int lease_lock(int fd, bool share)
{
#ifdef F_OFD_SETLK
    struct flock l = { .l_type = share ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return 1;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
#endif
    if (flock(fd, (share ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK ? 1 : -1;
}

bool lease_is_locked(int fd, bool share)
{
    bool held;

#ifdef F_OFD_GETLK
    struct flock l = { .l_type = share ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };

    if (fcntl(fd, F_OFD_GETLK, &l) == 0)
        return l.l_type != F_UNLCK;
#endif
    if ((held = lease_lock(fd, share) == 1) == false)
        (void)flock(fd, LOCK_UN);
    return held;
}

/* ---- a file ---- */

/* Is it a valid file name? The UUID is from the driver, but must not lead out of the folder. */
static bool is_name(const char *uuid)
{
    const size_t n = strlen(uuid);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)uuid[i]) && uuid[i] != '-')
            return false;
    return n > 0 && n < 128;
}

/* Tries without O_CREAT first: in a sticky folder, Linux refuses O_CREAT for other users' files
 * (fs.protected_regular). */
static int open_file(int folder, const char *uuid, bool make)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

    for (int i = 0; i < TRIES; i++) {
        int fd = openat(folder, uuid, flags);
        mode_t mask;

        if (fd >= 0 || errno != ENOENT || !make)
            return fd;
        mask = umask(0); /* other users must be able to lock it from its first moment on */
        fd = openat(folder, uuid, flags | O_CREAT | O_EXCL, FILE_MODE);
        (void)umask(mask);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* Does its owner keep others from opening it, by a lease of the system's (F_SETLEASE)? Without
 * O_NONBLOCK we would wait until he agrees. */
static bool is_kept(int why)
{
    return why == EAGAIN || why == EWOULDBLOCK;
}

/* Is it a regular file without a second name? Otherwise we might overwrite a file of somebody's.
 * But any user may give a second name to what all may write to, as they may to a lease's file. What
 * is in such a file, anybody can overwrite without us. */
static bool is_plain(int fd)
{
    struct stat s;

    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (s.st_nlink <= 1 || s.st_mode & S_IWOTH);
}

/* Does the name still lead to this file? A lock on a removed file has no effect on others. */
static bool is_named(int folder, const char *uuid, int fd)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && fstatat(folder, uuid, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

bool lease_user(uid_t uid, char out[static LEASE_USER])
{
    const char *login = uid == geteuid() ? getenv("LOGNAME") : NULL;

    out[0] = '\0';
#ifdef __linux__
    FILE *f = fopen("/etc/passwd", "re");
    const struct passwd *p;

    while (f && !out[0] && (p = fgetpwent(f)))
        if (p->pw_uid == uid)
            snprintf(out, LEASE_USER, "%s", p->pw_name);
    if (f)
        fclose(f);
#endif
    if (!out[0] && login && login[0])
        snprintf(out, LEASE_USER, "%s", login);
    if (out[0])
        return true;
    snprintf(out, LEASE_USER, "user %lu", (unsigned long)uid);
    return false;
}

/* A descriptor of the file for who shares it with one who keeps others from opening it. It can be
 * closed, and tell whether the name still leads to the file, but it can't be locked. */
static int open_unread(int folder, const char *uuid)
{
#ifdef O_PATH
    return openat(folder, uuid, O_PATH | O_NOFOLLOW | O_CLOEXEC);
#else
    (void)folder;
    (void)uuid;
    return -1;
#endif
}

static void write_holder(int fd)
{
    const time_t now = time(NULL);
    struct tm tm;
    char user[LEASE_USER], text[LEASE_HOLDER], when[16] = "?";
    int n;

    (void)lease_user(geteuid(), user);
    if (localtime_r(&now, &tm))
        (void)strftime(when, sizeof when, "%H:%M", &tm);
    n = snprintf(text, sizeof text, "%s (pid %ld, since %s)", user, (long)getpid(), when);
    /* The text is only for users; if the file system is full, it stays empty. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)n, 0);
}

static enum lease_result take_once(int folder, const char *uuid, bool share, int *fd,
                                   struct err *err)
{
    bool kept;
    int locked;

    *fd = open_file(folder, uuid, true);
    kept = *fd < 0 && is_kept(errno);
    if (kept && !share)
        return LEASE_HELD;
    if (kept)
        *fd = open_unread(folder, uuid);
    if (*fd < 0 || !is_plain(*fd)) {
        (void)err_set(
            err,
            "the lock file of %s can't be used: %s; remove it (see CELLSPAN_GPU_LEASES), or use --share",
            uuid, *fd < 0 ? strerror(errno) : "it is not a plain file with one name");
        lease_release(fd);
        return LEASE_FAILED;
    }
    locked = lease_lock(*fd, share);
    if (locked == 0) {
        write_holder(*fd);
        return LEASE_TAKEN;
    }
    if (share) /* the user asked to share: use the GPU even if somebody holds it exclusively */
        return LEASE_TAKEN;
    if (locked < 0)
        (void)err_set(err, "the lock file of %s can't be locked: %s", uuid, strerror(errno));
    lease_release(fd);
    return locked < 0 ? LEASE_FAILED : LEASE_HELD;
}

enum lease_result lease_take(int folder, const char *uuid, bool share, int *fd, struct err *err)
{
    *fd = -1;
    if (!is_name(uuid)) {
        (void)err_set(err, "\"%.100s\" is not the UUID of a GPU", uuid);
        return LEASE_FAILED;
    }
    for (int i = 0; i < TRIES; i++) {
        const enum lease_result result = take_once(folder, uuid, share, fd, err);

        if (result != LEASE_TAKEN || is_named(folder, uuid, *fd))
            return result;
        lease_release(fd);
    }
    (void)err_set(
        err,
        "the lock file of %s is removed as soon as it is there; set CELLSPAN_GPU_LEASES to another folder "
        "for all users, or use --share",
        uuid);
    return LEASE_FAILED;
}

enum lease_result lease_keep(int folder, const char *uuid, bool share, int *fd, struct err *err)
{
    enum lease_result result;
    int fresh;

    if (is_named(folder, uuid, *fd)) {
        /* an exclusive holder may be gone now; it may have kept us from opening the file */
        if (!share || lease_lock(*fd, true) >= 0 || errno != EBADF)
            return LEASE_TAKEN;
    }
    if ((result = lease_take(folder, uuid, share, &fresh, err)) == LEASE_TAKEN) {
        lease_release(fd);
        *fd = fresh;
    }
    return result;
}

void lease_release(int *fd)
{
    fd_close(fd);
}

static void clean(char *text)
{
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

bool lease_look(int folder, const char *uuid, bool share, struct lease_state *out)
{
    int fd = is_name(uuid) ? open_file(folder, uuid, false) : -1;
    const bool kept = is_name(uuid) && fd < 0 && is_kept(errno);
    struct stat s;
    ssize_t n;

    *out = (struct lease_state){ .held = false };
    if (kept)
        out->held = fstatat(folder, uuid, &s, AT_SYMLINK_NOFOLLOW) == 0;
    else if (fd >= 0 && is_plain(fd) && fstat(fd, &s) == 0)
        out->held = lease_is_locked(fd, share);
    if (out->held) {
        n = kept ? 0 : pread(fd, out->said, LEASE_HOLDER - 1, 0);
        out->said[n > 0 ? n : 0] = '\0';
        clean(out->said);
        if (!out->said[0])
            snprintf(out->said, LEASE_HOLDER, "somebody");
        out->device = s.st_dev;
        out->file = s.st_ino;
        out->written = s.st_mtime;
    }
    fd_close(&fd);
    return out->held;
}
