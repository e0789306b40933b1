/* tail.c - see tail.h. */
#include "worker/agent/tail.h"

void tail_release(struct tail *t)
{
    buf_release(&t->bytes);
}

int tail_add(struct tail *t, struct slice data)
{
    if (data.n > TAIL_SIZE) {
        data = slice_of(data.p + data.n - TAIL_SIZE, TAIL_SIZE);
        buf_clear(&t->bytes);
    }
    if (t->bytes.n + data.n > 2 * TAIL_SIZE)
        buf_drop(&t->bytes, t->bytes.n - TAIL_SIZE);
    return buf_add_slice(&t->bytes, data);
}

/* Where the last `lines` lines begin. A newline at the very end closes the last line. */
static size_t lines_start(const struct buf *b, unsigned lines)
{
    size_t i = b->n;

    while (i > 0 && b->p[i - 1] == '\n')
        i--;
    for (; i > 0; i--)
        if (b->p[i - 1] == '\n' && --lines == 0)
            return i;
    return 0;
}

int tail_text(const struct tail *t, unsigned lines, struct buf *out)
{
    const size_t start = lines_start(&t->bytes, lines);

    return tail_clean(slice_of(buf_slice(&t->bytes).p + start, t->bytes.n - start), 3 * 2 * TAIL_SIZE, out);
}

/* The length of the well-formed UTF-8 character at p (n > 0 bytes are there), or 0. */
static size_t char_size(const unsigned char *p, size_t n)
{
    static const unsigned char low[5] = { 0, 0, 0x80, 0x80, 0x80 };
    const size_t size = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    unsigned char least, most = 0xbf;

    if (size <= 1)
        return size;
    if (n < size)
        return 0;
    least = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : low[size];
    if (p[0] == 0xed || p[0] == 0xf4) /* surrogates; beyond U+10FFFF */
        most = p[0] == 0xed ? 0x9f : 0x8f;
    if (p[1] < least || p[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

int tail_clean(struct slice data, size_t max, struct buf *out)
{
    const unsigned char *p = (const unsigned char *)data.p;
    size_t room = max;

    for (size_t i = 0; i < data.n;) {
        const size_t size = p[i] ? char_size(p + i, data.n - i) : 0;
        const size_t add = size ? size : 3;

        if (add > room)
            break;
        if (buf_add(out, size ? (const char *)p + i : "\xef\xbf\xbd", add) < 0)
            return -1;
        room -= add;
        i += size ? size : 1;
    }
    return 0;
}
