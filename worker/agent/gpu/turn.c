/* SPDX-License-Identifier: BSD-3-Clause */
/* turn.c - see turn.h. A file's name begins with the time since the machine's start at which its
 * notebook came, which no change of the clock moves. Who comes first? Those whose files were there
 * when ours had been made, and whose names are smaller. So of two that come at once, one waits for
 * the other and never both, and a name that is made up later gets nobody before us: we remember who
 * was there.
 *
 * The first line of a file is "wants 2 holds 1 at 1234567 as NAME". Its agent renews the time once
 * a second, so a place whose agent is stopped is in nobody's way. The name is there because another
 * user may give the file a second name, if the system lets him.
 *
 * The owner of the folder can remove files. Then a place is made again. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/agent/gpu/turn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/process.h"
#include "worker/agent/gpu/claim.h"
#include "worker/agent/gpu/lease.h"

#define KIND      "wait"
#define TEXT_MAX  (32u << 10) /* bytes of a file that are read: it may list GPUS_MAX GPUs */
#define WANTS_MAX 65535u
#define SILENT_S  10 /* a place whose agent has said nothing for so long does not count */

struct place {
    char name[CLAIM_NAME];
    uid_t uid;
    ino_t file;
};

struct places {
    struct place *of; /* owned, n of them */
    size_t n;
    bool cut; /* there may be more */
};

struct gpu_turn {
    int fd, folder; /* our file; a copy of the folder's descriptor */
    char name[CLAIM_NAME];
    char *gpus; /* owned: a line for each GPU that will do */
    struct turn_needs needs;
    struct places ahead;
};

/* ---- files of others ---- */

static int by_name(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Of one user the first TURN_OF_USER are kept, however many files he has there. */
static int add_listed(struct places *all, const struct place *one)
{
    struct place *last = NULL, *more;
    unsigned same = 0;

    for (size_t i = 0; i < all->n; i++)
        if (all->of[i].uid == one->uid && ++same && (!last || by_name(&all->of[i], last) > 0))
            last = &all->of[i];
    if (same >= TURN_OF_USER) {
        if (by_name(one, last) < 0)
            *last = *one;
        return 0;
    }
    if ((all->n & (all->n - 1)) == 0) {
        if (!(more = realloc(all->of, (all->n ? 2 * all->n : 1) * sizeof *more)))
            return -1;
        all->of = more;
    }
    all->of[all->n++] = *one;
    return 0;
}

static int look_at_entry(struct places *all, int folder, const char *name)
{
    struct place one;
    struct stat s;
    int fd = claim_open(folder, name, &s);

    if (fd < 0) {
        claim_remove_old(folder, name);
        return 0;
    }
    close(fd);
    one.uid = s.st_uid;
    one.file = s.st_ino;
    memcpy(one.name, name, strlen(name) + 1);
    return add_listed(all, &one);
}

/* All places that are held, the smallest name first; the caller frees all->of. -1: memory is out.
 */
static int list_places(int folder, const char *but, struct places *all)
{
    const int own = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    struct dirent *entry;
    unsigned seen = 0;
    int rc = dir ? 0 : -1;

    *all = (struct places){ NULL, 0, false };
    if (dir)
        rewinddir(dir); /* the copy has the folder's position */
    while (rc == 0 && (entry = readdir(dir)) && !(all->cut = seen++ == TURN_SEEN_MAX))
        if (claim_is_name(KIND, entry->d_name) && !(but && strcmp(entry->d_name, but) == 0))
            rc = look_at_entry(all, folder, entry->d_name);
    if (dir)
        closedir(dir);
    else if (own >= 0)
        close(own);
    if (rc == 0 && all->n)
        qsort(all->of, all->n, sizeof *all->of, by_name);
    return rc;
}

/* ---- our file ---- */

static int make_file(struct gpu_turn *t)
{
    int fd = claim_make(t->folder, t->name);

    if (fd < 0)
        return -1;
    fd_close(&t->fd);
    t->fd = fd;
    return 0;
}

static unsigned at_most(unsigned gpus)
{
    return gpus < WANTS_MAX ? gpus : WANTS_MAX;
}

static int write_file(struct gpu_turn *t, struct turn_needs needs)
{
    struct buf text = BUF_INIT;
    int rc = -1;

    errno = ENOSPC; /* of a write that ends early */
    /* one write: a reader finds the old text or the new one */
    if (buf_addf(&text, "wants %-5u holds %-5u at %-12lld as %s\n%s", at_most(needs.wants),
                 at_most(needs.holds), (long long)claim_clock().tv_sec, t->name, t->gpus) == 0 &&
        pwrite(t->fd, text.p, text.n, 0) == (ssize_t)text.n) {
        t->needs = needs;
        rc = 0;
    }
    buf_release(&text);
    return rc;
}

int turn_renew(struct gpu_turn *t)
{
    return write_file(t, t->needs);
}

static char *uuid_lines(const struct gpus *gpus)
{
    struct buf text = BUF_INIT;
    int rc = buf_add_text(&text, "");

    for (size_t i = 0; rc == 0 && i < gpus->n; i++)
        rc = buf_addf(&text, "%s\n", gpus->v[i].uuid);
    if (rc == 0 && text.n)
        return buf_take(&text);
    buf_release(&text);
    return NULL;
}

/* Those that are there now with smaller names. -1: memory is out, or there is no room for us. */
static int remember(struct gpu_turn *t, struct err *err)
{
    unsigned same = 0;
    size_t kept = 0;

    if (list_places(t->folder, t->name, &t->ahead) < 0)
        return err_set(err, "out of memory");
    if (t->ahead.cut)
        return err_set(err,
                       "the folder of the leases has more than %u files, so who waits for GPUs is "
                       "not known: remove the files whose names begin with " KIND ".",
                       TURN_SEEN_MAX);
    for (size_t i = 0; i < t->ahead.n; i++) {
        same += t->ahead.of[i].uid == geteuid();
        if (strcmp(t->ahead.of[i].name, t->name) < 0)
            t->ahead.of[kept++] = t->ahead.of[i];
    }
    t->ahead.n = kept;
    if (same >= TURN_OF_USER)
        return err_set(err, "%u notebooks of this user wait for GPUs already; no more can",
                       TURN_OF_USER);
    return 0;
}

struct gpu_turn *turn_open(int folder, struct turn_needs needs, const struct gpus *gpus,
                           struct err *err)
{
    struct gpu_turn *t = calloc(1, sizeof *t);

    if (!t)
        return err_null(err, "out of memory");
    t->fd = -1;
    t->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    claim_name(KIND, t->name);
    if (t->folder < 0 || !(t->gpus = uuid_lines(gpus))) {
        (void)err_set(err, "out of memory");
    } else if (make_file(t) < 0 || write_file(t, needs) < 0) {
        (void)err_set(err, "a place among those who wait for GPUs can't be made: %s",
                      strerror(errno));
    } else if (remember(t, err) == 0) {
        return t;
    }
    turn_close(t);
    return NULL;
}

int turn_keep(struct gpu_turn *t, int folder, struct turn_needs needs, struct err *err)
{
    int own;

    if (!claim_is_there(t->folder, t->name, t->fd)) {
        if ((own = fcntl(folder, F_DUPFD_CLOEXEC, 3)) < 0)
            return err_set(err, "%s", strerror(errno));
        fd_close(&t->folder);
        t->folder = own;
        if (make_file(t) < 0) { /* somebody has put another one there */
            claim_name(KIND, t->name);
            if (make_file(t) < 0)
                return err_set(err, "%s", strerror(errno));
        }
    }
    return write_file(t, needs) < 0 ? err_set(err, "%s", strerror(errno)) : 0;
}

void turn_close(struct gpu_turn *t)
{
    if (!t)
        return;
    if (t->fd >= 0 && claim_is_there(t->folder, t->name, t->fd))
        (void)unlinkat(t->folder, t->name, 0);
    fd_close(&t->fd);
    fd_close(&t->folder);
    free(t->gpus);
    free(t->ahead.of);
    free(t);
}

/* ---- who comes first ---- */

/* Each that will do has a line of its own. */
static bool names(const char *text, const struct gpu *one)
{
    char line[GPU_TEXT + 3];

    snprintf(line, sizeof line, "\n%s\n", one->uuid);
    return strstr(text, line) != NULL;
}

static unsigned count_named(const char *text, const struct gpus *gpus)
{
    unsigned n = 0;

    for (size_t i = 0; i < gpus->n; i++)
        n += names(text, &gpus->v[i]);
    return n;
}

/* false: none is free of those that will do. */
static bool keep_for(const char *text, unsigned wants, const struct gpus *gpus, const bool *is_free,
                     bool *kept)
{
    unsigned left = wants;

    for (size_t i = gpus->n; left && i-- > 0;)
        if (is_free[i] && !kept[i] && names(text, &gpus->v[i])) {
            kept[i] = true;
            left--;
        }
    return left < wants;
}

/* When it came, as its name says; but not before its process was started. */
static time_t came(const char *name, long pid)
{
    const time_t up = claim_clock().tv_sec, now = time(NULL);
    const long long at = strtoll(name + sizeof KIND, NULL, 10) / 1000000000;
    const time_t ago = at < up ? up - (time_t)at : 0;
    uint64_t age_ns = 0;

    if (process_age(pid, &age_ns) && ago > (time_t)(age_ns / NS_PER_S))
        return now - (time_t)(age_ns / NS_PER_S);
    return now - ago;
}

/* The number of the process is its user's word: of a process that is not his we name the file. */
static void say_who(const struct place *one, char out[static TURN_WHO])
{
    const long pid = strtol(strrchr(one->name, '.') + 1, NULL, 10);
    char user[LEASE_USER], notebook[LEASE_NOTEBOOK] = "", when[LEASE_TIME];
    uid_t uid;

    (void)lease_user(one->uid, user);
    if (!process_uid(pid, &uid) || uid != one->uid) {
        snprintf(out, TURN_WHO, "%s (uid %u, file %s)", user, (unsigned)one->uid, one->name);
        return;
    }
    (void)lease_notebook(pid, notebook);
    lease_time(came(one->name, pid), when);
    snprintf(out, TURN_WHO, "%s%s%s (pid %ld, since %s)", user, notebook[0] ? ", " : "", notebook,
             pid, when);
}

/* What the place's text says of these GPUs. false: it is in nobody's way. */
static bool read_needs(const char *text, const struct place *one, const struct gpus *gpus,
                       struct turn_needs *out)
{
    const long long now = claim_clock().tv_sec;
    char name[CLAIM_NAME];
    unsigned named;
    long long at;

    if (sscanf(text, "wants %5u holds %5u at %12lld as %47s", &out->wants, &out->holds, &at,
               name) != 4 ||
        at > now || now - at > SILENT_S || strcmp(name, one->name) != 0)
        return false;
    named = count_named(text, gpus);
    if (out->wants > named)
        out->wants = named;
    if (out->holds > named)
        out->holds = named;
    return out->wants > 0;
}

/* false: it is held no more, or it is another file. *needs: all 0 if it is in nobody's way. */
static bool read_place(int folder, const struct place *one, const struct gpus *gpus, char *text,
                       struct turn_needs *needs)
{
    struct stat s;
    int fd = claim_open(folder, one->name, &s);
    ssize_t n;

    *needs = (struct turn_needs){ 0, 0 };
    if (fd < 0 || s.st_ino != one->file || s.st_uid != one->uid) {
        fd_close(&fd);
        return false;
    }
    n = pread(fd, text, TEXT_MAX, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    if (!read_needs(text, one, gpus, needs))
        *needs = (struct turn_needs){ 0, 0 };
    return true;
}

/* Those ahead get GPUs one after the other, and then free what they hold. Would one of them wait
 * for what we keep while we wait for him? Who comes behind us has to look at that himself. */
static void find_stuck(const struct gpu_turn *t, const struct turn_needs *needs, size_t gpus,
                       struct turn_ahead *out)
{
    size_t all = t->needs.holds, free_now;

    for (size_t i = 0; i < t->ahead.n; i++)
        all += needs[i].holds;
    if (!t->needs.holds || !t->needs.wants || all > gpus)
        return;
    free_now = gpus - all;
    for (size_t i = 0; i < t->ahead.n; i++) {
        if (needs[i].wants > free_now && needs[i].wants <= free_now + t->needs.holds) {
            out->stuck = true;
            say_who(&t->ahead.of[i], out->who);
            return;
        }
        free_now += needs[i].holds;
    }
}

void turn_look(struct gpu_turn *t, int folder, const struct gpus *gpus, struct turn_ahead *out)
{
    turn_keep_for(t, folder, gpus, NULL, NULL, out);
}

void turn_keep_for(struct gpu_turn *t, int folder, const struct gpus *gpus, const bool *is_free,
                   bool *kept_gpus, struct turn_ahead *out)
{
    struct places all = { NULL, 0, false }, *from = t ? &t->ahead : &all;
    char *text = malloc(TEXT_MAX + 1);
    struct turn_needs *needs = NULL, one;
    size_t kept = 0;
    bool some = false;

    *out = (struct turn_ahead){ .places = 0 };
    for (size_t i = 0; is_free && i < gpus->n; i++)
        kept_gpus[i] = false;
    if (!t && list_places(folder, NULL, &all) < 0)
        all.n = 0;
    if (text && (needs = calloc(from->n + 1, sizeof *needs))) {
        for (size_t i = 0; i < from->n; i++) {
            if (!read_place(t ? t->folder : folder, &from->of[i], gpus, text, &one))
                continue;
            if (one.wants && !out->places++)
                say_who(&from->of[i], out->who);
            if (is_free && one.wants && keep_for(text, one.wants, gpus, is_free, kept_gpus) &&
                !some) {
                some = true;
                say_who(&from->of[i], out->who);
            }
            out->gpus = at_most(out->gpus + one.wants);
            needs[kept] = one;
            from->of[kept++] = from->of[i];
        }
        from->n = kept;
        if (t)
            find_stuck(t, needs, gpus->n, out);
    }
    if (all.cut) { /* all may be wanted by those that we have not seen */
        out->cut = true;
        out->gpus = WANTS_MAX;
        for (size_t i = 0; is_free && i < gpus->n; i++)
            kept_gpus[i] = is_free[i];
    }
    free(all.of);
    free(needs);
    free(text);
}
