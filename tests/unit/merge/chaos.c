/* SPDX-License-Identifier: BSD-3-Clause */
/* Any allocation may fail: the call returns an error; nothing leaks, crashes or is half done. */
#include "tests/unit/chaos.h"
#include "tests/unit/merge/fixture.h"

#include "kernel/merge/pace.h"
#include "kernel/merge/panel.h"

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

    f.clock = (struct clock){ .now_ns = fixture_now, .arg = &f };
    if (ranks_add_range(&world, 0, 2) < 0 || buf_reserve(&f.got[0], 4096) < 0 ||
        buf_reserve(&f.got[1], 4096) < 0 || buf_reserve(&f.page, 8192) < 0 ||
        buf_reserve(&f.bars, 4096) < 0)
        abort();
    alloc_fail_at(nth);
    f.m = merge_create(mode, &world, &f.clock,
                       (struct merge_out){
                           .text = fixture_text, .progress = fixture_progress, .arg = &f },
                       &err);
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

    f.clock = (struct clock){ .now_ns = fixture_now, .arg = &f };
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

/* out of memory is said, or the call gives back -1 */
static bool panel_survives(long nth)
{
    struct ranks world = RANKS_INIT;
    struct fixture f = { .now = NS_PER_S };
    struct err err = { "" };
    struct buf text = BUF_INIT, html = BUF_INIT;
    struct panel *p;
    bool failed = true;

    f.clock = (struct clock){ .now_ns = fixture_now, .arg = &f };
    if (ranks_add_range(&world, 0, 2) < 0)
        abort();
    alloc_fail_at(nth);
    if ((p = panel_create("csX", 1, &world, &f.clock, &err))) {
        failed = panel_lines(p, 1, 1, 0, slice_text("\033[31mred\033[0m\nlast"), &err) < 0;
        failed |= panel_lines(p, 2, 2, LINES_PROGRESS, slice_text("\r 10%"), &err) < 0;
        failed |= panel_all(p, 1, slice_text("[1] red\n")) < 0;
        failed |= panel_all(p, 2, slice_text("[1] err\n")) < 0;
        failed |= panel_bars(p, slice_text("[2] 10%")) < 0;
        f.now += 60 * NS_PER_MS;
        failed |= panel_tick(p, &err) < 0;
        failed |= panel_rank_over(p, 1, &err) < 0;
        failed |= panel_bar(p, &html) < 0;
        failed |= panel_flush(p, &err) < 0;
        panel_clear(p, 1);
        failed |= panel_text(p, &text, &html) < 0;
        failed |= panel_marker(p, 1, true, &html) < 0;
    }
    ok(failed == alloc_failed(), "panel says that allocation %ld fails", nth);
    failed = alloc_failed();
    alloc_fail_at(-1);
    panel_destroy(p);
    buf_release(&text);
    buf_release(&html);
    ranks_release(&world);
    return failed;
}

int main(void)
{
    for (long nth = 0; panel_survives(nth); nth++)
        ;
    for (long nth = 0; merge_survives(PLAN_FOLD, nth); nth++)
        ;
    for (long nth = 0; merge_survives(PLAN_PREFIX, nth); nth++)
        ;
    for (long nth = 0; pace_survives(nth); nth++)
        ;
    return plan_done();
}
