/* Reads byte by byte, because numbers in a message are not aligned. */
#include "protocol/reader.h"

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

static uint64_t number(struct reader *r, size_t size)
{
    const struct slice s = reader_take(r, size);

    return le_get(s.p, s.n);
}

uint8_t reader_u8(struct reader *r)
{
    return (uint8_t)number(r, 1);
}

uint16_t reader_u16(struct reader *r)
{
    return (uint16_t)number(r, 2);
}

uint32_t reader_u32(struct reader *r)
{
    return (uint32_t)number(r, 4);
}

uint64_t reader_u64(struct reader *r)
{
    return number(r, 8);
}

uint32_t reader_u32_at(struct slice list, size_t i)
{
    return i < list.n / 4 ? (uint32_t)le_get(list.p + 4 * i, 4) : 0;
}
