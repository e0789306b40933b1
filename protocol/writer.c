#include "protocol/writer.h"

#include "base/le.h"

struct writer writer_of(struct buf *out)
{
    return (struct writer){ out, out->n, false };
}

void writer_reserve(struct writer *w, size_t n)
{
    if (!w->bad && buf_reserve(w->out, n) < 0)
        w->bad = true;
}

void writer_bytes(struct writer *w, struct slice s)
{
    if (!w->bad && buf_add_slice(w->out, s) < 0)
        w->bad = true;
}

void writer_room(struct writer *w, size_t n)
{
    writer_reserve(w, n);
    if (w->bad)
        return;
    w->out->n += n;
    w->out->p[w->out->n] = '\0';
}

static void number(struct writer *w, uint64_t v, size_t size)
{
    char byte[8];

    le_put(byte, size, v);
    writer_bytes(w, slice_of(byte, size));
}

void writer_u8(struct writer *w, uint8_t v)
{
    number(w, v, 1);
}

void writer_u16(struct writer *w, uint16_t v)
{
    number(w, v, 2);
}

void writer_u32(struct writer *w, uint32_t v)
{
    number(w, v, 4);
}

void writer_u64(struct writer *w, uint64_t v)
{
    number(w, v, 8);
}

int writer_end(struct writer *w)
{
    if (!w->bad)
        return 0;
    w->out->n = w->start;
    if (w->out->p)
        w->out->p[w->start] = '\0';
    return -1;
}
