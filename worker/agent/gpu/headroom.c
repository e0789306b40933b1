/* SPDX-License-Identifier: BSD-3-Clause */
/* headroom.c - see headroom.h. Each makes its claim first, and then looks at those of others: so of
 * two that come at once, one sees the other at least. Whose name is smaller waits a moment for who
 * gives up.
 *
 * A file is "BYTES at 1234567 as NAME". The name is there because another user may give the file a
 * second name, if the system lets him. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/agent/gpu/headroom.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "worker/agent/gpu/lease.h"

#define KIND      "park"
#define SEEN_MAX  32768u /* files of the folder that are looked at */
#define USERS_MAX 64u    /* with more of them, one more has all that `most` allows */
#define LASTS_S   330    /* no call of the driver is waited for longer */
#define TRIES     5      /* to see whether one whose name is larger gives up */
#define TRY_US    50000u

struct sums {
    struct sum {
        uid_t uid;
        uint64_t bytes;
    } of[USERS_MAX];
    unsigned n;
    uint64_t bytes, most;
};

static void add(struct sums *s, uid_t uid, uint64_t bytes)
{
    struct sum *one = NULL;

    for (unsigned i = 0; i < s->n && !one; i++)
        if (s->of[i].uid == uid)
            one = &s->of[i];
    if (!one && s->n < USERS_MAX) {
        one = &s->of[s->n++];
        *one = (struct sum){ uid, 0 };
    }
    if (one && bytes > s->most - one->bytes)
        bytes = s->most - one->bytes;
    if (one)
        one->bytes += bytes;
    s->bytes += bytes < UINT64_MAX - s->bytes ? bytes : UINT64_MAX - s->bytes;
}

/* false: it counts for nothing. */
static bool read_claim(int folder, const char *name, uid_t *uid, uint64_t *bytes)
{
    const long long now = claim_clock().tv_sec;
    char text[128], says[CLAIM_NAME];
    struct stat s;
    long long at;
    ssize_t n;
    int fd = claim_open(folder, name, &s);

    if (fd < 0) {
        claim_remove_old(folder, name);
        return false;
    }
    n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    *uid = s.st_uid;
    return sscanf(text, "%20" SCNu64 " at %12lld as %47s", bytes, &at, says) == 3 && at <= now &&
           now - at <= LASTS_S && strcmp(says, name) == 0;
}

static void say_who(const char *name, uid_t uid, char *out, size_t size)
{
    char user[LEASE_USER];

    (void)lease_user(uid, user);
    snprintf(out, size, "%s (uid %u, pid %s)", user, (unsigned)uid, strrchr(name, '.') + 1);
}

/* true: one of them has a smaller name than ours. */
static bool look(const struct headroom *r, uint64_t most, struct headroom_others *out)
{
    const int own = fcntl(r->folder, F_DUPFD_CLOEXEC, 0);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    struct sums sums = { .n = 0, .most = most };
    struct dirent *entry;
    bool smaller = false;
    unsigned seen = 0;

    *out = (struct headroom_others){ .bytes = 0 };
    if (dir)
        rewinddir(dir); /* the copy has the folder's position */
    else
        fd_close(&(int){ own });
    while (dir && seen++ < SEEN_MAX && (entry = readdir(dir))) {
        uint64_t bytes;
        uid_t uid;

        if (!claim_is_name(KIND, entry->d_name) || strcmp(entry->d_name, r->name) == 0 ||
            !read_claim(r->folder, entry->d_name, &uid, &bytes))
            continue;
        add(&sums, uid, bytes);
        smaller = smaller || strcmp(entry->d_name, r->name) < 0;
        say_who(entry->d_name, uid, out->who, sizeof out->who);
    }
    if (dir)
        closedir(dir);
    out->bytes = sums.bytes;
    return smaller;
}

static int reserve(struct headroom *r, uint64_t bytes)
{
    char text[128];
    int n;

    claim_name(KIND, r->name);
    n = snprintf(text, sizeof text, "%" PRIu64 " at %lld as %s\n", bytes,
                 (long long)claim_clock().tv_sec, r->name);
    r->fd = claim_make(r->folder, r->name);
    return r->fd >= 0 && pwrite(r->fd, text, (size_t)n, 0) == n ? 0 : -1;
}

bool headroom_take(struct headroom *r, uint64_t bytes, headroom_free_f is_free, void *arg,
                   uint64_t most, struct headroom_others *others)
{
    struct err err = { "" };

    *r = (struct headroom){ .folder = lease_folder(&err), .fd = -1 };
    if (r->folder < 0 || reserve(r, bytes) < 0) {
        log_warn("gpu", "memory for parked ranks is not reserved: %s",
                 err.text[0] ? err.text : strerror(errno));
        headroom_give_back(r);
        *others = (struct headroom_others){ .bytes = 0 };
        return true;
    }
    for (unsigned i = 0; i < TRIES; i++) {
        const bool smaller = look(r, most, others);
        const uint64_t all = is_free(arg); /* after that: who has ended meanwhile has taken it */

        if (others->bytes <= all && bytes <= all - others->bytes)
            return true;
        if (smaller)
            break;
        (void)usleep(TRY_US);
    }
    headroom_give_back(r);
    return false;
}

void headroom_give_back(struct headroom *r)
{
    if (r->fd >= 0)
        (void)unlinkat(r->folder, r->name, 0);
    fd_close(&r->fd);
    fd_close(&r->folder);
}
