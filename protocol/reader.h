/* reader.h - takes little-endian numbers and bytes off a message, and can't overrun: once something
 * is missing the reader is bad, and every later read gives zero. One look at `bad`, at the end, is
 * enough. */
#ifndef PROTOCOL_READER_H
#define PROTOCOL_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

struct reader {
    const uint8_t *at, *end; /* borrowed */
    bool bad;
};

struct reader reader_of(const void *p, size_t n);
size_t reader_left(const struct reader *r);
struct slice reader_take(struct reader *r, size_t n); /* borrows from the message */
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);

#endif
