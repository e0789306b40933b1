/* Any allocation may fail: the call returns an error; nothing leaks, crashes or is half done. */
#include "tests/unit/chaos.h"
#include "tests/unit/merge/fixture.h"

#include "kernel/merge/pace.h"

/* Feeds a bit of everything; returns whether a call failed. */
static bool scenario(struct fixture *f, struct err *err)
{
    static const struct piece {
        unsigned rank, stream, flags;
        const char *text;
    } pieces[] = {
        { 0, 1, 0, "a\nb\n" },
        { 1, 1, 0, "a\n" },
        { 1, 2, 0, "err \xff\n" },
        { 0, 1, 0, "┌─┐\n│a│\n" },
        { 0, 1, 0, "└─┘\n\x1b[?25lb\n" },
        { 1, 1, 0, "┌─┐\n" },
        { 2, 1, LINES_WITHIN, "part" },
        { 1, 2, LINES_PROGRESS, "\r10%\r20%" },
        { 2, 1, 0, "ial\nb\n" },
        { 2, 2, LINES_PROGRESS, "\router\n\rinner\x1b[A" },
        { 2, 2, 0, "\router\n" },
        { 0, 2, LINES_WITHIN, "\xe2\x82" },
    };
    bool failed = false;

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        failed |= merge_lines(f->m, pieces[i].rank, pieces[i].stream, pieces[i].flags,
                              slice_text(pieces[i].text), err) < 0;
    f->now += 60 * NS_PER_MS;
    failed |= merge_tick(f->m, err) < 0;
    failed |= merge_rank_over(f->m, 2, err) < 0;
    failed |= merge_flush_rank(f->m, 0, err) < 0;
    failed |= merge_flush(f->m, err) < 0;
    return failed;
}

/* The fixture's own buffers are large before, so that it is merge's memory that is out. */
static bool merge_survives(enum plan_merge mode, long nth)
{
    struct ranks world = RANKS_INIT;
    struct fixture f = { .now = NS_PER_S };
    struct err err = { "" };
    bool failed;

    f.clock = (struct clock){ fixture_now, &f };
    if (ranks_add_range(&world, 0, 2) < 0 || buf_reserve(&f.got[0], 4096) < 0 ||
        buf_reserve(&f.got[1], 4096) < 0 || buf_reserve(&f.bars, 4096) < 0)
        abort();
    alloc_fail_at(nth);
    f.m = merge_create(mode, &world, &f.clock,
                       (struct merge_out){ fixture_text, fixture_progress, &f }, &err);
    failed = !f.m || scenario(&f, &err);
    if (alloc_failed() && failed)
        ok(strstr(err.text, "out of memory") != NULL, "allocation %ld is missed in words", nth);
    else
        ok(!failed, "without a failing allocation nothing fails");
    failed = alloc_failed();
    alloc_fail_at(-1);
    ranks_release(&world);
    fixture_release(&f);
    return failed;
}

static int drop(void *arg, unsigned stream, struct slice text)
{
    (void)arg;
    (void)stream;
    (void)text;
    return 0;
}

static bool pace_survives(long nth)
{
    struct fixture f = { .now = NS_PER_S };
    struct err err = { "" };
    struct pace *p;
    bool failed = true;

    f.clock = (struct clock){ fixture_now, &f };
    alloc_fail_at(nth);
    if ((p = pace_create(&f.clock, drop, NULL, &err))) {
        failed = pace_add(p, 1, slice_text("a\xc3"), &err) < 0;
        failed |= pace_add(p, 1, slice_text("b"), &err) < 0;
        failed |= pace_add(p, 2, slice_text("c"), &err) < 0;
        failed |= pace_flush(p, &err) < 0;
    }
    ok(failed ? err.text[0] != '\0' : true, "pace misses allocation %ld in words", nth);
    pace_destroy(p);
    failed = alloc_failed();
    alloc_fail_at(-1);
    return failed;
}

int main(void)
{
    for (long nth = 0; merge_survives(PLAN_FOLD, nth); nth++)
        ;
    for (long nth = 0; merge_survives(PLAN_PREFIX, nth); nth++)
        ;
    for (long nth = 0; pace_survives(nth); nth++)
        ;
    return plan_done();
}
