/* reader.h - reads little-endian numbers and bytes from a message and can't overrun. If bytes are
 * missing, the reader becomes bad and every later read gives zero. So it is enough to check `bad`
 * once, at the end. */
#ifndef PROTOCOL_READER_H
#define PROTOCOL_READER_H

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
/* The u32 with index i of a list of them; 0 beyond its end. */
uint32_t reader_u32_at(struct slice list, size_t i);

#endif
