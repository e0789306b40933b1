/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/utf8.h: incomplete and invalid characters. */
#include "base/utf8.h"

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define R "\xef\xbf\xbd"

static const struct sample {
    const char *in, *out, *what;
} samples[] = {
    { "plain", "plain", "ASCII" },
    { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
      "characters of two to four bytes" },
    { "a\xff z", "a" R " z", "a byte that starts nothing" },
    { "\xc0\x80", R R, "an overlong NUL" },
    { "\xed\xa0\x80", R R R, "a surrogate" },
    { "\xf4\x90\x80\x80", R R R R, "a character over U+10FFFF" },
    { "\xe2\x82z", R "z", "a character without its end" },
    { "\xe2\xe2\x82\xac", R "\xe2\x82\xac", "one that starts within another" },
    { "\x80\xbf", R R, "ends without a start" },
    { "\xf0\x9f\x98", R, "a character that never ends" },
    { "eight by\xc3\xa4tes and more of it \xfe!", "eight by\xc3\xa4tes and more of it " R "!",
      "within long text" },
};

/* However the bytes are cut, the text is the same. */
static bool cut_anywhere(const struct sample *s)
{
    const size_t n = strlen(s->in);

    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++) {
            struct utf8_stream u = UTF8_STREAM_INIT;
            struct buf out = BUF_INIT;
            bool same = utf8_stream_add(&u, slice_of(s->in, a), &out) == 0 &&
                        utf8_stream_add(&u, slice_of(s->in + a, b - a), &out) == 0 &&
                        utf8_stream_add(&u, slice_of(s->in + b, n - b), &out) == 0 &&
                        utf8_stream_end(&u, &out) == 0 && slice_is(buf_slice(&out), s->out);

            buf_release(&out);
            if (!same) {
                diag("cut at %zu and %zu", a, b);
                return false;
            }
        }
    return true;
}

struct utf8_case {
    const char *bytes;
    bool valid;
    const char *clean;
};

static const struct utf8_case utf8_cases[] = {
    { "plain text, longer than eight", true, NULL },
    { "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", true, NULL },
    { "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", true, NULL },
    { "a\xff"
      "b",
      false,
      "a\xef\xbf\xbd"
      "b" },
    { "\xc0\xaf", false, "\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xed\xa0\x80", false, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xf4\x90\x80\x80", false, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xe2\x82", false, "\xef\xbf\xbd" },
    { "12345678\xf0\x9f\x98x", false, "12345678\xef\xbf\xbdx" },
    { "\xe0\x80\x80", false, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
};

static void text_is_checked_and_cleaned(void)
{
    for (size_t i = 0; i < sizeof utf8_cases / sizeof utf8_cases[0]; i++) {
        const struct utf8_case *c = &utf8_cases[i];
        struct buf out = BUF_INIT;

        is_int(utf8_is_valid(slice_text(c->bytes)), c->valid, "case %zu is UTF-8, or is not", i);
        if (utf8_add_clean(&out, slice_text(c->bytes)) == 0)
            is_text(out.p, c->valid ? c->bytes : c->clean, "and is cleaned as Unicode recommends");
        buf_release(&out);
    }
}

static void a_torn_character_is_found(void)
{
    is_int(utf8_torn_tail(slice_text("")), 0, "nothing is torn in nothing");
    is_int(utf8_width(slice_text("a\xc3\xa9\xe2\x82\xac")), 3, "characters are counted, not bytes");
    is_int(utf8_torn_tail(slice_text("ab\xe2\x82\xac")), 0, "a whole character is not torn");
    is_int(utf8_torn_tail(slice_text("ab\xe2\x82")), 2, "two bytes of three are");
    is_int(utf8_torn_tail(slice_text("ab\xf0\x9f\x98")), 3, "three of four are");
    is_int(utf8_torn_tail(slice_text("\xc3")), 1, "one of two is");
    is_int(utf8_torn_tail(slice_text("a\xff")), 0,
           "what never becomes a character is not waited for");
    is_int(utf8_torn_tail(slice_text("\x80\x80\x80")), 0, "nor what has no start");
    is_int(utf8_torn_tail(slice_text("\xed\xa0")), 0, "nor half a surrogate");
}

static void shortened(struct slice data, const char *want, const char *name)
{
    struct buf out = BUF_INIT;

    ok(buf_add_text(&out, ">") == 0 && utf8_add_short(&out, data, 10) == 0, "memory");
    is_text(out.p + 1, want, "%s", name);
    buf_release(&out);
}

static void text_is_shortened(void)
{
    struct buf out = BUF_INIT;

    shortened(slice_text("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
              "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "what just fits stays");
    shortened(slice_text("0123456789x"), "0123456789", "no more than the limit");
    shortened(slice_text("01234567\xe2\x82\xac"), "01234567", "and no part of a character");
    shortened(slice_text("\xff"
                         "a\xc3"),
              "\xef\xbf\xbd"
              "a\xef\xbf\xbd",
              "other bytes are replaced");
    ok(utf8_add_short(&out, slice_text(""), 10) == 0 && out.n == 0, "nothing stays nothing");
    buf_release(&out);
}

static void text_is_cut_and_counted(void)
{
    const char *text = "a\xc3\xa4\xe2\x82\xac";

    is_int(utf8_cut(slice_text(text), 2), 1, "a cut keeps characters whole");
    is_int(utf8_cut(slice_text(text), 3), 3, "and all that fits");
    is_int(utf8_cut(slice_text(text), 9), 6, "and is not beyond the end");
    is_int(utf8_cut(slice_text(""), 9), 0, "of nothing there is nothing");
    is_int(utf8_offset(slice_text(text), 0), 0, "the first character is at the start");
    is_int(utf8_offset(slice_text(text), 2), 3, "the third behind those of one and two bytes");
    is_int(utf8_offset(slice_text(text), 3), 6, "behind the last is the end");
    is_int(utf8_offset(slice_text(text), 9), 6, "as is what would be behind that");
}

static void without_memory_nothing_changes(void)
{
    char long_text[200];
    struct buf b = BUF_INIT;

    memset(long_text, 'x', sizeof long_text);
    ok(buf_add_text(&b, "before") == 0, "there is text");
    alloc_fail_at(0);
    ok(utf8_add_clean(&b, slice_of(long_text, sizeof long_text)) < 0,
       "cleaning fails when memory is out");
    alloc_fail_at(-1);
    is_text(b.p, "before", "the text is as it was");
    buf_release(&b);
}

/* A piece that could not be taken comes again. */
static bool taken_again(const struct sample *s)
{
    const size_t n = strlen(s->in) / 2;
    const struct slice halves[2] = { slice_of(s->in, n), slice_text(s->in + n) };
    struct utf8_stream u = UTF8_STREAM_INIT;
    struct buf all = BUF_INIT;
    bool fine = true;

    for (int k = 0; k < 2; k++) {
        struct buf piece = BUF_INIT;

        alloc_fail_at(0);
        fine = fine && utf8_stream_add(&u, halves[k], &piece) < 0;
        alloc_fail_at(-1);
        fine = fine && utf8_stream_add(&u, halves[k], &piece) == 0 &&
               buf_add_slice(&all, buf_slice(&piece)) == 0;
        buf_release(&piece);
    }
    fine = fine && utf8_stream_end(&u, &all) == 0 && slice_is(buf_slice(&all), s->out);
    buf_release(&all);
    return fine;
}

int main(void)
{
    struct utf8_stream u = UTF8_STREAM_INIT;
    struct buf room = BUF_INIT;
    const char *text = "a\xc3\xa4";
    struct slice out;

    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        ok(cut_anywhere(&samples[i]), "%s, cut anywhere", samples[i].what);
    text_is_checked_and_cleaned();
    a_torn_character_is_found();
    text_is_shortened();
    text_is_cut_and_counted();
    without_memory_nothing_changes();
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        ok(taken_again(&samples[i]), "%s, when memory was out", samples[i].what);
    ok(utf8_stream_pass(&u, slice_text(text), &room, &out) == 0 && out.p == text,
       "valid text passes without a copy");
    ok(utf8_stream_pass(&u, slice_text("\xc3"), &room, &out) == 0 && out.n == 0,
       "half a character waits");
    ok(utf8_stream_pass(&u, slice_text("\xa4"), &room, &out) == 0 && slice_is(out, "\xc3\xa4"),
       "for its other half");
    buf_release(&room);
    return plan_done();
}
