/* SPDX-License-Identifier: BSD-3-Clause */
/* stand_in.c - writes messages that the agent sends in place of others (declared in private.h). */
#include "worker/agent/private.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/span.h"
#include "protocol/span_fields.h"

#define BLOB_SIZE_AT 24u /* offset of blob_size in a message */

static int add_json(json_t *content, struct buf *out, struct err *err)
{
    char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
    const int rc = text && buf_add_text(out, text) == 0 ? 0 : err_set(err, "out of memory");

    free(text);
    json_decref(content);
    return rc;
}

int stand_in_for_blob(struct slice msg, const char *why, struct buf *out, struct err *err)
{
    struct buf content = BUF_INIT;
    struct span m;
    int rc = 0;

    if (span_decode(&m, msg.p, msg.n, err) < 0)
        return -1;
    m.blob_size = 0;
    if (m.kind == SPAN_BIND)
        m.v[F_BIND_NAMES].s = slice_text(why);
    if (m.kind == SPAN_FOUND) {
        rc = add_json(json_pack("{s:s}", "error", why), &content, err);
        m.v[F_FOUND_CONTENT].s = buf_slice(&content);
    }
    if (m.kind == SPAN_RETURN) {
        rc = add_json(json_pack("{s:s, s:s, s:s, s:[s]}", "status", "error", "ename", "OSError",
                                "evalue", why, "traceback", why),
                      &content, err);
        m.v[F_RETURN_STATUS].s = slice_text("error");
        m.v[F_RETURN_CONTENT].s = buf_slice(&content);
    }
    if (rc == 0)
        rc = span_encode(&m, out, err);
    buf_release(&content);
    span_release(&m);
    return rc;
}

void stand_in_patch(char *p)
{
    memset(p + BLOB_SIZE_AT, 0, 8);
}

int stand_in_for_cell(uint32_t worker, uint64_t cell, bool unbound, struct buf *out,
                      struct err *err)
{
    static const char text[] = "KeyboardInterrupt: the cell had not begun to run";
    struct span m = { .kind = SPAN_DONE,
                      .worker = worker,
                      .cell = cell,
                      .v[F_DONE_FLAGS].u64 = unbound ? DONE_UNBOUND : 0 };
    struct buf content = BUF_INIT;
    int rc = add_json(json_pack("{s:s, s:s, s:[s]}", "ename", "KeyboardInterrupt", "evalue",
                                "the cell had not begun to run", "traceback", text),
                      &content, err);

    m.v[F_DONE_STATUS].s = slice_text("error");
    m.v[F_DONE_CONTENT].s = buf_slice(&content);
    if (rc == 0)
        rc = span_encode(&m, out, err);
    buf_release(&content);
    return rc;
}
