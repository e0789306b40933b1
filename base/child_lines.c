/* child_lines.c - see child_lines.h. */
#include "base/child_lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINE_LIMIT 4096 /* bytes; what is longer goes on as several lines */

void child_lines_release(struct child_lines *p)
{
    buf_release(&p->rest);
}

void child_lines_end(struct child_lines *p, child_lines_f f, void *arg)
{
    if (p->rest.n)
        f(arg, p->rest.p);
    buf_clear(&p->rest);
}

void child_lines_bytes(struct child_lines *p, const char *bytes, size_t n, child_lines_f f,
                       void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const bool ends = bytes[i] == '\n' || bytes[i] == '\r';

        if (!ends && bytes[i] && buf_add(&p->rest, bytes + i, 1) < 0)
            buf_clear(&p->rest);
        if (ends || p->rest.n >= LINE_LIMIT)
            child_lines_end(p, f, arg);
    }
}

bool child_lines_read(struct child_lines *p, int fd, child_lines_f f, void *arg)
{
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    if (n > 0)
        child_lines_bytes(p, bytes, (size_t)n, f, arg);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}
