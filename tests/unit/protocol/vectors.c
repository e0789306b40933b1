/* SPDX-License-Identifier: BSD-3-Clause */
/* protocol/vectors/span-*.hex: the second line of each says what it is ("is: " and the line that
 * describe() writes), or why it is refused ("refused: " and a part of the error). */
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>

#include "protocol/span.h"
#include "tests/unit/protocol/source.h"
#include "tests/unit/tap.h"

static int describe_field(const struct span_field *f, const union span_value *v, struct buf *out)
{
    if (f->type == SPAN_U64)
        return buf_addf(out, " %s=%" PRIu64, f->name, v->u64);
    if (f->type == SPAN_LIST)
        return buf_addf(out, " %s:%zu items", f->name, v->list.n);
    return buf_addf(out, " %s:%zu B", f->name, v->s.n);
}

/* Appends one line: kind, numbers, and sizes of the other fields. */
static int describe(const struct span *m, struct buf *out)
{
    const struct span_info *info = span_info((unsigned)m->kind);

    if (!info)
        return buf_addf(out, "kind %u", (unsigned)m->kind);
    if (buf_addf(out, "%s worker=%" PRIu32 " cell=%" PRIu64, info->name, m->worker, m->cell) < 0)
        return -1;
    if (m->blob && buf_addf(out, " blob=%" PRIu64 ":%" PRIu64 " B", m->blob, m->blob_size) < 0)
        return -1;
    for (unsigned i = 0; i < info->n; i++)
        if (describe_field(&info->field[i], &m->v[i], out) < 0)
            return -1;
    return 0;
}

static void check_good(const char *name, const struct buf *bytes, const char *want)
{
    struct buf again = BUF_INIT, line = BUF_INIT;
    struct err err = { "" };
    struct span m;

    if (!ok(span_decode(&m, bytes->p, bytes->n, &err) == 0, "%s is a message (%s)", name, err.text))
        return;
    if (describe(&m, &line) == 0)
        is_text(line.p, want, "and means what it says");
    ok(span_encode(&m, &again, &err) == 0 && slice_equal(buf_slice(&again), buf_slice(bytes)),
       "encoded again it is the same bytes (%s)", err.text);
    buf_release(&again);
    buf_release(&line);
    span_release(&m);
}

static void check_refused(const char *name, const struct buf *bytes, const char *why)
{
    struct err err = { "" };
    struct span m;

    ok(span_decode(&m, bytes->p, bytes->n, &err) < 0 && strstr(err.text, why), "%s is refused: %s",
       name, err.text);
}

static void check(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char *text = file_read(path, NULL);
    char *verdict = text ? strstr(text, "\n# ") : NULL;
    struct buf bytes = BUF_INIT;

    if (!ok(verdict && hex_read(text, &bytes) == 0, "%s is hexadecimal with a verdict", name))
        goto out;
    verdict += 3;
    verdict[strcspn(verdict, "\n")] = '\0';
    if (strncmp(verdict, "is: ", 4) == 0)
        check_good(name, &bytes, verdict + 4);
    else if (ok(strncmp(verdict, "refused: ", 9) == 0, "%s is a message or refused", name))
        check_refused(name, &bytes, verdict + 9);
out:
    free(text);
    buf_release(&bytes);
}

int main(void)
{
    const char *top = getenv("top_srcdir");
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/protocol/vectors/span-*.hex", top ? top : ".");
    if (!ok(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 10, "there are vectors"))
        return plan_done();
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    globfree(&found);
    return plan_done();
}
