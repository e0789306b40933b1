/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.h - reads little-endian numbers and bytes from a message, and appends them to one. After an
 * error a reader or writer is bad, and all later calls do nothing, so one check at the end is
 * enough. */
#ifndef PROTOCOL_BYTES_H
#define PROTOCOL_BYTES_H

#include "base/buf.h"

/* Becomes bad if bytes are missing; then every read gives zero. It can't overrun. */
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

/* Becomes bad if memory is out; then writer_end() restores the buffer to what it was at the start.
 */
struct writer {
    struct buf *out; /* borrowed */
    size_t start;
    bool bad;
};

struct writer writer_of(struct buf *out);
void writer_reserve(struct writer *w, size_t n); /* optional: allocates for n more bytes at once */
void writer_bytes(struct writer *w, struct slice s);
/* Appends n uninitialised bytes, which the caller fills in later at their place in the buffer. */
void writer_room(struct writer *w, size_t n);
void writer_u8(struct writer *w, uint8_t v);
void writer_u16(struct writer *w, uint16_t v);
void writer_u32(struct writer *w, uint32_t v);
void writer_u64(struct writer *w, uint64_t v);
MUST_USE int writer_end(struct writer *w); /* 0, or -1: memory ran out on the way */

#endif
