/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/buf.h, base/err.h and base/slice.h. */
#include "base/buf.h"
#include "base/utf8.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static void bytes_are_added_and_dropped(void)
{
    struct buf b = BUF_INIT;
    struct slice line;
    char *taken;

    ok(!buf_line(&b, &line), "an empty buffer has no line");
    ok(buf_add(&b, "ab\0c", 4) == 0 && b.n == 4 && b.p[4] == '\0',
       "bytes with a NUL within are kept, one more ends them");
    buf_drop(&b, 3);
    is_text(b.p, "c", "the first bytes can be dropped");
    ok(buf_addf(&b, "-%d-%s", 42, "x") == 0, "formatted text can be added");
    is_text(b.p, "c-42-x", "and stands behind what was there");
    ok(!buf_line(&b, &line), "what has no newline is no whole line");
    ok(buf_add_text(&b, "\n\ny") == 0 && buf_line(&b, &line) && slice_is(line, "c-42-x"),
       "a line is found without its newline");
    buf_drop(&b, line.n + 1);
    ok(buf_line(&b, &line) && line.n == 0, "and so is an empty one");
    buf_drop(&b, 1000);
    is_int(b.n, 0, "dropping more than there is empties the buffer");
    ok((taken = buf_take(&b)) && b.p == NULL, "taking hands the bytes over");
    is_text(taken, "", "an empty text is one too");
    free(taken);
    ok((taken = buf_take(&b)) != NULL, "a buffer that never held anything gives an empty text");
    free(taken);
    ok(buf_reserve(&b, SIZE_MAX) < 0 && buf_reserve(&b, SIZE_MAX / 2) < 0 && b.n == 0,
       "a size that would wrap is refused");
    buf_clear(&b);
    is_int(buf_slice(&b).n, 0, "the slice of an empty buffer is empty, not NULL");
    ok(buf_slice(&b).p != NULL, "and has a pointer");
    buf_release(&b);
}

static void a_failed_addition_changes_nothing(void)
{
    struct buf b = BUF_INIT;
    char long_text[200];

    memset(long_text, 'x', sizeof long_text);
    ok(buf_add_text(&b, "before") == 0, "there is text");
    alloc_fail_at(0);
    ok(buf_add(&b, long_text, sizeof long_text) < 0, "adding fails when memory is out");
    alloc_fail_at(0);
    ok(buf_addf(&b, "%.*s", (int)sizeof long_text, long_text) < 0, "formatting too");
    alloc_fail_at(-1);
    is_text(b.p, "before", "the text is as it was");
    buf_release(&b);
}

static void growing_costs_few_allocations(void)
{
    struct buf b = BUF_INIT;
    unsigned moved = 0;

    for (unsigned i = 0; i < 100000; i++) {
        const size_t cap = b.cap;

        if (buf_add(&b, "x", 1) < 0)
            break;
        moved += b.cap != cap;
    }
    ok(b.n == 100000 && moved < 30, "100000 single bytes need %u allocations", moved);
    buf_release(&b);
}

static void the_first_error_is_kept(void)
{
    struct err err = { "" };
    char many[3000];

    is_int(err_set(&err, "rank %d", 3), -1, "setting an error gives -1");
    ok(err_null(&err, "later") == NULL, "or NULL");
    is_text(err.text, "rank 3", "the first text is kept");
    ok(err_set(NULL, "nobody listens") == -1, "there may be nobody who wants the text");
    for (size_t i = 0; i + 1 < sizeof many; i++)
        many[i] = "\xe2\x82\xac"[i % 3];
    many[sizeof many - 1] = '\0';
    for (int shift = 0; shift < 3; shift++) {
        struct err cut = { "" };

        (void)err_set(&cut, "%s%s", &"ab"[2 - shift], many);
        ok(strlen(cut.text) >= sizeof cut.text - 4 && utf8_is_valid(slice_text(cut.text)),
           "a text that is too long is cut between characters (%d)", shift);
    }
}

static void lines_are_cut_off(void)
{
    struct slice text = slice_text("one\n\nthree"), line = slice_line(&text);

    ok(slice_is(line, "one") && slice_is(text, "\nthree"), "the first line");
    line = slice_line(&text);
    ok(line.n == 0 && slice_is(text, "three"), "an empty one");
    line = slice_line(&text);
    ok(slice_is(line, "three") && text.n == 0, "the last, which needs no newline");
    line = slice_line(&text);
    ok(line.n == 0 && text.n == 0, "and none behind it");
}

int main(void)
{
    lines_are_cut_off();
    bytes_are_added_and_dropped();
    a_failed_addition_changes_nothing();
    growing_costs_few_allocations();
    the_first_error_is_kept();
    return plan_done();
}
