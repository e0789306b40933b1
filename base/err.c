/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int err_set(struct err *err, const char *format, ...)
{
    const size_t most = sizeof err->text - 1;
    const int saved = errno;
    va_list args;
    int n;

    if (!err || err->text[0])
        return -1;
    va_start(args, format);
    n = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (n < 0 || !err->text[0])
        strcpy(err->text, "failed, and the reason could not be written");
    else if ((size_t)n > most) /* cut, but not in a character: it goes into JSON */
        err->text[most - utf8_torn_tail(slice_of(err->text, most))] = '\0';
    errno = saved;
    return -1;
}
