/* SPDX-License-Identifier: BSD-3-Clause */
/* fill.h - makes a message of any kind with a value in each field; for tests of the codec. */
#ifndef TESTS_UNIT_PROTOCOL_FILL_H
#define TESTS_UNIT_PROTOCOL_FILL_H

#include "protocol/span.h"

static struct slice fill_items[3] = { { "one", 3 }, { "", 0 }, { "\xff\x00z", 3 } };

static inline struct span span_filled(const struct span_info *info)
{
    struct span m = {
        .kind = info->kind, .worker = 7, .cell = 0x0102030405060708, .blob = 9, .blob_size = 10
    };

    for (unsigned i = 0; i < info->n; i++) {
        if (info->field[i].type == SPAN_U64)
            m.v[i].u64 = 0xfedcba9876543210 + i;
        else if (info->field[i].type == SPAN_LIST)
            m.v[i].list = (struct span_list){ fill_items, 3 };
        else if (info->field[i].type == SPAN_BYTES)
            m.v[i].s = slice_of("\x80\x00\xff", 3);
        else
            m.v[i].s = slice_text("\xe2\x82\xac, a field");
    }
    return m;
}

static inline bool value_equal(enum span_type type, const union span_value *a,
                               const union span_value *b)
{
    if (type == SPAN_U64)
        return a->u64 == b->u64;
    if (type != SPAN_LIST)
        return slice_equal(a->s, b->s);
    if (a->list.n != b->list.n)
        return false;
    for (size_t i = 0; i < a->list.n; i++)
        if (!slice_equal(a->list.item[i], b->list.item[i]))
            return false;
    return true;
}

static inline bool span_equal(const struct span *a, const struct span *b)
{
    const struct span_info *info = span_info((unsigned)a->kind);

    if (a->kind != b->kind || a->worker != b->worker || a->cell != b->cell || a->blob != b->blob ||
        a->blob_size != b->blob_size)
        return false;
    for (unsigned i = 0; i < info->n; i++)
        if (!value_equal(info->field[i].type, &a->v[i], &b->v[i]))
            return false;
    return true;
}

#endif
