/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads byte by byte, because numbers in a message are not aligned. */
#include "protocol/bytes.h"

#include "base/le.h"

struct reader reader_of(const void *p, size_t n)
{
    const uint8_t *start = n > 0 ? p : (const uint8_t *)"";

    return (struct reader){ start, start + n, false };
}

size_t reader_left(const struct reader *r)
{
    return r->bad ? 0 : (size_t)(r->end - r->at);
}

struct slice reader_take(struct reader *r, size_t n)
{
    if (r->bad || (size_t)(r->end - r->at) < n) {
        r->bad = true;
        return slice_of("", 0);
    }
    r->at += n;
    return slice_of(r->at - n, n);
}

static uint64_t read_number(struct reader *r, size_t size)
{
    const struct slice s = reader_take(r, size);

    return le_get(s.p, s.n);
}

uint8_t reader_u8(struct reader *r)
{
    return (uint8_t)read_number(r, 1);
}

uint16_t reader_u16(struct reader *r)
{
    return (uint16_t)read_number(r, 2);
}

uint32_t reader_u32(struct reader *r)
{
    return (uint32_t)read_number(r, 4);
}

uint64_t reader_u64(struct reader *r)
{
    return read_number(r, 8);
}

uint32_t reader_u32_at(struct slice list, size_t i)
{
    return i < list.n / 4 ? (uint32_t)le_get(list.p + 4 * i, 4) : 0;
}

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

static void add_number(struct writer *w, uint64_t v, size_t size)
{
    char byte[8];

    le_put(byte, size, v);
    writer_bytes(w, slice_of(byte, size));
}

void writer_u8(struct writer *w, uint8_t v)
{
    add_number(w, v, 1);
}

void writer_u16(struct writer *w, uint16_t v)
{
    add_number(w, v, 2);
}

void writer_u32(struct writer *w, uint32_t v)
{
    add_number(w, v, 4);
}

void writer_u64(struct writer *w, uint64_t v)
{
    add_number(w, v, 8);
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
