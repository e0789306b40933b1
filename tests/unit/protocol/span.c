/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of protocol/span.h: valid messages are decoded unchanged; all others are refused and leave
 * nothing allocated. */
#include "protocol/span.h"

#include <stdlib.h>

#include "protocol/span_fields.h"
#include "tests/unit/chaos.h"
#include "tests/unit/protocol/fill.h"
#include "tests/unit/protocol/kinds.h"
#include "tests/unit/tap.h"

/* The bytes in a block of their exact size, so that ASan sees one read too far. NULL: refused. */
static bool decodes(const char *p, size_t n, struct err *err)
{
    char *exact = malloc(n ? n : 1);
    struct span m;
    bool good;

    if (!exact)
        return false;
    memcpy(exact, p, n);
    good = span_decode(&m, exact, n, err) == 0;
    if (good)
        span_release(&m);
    free(exact);
    return good;
}

static void every_kind_comes_through(void)
{
    const struct span_info *info;

    for (unsigned k = 0; (info = kind_at(k)); k++) {
        const struct span m = span_filled(info);
        struct buf b = BUF_INIT;
        struct err err = { "" };
        struct span back;

        if (!ok(span_encode(&m, &b, &err) == 0, "%s is encoded (%s)", info->name, err.text))
            continue;
        if (ok(span_decode(&back, b.p, b.n, &err) == 0, "%s is decoded (%s)", info->name,
               err.text)) {
            ok(span_equal(&m, &back), "%s is what it was", info->name);
            span_release(&back);
        }
        buf_release(&b);
    }
}

static void an_empty_message_of_every_kind_comes_through(void)
{
    const struct span_info *info;
    unsigned good = 0, kinds = 0;

    for (; (info = kind_at(kinds)); kinds++) {
        const struct span m = { .kind = info->kind };
        struct buf b = BUF_INIT;
        struct span back;

        if (span_encode(&m, &b, NULL) == 0 && span_decode(&back, b.p, b.n, NULL) == 0) {
            good += span_equal(&m, &back);
            span_release(&back);
        }
        buf_release(&b);
    }
    is_int(good, kinds, "every kind may have empty fields");
}

static void every_prefix_and_every_surplus_is_refused(void)
{
    const struct span_info *info;

    for (unsigned k = 0; (info = kind_at(k)); k++) {
        const struct span m = span_filled(info);
        struct buf b = BUF_INIT;
        bool good = span_encode(&m, &b, NULL) == 0;
        struct err err = { "" };

        for (size_t n = 0; good && n < b.n; n++) {
            struct err why = { "" };

            good = !decodes(b.p, n, &why) && why.text[0];
        }
        good = good && buf_add(&b, "\0", 1) == 0 && !decodes(b.p, b.n, &err) &&
               strstr(err.text, "1 bytes too many");
        ok(good, "%s: no part of it is a message, nor is it with a byte more", info->name);
        buf_release(&b);
    }
}

static void any_byte_may_be_anything(void)
{
    const struct span_info *info;
    unsigned long tried = 0;

    for (unsigned k = 0; (info = kind_at(k)); k++) {
        const struct span m = span_filled(info);
        struct buf b = BUF_INIT;

        if (span_encode(&m, &b, NULL) < 0)
            break;
        for (size_t i = 0; i < b.n; i++) {
            const char was = b.p[i];

            for (unsigned v = 0; v < 256; v += 15, tried++) {
                b.p[i] = (char)v;
                (void)decodes(b.p, b.n, NULL);
            }
            b.p[i] = was;
        }
        buf_release(&b);
    }
    ok(tried > 10000, "%lu messages with a byte changed are decoded or refused, nothing else",
       tried);
}

/* The bytes of a message whose field `at` is said to have `size` bytes: it ends there. */
static int lying(const struct span_info *info, unsigned at, uint32_t size, struct buf *out)
{
    const struct span m = { .kind = info->kind };
    size_t offset = SPAN_HEADER_SIZE;

    if (span_encode(&m, out, NULL) < 0)
        return -1;
    for (unsigned i = 0; i < at; i++)
        offset += info->field[i].type == SPAN_U64 ? 8 : 4;
    for (unsigned i = 0; i < 4; i++, size >>= 8)
        out->p[offset + i] = (char)(size & 0xff);
    return 0;
}

static void a_field_over_its_limit_is_refused(void)
{
    const struct span_info *info;

    for (unsigned k = 0; (info = kind_at(k)); k++)
        for (unsigned i = 0; i < info->n; i++) {
            const struct span_field *f = &info->field[i];
            struct span m = { .kind = info->kind };
            struct slice big = { "", f->max + 1 }; /* never read: the size is enough */
            struct buf b = BUF_INIT;
            struct err err = { "" }, back = { "" };

            if (f->type == SPAN_U64)
                continue;
            if (f->type == SPAN_LIST)
                m.v[i].list = (struct span_list){ &big, 1 };
            else
                m.v[i].s = big;
            ok(span_encode(&m, &b, &err) < 0 && b.n == 0 && strstr(err.text, f->name), "%s.%s: %s",
               info->name, f->name, err.text);
            ok(lying(info, i, (uint32_t)f->max + 1, &b) == 0 && !decodes(b.p, b.n, &back) &&
                   back.text[0],
               "and as it comes in: %s", back.text);
            buf_release(&b);
        }
}

/* Two items within the limit each, over it together. */
static void a_list_is_limited_as_a_whole(void)
{
    static struct slice many[SPAN_ITEMS_MAX + 1];
    struct slice two[2] = { { "", (size_t)200 << 20 }, { "", (size_t)100 << 20 } };
    struct span m = { .kind = SPAN_REPLY };
    struct buf b = BUF_INIT;
    struct err err = { "" }, err2 = { "" }, err3 = { "" };
    struct span back;

    m.v[F_REPLY_BUFFERS].list = (struct span_list){ two, 2 };
    ok(span_encode(&m, &b, &err) < 0, "items that are too long together: %s", err.text);
    for (size_t i = 0; i <= SPAN_ITEMS_MAX; i++)
        many[i] = slice_text("");
    m.v[F_REPLY_BUFFERS].list = (struct span_list){ many, SPAN_ITEMS_MAX + 1 };
    ok(span_encode(&m, &b, &err2) < 0, "too many items: %s", err2.text);
    m.v[F_REPLY_BUFFERS].list.n = SPAN_ITEMS_MAX;
    if (ok(span_encode(&m, &b, NULL) == 0 && span_decode(&back, b.p, b.n, NULL) == 0,
           "as many as there may be")) {
        is_int(back.v[F_REPLY_BUFFERS].list.n, SPAN_ITEMS_MAX, "come through");
        span_release(&back);
    }
    b.p[b.n - 4 * SPAN_ITEMS_MAX - 4] = 1; /* says one more */
    ok(buf_add(&b, "\0\0\0", 4) == 0 && !decodes(b.p, b.n, &err3) && strstr(err3.text, "items"),
       "one more and they are refused: %s", err3.text);
    buf_release(&b);
}

/* 300 MiB of zeros, which the system hands out without having them. */
static void a_list_that_comes_in_is_limited_as_a_whole(void)
{
    const size_t half = (size_t)140 << 20;
    const size_t n = SPAN_HEADER_SIZE + 4 * 4 + 2 * (4 + half);
    uint8_t *p = calloc(1, n);
    struct span m;
    struct err err = { "" };
    size_t at = SPAN_HEADER_SIZE + 12;

    if (!p) {
        skip("not enough memory for a list of 280 MiB");
        return;
    }
    p[0] = SPAN_VERSION;
    p[1] = SPAN_REPLY;
    p[at] = 2;
    for (unsigned k = 0; k < 2; k++) {
        const size_t size_at = at + 4 + k * (4 + half);

        for (unsigned i = 0; i < 4; i++)
            p[size_at + i] = (uint8_t)(half >> 8 * i & 0xff);
    }
    ok(span_decode(&m, p, n, &err) < 0 && strstr(err.text, "more than"),
       "a list over its limit is refused: %s", err.text);
    free(p);
}

static void what_is_not_utf8_is_refused(void)
{
    struct span m = { .kind = SPAN_REFUSE };
    struct buf b = BUF_INIT;
    struct err err = { "" }, back = { "" };

    m.v[F_REFUSE_TEXT].s = slice_text("caf\xe9");
    ok(span_encode(&m, &b, &err) < 0 && strstr(err.text, "UTF-8"), "it is not sent: %s", err.text);
    m.v[F_REFUSE_TEXT].s = slice_text("cafe");
    if (span_encode(&m, &b, NULL) == 0) {
        b.p[b.n - 1] = '\xe9';
        ok(!decodes(b.p, b.n, &back) && strstr(back.text, "UTF-8"), "it is not taken: %s",
           back.text);
    }
    buf_release(&b);
}

static void other_versions_and_kinds_are_refused_in_words(void)
{
    const struct span m = { .kind = SPAN_QUIT };
    struct buf b = BUF_INIT;
    struct err newer = { "" }, older = { "" }, kind = { "" }, zero = { "" }, none = { "" };
    const struct span bad = { .kind = (enum span_kind)200 };

    ok(span_encode(&bad, &b, &none) < 0, "a kind that is not in the table can't be sent: %s",
       none.text);
    if (span_encode(&m, &b, NULL) < 0)
        return;
    b.p[0] = SPAN_VERSION + 1;
    ok(!decodes(b.p, b.n, &newer) && strstr(newer.text, "the receiving side is older"), "%s",
       newer.text);
    b.p[0] = SPAN_VERSION - 1;
    ok(!decodes(b.p, b.n, &older) && strstr(older.text, "the sending side is older"), "%s",
       older.text);
    b.p[0] = SPAN_VERSION;
    b.p[2] = 1;
    ok(!decodes(b.p, b.n, &zero), "%s", zero.text);
    b.p[2] = 0;
    for (unsigned k = 0; k < 256; k++) {
        b.p[1] = (char)k;
        if (!span_info(k) && decodes(b.p, b.n, &kind))
            break;
    }
    ok(kind.text[0], "kinds that are not in the table are refused: %s", kind.text);
    buf_release(&b);
}

static void any_failed_allocation_is_survived(void)
{
    const struct span m = span_filled(span_info(SPAN_REPLY));
    struct buf b = BUF_INIT;
    struct span back;
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 10; nth++) {
        struct err err = { "" };

        buf_release(&b);
        alloc_fail_at(nth);
        rc = span_encode(&m, &b, &err);
        alloc_fail_at(-1);
        ok(rc == 0 || (b.n == 0 && strstr(err.text, "memory")), "encode, allocation %ld: %s", nth,
           err.text);
    }
    rc = -1;
    for (long nth = 0; rc < 0 && nth < 10; nth++) {
        struct err err = { "" };

        alloc_fail_at(nth);
        rc = span_decode(&back, b.p, b.n, &err);
        alloc_fail_at(-1);
        ok(rc == 0 || strstr(err.text, "memory"), "decode, allocation %ld: %s", nth, err.text);
    }
    if (rc == 0)
        span_release(&back);
    buf_release(&b);
}

static void a_failed_encode_keeps_what_was_there(void)
{
    struct buf b = BUF_INIT;
    struct span m = span_filled(span_info(SPAN_RUN));

    ok(buf_add_text(&b, "before") == 0, "there is something");
    m.v[F_RUN_INIT].s = slice_of("", 65);
    ok(span_encode(&m, &b, NULL) < 0, "a field that is too long fails the whole");
    m.v[F_RUN_INIT].s = slice_text("gloo");
    alloc_fail_at(0);
    ok(span_encode(&m, &b, NULL) < 0, "so does memory that is out");
    alloc_fail_at(-1);
    is_text(b.p, "before", "nothing was added");
    buf_release(&b);
}

/* The bytes at its end may be written into the message itself. */
static void what_leaves_room_is_what_it_would_have_been(void)
{
    const struct span_info *chunk = span_info_named("CHUNK"), *beat = span_info_named("BEAT");
    struct span m = span_filled(chunk), no_bytes = span_filled(beat);
    struct err err = { "" }, long_err = { "" }, number_err = { "" }, memory_err = { "" },
               kind_err = { "" };
    struct buf whole = BUF_INIT, b = BUF_INIT;
    char *room;

    ok(span_encode(&m, &whole, NULL) == 0 && buf_add_text(&b, "before") == 0, "a CHUNK, whole");
    room = span_encode_room(&m, m.v[F_CHUNK_DATA].s.n, &b, &err);
    ok(room && room + m.v[F_CHUNK_DATA].s.n == b.p + b.n && *(b.p + b.n) == '\0',
       "and with room, at the end (%s)", err.text);
    if (room)
        memcpy(room, m.v[F_CHUNK_DATA].s.p, m.v[F_CHUNK_DATA].s.n);
    ok(b.n == 6 + whole.n && memcmp(b.p + 6, whole.p, whole.n) == 0, "are the same bytes");
    ok(!span_encode_room(&m, SPAN_CHUNK_MAX + 1, &b, &long_err) && b.n == 6 + whole.n, "%s",
       long_err.text);
    ok(!span_encode_room(&no_bytes, 1, &b, &number_err) && b.n == 6 + whole.n, "%s",
       number_err.text);
    buf_release(&whole);
    alloc_fail_at(0);
    ok(!span_encode_room(&m, 1, &whole, &memory_err) && whole.n == 0 &&
           strstr(memory_err.text, "memory"),
       "%s", memory_err.text);
    alloc_fail_at(-1);
    m.kind = 255;
    ok(!span_encode_room(&m, 1, &whole, &kind_err) && whole.n == 0, "%s", kind_err.text);
    buf_release(&whole);
    buf_release(&b);
}

static void headers_can_be_read_and_stamped(void)
{
    const struct span m = span_filled(span_info(SPAN_DONE));
    struct buf b = BUF_INIT;
    struct span head;

    if (span_encode(&m, &b, NULL) < 0)
        return;
    span_stamp(b.p, 0x01020304);
    ok(span_peek(&head, b.p, b.n, NULL) == 0 && head.worker == 0x01020304,
       "a stamp overwrites the sender");
    ok(head.cell == m.cell && head.kind == m.kind && head.blob == 9 && head.blob_size == 10,
       "and nothing else");
    ok(span_peek(&head, b.p, SPAN_HEADER_SIZE - 1, NULL) < 0, "half a header is none");
    ok(span_peek(&head, NULL, 0, NULL) < 0, "nothing is none");
    buf_release(&b);
}

int main(void)
{
    every_kind_comes_through();
    an_empty_message_of_every_kind_comes_through();
    every_prefix_and_every_surplus_is_refused();
    any_byte_may_be_anything();
    a_field_over_its_limit_is_refused();
    a_list_is_limited_as_a_whole();
    a_list_that_comes_in_is_limited_as_a_whole();
    what_is_not_utf8_is_refused();
    other_versions_and_kinds_are_refused_in_words();
    any_failed_allocation_is_survived();
    a_failed_encode_keeps_what_was_there();
    what_leaves_room_is_what_it_would_have_been();
    headers_can_be_read_and_stamped();
    return plan_done();
}
