/* writer.h - adds little-endian numbers and bytes to a message; the reader's counterpart. Once
 * memory is out the writer is bad and adds nothing more; writer_end says so, and leaves the buffer
 * as it was at the start. */
#ifndef PROTOCOL_WRITER_H
#define PROTOCOL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct writer {
    struct buf *out; /* borrowed */
    size_t start;
    bool bad;
};

struct writer writer_of(struct buf *out);
void writer_reserve(struct writer *w, size_t n); /* for n more bytes; only saves time */
void writer_bytes(struct writer *w, struct slice s);
/* n bytes that the caller writes later, to where the buffer then has them; they are not set. */
void writer_room(struct writer *w, size_t n);
void writer_u8(struct writer *w, uint8_t v);
void writer_u16(struct writer *w, uint16_t v);
void writer_u32(struct writer *w, uint32_t v);
void writer_u64(struct writer *w, uint64_t v);
MUST_USE int writer_end(struct writer *w); /* 0, or -1: memory ran out on the way */

#endif
