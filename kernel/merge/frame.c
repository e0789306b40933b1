/* SPDX-License-Identifier: BSD-3-Clause */
/* frame.c - recognises tables and boxes of line characters, so that their rows stay together
 * (declared in private.h). */
#include "kernel/merge/private.h"

/* The line from its first visible character on. */
static struct slice visible(struct slice s)
{
    while (s.n) {
        size_t n = 1;

        if (*s.p == '\x1b' && s.n > 1 && s.p[1] == '[') {
            for (n = 2;
                 n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == ';' || s.p[n] == ':');)
                n++;
            n += n < s.n;
        } else if (*s.p != ' ')
            break;
        s = slice_of(s.p + n, s.n - n);
    }
    return s;
}

/* The characters for drawing boxes are U+2500 to U+257F; *which: the last 7 bits. */
static bool is_drawn(struct slice s, unsigned *which)
{
    const unsigned char *p = (const unsigned char *)s.p;

    if (s.n < 3 || p[0] != 0xe2 || (p[1] != 0x94 && p[1] != 0x95))
        return false;
    *which = (p[1] & 1u) << 6 | (p[2] & 0x3fu);
    return true;
}

enum frame_row frame_row(struct slice line, bool within)
{
    const struct slice s = visible(line);
    unsigned which = 0;

    if (is_drawn(s, &which)) {
        if ((which >= 0x0c && which <= 0x0f) || (which >= 0x52 && which <= 0x54) || which == 0x6d)
            return FRAME_FIRST; /* ┌ ┍ ┎ ┏, ╒ ╓ ╔, ╭ */
        if (!within)
            return FRAME_NONE;
        if ((which >= 0x14 && which <= 0x17) || (which >= 0x58 && which <= 0x5a) || which == 0x70)
            return FRAME_LAST; /* └ ┕ ┖ ┗, ╘ ╙ ╚, ╰ */
        return FRAME_MIDDLE;
    }
    if (within)
        return s.n && (*s.p == '|' || *s.p == '+') ? FRAME_MIDDLE : FRAME_NONE;
    return s.n > 1 && *s.p == '+' && (s.p[1] == '-' || s.p[1] == '=') ? FRAME_FIRST : FRAME_NONE;
}
