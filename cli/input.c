/* SPDX-License-Identifier: BSD-3-Clause */
/* input.c - reads standard input, one line for each request (declared in private.h). */
#include "cli/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

#define CHUNK          4096u
#define LINE_MAX_BYTES (8u << 20) /* of one line; what is longer comes in pieces */

struct input {
    struct loop *loop;
    input_line_f f;
    void *arg;
    struct buf text; /* read, and not asked for yet */
    struct watch *watch;
    bool over, wanted;
};

struct input *input_create(struct loop *loop, input_line_f f, void *arg)
{
    struct input *in = calloc(1, sizeof *in);

    if (!in)
        return NULL;
    *in = (struct input){ .loop = loop, .f = f, .arg = arg, .text = BUF_INIT };
    return in;
}

void input_destroy(struct input *in)
{
    if (!in)
        return;
    watch_stop(in->watch);
    buf_release(&in->text);
    free(in);
}

/* False: there is no whole line yet. */
static bool answer(struct input *in)
{
    struct slice line = buf_slice(&in->text);
    const bool whole = buf_line(&in->text, &line);

    if (!whole && !in->over && line.n < LINE_MAX_BYTES)
        return false;
    if (!whole && !in->over)
        line.n -= utf8_torn_tail(line);
    in->wanted = false;
    watch_clear(&in->watch);
    in->f(in->arg, line, !whole && line.n == 0);
    buf_drop(&in->text, line.n + whole);
    return true;
}

/* False: nothing is there now. */
static bool take(struct input *in)
{
    ssize_t n = -1;

    if (buf_reserve(&in->text, CHUNK) == 0)
        n = read(STDIN_FILENO, in->text.p + in->text.n, CHUNK);
    else
        errno = ENOMEM;
    if (n > 0)
        in->text.n += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        in->over = true;
    return n > 0 || in->over;
}

static void readable(void *arg, int fd, unsigned events)
{
    struct input *in = arg;

    (void)fd;
    (void)events;
    if (take(in) && in->wanted)
        (void)answer(in);
}

void input_ask(struct input *in)
{
    struct err err = { "" };

    in->wanted = true;
    if (answer(in) || in->watch)
        return;
    if ((in->watch = loop_fd(in->loop, STDIN_FILENO, LOOP_READ, readable, in, &err)))
        return;
    while (in->wanted && take(in)) /* a file can't be waited for, and need not be */
        (void)answer(in);
}
