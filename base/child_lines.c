/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/child_lines.h"

#include <errno.h>
#include <unistd.h>

void child_lines_release(struct child_lines *l)
{
    buf_release(&l->rest);
}

void child_lines_end(struct child_lines *l, child_lines_f f, void *arg)
{
    if (l->rest.n)
        f(arg, l->rest.p);
    buf_clear(&l->rest);
}

static int add_byte(struct child_lines *l, char byte, child_lines_f f, void *arg)
{
    if (byte == '\n' || (byte == '\r' && !l->messages)) {
        child_lines_end(l, f, arg);
        return 0;
    }
    if (byte == '\0' || (l->messages && l->rest.n == CHILD_LINE_MAX))
        return 0;
    if (l->rest.n == CHILD_LINE_MAX)
        child_lines_end(l, f, arg);
    if (buf_add(&l->rest, &byte, 1) == 0)
        return 0;
    buf_clear(&l->rest);
    return -1;
}

int child_lines_add(struct child_lines *l, struct slice bytes, child_lines_f f, void *arg)
{
    int rc = 0;

    for (size_t i = 0; i < bytes.n; i++)
        if (add_byte(l, bytes.p[i], f, arg) < 0)
            rc = -1;
    return rc;
}

bool child_lines_read(struct child_lines *l, int fd, child_lines_f f, void *arg)
{
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof bytes);

    if (n > 0 && child_lines_add(l, slice_of(bytes, (size_t)n), f, arg) < 0)
        return true; /* memory was out: a line is lost, the next ones may come */
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}
