/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - reads files of the source tree, for tests that compare with them; and hexadecimal. */
#ifndef TESTS_UNIT_PROTOCOL_SOURCE_H
#define TESTS_UNIT_PROTOCOL_SOURCE_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

/* The whole file, NUL-terminated, the caller's (free()); NULL: it can't be read. */
static inline char *file_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    struct buf b = BUF_INIT;
    char part[4096];
    size_t n;
    char *text;

    if (!f)
        return NULL;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        if (buf_add(&b, part, n) < 0)
            break;
    fclose(f);
    if (size)
        *size = b.n;
    text = buf_take(&b);
    buf_release(&b);
    return text;
}

/* `name` is relative to $top_srcdir, or to the working directory without it. */
static inline char *source_read(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", top ? top : ".", name);
    return file_read(path, NULL);
}

static inline int hex_digit(int c)
{
    return isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes of a text of hexadecimal pairs, blanks, and comments from # to the end of the line. -1: it
 * is something else. */
static inline int hex_read(const char *text, struct buf *out)
{
    while (*text) {
        char byte;

        if (*text == '#') {
            text += strcspn(text, "\n");
            continue;
        }
        if (isspace((unsigned char)*text)) {
            text++;
            continue;
        }
        if (hex_digit(text[0]) < 0 || hex_digit(text[1]) < 0)
            return -1;
        byte = (char)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
        if (buf_add(out, &byte, 1) < 0)
            return -1;
        text += 2;
    }
    return 0;
}

#endif
