/* SPDX-License-Identifier: BSD-3-Clause */
/* A complete line is written by one write(2) to a descriptor opened with O_APPEND, so that several
 * processes can write to one file without mixing their lines. The log is global to the process,
 * like its stderr. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_SIZE 4096u

static struct {
    enum log_level level;
    int fd;
    char process[32];
} sink = { LOG_ERROR, STDERR_FILENO, "cellspan" };

static const char *const level_name[] = { "error", "warn", "info", "debug" };

static void open_file(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        log_error("log", "can't open %s: %s; logging to stderr", path, strerror(errno));
    else
        sink.fd = fd;
}

void log_open(const char *process, enum log_level level, const char *path)
{
    if (sink.fd != STDERR_FILENO)
        (void)close(sink.fd);
    sink.fd = STDERR_FILENO;
    sink.level = level;
    (void)snprintf(sink.process, sizeof sink.process, "%s", process);
    if (path)
        open_file(path);
}

/* Writes text to out with control characters as \xNN; returns the length, always below `room`. */
static size_t escape(char *out, size_t room, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;

    for (; *text && n + 5 < room; text++) {
        const unsigned char c = (unsigned char)*text;

        if (c >= 0x20 && c != 0x7f) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '\\';
        if (c == '\n') {
            out[n++] = 'n';
            continue;
        }
        out[n++] = 'x';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15u];
    }
    return n;
}

/* Ignores errors: a log that can't be written must not harm the process. */
static void write_line(const char *p, size_t n)
{
    ssize_t k;

    do
        k = write(sink.fd, p, n);
    while (k < 0 && errno == EINTR);
}

void log_at(enum log_level level, const char *part, const char *format, ...)
{
    const int saved = errno;
    char text[LINE_MAX_SIZE / 2];
    char line[LINE_MAX_SIZE];
    char now[32];
    va_list args;
    int n;

    if (level > sink.level)
        return;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    va_end(args);
    clock_iso8601(now);
    n = snprintf(line, 256, "%s %s[%ld] %s %s: ", now, sink.process, (long)getpid(),
                 level_name[level], part);
    if (n > 255)
        n = 255;
    if (n > 0) {
        size_t at = (size_t)n;

        at += escape(line + at, sizeof line - at, text);
        line[at++] = '\n';
        write_line(line, at);
    }
    errno = saved;
}
