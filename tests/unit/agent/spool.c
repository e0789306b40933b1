/* SPDX-License-Identifier: BSD-3-Clause */
/* The spool on a disk that is full: a limit of the size of files stands for it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/unit/tap.h"
#include "worker/agent/output/spool.h"

#define CHUNK 200000u /* bytes: more than the spool collects before it writes */

static char text[CHUNK];

static void disk_is_full(bool full)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
        abort();
    limit.rlim_cur = full ? 0 : limit.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        abort();
}

static void add(struct spool *s, uint64_t cell, bool full)
{
    disk_is_full(full);
    spool_add(s, cell, SPOOL_HOME, 1, 0, slice_of(text, sizeof text));
    disk_is_full(false);
}

/* How many bytes of text of home the spool has of that cell. */
static size_t kept(struct spool *s, uint64_t cell, bool *lost)
{
    const struct ranks home = RANKS_INIT;
    struct buf out = BUF_INIT;
    uint64_t at = 0;
    bool more = false;
    size_t n;

    ok(spool_read(s, cell, &home, &at, 64 * CHUNK, &out, &more, lost) == 0 && !more, "it is read");
    n = out.n > 16 ? out.n - 16 : 0;
    buf_release(&out);
    return n;
}

static void text_that_finds_no_room_is_lost_and_later_text_is_kept(void)
{
    struct spool s;
    bool lost = false;

    spool_init(&s, NULL, 8u << 20);
    add(&s, 1, true);
    is_int(kept(&s, 1, &lost), 0, "a full disk keeps nothing");
    ok(lost, "and it is said to be lost");
    add(&s, 2, false);
    is_int(kept(&s, 2, &lost), CHUNK, "once there is room, text is kept again");
    ok(!lost, "and none of that cell is lost");
    spool_release(&s);
}

static void the_oldest_files_make_room(void)
{
    struct spool s;
    bool lost = false;

    spool_init(&s, NULL, 8u << 20);
    for (uint64_t cell = 1; cell <= 12; cell++)
        add(&s, cell, false);
    ok(s.n > 1, "there are several files");
    add(&s, 13, true);
    is_int(s.n, 0, "all of them make room, if that is not enough");
    (void)kept(&s, 13, &lost);
    ok(lost, "and the text is lost");
    (void)kept(&s, 12, &lost);
    ok(lost, "with that of the cells before");
    spool_release(&s);
}

int main(void)
{
    (void)signal(SIGXFSZ, SIG_IGN);
    memset(text, 'x', sizeof text);
    text_that_finds_no_room_is_lost_and_later_text_is_kept();
    the_oldest_files_make_room();
    return plan_done();
}
