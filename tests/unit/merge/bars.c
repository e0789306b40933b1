/* Progress bars: one line for each rank, redrawn. */
#include "tests/unit/merge/fixture.h"

static void bars_are_one_line_for_each_rank(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    fixture_bar(&f, 2, "\r10%|#\r20%|##");
    is_text(f.bars.p, "[2] 20%|##\n", "the last state is shown at once");
    fixture_bar(&f, 0, "\r30%|###\r");
    is_int(f.reports, 1, "the next one a moment later");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0] 30%|###\n[2] 20%|##\n", "in the order of ranks");
    fixture_bar(&f, 2, "\r30%|###");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0,2] 30%|###\n", "equal ones fold");
    ok(!f.done, "they are not done");
    fixture_flush(&f);
    ok(f.done, "the end of the cell leaves them");
    is_text(f.bars.p, "[0,2] 30%|###\n", "as they were");
    is_text(f.got[1].p, "", "they are no text");
    fixture_flush(&f);
    is_int(f.reports, 4, "and are reported once");
    fixture_release(&f);
}

static void a_newline_makes_a_line_of_a_bar(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_bar(&f, 0, "\r 50%");
    ok(fixture_feed(&f, 0, 2, 0, "\r100%\nnext\n") == 0, "it ends");
    fixture_wait(&f, 100);
    is_text(f.got[1].p, "[0] 100%\n[0] next\n", "its last state is an ordinary line");
    is_text(f.bars.p, "", "and the bar is gone");
    buf_clear(&f.got[1]);
    fixture_bar(&f, 1, "50%\r");
    ok(fixture_feed(&f, 1, 2, 0, "\n") == 0, "a bar with its carriage return at the end");
    fixture_wait(&f, 100);
    is_text(f.got[1].p, "[1] 50%\n", "is the same");
    fixture_release(&f);
}

static void a_bar_that_is_wiped_leaves_nothing(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_bar(&f, 0, "\r 50%");
    fixture_bar(&f, 0, "\r    \r");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "", "blanks over it wipe it");
    ok(fixture_feed(&f, 0, 2, 0, "hello\n") == 0, "a line follows");
    is_text(f.got[1].p, "[0] hello\n", "without it");
    fixture_bar(&f, 0, "\r 50%\r\x1b[2K");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "", "so does the terminal's erase");
    fixture_release(&f);
}

static void the_start_of_a_line_belongs_to_its_bar(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    ok(fixture_feed(&f, 0, 2, MERGE_WITHIN_LINE, "10%") == 0, "a first state comes without carriage return");
    fixture_bar(&f, 0, "\r20%");
    is_text(f.bars.p, "[0] 20%\n", "the next one takes its place");
    ok(fixture_feed(&f, 0, 2, MERGE_WITHIN_LINE, " more") == 0, "what goes on without one");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0] 20% more\n", "stands behind it");
    fixture_release(&f);
}

static void carriage_return_newline_is_a_newline(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "a\r\nb\r\n");
    fixture_is(&f, "[0] a\n[0] b\n", "as other systems write it");
    is_int(f.reports, 0, "nothing of it was a bar");
    fixture_release(&f);
}

static void raw_bars_have_no_labels(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_RAW, 2);
    fixture_bar(&f, 1, "\r20%");
    is_text(f.bars.p, "20%\n", "with --merge raw");
    fixture_release(&f);
}

int main(void)
{
    bars_are_one_line_for_each_rank();
    a_newline_makes_a_line_of_a_bar();
    a_bar_that_is_wiped_leaves_nothing();
    the_start_of_a_line_belongs_to_its_bar();
    carriage_return_newline_is_a_newline();
    raw_bars_have_no_labels();
    return plan_done();
}
