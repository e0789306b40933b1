/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of protocol/bytes.h. */
#include "protocol/bytes.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static void what_is_written_is_read(void)
{
    struct buf b = BUF_INIT;
    struct writer w = writer_of(&b);
    struct reader r;

    writer_reserve(&w, 100);
    writer_u8(&w, 0x12);
    writer_u16(&w, 0x3456);
    writer_u32(&w, 0x789abcde);
    writer_u64(&w, 0xfedcba9876543210);
    writer_bytes(&w, slice_text("end"));
    ok(writer_end(&w) == 0 && b.n == 18, "numbers and bytes take what they need");
    ok(memcmp(b.p, "\x12\x56\x34\xde\xbc\x9a\x78\x10\x32\x54\x76\x98\xba\xdc\xfe", 15) == 0,
       "the lowest byte comes first");
    r = reader_of(b.p, b.n);
    is_int(reader_u8(&r), 0x12, "a byte");
    is_int(reader_u16(&r), 0x3456, "two");
    is_int(reader_u32(&r), 0x789abcde, "four");
    ok(reader_u64(&r) == 0xfedcba9876543210, "eight");
    is_int(reader_left(&r), 3, "three are left");
    ok(slice_is(reader_take(&r, 3), "end") && !r.bad && reader_left(&r) == 0,
       "and are what they were");
    buf_release(&b);
}

static void reading_too_far_gives_nothing_ever_after(void)
{
    struct reader r = reader_of("\x01\x02\x03", 3);
    struct reader none = reader_of(NULL, 0);

    ok(reader_u32(&r) == 0 && r.bad, "a number that is not all there is zero");
    ok(reader_u8(&r) == 0 && reader_left(&r) == 0 && reader_take(&r, 1).n == 0,
       "nothing is read after that");
    ok(reader_take(&none, 0).n == 0 && !none.bad, "nothing can be read from nothing");
    r = reader_of("\x01", 1);
    ok(reader_take(&r, SIZE_MAX).n == 0 && r.bad, "a size that would wrap is too far");
}

static void a_failed_writer_leaves_no_trace(void)
{
    struct buf b = BUF_INIT;
    struct writer w;
    char big[500] = { 0 };

    if (buf_add_text(&b, "before") < 0)
        return;
    w = writer_of(&b);
    writer_u64(&w, 1);
    alloc_fail_at(0);
    writer_bytes(&w, slice_of(big, sizeof big));
    alloc_fail_at(-1);
    writer_u8(&w, 1);
    ok(w.bad && writer_end(&w) < 0, "memory that is out is told at the end");
    is_text(b.p, "before", "and what was there stays");
    buf_release(&b);
}

int main(void)
{
    what_is_written_is_read();
    reading_too_far_gives_nothing_ever_after();
    a_failed_writer_leaves_no_trace();
    return plan_done();
}
