/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/json_repair.h"

#include <sodium.h>
#include <string.h>

#include "base/utf8.h"

#define ESCAPE 6u /* bytes of \uXXXX */

/* The number that an escape at p writes; -1: there is none. */
static long escaped(const char *p, size_t left)
{
    long value = 0;

    if (left < ESCAPE || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *at = p[i] ? strchr(digits, p[i]) : NULL;

        if (!at)
            return -1;
        value = value * 16 + (at - digits) % 16;
    }
    return value;
}

static bool is_half(long value, long first)
{
    return value >= first && value < first + 0x400;
}

/* Replaces each escape of half a character whose other half does not follow. */
static void repair_escapes(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const long value = escaped(p + i, n - i);

        if (p[i] != '\\')
            continue;
        if (is_half(value, 0xd800) && n - i > ESCAPE &&
            is_half(escaped(p + i + ESCAPE, n - i - ESCAPE), 0xdc00))
            i += 2 * ESCAPE - 1;
        else if (is_half(value, 0xd800) || is_half(value, 0xdc00))
            memcpy(p + i + 2, "fffd", ESCAPE - 2);
        else
            i++; /* what a backslash escapes is no backslash */
    }
}

int json_repair(struct buf *out, struct slice text)
{
    const size_t before = out->n;

    if (utf8_add_clean(out, text) < 0)
        return -1;
    if (out->n > before)
        repair_escapes(out->p + before, out->n - before);
    return 0;
}

json_t *json_parse(struct slice text, size_t flags, json_error_t *error)
{
    json_t *value = json_loadb(text.p, text.n, flags, error);
    struct buf repaired = BUF_INIT;

    if (value)
        return value;
    if (json_repair(&repaired, text) == 0 &&
        (repaired.n != text.n || memcmp(repaired.p ? repaired.p : "", text.p, text.n) != 0))
        value = json_loadb(repaired.p, repaired.n, flags, error);
    if (repaired.p)
        sodium_memzero(repaired.p, repaired.cap);
    buf_release(&repaired);
    return value;
}
