/* SPDX-License-Identifier: BSD-3-Clause */
/* passthrough.c - passes on the text of a rank that is shown alone (declared in private.h). */
#include "kernel/merge/private.h"

static int text_out(struct show *show, unsigned stream, struct slice text)
{
    const int rc = text.n ? show->out.text(show->out.arg, stream, text) : 0;

    show->refused = rc < 0;
    return rc;
}

int passthrough_lines(struct passthrough *p, struct show *show, unsigned stream, struct slice data,
                      struct buf *room)
{
    struct slice text;

    if (utf8_stream_pass(&p->utf8[stream - 1], data, room, &text) < 0)
        return -1;
    return text_out(show, stream, text);
}

int passthrough_end(struct passthrough *p, struct show *show, struct buf *room)
{
    for (unsigned k = 0; k < 2; k++) {
        buf_clear(room);
        if (utf8_stream_end(&p->utf8[k], room) < 0 || text_out(show, k + 1, buf_slice(room)) < 0)
            return -1;
    }
    return 0;
}
