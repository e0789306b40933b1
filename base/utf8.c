/* SPDX-License-Identifier: BSD-3-Clause */
/* Follows table 3-7 of the Unicode standard, well-formed sequences. */
#include "base/utf8.h"

#include <stdint.h>

#define REPLACED "\xef\xbf\xbd" /* U+FFFD */

bool utf8_continues(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

/* The length of a sequence that starts with `lead` (0: none), and the range of its second byte. */
static unsigned sequence(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/* How many of the n > 0 bytes at p belong to the first character; *whole: is it complete and valid?
 * If not, one U+FFFD replaces these bytes, at least 1. */
static size_t character(const uint8_t *p, size_t n, bool *whole)
{
    uint8_t low, high;
    unsigned want;
    size_t got = 1;

    *whole = p[0] < 0x80;
    if (*whole || (want = sequence(p[0], &low, &high)) == 0)
        return 1;
    if (n > 1 && p[1] >= low && p[1] <= high)
        for (got = 2; got < want && got < n && (p[got] & 0xc0) == 0x80; got++)
            ;
    *whole = got == want;
    return got;
}

/* The length of the valid text at the start. Most text is ASCII: checks eight bytes at a time. */
static size_t valid_prefix(const uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n) {
        uint64_t eight;
        bool whole;
        size_t k;

        if (n - at >= sizeof eight) {
            memcpy(&eight, p + at, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                at += sizeof eight;
                continue;
            }
        }
        k = character(p + at, n - at, &whole);
        if (!whole)
            return at;
        at += k;
    }
    return at;
}

bool utf8_is_valid(struct slice s)
{
    return valid_prefix((const uint8_t *)s.p, s.n) == s.n;
}

int utf8_add_clean(struct buf *out, struct slice s)
{
    const size_t start = out->n;
    const uint8_t *p = (const uint8_t *)s.p;
    size_t n = s.n;

    while (n > 0) {
        const size_t good = valid_prefix(p, n);
        size_t bad = 0;
        bool whole;

        if (good < n)
            bad = character(p + good, n - good, &whole);
        if (buf_add(out, p, good) < 0 || (bad > 0 && buf_add_text(out, REPLACED) < 0)) {
            out->n = start;
            if (out->p)
                out->p[start] = '\0';
            return -1;
        }
        p += good + bad;
        n -= good + bad;
    }
    return 0;
}

/* ---- cutting and counting ---- */

size_t utf8_torn_tail(struct slice s)
{
    const uint8_t *p = (const uint8_t *)s.p;

    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        const uint8_t *start = p + s.n - back;
        uint8_t low, high;
        bool whole;

        if ((*start & 0xc0) == 0x80)
            continue;
        if (sequence(*start, &low, &high) > back && character(start, back, &whole) == back)
            return back;
        return 0;
    }
    return 0;
}

size_t utf8_cut(struct slice s, size_t n)
{
    if (n >= s.n)
        return s.n;
    while (n > 0 && utf8_continues(s.p[n]))
        n--;
    return n;
}

int utf8_add_short(struct buf *out, struct slice s, size_t max)
{
    const size_t start = out->n;

    if (utf8_add_clean(out, s) < 0)
        return -1;
    if (out->n - start > max) {
        out->n = start + utf8_cut(slice_of(out->p + start, out->n - start), max);
        out->p[out->n] = '\0';
    }
    return 0;
}

size_t utf8_width(struct slice s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += !utf8_continues(s.p[i]);
    return n;
}

size_t utf8_offset(struct slice s, size_t characters)
{
    size_t at = 0;

    while (at < s.n && (utf8_continues(s.p[at]) || characters-- > 0))
        at++;
    return at;
}

/* ---- a stream ---- */

/* Completes the incomplete character from the start of *bytes, or replaces it if the next byte does
 * not belong to it. Removes what it used from *bytes. The caller has reserved the room in *out. */
static int finish_cut(struct utf8_stream *u, struct slice *bytes, struct buf *out)
{
    bool whole = false;
    unsigned n;

    while (bytes->n > 0 && !whole) {
        u->cut[u->n] = (uint8_t)bytes->p[0];
        if (character(u->cut, u->n + 1, &whole) <= u->n) {
            u->n = 0; /* this byte is not of it */
            return buf_add_text(out, REPLACED);
        }
        u->n++;
        *bytes = slice_of(bytes->p + 1, bytes->n - 1);
    }
    if (!whole)
        return 0;
    n = u->n;
    u->n = 0;
    return buf_add(out, u->cut, n);
}

int utf8_stream_add(struct utf8_stream *u, struct slice bytes, struct buf *out)
{
    size_t torn;

    if (!u->n && utf8_is_valid(bytes))
        return buf_add_slice(out, bytes);
    if (bytes.n > SIZE_MAX / 4 || buf_reserve(out, 3 * bytes.n + 8) < 0)
        return -1;
    if (u->n && finish_cut(u, &bytes, out) < 0)
        return -1;
    if (bytes.n == 0)
        return 0;
    torn = utf8_torn_tail(bytes);
    bytes.n -= torn;
    memcpy(u->cut, bytes.p + bytes.n, torn);
    u->n = (unsigned)torn;
    return utf8_add_clean(out, bytes);
}

int utf8_stream_pass(struct utf8_stream *u, struct slice bytes, struct buf *room, struct slice *out)
{
    *out = bytes;
    if (!u->n && utf8_is_valid(bytes))
        return 0;
    buf_clear(room);
    if (utf8_stream_add(u, bytes, room) < 0)
        return -1;
    *out = buf_slice(room);
    return 0;
}

int utf8_stream_end(struct utf8_stream *u, struct buf *out)
{
    if (u->n && buf_add_text(out, REPLACED) < 0)
        return -1;
    u->n = 0;
    return 0;
}
