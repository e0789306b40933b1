/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/duration.h"

#include <string.h>

#include "base/clock.h"

static const struct unit {
    const char *name;
    uint64_t ns;
} units[] = {
    { "", NS_PER_S },       { "ms", NS_PER_MS },      { "s", NS_PER_S },
    { "m", 60 * NS_PER_S }, { "min", 60 * NS_PER_S }, { "h", 3600 * NS_PER_S },
};

#define DIGITS_MAX 9u /* before the point, and after it: 10^9 hours still fit */
#define HOURS_MAX  UINT64_C(1000000)

int duration_read(const char *text, uint64_t *ns)
{
    uint64_t whole = 0;
    uint64_t part = 0; /* of 10^9 */
    unsigned digits = 0;
    unsigned places = 0;

    for (; *text >= '0' && *text <= '9' && digits < DIGITS_MAX; text++, digits++)
        whole = whole * 10 + (uint64_t)(*text - '0');
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, places++)
            if (places < DIGITS_MAX)
                part = part * 10 + (uint64_t)(*text - '0');
    if (digits + places == 0)
        return -1;
    for (; places < DIGITS_MAX; places++)
        part *= 10;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, text) == 0) {
            if (whole >= HOURS_MAX * 3600 * NS_PER_S / units[i].ns)
                return -1;
            *ns = whole * units[i].ns +
                  (uint64_t)((double)part * ((double)units[i].ns / 1e9) + 0.5);
            return 0;
        }
    return -1;
}
