/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/le.h. */
#include "base/le.h"

#include <string.h>

#include "tests/unit/tap.h"

int main(void)
{
    uint8_t bytes[10];

    memset(bytes, 0xee, sizeof bytes);
    le_put(bytes + 1, 8, UINT64_C(0xfedcba9876543210));
    ok(memcmp(bytes, "\xee\x10\x32\x54\x76\x98\xba\xdc\xfe\xee", 10) == 0,
       "the lowest byte comes first, and no other byte is written");
    ok(le_get(bytes + 1, 8) == UINT64_C(0xfedcba9876543210), "eight bytes");
    ok(le_get(bytes + 1, 4) == 0x76543210, "four");
    ok(le_get(bytes + 1, 1) == 0x10, "one");
    ok(le_get(bytes, 0) == 0, "no byte is zero");
    le_put(bytes, 2, 0x12345678);
    ok(memcmp(bytes, "\x78\x56\x32", 3) == 0, "of a larger number the lower bytes are written");
    return plan_done();
}
