/* pour.c - see pour.h. */
#include "launchers/pour.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LINE_LIMIT 4096 /* bytes; what is longer goes on as several lines */

void pour_release(struct pour *p)
{
    buf_release(&p->rest);
}

void pour_end(struct pour *p, pour_f f, void *arg)
{
    if (p->rest.n)
        f(arg, p->rest.p);
    buf_clear(&p->rest);
}

void pour_bytes(struct pour *p, const char *bytes, size_t n, pour_f f, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        const bool ends = bytes[i] == '\n' || bytes[i] == '\r';

        if (!ends && bytes[i] && buf_add(&p->rest, bytes + i, 1) < 0)
            buf_clear(&p->rest);
        if (ends || p->rest.n >= LINE_LIMIT)
            pour_end(p, f, arg);
    }
}

bool pour_read(struct pour *p, int fd, pour_f f, void *arg)
{
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    if (n > 0)
        pour_bytes(p, bytes, (size_t)n, f, arg);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}
