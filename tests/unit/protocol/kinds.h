/* SPDX-License-Identifier: BSD-3-Clause */
/* kinds.h - every kind of message in turn, for tests of the table and the codec. */
#ifndef TESTS_UNIT_PROTOCOL_KINDS_H
#define TESTS_UNIT_PROTOCOL_KINDS_H

#include "protocol/span.h"

/* The kind with this index, by number; NULL at the end. */
static inline const struct span_info *kind_at(unsigned index)
{
    for (unsigned number = 0; number < 256; number++) {
        const struct span_info *info = span_info(number);

        if (info && index-- == 0)
            return info;
    }
    return NULL;
}

#endif
