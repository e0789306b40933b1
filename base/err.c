/* err.c - see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A cut text must not end inside a UTF-8 sequence: it goes into JSON. */
static void trim_torn_character(char *text)
{
    size_t n = strlen(text);
    size_t back = 0;
    unsigned char lead;

    while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xc0u) == 0x80u)
        back++;
    if (back == n)
        return;
    lead = (unsigned char)text[n - 1 - back];
    if ((lead >= 0xc0u && back < 1) || (lead >= 0xe0u && back < 2) || (lead >= 0xf0u && back < 3))
        text[n - 1 - back] = '\0';
}

static PRINTF_LIKE(2, 0) void set(struct err *err, const char *format, va_list args)
{
    const int saved = errno;
    int n;

    if (!err || err->text[0])
        return;
    n = vsnprintf(err->text, sizeof err->text, format, args);
    if (n < 0 || !err->text[0])
        strcpy(err->text, "failed, and the reason could not be written");
    else if ((size_t)n >= sizeof err->text)
        trim_torn_character(err->text);
    errno = saved;
}

int err_set(struct err *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set(err, format, args);
    va_end(args);
    return -1;
}

void *err_null(struct err *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set(err, format, args);
    va_end(args);
    return NULL;
}
