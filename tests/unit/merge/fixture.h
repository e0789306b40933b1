/* SPDX-License-Identifier: BSD-3-Clause */
/* fixture.h - a merge with a clock that the test sets; its whole output is one text. */
#ifndef TESTS_UNIT_MERGE_FIXTURE_H
#define TESTS_UNIT_MERGE_FIXTURE_H

#include <stdlib.h>

#include "base/buf.h"
#include "kernel/merge/merge.h"
#include "tests/unit/tap.h"

struct fixture {
    uint64_t now;
    struct clock clock;
    struct merge *m;
    struct buf got[2]; /* by stream */
    struct buf page;   /* both, in the order in which they came */
    struct buf bars;   /* the last report */
    unsigned reports;
    bool left; /* bars have become lines */
    int rc;    /* what out gives back */
    size_t blocks;
};

static uint64_t fixture_now(void *arg)
{
    return ((struct fixture *)arg)->now;
}

static int fixture_text(void *arg, unsigned stream, struct slice text)
{
    struct fixture *f = arg;

    f->blocks++;
    if (buf_add_slice(&f->page, text) < 0)
        return -1;
    return buf_add_slice(&f->got[stream - 1], text) < 0 ? -1 : f->rc;
}

static int fixture_progress(void *arg, struct slice text, bool left)
{
    struct fixture *f = arg;

    f->reports++;
    f->left = f->left || left;
    buf_clear(&f->bars);
    return buf_add_slice(&f->bars, text);
}

/* Ranks 0 to n - 1. shared: as in struct merge_out. */
static inline void fixture_init_as(struct fixture *f, enum plan_merge mode, unsigned n, bool shared)
{
    struct ranks world = RANKS_INIT;
    struct err err = { "" };

    *f = (struct fixture){ .now = NS_PER_S };
    f->clock = (struct clock){ .now_ns = fixture_now, .arg = f };
    if (ranks_add_range(&world, 0, n - 1) < 0)
        abort();
    f->m = merge_create(mode, &world, &f->clock,
                        (struct merge_out){ .text = fixture_text,
                                            .progress = fixture_progress,
                                            .arg = f,
                                            .shared = shared },
                        &err);
    ranks_release(&world);
    if (!f->m || buf_add_text(&f->got[0], "") < 0 || buf_add_text(&f->got[1], "") < 0 ||
        buf_add_text(&f->bars, "") < 0 || buf_add_text(&f->page, "") < 0)
        abort();
}

static inline void fixture_init(struct fixture *f, enum plan_merge mode, unsigned n)
{
    fixture_init_as(f, mode, n, false);
}

static inline void fixture_release(struct fixture *f)
{
    merge_destroy(f->m);
    buf_release(&f->got[0]);
    buf_release(&f->got[1]);
    buf_release(&f->bars);
    buf_release(&f->page);
}

static inline int fixture_feed(struct fixture *f, unsigned rank, unsigned stream, unsigned flags,
                               const char *text)
{
    struct err err = { "" };

    return merge_lines(f->m, rank, stream, flags, slice_text(text), &err);
}

static inline void fixture_print(struct fixture *f, unsigned rank, const char *text)
{
    if (fixture_feed(f, rank, 1, text[0] && text[strlen(text) - 1] == '\n' ? 0 : LINES_WITHIN,
                     text) < 0)
        ok(false, "rank %u prints", rank);
}

static inline void fixture_bar(struct fixture *f, unsigned rank, const char *text)
{
    if (fixture_feed(f, rank, 2, LINES_PROGRESS, text) < 0)
        ok(false, "rank %u draws", rank);
}

/* Lets time pass, with ticks when they are due. */
static inline void fixture_wait(struct fixture *f, unsigned ms)
{
    const uint64_t end = f->now + ms * NS_PER_MS;
    struct err err = { "" };

    while (merge_due_ns(f->m) <= end) {
        if (merge_due_ns(f->m) > f->now)
            f->now = merge_due_ns(f->m);
        if (merge_tick(f->m, &err) < 0)
            ok(false, "ticks");
        if (merge_due_ns(f->m) <= f->now) {
            ok(false, "what is due has left");
            return;
        }
    }
    f->now = end;
}

static inline void fixture_flush(struct fixture *f)
{
    struct err err = { "" };

    if (merge_flush(f->m, &err) < 0)
        ok(false, "flushes");
}

/* What was shown on both streams since the last call. */
static inline void fixture_page(struct fixture *f, const char *want, const char *sentence)
{
    is_text(f->page.p, want, "%s", sentence);
    buf_clear(&f->page);
}

/* What was shown on stdout since the last call. */
static inline void fixture_is(struct fixture *f, const char *want, const char *sentence)
{
    is_text(f->got[0].p, want, "%s", sentence);
    buf_clear(&f->got[0]);
}

#endif
