/* utf8.c - see utf8.h. */
#include "kernel/merge/utf8.h"

#include <stdbool.h>

#define REPLACED "\xef\xbf\xbd" /* U+FFFD */

/* How many bytes a character with this first byte has; 0: none starts so. */
static unsigned size_of(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* The second byte has a narrower range after some first bytes: no overlong forms, no surrogates,
 * nothing over U+10FFFF. */
static bool follows(unsigned char first, unsigned at, unsigned char c)
{
    unsigned char low = 0x80;
    unsigned char high = 0xbf;

    if (at == 1) {
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    }
    return c >= low && c <= high;
}

/* The bytes of the character that starts at p, as far as they belong to it. *whole: it is complete.
 * *cut: only its rest lacks. */
static unsigned character(const unsigned char *p, size_t n, bool *whole, bool *cut)
{
    const unsigned size = size_of(p[0]);
    unsigned k = 1;

    *cut = false;
    *whole = size == 1;
    if (size < 2)
        return 1;
    while (k < size && k < n && follows(p[0], k, p[k]))
        k++;
    *whole = k == size;
    *cut = !*whole && k == n;
    return k;
}

size_t utf8_valid(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;

    while (i < s.n) {
        uint64_t eight;
        bool whole;
        bool cut;
        unsigned k;

        if (s.n - i >= sizeof eight) {
            memcpy(&eight, p + i, sizeof eight);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                i += sizeof eight;
                continue;
            }
        }
        k = character(p + i, s.n - i, &whole, &cut);
        if (!whole)
            return i;
        i += k;
    }
    return i;
}

/* Completes, or gives up, the character that was cut. Returns how many of the bytes were taken. */
static size_t finish_cut(struct utf8 *u, struct slice bytes, struct buf *out)
{
    size_t taken = 0;
    bool whole = false;
    bool cut = true;

    while (taken < bytes.n && cut && u->n < sizeof u->cut) {
        const unsigned n = u->n + 1;

        u->cut[u->n] = (unsigned char)bytes.p[taken];
        if (character(u->cut, n, &whole, &cut) < n)
            break; /* this byte is not of it */
        u->n = n;
        taken++;
        if (whole)
            break;
    }
    if (cut)
        return taken; /* its rest still lacks */
    /* the caller has reserved the room, so that adding can't fail */
    if (buf_add(out, whole ? (const char *)u->cut : REPLACED, whole ? u->n : 3) < 0)
        return taken;
    u->n = 0;
    return taken;
}

int utf8_add(struct utf8 *u, struct slice bytes, struct buf *out)
{
    const unsigned char *p;
    size_t i = 0;

    if (bytes.n == 0)
        return 0;
    if (!u->n && utf8_valid(bytes) == bytes.n)
        return buf_add_slice(out, bytes);
    if (bytes.n > SIZE_MAX / 4 || buf_reserve(out, 3 * bytes.n + 8) < 0)
        return -1;
    if (u->n)
        i = finish_cut(u, bytes, out);
    p = (const unsigned char *)bytes.p;
    while (i < bytes.n) {
        const size_t valid = utf8_valid(slice_of(p + i, bytes.n - i));
        bool whole;
        bool cut;
        unsigned k;

        if (buf_add(out, p + i, valid) < 0)
            return -1;
        i += valid;
        if (i == bytes.n)
            break;
        k = character(p + i, bytes.n - i, &whole, &cut);
        if (cut) {
            memcpy(u->cut, p + i, k);
            u->n = k;
        } else if (buf_add(out, REPLACED, 3) < 0) {
            return -1;
        }
        i += k;
    }
    return 0;
}

int utf8_pass(struct utf8 *u, struct slice bytes, struct buf *room, struct slice *out)
{
    *out = bytes;
    if (!u->n && utf8_valid(bytes) == bytes.n)
        return 0;
    buf_clear(room);
    if (utf8_add(u, bytes, room) < 0)
        return -1;
    *out = buf_slice(room);
    return 0;
}

int utf8_end(struct utf8 *u, struct buf *out)
{
    if (!u->n)
        return 0;
    if (buf_add(out, REPLACED, 3) < 0)
        return -1;
    u->n = 0;
    return 0;
}

size_t utf8_cut(struct slice s, size_t n)
{
    if (n >= s.n)
        return s.n;
    while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}
