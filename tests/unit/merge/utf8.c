/* Torn and invalid characters. */
#include "kernel/merge/utf8.h"

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
            struct utf8 u = UTF8_INIT;
            struct buf out = BUF_INIT;
            bool same = utf8_add(&u, slice_of(s->in, a), &out) == 0 &&
                        utf8_add(&u, slice_of(s->in + a, b - a), &out) == 0 &&
                        utf8_add(&u, slice_of(s->in + b, n - b), &out) == 0 &&
                        utf8_end(&u, &out) == 0 && slice_is(buf_slice(&out), s->out);

            buf_release(&out);
            if (!same) {
                diag("cut at %zu and %zu", a, b);
                return false;
            }
        }
    return true;
}

int main(void)
{
    struct utf8 u = UTF8_INIT;
    struct buf room = BUF_INIT;
    const char *text = "a\xc3\xa4";
    struct slice out;

    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        ok(cut_anywhere(&samples[i]), "%s, cut anywhere", samples[i].what);
    is_int(utf8_valid(slice_text("0123456789\xc3\xa4\xc3")), 12,
           "the valid part ends before half a character");
    is_int(utf8_cut(slice_text(text), 2), 1, "a cut keeps characters whole");
    is_int(utf8_cut(slice_text(text), 9), 3, "and is not beyond the end");
    ok(utf8_pass(&u, slice_text(text), &room, &out) == 0 && out.p == text,
       "valid text passes without a copy");
    ok(utf8_pass(&u, slice_text("\xc3"), &room, &out) == 0 && out.n == 0, "half a character waits");
    ok(utf8_pass(&u, slice_text("\xa4"), &room, &out) == 0 && slice_is(out, "\xc3\xa4"),
       "for its other half");
    buf_release(&room);
    return plan_done();
}
