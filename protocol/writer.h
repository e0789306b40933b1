/* writer.h - appends little-endian numbers and bytes to a message; the reader's counterpart. When
 * memory is out, the writer becomes bad and appends nothing more. Then writer_end returns -1 and
 * restores the buffer to what it was at the start. */
#ifndef PROTOCOL_WRITER_H
#define PROTOCOL_WRITER_H

#include "base/buf.h"

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
